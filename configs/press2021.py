"""ALiBi: trained at one context length, does a language model hold on beyond it? Press et al. 2022 (arXiv:2108.12409).

    python -m experiments.ablate --config=configs/press2021.py:small --results=results/press2021

A decoder of 16 layers, 1024 wide, 8 heads, trained on windows of 512 with Nesterov's momentum, tested on up to 3072:
the paper's, but on bytes (its words are those of WikiText-103; put the text at --config.task.text.path) and without its
adaptive embeddings. `:small` reads the sources of Python's standard library in windows of 128, with 3 layers, 128 wide,
for 1000 steps of Adam with each of six encodings: 16 minutes on 2 CPU cores.

The paper finds that ALiBi holds beyond the trained context and T5's bias nearly so, while sinusoids break at once and
RoPE soon. So does `:small`, in bits per byte from 128 to 256, 512 and 1024 bytes: ALiBi 2.21, 2.13, 2.06, 2.18; T5
2.48, 2.55, 2.78, 3.21; RoPE 2.16, 2.80, 3.63, 4.28; sinusoids 2.49, 3.59, 4.17, 4.50. Without any encoding it is 3.06
and stays better than the two that break, 3.47. As the paper's appendix B says, a longer context gains ALiBi nothing but
fewer bytes with little before them: over the last 16 bytes of each window it has 2.15, 2.24, 1.93 and 2.24 (of 128
windows each).
"""

from experiments.config import default_config


def get_config(size="full"):
    small = {"small": True, "full": False}[size]
    config = default_config()
    config.sweep.encoding = ("none", "sinusoidal", "learned", "rope", "t5", "alibi")
    config.task.name = "text"
    config.seeds = 1

    # Model
    config.model.architecture = "decoder"
    config.model.width = 128 if small else 1024
    config.model.depth = 3 if small else 16
    config.model.heads = 8
    config.model.norm = "layer"
    config.model.activation = "relu"
    config.model.dtype = "float32" if small else "bfloat16"
    config.encoding.learned.max_position = 1024 if small else 3072

    # Training, always with the whole context
    config.train.steps = 1000 if small else 286_000
    config.train.batch = 16 if small else 18
    config.train.min_length = config.train.max_length = 128 if small else 512
    config.train.curriculum = "fixed"
    config.train.optimizer = "adamw" if small else "nesterov"
    config.train.beta1 = 0.9 if small else 0.99
    config.train.learning_rate = 2e-3 if small else 1.0
    config.train.warmup = 100 if small else 16_000
    config.train.weight_decay = 0.01 if small else 0.0
    config.train.clip = 1.0 if small else 0.1

    # Evaluation: windows that do not overlap, and sliding ones of which the last 16 bytes count
    config.evaluate.lengths = (32, 64, 128, 256, 512, 1024) if small else (128, 256, 512, 1024, 1536, 2048, 3072)
    config.evaluate.examples = 128 if small else 1024
    config.evaluate.batch = 8
    return config
