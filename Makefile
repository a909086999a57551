# Both commands of the README start from nothing but Python 3.11+ and make: each creates .venv when it is missing.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check install

# What the tests compile is kept beside them: the second pass and the second worker find it there.
test proof mutants: export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/jax
test proof mutants: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0

MODULES := tests/posenc/test_transformer.py tests/posenc/test_encoder_decoder.py tests/posenc/test_reuse.py \
	tests/posenc/test_invariants.py \
	tests/experiments/test_train.py tests/experiments/test_every_encoding.py tests/experiments/test_results.py

.PHONY: quickstart test proof mutants lint format lock

quickstart: .venv/installed  ## the main job: six encodings, three tasks, three seeds
	$(BIN)/python -m experiments.ablate --config=configs/quickstart.py --results=results/quickstart

test: .venv/installed  ## the whole suite; in Flax's tree mode, once more what builds, splits, merges and trains modules
	$(BIN)/python -m pytest
	NNX_GRAPH_MODE=false NNX_GRAPH_UPDATES=false $(BIN)/python -m pytest $(MODULES)

proof: .venv/installed  ## one line of evidence for each encoding
	$(BIN)/python -m tests.proof

mutants: .venv/installed  ## known bugs, planted one after the other: do the tests notice?
	$(BIN)/python -m tests.mutants

lint: .venv/installed  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy posenc

format: .venv/installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock:  ## new exact versions, after a change of pyproject.toml (needs uv)
	uv pip compile --universal --generate-hashes --no-header --no-emit-index-url --no-emit-find-links \
		--extra test --upgrade pyproject.toml --output-file requirements.lock

.venv/installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"error: Python 3.11 or newer is needed; $(PYTHON) is {sys.version.split()[0]}. Name another one: make PYTHON=python3.12")'
	@echo "Installing into .venv: about a minute, once."
	@$(PYTHON) -m venv .venv
	@$(PIP) --require-hashes --requirement requirements.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@
