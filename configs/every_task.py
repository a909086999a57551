"""Every task there is, in one architecture, for a few steps: shows that all of them train and are evaluated.

    python -m experiments.ablate --config=configs/every_task.py:decoder --results=results/every_task
    python -m experiments.ablate --config=configs/every_task.py:encoder --results=results/every_task
    python -m experiments.ablate --config=configs/every_task.py:encoder_decoder --results=results/every_task

A model of 2 layers, 32 wide, 4 heads, with T5's bias; 20 steps with 2 seeds each, tasks that make no sense in the
architecture left out. Too short to learn anything.
"""

from experiments.config import default_config
from experiments.tasks import TASKS


def get_config(architecture="decoder"):
    config = default_config()
    config.encoding.name = "t5"
    config.sweep.task = tuple(name for name, task in TASKS.items() if architecture in task.architectures)
    config.seeds = 2

    # Model
    config.model.architecture = architecture
    config.model.width = 32
    config.model.depth = 2
    config.model.heads = 4

    # Training
    config.train.steps = 20
    config.train.batch = 16
    config.train.min_length = 1
    config.train.max_length = 8
    config.train.length = "per_example"
    config.train.warmup = 5

    # Evaluation: at a trained length, and at twice the longest
    config.evaluate.lengths = (8, 16)
    config.evaluate.examples = 32
    config.evaluate.batch = 32
    return config
