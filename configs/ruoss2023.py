"""The example cell of Ruoss et al. 2023 (arXiv:2305.16843): randomised positions on strings of up to 40 symbols.

    python -m experiments.ablate --config=configs/ruoss2023.py --results=results/ruoss2023

An encoder of 5 layers, 64 wide, 8 heads, norms behind the residual sums; batches of 128 strings of one length, uniform
from 1 to 40; Adam at 1e-3 without decay; tested at each length from 1 to 100 on 512 strings, with positions drawn
again. As in the published code dropout acts on what the residual branches add, and the answer is one token, no end.
"""

from experiments.config import default_config


def get_config():
    config = default_config()
    config.encoding.name = "transformer_xl"
    config.positions.name = "randomized"
    config.positions.randomized.max_position = 2048
    config.task.name = "parity"
    config.task.end = False
    config.seeds = 1

    # Model
    config.model.architecture = "encoder"
    config.model.width = 64
    config.model.depth = 5
    config.model.heads = 8
    config.model.activation = "relu"
    config.model.norm = "layer"
    config.model.placement = "post"
    config.model.dropout = 0.1
    config.model.dropout_on = ("branches",)

    # Training
    config.train.steps = 10_000
    config.train.batch = 128
    config.train.min_length = 1
    config.train.max_length = 40
    config.train.length = "per_batch"
    config.train.buckets = 6
    config.train.learning_rate = 1e-3
    config.train.warmup = 0
    config.train.weight_decay = 0.0

    # Evaluation
    config.evaluate.lengths = tuple(range(1, 101))
    config.evaluate.examples = 512
    config.evaluate.batch = 64
    return config
