"""quickstart"""

from experiments.cells import default_config


def get_config():
    config = default_config()
    config.sweep.encoding = ("none", "sinusoidal", "learned", "shaw", "t5", "rope")
    config.sweep.task = ("sort", "parity", "reverse")
    config.seeds = 3
    config.task.sort.alphabet = 6
    config.task.reverse.alphabet = 6
    config.train.steps = 800
    config.train.batch = 32
    config.train.min_length, config.train.max_length = 1, 8
    config.train.length = "per_example"
    config.train.learning_rate = 4e-3
    config.train.warmup = 50
    config.train.weight_decay = 0.0
    config.evaluate.lengths = (2, 4, 6, 8, 9, 10, 12, 14, 16)
    return config
