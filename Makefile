# Both commands of the README start from nothing but Python 3.11+ and make: each creates .venv when it is missing.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: quickstart test lint format lock clean

quickstart: .venv/installed  ## the main job: six encodings, two tasks, three seeds
	$(BIN)/python -m experiments.ablate --config=configs/quickstart.py --results=results/quickstart

test: .venv/installed  ## the whole suite, then once more the modules in Flax's tree mode
	$(BIN)/python -m pytest
	NNX_GRAPH_MODE=false NNX_GRAPH_UPDATES=false $(BIN)/python -m pytest tests/posenc

lint: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy posenc

format: .venv/installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock:  ## new exact versions, after a change of pyproject.toml (needs uv)
	uv pip compile --universal --generate-hashes --no-header --no-emit-index-url \
		--no-emit-find-links --extra test --upgrade pyproject.toml --output-file requirements.lock

clean:
	rm -rf .venv

.venv/installed: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), f"Python 3.11 or newer is needed, this is {sys.version}"'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@
