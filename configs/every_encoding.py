"""Every encoding there is, on two tasks, for a few steps: shows that all of them train, and what each of them adds.

    python -m experiments.ablate --config=configs/every_encoding.py --results=results/every_encoding

A decoder of 2 layers, 32 wide, 4 heads; 56 cells of 100 steps with 2 seeds each: about 5 minutes on 2 CPU cores. Too
short to tell which is better; for that, take the encodings you are interested in and configs/quickstart.py.
"""

from experiments.config import default_config
from posenc import ENCODINGS


def get_config():
    config = default_config()
    config.sweep.encoding = tuple(ENCODINGS)
    config.sweep.task = ("reverse", "sort")
    config.seeds = 2

    # Model
    config.model.architecture = "decoder"
    config.model.width = 32
    config.model.depth = 2
    config.model.heads = 4

    # Training
    config.train.steps = 100
    config.train.batch = 32
    config.train.min_length = 1
    config.train.max_length = 8
    config.train.length = "per_example"
    config.train.learning_rate = 5e-3
    config.train.warmup = 20

    # Evaluation: at trained lengths, and at twice the longest
    config.evaluate.lengths = (4, 8, 16)
    config.evaluate.examples = 128
    return config
