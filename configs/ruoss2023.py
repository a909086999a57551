"""Randomised positions: do encodings carry further when positions are drawn from more than training needs?

Ruoss et al. 2023 (arXiv:2305.16843).

    python -m experiments.ablate --config=configs/ruoss2023.py:small --results=results/ruoss2023
    python -m experiments.report results/ruoss2023 --metric=token_accuracy
    python -m experiments.ablate --config=configs/ruoss2023.py:cell --results=results/ruoss2023_cell

An encoder of 5 layers, 64 wide, 8 heads, norms behind the residual sums; batches of 128 strings of one length, uniform
from 1 to 40; Adam at a constant rate, without decay; tested on lengths to 500, with positions drawn again. As in the
published code dropout acts on what the residual branches add, and an answer has no end. Without a form: the paper's 15
tasks, with three learning rates and ten seeds, for an accelerator; the paper reports the best of these thirty.

The paper finds that randomised positions help every encoding but `none` to go on beyond the trained lengths, and
Transformer-XL's most. So does `:small`, with 2 layers, trained on up to 10 symbols for 1500 steps, 23 minutes on one
CPU core. In token accuracy from 12 to 30 symbols, in order and randomised: bucket_sort, sinusoidal 0.20 and 0.89,
learned 0.15 and 0.85, alibi 0.49 and 0.85, rope 0.76 and 0.90, transformer_xl 0.77 and 0.92; even_pairs, 0.55 and 0.81,
0.51 and 0.63, 0.62 and 0.69, 0.85 and 1.00, 0.73 and 0.96. At trained lengths they cost something here, 0.88 to 0.98 on
bucket_sort. One seed: the gaps are wide, the order among neighbours is not told.

`:cell` is the example of the published code, one encoding on one task for 10,000 steps, tested on lengths to 100;
`python -m experiments.benchmark cell` times it.
"""

import itertools

from experiments.config import default_config

TASKS = (
    "even_pairs", "modular_arithmetic", "parity_check", "cycle_navigation", "stack_manipulation", "reverse_string",
    "modular_arithmetic_brackets", "solve_equation", "duplicate_string", "missing_duplicate_string", "odds_first",
    "binary_addition", "binary_multiplication", "compute_sqrt", "bucket_sort",
)  # fmt: skip
ENCODINGS = ("sinusoidal", "transformer_xl", "alibi", "rope", "learned")
PAIRS = [("none", "in_order"), *itertools.product(ENCODINGS, ("in_order", "randomized"))]


def get_config(form="full"):
    config = {"full": full, "small": small, "cell": cell}[form]()
    config.task.end = False

    # Model
    config.model.architecture = "encoder"
    config.model.width = 64
    config.model.heads = 8
    config.model.activation = "relu"
    config.model.norm = "layer"
    config.model.placement = "post"
    config.model.dropout = 0.1
    config.model.dropout_on = ("branches",)

    # Training
    config.train.batch = 128
    config.train.min_length = 1
    config.train.length = "per_batch"
    config.train.warmup = 0
    config.train.schedule = "constant"
    config.train.weight_decay = 0.0

    # Evaluation
    config.evaluate.batch = 64
    return config


def full():
    config = default_config()
    config.sweep["encoding, positions"] = PAIRS
    config.sweep.task = TASKS
    config.sweep["train.learning_rate"] = (1e-4, 3e-4, 5e-4)
    config.seeds = 10
    config.encoding.learned.max_position = 2048
    config.positions.randomized.max_position = 2048
    config.model.depth = 5
    config.train.steps = 2_000_000
    config.train.max_length = 40
    config.train.buckets = 6
    config.evaluate.lengths = (10, 20, 30, *range(40, 501, 20))
    config.evaluate.examples = 512
    return config


def small():
    config = default_config()
    config.sweep["encoding, positions"] = PAIRS
    config.sweep.task = ("bucket_sort", "even_pairs")
    config.seeds = 1
    config.encoding.learned.max_position = 128
    config.positions.randomized.max_position = 128
    config.model.depth = 2
    config.train.steps = 1500
    config.train.max_length = 10
    config.train.buckets = 3
    config.train.learning_rate = 1e-3
    config.evaluate.lengths = (2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 30)
    config.evaluate.examples = 256
    return config


def cell():
    config = default_config()
    config.encoding.name = "transformer_xl"
    config.positions.name = "randomized"
    config.positions.randomized.max_position = 2048
    config.task.name = "parity"
    config.seeds = 1
    config.model.depth = 5
    config.train.steps = 10_000
    config.train.max_length = 40
    config.train.buckets = 6
    config.train.learning_rate = 1e-3
    config.evaluate.lengths = tuple(range(1, 101))
    config.evaluate.examples = 512
    return config
