"""ALiBi: trained at one context length, does a language model hold on beyond it? Press et al. 2022 (arXiv:2108.12409).

    python -m experiments.ablate --config=configs/press2021.py:small --results=results/press2021

A decoder that reads bytes of the Python standard library's sources in windows of 128 and is tested on windows of 32 to
1024: 3 layers, 128 wide, 8 heads, 1000 steps of each of six encodings. The paper has 16 layers, 1024 wide, and words of
WikiText-103: without `:small` it is that model on bytes, for an accelerator, with the text at --config.task.text.path.

The paper finds that ALiBi holds beyond the trained context and T5's bias nearly so; sinusoids and RoPE break there.
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
    config.train.learning_rate = 2e-3 if small else 2.5e-4
    config.train.warmup = 100 if small else 16_000
    config.train.clip = 1.0 if small else 0.1

    # Evaluation: windows that do not overlap, and sliding ones of which the last 16 bytes count
    config.evaluate.lengths = (32, 64, 128, 256, 512, 1024) if small else (128, 256, 512, 1024, 1536, 2048, 3072)
    config.evaluate.examples = 128 if small else 1024
    config.evaluate.batch = 8
    return config
