"""How fast, and in how much memory. Every figure is measured beside what it is compared with.

    python -m experiments.benchmark cell                     a training step of configs/ruoss2023.py, against others
    python -m experiments.benchmark encodings                what each encoding adds to a training step at length 512
    python -m experiments.benchmark memory                   peak memory of each encoding at 32,768 tokens

Cases take turns, round after round, and what is told is the median over rounds of the ratio within a round: a machine
that is busier now than a minute ago is so for all. With --rows=FILE each case is a JSON line there, and a command that
is given the same file again goes on where it was stopped.
"""

import argparse
import json
import math
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from experiments.benchmarks import cell, encodings, memory

COMMANDS = {"cell": cell, "encodings": encodings, "memory": memory}
WIDE = 160  # columns of a file or a pipe


class Rows:
    """The results so far: one row for each case, kept in a file where there is one."""

    def __init__(self, path: Path | None):
        self.path = path
        self.rows = [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []

    def done(self, **case) -> bool:
        """Whether there is a row with these values."""
        return any(all(row.get(key) == value for key, value in case.items()) for row in self.rows)

    def add(self, **row) -> None:
        """One more row, written at once."""
        self.rows.append(row)
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")


def table(rows: list[dict]) -> Table:
    """The rows, a column for each key that one of them has, but for the command."""
    shown, keys = Table(), [key for key in dict.fromkeys(key for row in rows for key in row) if key != "command"]
    for key in keys:
        words = any(isinstance(row.get(key), str) for row in rows)
        shown.add_column(key.replace("_", " "), justify="left" if words else "right", no_wrap=words)
    for row in rows:
        shown.add_row(*(told(row.get(key)) for key in keys))
    return shown


def told(value: object) -> str:
    """A number with three digits that count, or all that stand before the point; nothing where there is none."""
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return "" if value is None else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.benchmark", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.__doc__.split("\n")[0])
        command.add_argument("--rows", type=Path, help="a file for the rows, JSON lines; it may hold earlier ones")
        module.arguments(command)
    given = parser.parse_args()
    rows, console = Rows(given.rows), Console(width=None if sys.stdout.isatty() else WIDE)
    COMMANDS[given.command].run(given, rows, console)
    console.print(table([row for row in rows.rows if row["command"] == given.command]))


if __name__ == "__main__":
    main()
