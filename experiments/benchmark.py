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
from pathlib import Path

from rich.console import Console
from rich.table import Table

from experiments.benchmarks import cell, encodings, memory

COMMANDS = {"cell": cell, "encodings": encodings, "memory": memory}


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
    """The rows, a column for each of their keys."""
    shown = Table()
    for key in rows[0]:
        shown.add_column(key.replace("_", " "), justify="left" if isinstance(rows[0][key], str) else "right")
    for row in rows:
        shown.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.benchmark", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.__doc__.split("\n")[0])
        command.add_argument("--rows", type=Path, help="a file for the rows, JSON lines; it may hold earlier ones")
        module.arguments(command)
    given = parser.parse_args()
    rows, console = Rows(given.rows), Console()
    COMMANDS[given.command].run(given, rows, console)
    console.print(table([row for row in rows.rows if row["command"] == given.command]))


if __name__ == "__main__":
    main()
