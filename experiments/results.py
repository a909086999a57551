"""Results on disk: one folder per cell, written once by one process and read by many.

    results/NAME/rope-sort-0a1b2c3d4e/
        config.json       the resolved configuration; it alone decides what the cell is
        rows.jsonl        a row per seed, length and metric
        training.jsonl    the mean training loss of each seed, chunk by chunk
        status.json       which seeds are done, in which cell they were trained, how long they took, what the model
                          costs, with which versions
        parameters/0-2/   the final parameters of seeds 0 to 2, stacked, by Orbax

Every file is written under another name and then renamed, so that a reader sees whole files only. status.json comes
last: what it does not name is not there, and is run again.
"""

import importlib.metadata
import json
import math
import os
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pandas
from flax import nnx
from orbax.checkpoint import v1 as ocp

from experiments.cells import Cell
from experiments.cost import Cost
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
    "added_parameters",  # those of the encoding
    "added_flops",  # of a forward pass at the longest trained length, as a share of those without an encoding
)
PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


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
            if any(self.path.iterdir()):
                raise ValueError(
                    f"{self.path} holds files but no config.json: these are not a cell's results. {expected}"
                )
            return
        if read_json(config) != self.cell.config:
            raise ValueError(f"{config} describes another cell than the one of that name. {expected}")

    def done(self) -> list[int]:
        """The seeds whose results are complete."""
        return self.status()["seeds"]

    def rows(self) -> list[dict[str, Any]]:
        """The rows of all finished seeds."""
        done = set(self.done())
        return [row for row in read_lines(self.path / "rows.jsonl") if row["seed"] in done] if done else []

    def training(self) -> list[dict[str, Any]]:
        """The learning curves of all finished seeds."""
        done = set(self.done())
        return [row for row in read_lines(self.path / "training.jsonl") if row["seed"] in done] if done else []

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
        write(self.path / "config.json", [json.dumps(self.cell.config, indent=1, sort_keys=True)])

    def finish(
        self,
        seeds: Sequence[int],
        rows: list[dict],
        training: list[dict],
        parameters: nnx.State,
        cost: Cost,
        seconds: float,
        trained_in: str,
    ) -> None:
        """Adds what these seeds gave to what is there, and only then says so in status.json.

        `trained_in` names the cell whose training gave the parameters: this one, or its `twin`.
        """
        done = self.done()
        ocp.save(self.path.resolve() / block(seeds), nnx.to_pure_dict(parameters), overwrite=True)
        write(self.path / "rows.jsonl", map(strict_json, self.rows() + rows))
        write(self.path / "training.jsonl", map(strict_json, self.training() + training))
        blocks = [*self.status()["blocks"], list(seeds)]
        status = dict(
            status="done",
            seeds=sorted({*done, *seeds}),
            blocks=blocks,
            cost=cost._asdict(),
            seconds=round(self.status().get("seconds", 0.0) + seconds, 1),
            trained_in=[*self.status()["trained_in"], trained_in],
            versions={name: importlib.metadata.version(name) for name in PACKAGES},
            device=jax.devices()[0].platform,
        )
        write(self.path / "status.json", [json.dumps(status, indent=1)])

    def status(self) -> dict[str, Any]:
        """What status.json says; empty before any seed is done.

        Raises:
            ValueError: the file is damaged.
        """
        path = self.path / "status.json"
        status = read_json(path) if path.exists() else {"seeds": [], "blocks": [], "trained_in": []}
        if not isinstance(status, dict) or not {"seeds", "blocks", "trained_in"} <= set(status):
            raise ValueError(f"{path} is damaged: it names no seeds. Move it away to run the cell again.")
        return status

    def parameters(self, seed: int) -> nnx.State:
        """The final parameters of one seed.

        Raises:
            KeyError: the seed is not done.
        """
        together = next((seeds for seeds in self.status()["blocks"] if seed in seeds), None)
        if together is None:
            raise KeyError(f"{self.path} has no results of seed {seed}; done are {self.done()}.")
        one = jax.eval_shape(program_of(self.cell).parameters, 0)
        here = jax.sharding.SingleDeviceSharding(jax.devices()[0])  # wherever it was saved
        like = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct((len(together), *x.shape), x.dtype, sharding=here), nnx.to_pure_dict(one)
        )
        stacked = ocp.load(self.path.resolve() / block(together), like)
        nnx.replace_by_pure_dict(one, jax.tree.map(lambda x: x[together.index(seed)], stacked))
        return one

    def trained(self, seeds: Sequence[int]) -> tuple[nnx.State, list[dict[str, Any]]]:
        """The final parameters of some seeds, stacked, and their learning curves.

        Raises:
            KeyError: a seed is not done.
        """
        each = [self.parameters(seed) for seed in seeds]
        return jax.tree.map(lambda *one: jnp.stack(one), *each), [
            row for row in self.training() if row["seed"] in seeds
        ]


def block(seeds: Sequence[int]) -> str:
    """Where the parameters of seeds that ran together stand."""
    return f"parameters/{seeds[0]}-{seeds[-1]}"


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
    table["value"] = table["value"].astype(float)
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


def write(path: Path, lines: Iterable[str]) -> None:
    """Writes a whole file or nothing: under another name first, then renamed."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.writelines(line + "\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o666 & ~umask())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def umask() -> int:
    """The user's file mode mask, which a temporary file does not follow."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def strict_json(row: dict[str, Any]) -> str:
    """JSON without NaN or infinity, which it does not know: they become null."""
    plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
    return json.dumps(plain, allow_nan=False)


def read_json(path: Path) -> Any:
    """A JSON file; a damaged one is a ValueError that names it."""
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error


def read_lines(path: Path) -> list[dict[str, Any]]:
    """A file of JSON lines; a damaged one is a ValueError that names it."""
    try:
        return [json.loads(line) for line in path.read_text().splitlines()]
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
