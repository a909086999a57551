"""How a sweep stands, also one that runs elsewhere: what is done, running, failed and left, and the time to the end.

    python -m experiments.status results/quickstart

Reads the results folder alone, and changes nothing. The exit status is 1 if a cell has failed.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments.cells import Cell
from experiments.checkpoints import Checkpoints
from experiments.claims import holder
from experiments.files import read_json, seal, write
from experiments.results import CellFolder

ASKED = "asked"  # the folder within the results that tells what was asked for


class Standing(NamedTuple):
    """How a cell stands.

    Attributes:
        name: of its folder.
        what: "encoding on task".
        state: "done", "running", "failed", "damaged" or "left".
        seeds: that are done.
        wanted: seeds, of all that were ever asked for.
        seconds: that the finished ones took.
        told: more, in a few words.
    """

    name: str
    what: str
    state: str
    seeds: int
    wanted: int
    seconds: float
    told: str = ""


def ask(folder: Path, cells: Iterable[Cell], seeds: int) -> None:
    """Writes down what a sweep wants of a results folder; who wants the same again writes the same."""
    wanted = {"seeds": seeds, "cells": sorted(cell.name for cell in cells)}
    (folder / ASKED).mkdir(parents=True, exist_ok=True)
    write(folder / ASKED / f"{seal(wanted)[:10]}.json", [json.dumps(wanted, indent=1)])


def asked(folder: Path) -> dict[str, int]:
    """The cells that sweeps have wanted, by name, and of how many seeds; those too that nobody told of."""
    wanted = {config.parent.name: 0 for config in folder.glob("*/config.json")}
    for path in sorted((folder / ASKED).glob("*.json")):
        said = read_json(path)
        wanted |= {name: max(said["seeds"], wanted.get(name, 0)) for name in said["cells"]}
    return dict(sorted(wanted.items()))


def standing(folder: Path, name: str, wanted: int) -> Standing:
    """How one cell stands."""
    path = folder / name
    if not (path / "config.json").exists():
        return Standing(name, name.rpartition("-")[0], "left", 0, wanted, 0.0)
    cell = Cell(read_json(path / "config.json"))
    one, what = CellFolder(folder, cell), f"{cell.label('encoding')} on {cell.label('task')}"
    try:
        statuses = [block.status() for block in one.blocks()]
    except ValueError as error:
        return Standing(name, what, "damaged", 0, wanted, 0.0, str(error))
    seeds = {seed for status in statuses for seed in status["seeds"]}
    same = name, what
    numbers = len(seeds), wanted, sum(status["seconds"] for status in statuses)
    if (wanted and len(seeds) >= wanted) or (not wanted and seeds):
        away = sum(len(status["diverged"]) for status in statuses)
        return Standing(*same, "done", *numbers, f"{away} diverged" if away else "")
    if one.failure():
        return Standing(*same, "failed", *numbers, str(path / "failure.txt"))
    worker = holder(path)
    saved = [f"step {max(steps)}/{cell.train.steps} is saved" for steps in saved_steps(path) if steps]
    if worker is not None:
        who = f"{worker.get('host', 'somewhere')}, process {worker.get('process', '?')}"
        return Standing(*same, "running", *numbers, ", ".join([*saved, who]))
    return Standing(*same, "left", *numbers, ", ".join(saved))


def saved_steps(path: Path) -> list[list[int]]:
    """The steps of the checkpoints of each block of seeds."""
    return [Checkpoints(block).steps() for block in sorted((path / "checkpoints").glob("seeds-*"))]


def seconds_left(cells: list[Standing]) -> float | None:
    """About how long the rest takes: as long for a seed as those took that are done, shared by those that run."""
    seeds, seconds = sum(cell.seeds for cell in cells), sum(cell.seconds for cell in cells)
    if not seeds:
        return None
    rest = sum(max(cell.wanted - cell.seeds, 0) for cell in cells if cell.state in ("running", "left"))
    return rest * seconds / seeds / max(1, sum(cell.state == "running" for cell in cells))


def show(cells: list[Standing], console: Console) -> None:
    """A line for each cell that is not done, and one for all."""
    table = Table(show_edge=False)
    for name in ("cell", "state", "seeds", ""):
        table.add_column(name)
    for cell in cells:
        if cell.state != "done" or cell.told:
            table.add_row(*map(escape, (cell.what, cell.state, f"{cell.seeds}/{cell.wanted or '?'}", cell.told)))
    if table.rows:
        console.print(table)
    states = ("done", "running", "failed", "damaged", "left")
    counts = {state: sum(cell.state == state for cell in cells) for state in states}
    told = [f"{count} {state}" for state, count in counts.items() if count]
    left = seconds_left(cells)
    if left:
        told += [f"about {left / 60:.0f} min to the end" if left > 90 else f"about {left:.0f} s to the end"]
    console.print(f"{len(cells)} cells: {', '.join(told)}.", highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description="How a sweep stands.")
    parser.add_argument("folder", type=Path, help="a results folder")
    folder = parser.parse_args().folder
    if not folder.is_dir():
        sys.exit(f"error: there is no results folder {folder}.")
    cells = [standing(folder, name, wanted) for name, wanted in asked(folder).items()]
    show(cells, Console())
    sys.exit(any(cell.state in ("failed", "damaged") for cell in cells))


if __name__ == "__main__":
    main()
