"""RoPE trained plain on up to 64 tokens, tested on up to 512 with each way of stretching it, the parameters the same.

    python -m experiments.ablate --config=configs/context_extension.py --results=results/context_extension
    python -m experiments.report results/context_extension --metric=token_accuracy

A decoder of 2 layers, 64 wide, 4 heads, that copies: 7 cells with 3 seeds each, of which one is trained; 9 minutes on
2 CPU cores. Stretched as `ntk` has it (and as the other two that equal it, or nearly so), the model still copies at
twice the trained length, with 0.9 of its tokens right at length 64, where the plain one is at chance, and nobody at
four times. `linear`, `yarn` and `llama3`, which slow the fast pairs of channels too or most of the slow ones at once,
need training after the change and are lost without it. Where a curve rises again far out, phases have come round.
"""

from experiments.config import default_config

# Copying n symbols takes 2 n + 1 tokens.
TRAINED, TESTED = 63, 511
FACTOR = 8  # from one to the other
PAIRS = 8  # of channels in a head
RESCALE = ",".join(f"{FACTOR ** (pair / (PAIRS - 1)):.4f}" for pair in range(PAIRS))  # none searched for: as ntk has it


def get_config():
    config = default_config()
    config.encoding.name = "rope"
    config.task.name = "copy"
    config.seeds = 3

    # In testing; unset, as it was trained
    config.sweep["evaluate.encoding"] = (
        "",
        f"rope.scaling=linear rope.factor={FACTOR}",
        f"rope.scaling=ntk rope.factor={FACTOR}",
        f"rope.scaling=dynamic_ntk rope.original={TRAINED} rope.length={TESTED}",
        f"rope.scaling=yarn rope.factor={FACTOR} rope.original={TRAINED}",
        f"rope.scaling=llama3 rope.factor={FACTOR} rope.original={TRAINED}",
        f"rope.scaling=longrope rope.factor={FACTOR} rope.original={TRAINED} rope.rescale=({RESCALE})",
    )

    # Model
    config.model.architecture = "decoder"
    config.model.width = 64
    config.model.depth = 2
    config.model.heads = 4

    # Training
    config.train.steps = 2000
    config.train.batch = 32
    config.train.min_length = 1
    config.train.max_length = 31
    config.train.length = "per_example"
    config.train.learning_rate = 3e-3
    config.train.warmup = 100
    config.train.weight_decay = 0.0

    # Evaluation
    config.evaluate.lengths = (8, 16, 24, 31, 40, 48, 64, 96, 128, 192, 255)
    config.evaluate.examples = 64
    config.evaluate.batch = 16
    return config
