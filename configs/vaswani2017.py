"""The original transformer: are sinusoids any better than a learned table? Vaswani et al. 2017 (arXiv:1706.03762).

    python -m experiments.ablate --config=configs/vaswani2017.py:small --results=results/vaswani2017

An encoder-decoder with norms behind the residual sums, ReLU, embeddings that the head shares and that are multiplied by
sqrt(width); Adam with the square-root schedule, smoothed labels, dropout on embeddings and branches. The paper has 6
layers, 512 wide, 8 heads, and translates; without `:small` it is that model, for an accelerator. Here it reverses
strings, as there is no text in two languages at hand. What it writes by itself is tested too.

The paper finds sinusoids and the table nearly the same (25.8 and 25.7 BLEU, row E of table 3). So does `:small`, 2
layers, 64 wide, trained on up to 10 symbols for 2000 steps with 3 seeds, 8 minutes on one CPU core: exact match 0.99
and 0.99 at trained lengths. Without positions nothing tells the order of the source (0.10), and nobody gets beyond the
trained lengths. Written token by token as many answers are right, but fewer tokens: a wrong one leads on to others.
"""

from experiments.config import default_config


def get_config(size="full"):
    small = {"small": True, "full": False}[size]
    config = default_config()
    config.sweep.encoding = ("none", "sinusoidal", "learned")
    config.task.name = "reverse"
    config.seeds = 3

    # Model
    config.model.architecture = "encoder_decoder"
    config.model.width = 64 if small else 512
    config.model.depth = 2 if small else 6
    config.model.heads = 4 if small else 8
    config.model.activation = "relu"
    config.model.norm = "layer"
    config.model.placement = "post"
    config.model.scale_embeddings = True
    config.model.tie_embeddings = True
    config.model.dropout = 0.1
    config.model.dropout_on = ("embeddings", "branches")

    # Training: the paper's peak is 1 / sqrt(width * warmup)
    config.train.steps = 2000 if small else 100_000
    config.train.batch = 64 if small else 1024
    config.train.min_length = 1
    config.train.max_length = 10 if small else 50
    config.train.length = "per_example"
    config.train.beta2 = 0.98
    config.train.epsilon = 1e-9
    config.train.learning_rate = 3e-3 if small else 7e-4
    config.train.warmup = 300 if small else 4000
    config.train.schedule = "inverse_sqrt"
    config.train.weight_decay = 0.0
    config.train.label_smoothing = 0.1

    # Evaluation
    config.evaluate.lengths = (2, 4, 6, 8, 10, 12, 15, 20) if small else tuple(range(5, 101, 5))
    config.evaluate.examples = 256 if small else 1024
    config.evaluate.generated = True
    return config
