"""Results on disk: one folder per cell, a block of seeds in it written once by one process and read by many.

    results/NAME/rope-sort-0a1b2c3d4e/
        config.json           the resolved configuration; it alone decides what the cell is
        seeds-0-2/            what seeds 0 to 2 gave, in one program
            rows.jsonl        a row per seed, length and metric
            training.jsonl    the mean training loss of each seed, chunk by chunk
            parameters/       the final parameters, stacked, by Orbax
            status.json       in which cell they were trained, how long it took, what the model costs, where and with
                              which code it was computed, and a digest of each file
        checkpoints/          of seeds that are being trained
        claims/               who works on the cell
        failure.txt           why the last attempt failed
    results/NAME/asked/       which cells and how many seeds sweeps have wanted of the folder

A block is made under another name and then renamed, all of it at once: a reader sees whole blocks only, and of two
writers one is told that the other was first. Every file is checked against its digest when it is read.
"""

import dataclasses
import json
import shutil
import uuid
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pandas
from flax import nnx
from orbax.checkpoint import v1 as ocp

from experiments.cells import Cell
from experiments.cost import Cost
from experiments.environment import code, differences, environment, fingerprint
from experiments.files import (
    check_files,
    digest_of_arrays,
    digests,
    read_json,
    read_lines,
    read_sealed,
    strict_json,
    write,
    write_sealed,
)
from experiments.train import program_of

COLUMNS = (
    "cell",  # name of the cell's folder
    "encoding",  # with its changed options, as are positions and task
    "positions",
    "task",
    "architecture",
    "seed",
    "length",
    "second",  # digits of a second operand; none where it follows the length or is drawn
    "trained",  # whether the length is one that was trained on
    "metric",
    "value",
    "count",  # examples behind the value
    "chance",  # the exact match of the best blind guess; none for other metrics
    "diverged",  # the step from which on the training loss was no number; none where it always was
    "added_parameters",  # those of the encoding
    "added_flops",  # of a forward pass at the longest trained length, as a share of those without an encoding
    "code",  # a digest of the sources that computed it
    "environment",  # a digest of machine and packages
)
KEY = ("seed", "length", "second", "metric")  # one row each, in a cell


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What some seeds of a cell gave.

    Attributes:
        seeds: that ran together.
        rows: of each, by length and metric, as `rows_of` makes them.
        training: their learning curves.
        parameters: the final ones, with a leading axis of seeds.
        cost: of the model.
        seconds: from the first step to the last row, pauses left out.
        trained_in: the cell whose training gave the parameters: this one, or its `twin`.
        diverged: those whose loss was no longer a number, with the step from which on.
    """

    seeds: Sequence[int]
    rows: list[dict[str, Any]]
    training: list[dict[str, Any]]
    parameters: nnx.State
    cost: Cost
    seconds: float
    trained_in: str
    diverged: Mapping[int, int] = dataclasses.field(default_factory=dict)


class Block:
    """The published outcome of some seeds.

    Args:
        path: its folder.
    """

    def __init__(self, path: Path):
        self.path = path

    def status(self) -> dict[str, Any]:
        """What is known of it.

        Raises:
            ValueError: the file is damaged, or not there.
        """
        try:
            return read_sealed(self.path / "status.json")
        except ValueError as error:
            raise ValueError(f"{error} Move {self.path} away to run these seeds again.") from error

    def seeds(self) -> list[int]:
        return self.status()["seeds"]

    def rows(self) -> list[dict[str, Any]]:
        """One for each seed, length and metric."""
        return self.lines("rows.jsonl")

    def values(self) -> dict[tuple, float | None]:
        """By seed, length, second length and metric."""
        return {tuple(row[name] for name in KEY): row["value"] for row in self.rows()}

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Those of a file that is as it was written.

        Raises:
            ValueError: it is not.
        """
        check_files(self.path, self.status()["digests"], name)
        return read_lines(self.path / name)

    def parameters(self, like: nnx.State) -> dict[str, Any]:
        """The final parameters, stacked.

        Args:
            like: those of one seed; arrays or their shapes.

        Raises:
            ValueError: they are not what was written.
        """
        here = jax.sharding.SingleDeviceSharding(jax.devices()[0])  # wherever it was saved
        count = len(self.seeds())
        stacked = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct((count, *x.shape), x.dtype, sharding=here), nnx.to_pure_dict(like)
        )
        status = self.status()
        check_files(self.path, status["digests"], "parameters/")
        found = ocp.load((self.path / "parameters").resolve(), stacked)
        if digest_of_arrays(found) != status["numbers"]:
            raise ValueError(f"{self.path / 'parameters'} holds other numbers than those that were written.")
        return found


class CellFolder:
    """Where the results of one cell stand.

    Args:
        results: the folder of the sweep.
        cell: the cell.
    """

    def __init__(self, results: Path, cell: Cell):
        self.cell = cell
        self.path = Path(results) / cell.name

    def check(self) -> None:
        """Raises ValueError if the folder holds something else than this cell's results."""
        if not self.path.exists():
            return
        expected = "Move it away, or choose another results folder."
        if not self.path.is_dir():
            raise ValueError(f"{self.path} is a file; expected the folder of a cell. {expected}")
        config = self.path / "config.json"
        if not config.exists():
            theirs = [path for path in self.path.iterdir() if path.name != "claims" and not path.name.startswith(".")]
            if theirs:  # and not what a process has left that was killed before it had written a config
                raise ValueError(
                    f"{self.path} holds files but no config.json: these are not a cell's results. {expected}"
                )
            return
        found = read_json(config)
        if found != self.cell.config:
            how = differences(flat(found), flat(self.cell.config)) if isinstance(found, dict) else "it is no config"
            raise ValueError(f"{config} describes another cell than the one of that name: {how}. {expected}")

    def blocks(self) -> list[Block]:
        """What is published."""
        return [Block(path) for path in sorted(self.path.glob("seeds-*"))]

    def done(self) -> list[int]:
        """The seeds whose results are complete."""
        return sorted({seed for block in self.blocks() for seed in block.seeds()})

    def rows(self) -> list[dict[str, Any]]:
        """The rows of all finished seeds, each once.

        Raises:
            ValueError: a file is damaged, or two blocks say different things of the same seed.
        """
        found: dict[tuple, dict[str, Any]] = {}
        for block in self.blocks():
            for row in block.rows():
                first = found.setdefault(tuple(row[name] for name in KEY), row)
                if first["value"] != row["value"]:
                    told = ", ".join(f"{name} {row[name]}" for name in KEY)
                    raise ValueError(f"{block.path} says {row['value']} of {told}, and another block {first['value']}.")
        return list(found.values())

    def training(self) -> list[dict[str, Any]]:
        """The learning curves of all finished seeds."""
        rows = [row for block in self.blocks() for row in block.lines("training.jsonl")]
        return list({(row["seed"], row["step"]): row for row in rows}.values())

    def twin(self, seeds: Sequence[int]) -> "CellFolder | None":
        """The folder of a cell that was trained in the same way with all these seeds, and tested in another."""
        for config in sorted(self.path.parent.glob("*/config.json")):
            try:
                other = CellFolder(self.path.parent, Cell(read_json(config)))
                same = other.path == config.parent != self.path and other.cell.training == self.cell.training
                if same and set(seeds) <= set(other.done()):
                    return other
            except (ValueError, KeyError, TypeError):
                continue  # damaged: `load` tells of it
        return None

    def start(self) -> None:
        """Creates the folder and says what will be in it."""
        self.path.mkdir(parents=True, exist_ok=True)
        if not (self.path / "config.json").exists():
            write(self.path / "config.json", [json.dumps(self.cell.config, indent=1, sort_keys=True)])

    def tidy(self) -> None:
        """Removes what a process that was killed has left half made; for who has the claim."""
        for left in self.path.glob(".seeds-*"):
            shutil.rmtree(left, ignore_errors=True)

    def failure(self) -> str:
        """Why the last attempt at it failed; empty where it did not."""
        path = self.path / "failure.txt"
        return path.read_text(errors="replace") if path.exists() else ""

    def fail(self, seeds: Sequence[int], trace: str) -> None:
        """Writes down why these seeds failed: the cell is left alone until `forgive`."""
        told = [f"{name}: {value}" for name, value in {**code(), **environment()}.items()]
        write(self.path / "failure.txt", [f"{block(seeds)} failed.", "", trace, *told])

    def forgive(self) -> None:
        """Lets a cell that failed be tried again."""
        (self.path / "failure.txt").unlink(missing_ok=True)

    def publish(self, outcome: Outcome) -> Block:
        """Makes the outcome of some seeds known, whole or not at all.

        Where another process was faster, its rows stand; they are the same.

        Raises:
            ValueError: they are not.
        """
        final = self.path / block(outcome.seeds)
        made = self.path / f".{final.name}.{uuid.uuid4().hex[:8]}"
        made.mkdir()
        try:
            fill(made, outcome)
            made.rename(final)
        except OSError:
            if not final.exists():
                raise
            if Block(final).values() != Block(made).values():
                raise ValueError(f"{final} was published meanwhile, with other values.") from None
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return Block(final)

    def parameters(self, seed: int) -> nnx.State:
        """The final parameters of one seed.

        Raises:
            KeyError: the seed is not done.
            ValueError: they are damaged.
        """
        together = next((block for block in self.blocks() if seed in block.seeds()), None)
        if together is None:
            raise KeyError(f"{self.path} has no results of seed {seed}; done are {self.done()}.")
        one = jax.eval_shape(program_of(self.cell).parameters, 0)
        place = together.seeds().index(seed)
        nnx.replace_by_pure_dict(one, jax.tree.map(lambda x: x[place], together.parameters(one)))
        return one

    def trained(self, seeds: Sequence[int]) -> tuple[nnx.State, list[dict[str, Any]], dict[int, int]]:
        """The final parameters of some seeds, stacked, their learning curves, and which of them diverged when.

        Raises:
            KeyError: a seed is not done.
            ValueError: what is there is damaged.
        """
        each = [self.parameters(seed) for seed in seeds]
        curves = [row for row in self.training() if row["seed"] in seeds]
        steps = {int(seed): step for block in self.blocks() for seed, step in block.status()["diverged"].items()}
        diverged = {seed: steps[seed] for seed in seeds if seed in steps}
        return jax.tree.map(lambda *one: jnp.stack(one), *each), curves, diverged


def fill(folder: Path, outcome: Outcome) -> None:
    """Writes an outcome into a folder, its status last."""
    where, parameters = environment(), nnx.to_pure_dict(outcome.parameters)
    same = {"code": code()["sources"], "environment": fingerprint(where)}
    rows = [row | same | {"diverged": outcome.diverged.get(row["seed"])} for row in outcome.rows]
    ocp.save((folder / "parameters").resolve(), parameters)
    write(folder / "rows.jsonl", map(strict_json, rows))
    write(folder / "training.jsonl", map(strict_json, outcome.training))
    status = dict(
        status="diverged" if len(outcome.diverged) == len(outcome.seeds) else "done",
        seeds=list(outcome.seeds),
        diverged={str(seed): step for seed, step in outcome.diverged.items()},
        trained_in=outcome.trained_in,
        seconds=round(outcome.seconds, 1),
        cost=outcome.cost._asdict(),
        code=code(),
        environment=where,
        numbers=digest_of_arrays(parameters),
        digests=digests(folder),
    )
    write_sealed(folder / "status.json", status)


def block(seeds: Sequence[int]) -> str:
    """The name of what belongs to seeds that run together: seeds-0-2, or seeds-0,2 where some between are missing."""
    first, last = min(seeds), max(seeds)
    gaps = list(seeds) != list(range(first, last + 1))
    return "seeds-" + (",".join(map(str, seeds)) if gaps else f"{first}-{last}")


def rows_of(
    cell: Cell, seeds: Sequence[int], length: int, metrics: dict[str, Any], cost: Cost, second: int | None = None
) -> list[dict[str, Any]]:
    """The rows of one length, and perhaps of a second operand's: one for each seed and metric."""
    task = cell.layout.task
    known = second is None or second <= (getattr(task, "second", 0) or cell.train.max_length)
    same = dict(
        cell=cell.name,
        encoding=cell.label("encoding"),
        positions=cell.label("positions"),
        task=cell.label("task"),
        architecture=cell.model.architecture,
        length=length,
        second=second,
        trained=cell.train.min_length <= length <= cell.train.max_length and known,
        count=cell.evaluate.examples,
        added_parameters=cost.added_parameters,
        added_flops=cost.added_flops,
    )
    return [
        same
        | dict(seed=seed, metric=metric, value=float(values[i]))
        | dict(chance=task.chance(length) if metric == "exact_match" else None)
        for metric, values in metrics.items()
        for i, seed in enumerate(seeds)
    ]


def load(folder: str | Path) -> pandas.DataFrame:
    """The rows of all cells of a results folder, one row per cell, seed, length and metric.

    Columns are COLUMNS, and `variant`: those settings of model, training and evaluation in which the folder's cells
    differ, with their values; empty where they do not. A cell whose files cannot be read is left out with a warning
    that names the file.

    Raises:
        FileNotFoundError: there is no such folder, or no finished cell in it.
    """
    folder, rows, configs = Path(folder), [], {}
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no results folder {folder}.")
    for config in sorted(folder.glob("*/config.json")):
        try:
            cell = CellFolder(folder, Cell(read_json(config)))
            if cell.path != config.parent:
                raise ValueError(f"its config.json is that of {cell.cell.name}")
            found = cell.rows()
        except (ValueError, KeyError, TypeError) as error:
            warnings.warn(f"{config.parent} is damaged and left out: {error}", stacklevel=2)
            continue
        configs[config.parent.name] = flat(read_json(config))
        rows += found
    if not rows:
        raise FileNotFoundError(f"{folder} has no finished cell.")
    table = pandas.DataFrame(rows, columns=COLUMNS)
    table = table.astype({"value": float, "diverged": float})
    return table.assign(variant=table["cell"].map(variants({name: configs[name] for name in table["cell"].unique()})))


def variants(configs: dict[str, dict[str, Any]]) -> dict[str, str]:
    """For each cell those settings, with values, that are not the same in all cells."""
    settings = sorted({path for config in configs.values() for path in config if path.split(".")[0] in SETTINGS})
    differing = [path for path in settings if len({json.dumps(c.get(path)) for c in configs.values()}) > 1]
    differing = [path for path in differing if path not in ("model.architecture", "evaluate.encoding")]  # have columns
    return {
        name: ", ".join(f"{path.split('.')[-1]}={config.get(path)}" for path in differing)
        for name, config in configs.items()
    }


SETTINGS = ("model", "train", "evaluate")


def flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested configuration as path -> value."""
    flattened = {}
    for key, value in config.items():
        flattened |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flattened
