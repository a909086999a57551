"""Digits that know their place in the number: sums of more digits than trained. McLeish et al. 2024 (arXiv:2405.17399).

    python -m experiments.ablate --config=configs/abacus2024.py:small --results=results/abacus2024

A decoder that adds numbers written lowest digit first, the two as long as they like up to 20 digits each, tested on
every pair of sizes up to 100: 16 layers, 1024 wide. The paper also repeats layers and hands them the input again, which
this transformer does not. Abacus is a learned table that is read at a digit's place in its number, counted from a
random start (`learned` with `digits`); its rivals know only where a token stands in the text, or nothing.

The paper finds that with it a model trained on 20 digits adds up to 100, where the others soon fail. `:small`, 4
layers, 96 wide, trained on up to 6 digits for 6000 steps with one seed each, 24 minutes on one CPU core, shows a
beginning of that: sums of 7 digits are right in 0.95 of the cases, of 8 digits in 0.27 (and in 0.58 to 0.84 where the
second number is of up to 6), against 0.64 and 0.02 without positions, 0.34 and 0.02 with FIRE, and nothing with the
table read in order. Ten digits are nobody's. `accuracy_by_sizes.png` has all pairs.
"""

from experiments.config import default_config

TRAINED = {"small": 6, "full": 20}  # digits
STEPS = {"small": (2, 4, 6, 7, 8, 10), "full": tuple(range(5, 101, 5))}  # along both sides of the grid


def get_config(size="full"):
    small = size == "small"
    config = default_config()
    config.sweep["encoding, positions"] = (
        ("none", "in_order"), ("learned", "in_order"), ("fire", "in_order"), ("learned", "digits"),
    )  # fmt: skip
    config.task.name = "addition_operands"
    config.task.addition_operands.second = TRAINED[size]
    config.positions.digits.max_start = 10 if small else 99
    config.encoding.learned.max_position = 64 if small else 512
    config.seeds = 1 if small else 3

    # Model
    config.model.architecture = "decoder"
    config.model.width = 96 if small else 1024
    config.model.depth = 4 if small else 16
    config.model.heads = 4 if small else 16
    config.model.mlp_width = 0 if small else 2048

    # Training
    config.train.steps = 6000 if small else 40_000
    config.train.batch = 64 if small else 512
    config.train.min_length = 1
    config.train.max_length = TRAINED[size]
    config.train.length = "per_example"
    config.train.learning_rate = 2e-3 if small else 1e-4
    config.train.warmup = 100 if small else 1000
    config.train.weight_decay = 0.1 if small else 0.0

    # Evaluation
    config.evaluate.lengths = config.evaluate.second_lengths = STEPS[size]
    config.evaluate.examples = 64
    return config
