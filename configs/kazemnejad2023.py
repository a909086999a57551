"""Is a decoder better off without positional encodings? Kazemnejad et al. 2023 (arXiv:2305.19466).

    python -m experiments.ablate --config=configs/kazemnejad2023.py:small --results=results/kazemnejad2023
    python -m experiments.ablate --config=configs/kazemnejad2023.py:copying --results=results/kazemnejad2023
    python -m experiments.ablate --config=configs/kazemnejad2023.py:arithmetic --results=results/kazemnejad2023
    python -m experiments.ablate --config=configs/kazemnejad2023.py:scan --results=results/kazemnejad2023
    python -m experiments.ablate --config=configs/kazemnejad2023.py:pcfg --results=results/kazemnejad2023

A decoder as T5 has it, 12 layers, 768 wide, 12 heads, AdamW with a line down to zero, three seeds; RoPE turns a quarter
of the channels. Tasks have their lengths, and so each group has its form: `:copying` trains on up to 20 symbols and
tests up to 40, `:arithmetic` on 8 and 16, `:scan` on 25 actions and 48, `:pcfg` on 8 functions and 25. Examples are
drawn here without end; the paper has 100,000 of each task, in words. Prompts' words and the scratchpad are left out.

The paper finds no encoding at all the best on average, then T5's bias, ALiBi, RoPE and sinusoids; by task it differs.
In `:small`, 3 layers, 64 wide, trained on up to 10 symbols for 1000 steps, 16 minutes on one CPU core, exact match from
11 to 20 symbols has the same winner and the same last one where one symbol is repeated and where symbols are sorted:
none 1.00 and 1.00, t5 0.58 and 0.93, rope 0.79 and 0.90, alibi 0.24 and 0.63, sinusoidal 0.03 and 0.21. RoPE does
better than there. Copying many symbols is not `none`'s: it has not learned it in so few steps (0.84 at trained
lengths), and beyond them alibi has 0.29, the others less than 0.10.
"""

from experiments.config import default_config

LENGTHS = {  # tasks, trained lengths, tested lengths
    "small": (("copy_one", "copy_unique", "sort_single"), (1, 10), (2, 4, 6, 8, *range(10, 21))),
    "copying": (
        (
            "copy_one", "copy_one_twice", "copy_replaced", "copy_unique", "copy_unique_twice",
            "reverse_unique", "reverse_unique_twice", "reverse_then_copy",
        ),
        (2, 20), (5, 10, 15, *range(20, 41)),
    ),
    "arithmetic": (
        ("addition_any", "summation", "parity", "sort_single", "sort_numbers", "polynomial", "lego"),
        (1, 8), tuple(range(1, 17)),
    ),
    "scan": (("scan",), (1, 25), (10, 20, 25, 26, 27, 28, 30, 32, 33, 36, 40, 48)),
    "pcfg": (("pcfg",), (1, 8), tuple(range(1, 26))),
}  # fmt: skip


def get_config(form="copying"):
    tasks, trained, tested = LENGTHS[form]
    small = form == "small"
    config = default_config()
    config.sweep.encoding = ("none", "t5", "alibi", "rope", "sinusoidal")
    config.sweep.task = tasks
    config.encoding.rope.fraction = 0.25
    config.seeds = 3

    # Model: T5's, as a decoder
    config.model.architecture = "decoder"
    config.model.width = 64 if small else 768
    config.model.depth = 3 if small else 12
    config.model.heads = 4 if small else 12
    config.model.activation = "relu"
    config.model.dropout = 0.0 if small else 0.1

    # Training
    config.train.steps = 1000 if small else 100_000 if form == "pcfg" else 40_000
    config.train.batch = 32 if small else 64
    config.train.min_length, config.train.max_length = trained
    config.train.length = "per_example"
    config.train.learning_rate = 3e-3 if small else 3e-5
    config.train.warmup = config.train.steps * 6 // 100
    config.train.schedule = "linear"
    config.train.weight_decay = 0.05

    # Evaluation
    config.evaluate.lengths = tested
    config.evaluate.examples = 128 if small else 1024
    if small:
        for name in ("copy_one", "copy_unique", "sort_single"):
            config.task[name].alphabet = 10
    return config
