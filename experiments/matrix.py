"""Every encoding with every position scheme: one training step, or the reason why the pair makes no sense.

    python -m experiments.matrix

A few minutes for all of them; `--encodings` and `--schemes` narrow it. The task is addition, whose tokens tell every
scheme what it needs.
"""

import argparse
import re
import sys
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from rich.console import Console
from rich.table import Table

from experiments.cells import Cell
from experiments.config import default_config, expand
from experiments.train import Trainer
from posenc import ENCODINGS, SCHEMES

WORKS, FAILS = "yes", "FAILS"
WIDTH = 110
SETTINGS = {
    "task.name": "addition", "task.addition.reversed_digits": True,
    "model.width": 16, "model.depth": 1, "model.heads": 2,
    "train.steps": 1, "train.warmup": 0, "train.batch": 4, "train.max_length": 4, "train.length": "per_example",
    "evaluate.lengths": (4,), "evaluate.examples": 4, "evaluate.batch": 4,
    # Within the tables of 512 positions that learned, one_hot and tupe have by default.
    "positions.offset.max_offset": 100, "positions.randomized.max_position": 256, "positions.skipped.target": 256,
    "positions.grid.columns": 4,
}  # fmt: skip


def cell_of(encoding: str, scheme: str) -> Cell:
    """The cell of a pair.

    Raises:
        ValueError: the pair makes no sense; the message says why.
    """
    config = default_config()
    config.update_from_flattened_dict(SETTINGS | {"encoding.name": encoding, "positions.name": scheme})
    return expand(config)[0]


def verdict(encoding: str, scheme: str) -> str:
    """`WORKS` after a training step with a finite loss, `FAILS` where the loss is not, or why the pair is refused."""
    try:
        trainer = Trainer(cell_of(encoding, scheme))
    except ValueError as error:
        return str(error)
    seeds = jnp.zeros(1, jnp.uint32)
    with jax.disable_jit():  # operation by operation: what is compiled for one pair serves the others
        _, loss = trainer.advance(trainer.init(seeds), seeds, 0, 1)
    return WORKS if jnp.isfinite(loss).all() else FAILS


def plain(reason: str, encoding: str, scheme: str) -> str:
    """A reason without the names, so that pairs that are refused alike share a note."""
    return re.sub(
        rf"\b(positions\.)?{scheme}\b(\([^)]*\))?",
        "that scheme",
        re.sub(rf"\b{encoding}\b", "the encoding", reason, count=1),
    )


def table_of(encodings: Sequence[str], schemes: Sequence[str]) -> tuple[Table, list[str], bool]:
    """The table, its notes, and whether nothing failed. A letter in the table stands for the note of that letter."""
    table, notes, whole = Table(show_edge=False), dict[str, str](), True
    for column in ("encoding", *schemes):
        table.add_column(column, no_wrap=True)
    for encoding in encodings:
        line = [verdict(encoding, scheme) for scheme in schemes]
        whole &= FAILS not in line
        reasons = [plain(text, encoding, scheme) for text, scheme in zip(line, schemes, strict=True)]
        marks = [
            text if text in (WORKS, FAILS) else notes.setdefault(reason, chr(ord("a") + len(notes)))
            for text, reason in zip(line, reasons, strict=True)
        ]
        table.add_row(encoding, *marks)
    return table, [f"{mark}  {reason}" for reason, mark in notes.items()], whole


def main() -> None:
    parser = argparse.ArgumentParser(description="One training step of every encoding with every position scheme.")
    parser.add_argument("--encodings", nargs="+", choices=ENCODINGS, default=list(ENCODINGS), metavar="NAME")
    parser.add_argument("--schemes", nargs="+", choices=SCHEMES, default=list(SCHEMES), metavar="NAME")
    asked = parser.parse_args()
    table, notes, whole = table_of(asked.encodings, asked.schemes)
    console = Console()
    console.width = max(console.width, WIDTH)  # rather a line too long than names cut off
    console.print(table)
    console.print(
        f"\n{WORKS}: one training step, and the loss is finite", *notes, sep="\n", markup=False, highlight=False
    )
    sys.exit(not whole)


if __name__ == "__main__":
    main()
