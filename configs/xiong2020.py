"""Does warm-up matter less when norms come first? Xiong et al. 2020 (arXiv:2002.04745).

    python -m experiments.ablate --config=configs/xiong2020.py:small --results=results/xiong2020

The original transformer with its norms behind the residual sums or before the branches, at several learning rates, each
reached at once or after a warm-up, then down a straight line. The paper translates; here strings are reversed. Without
`:small` the model is the paper's base, 6 layers and 512 wide, for an accelerator.

The paper finds that post-norm needs the warm-up and a rate chosen with care, and that pre-norm needs neither. So does
`:small`, 48 wide, up to 8 symbols, 600 steps, 2 seeds, 11 minutes on one CPU core. Exact match at trained lengths after
no warm-up, 30 steps of it and 200:

    2 layers, rate 1e-3    post 0.98 0.97 0.98    pre 0.98 0.97 0.99
              rate 3e-3    post 1.00 1.00 1.00    pre 1.00 1.00 1.00
              rate 1e-2    post 0.04 0.99 1.00    pre 1.00 1.00 1.00
    6 layers, rate 1e-3    post 0.40 0.45 0.45    pre 0.98 0.97 0.97
              rate 3e-3    post 0.00 0.34 0.72    pre 1.00 1.00 1.00
              rate 1e-2    post 0.00 0.00 0.00    pre 0.82 0.99 0.99

Deep, post-norm does not get there at any rate, and the longer the warm-up the nearer it comes; pre-norm wants one only
at the highest rate.
"""

from experiments.config import default_config


def get_config(size="full"):
    small = {"small": True, "full": False}[size]
    config = default_config()
    config.sweep["model.depth"] = (2, 6)
    config.sweep["model.placement"] = ("post", "pre")
    config.sweep["train.learning_rate"] = (1e-3, 3e-3, 1e-2) if small else (5e-4, 1e-3)
    config.sweep["train.warmup"] = (0, 30, 200) if small else (0, 500, 4000)
    config.encoding.name = "sinusoidal"
    config.task.name = "reverse"
    config.seeds = 2

    # Model
    config.model.architecture = "encoder_decoder"
    config.model.width = 48 if small else 512
    config.model.heads = 4 if small else 8
    config.model.activation = "relu"
    config.model.norm = "layer"
    config.model.scale_embeddings = True
    config.model.tie_embeddings = True

    # Training
    config.train.steps = 600 if small else 20_000
    config.train.batch = 32 if small else 256
    config.train.min_length = 1
    config.train.max_length = 8 if small else 50
    config.train.length = "per_example"
    config.train.beta2 = 0.98
    config.train.epsilon = 1e-9
    config.train.schedule = "linear"
    config.train.weight_decay = 0.0

    # Evaluation
    config.evaluate.lengths = (2, 4, 6, 8, 10, 12) if small else (10, 20, 30, 40, 50)
    config.evaluate.examples = 128 if small else 1024
    return config
