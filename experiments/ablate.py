"""The main job: a config becomes cells, cells become rows, rows become a table and a picture.

    python -m experiments.ablate --config=configs/quickstart.py --results=results/quickstart
    python -m experiments.ablate --config=configs/quickstart.py --results=DIR --sweep=encoding=rope,t5

Any field of the config can be set on the command line; `--sweep=FIELD=a,b` narrows an axis of the sweep or adds one.
All cells are checked before the first one runs. What is finished is not run again: the same command goes on where it
was stopped, and a command that asks for more cells or seeds runs only those.
"""

import sys
import time
from collections.abc import Iterable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from absl import app, flags, logging
from flax import nnx
from ml_collections import ConfigDict, config_flags
from rich.console import Console

from experiments import report, results
from experiments.cells import Cell
from experiments.compiling import keep_programs
from experiments.config import check_seeds, expand
from experiments.cost import cost
from experiments.evaluate import BITS, evaluator_of
from experiments.progress import View
from experiments.results import CellFolder
from experiments.settings import literal
from experiments.train import Trainer, chunks

WRONG_INPUT, INTERRUPTED = 2, 130  # exit codes


class TupleParser(flags.ArgumentParser):
    """Tuples of anything on the command line: rope,t5 or 8,16,32; ml_collections alone reads no strings."""

    def parse(self, argument):
        if not isinstance(argument, str):
            return argument
        words = (word.strip() for word in argument.strip().removeprefix("(").removesuffix(")").split(","))
        return tuple(literal(word) for word in words if word)

    def flag_type(self):
        return "tuple, its values separated by commas"


config_flags.register_flag_parser_for_type(tuple, TupleParser())
CONFIG = config_flags.DEFINE_config_file("config", None, "The config file: Python, run as such.", lock_config=True)
SWEEP = flags.DEFINE_multi_string("sweep", [], "An axis of the sweep, as train.learning_rate=1e-3,3e-3.")
RESULTS = flags.DEFINE_string("results", None, "The folder for the results; it may hold earlier ones.")


Work = list[tuple[CellFolder, list[int]]]  # cells, each with the seeds that are to run


def add_axes(config: ConfigDict, axes: list[str], others: Iterable[str] = ()) -> None:
    """Gives the sweep of a config the axes that the command line has: FIELD=a,b, in place of its own of that field.

    Args:
        others: fields that the command line makes axes in another way.

    Raises:
        ValueError: an axis is not of this form, or is there twice.
    """
    fields = set(others)
    for axis in axes:
        field, separator, values = axis.partition("=")
        if not field or not separator:
            raise ValueError(f"--sweep={axis}: expected a field and its values, as train.learning_rate=1e-3,3e-3.")
        if field in fields:
            raise ValueError(f"--sweep={axis}: {field} is an axis twice on the command line. Give all its values once.")
        fields.add(field)
        with config.sweep.unlocked():
            config.sweep[field] = TupleParser().parse(values)


def plan(config: ConfigDict, folder: Path) -> tuple[Work, Work]:
    """What a config asks for, and what of it is missing in a results folder. Runs and writes nothing.

    Raises:
        ValueError: the config, or what stands in the folder, is not what it should be.
    """
    folders = [CellFolder(folder, cell) for cell in expand(config)]
    seeds = check_seeds(config.seeds)
    for path in (folder, *folder.parents):
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is a file; expected a folder for the results. Choose another one.")
    for one in folders:
        one.check()
    warn([one.cell for one in folders])
    missing = [(one, [seed for seed in seeds if seed not in one.done()]) for one in folders]
    return [(one, seeds) for one in folders], [(one, block) for one, block in missing if block]


def warn(cells: list[Cell]) -> None:
    """Tells, once, of what is allowed and may surprise."""
    if any(cell.model.norm == "batch" and cell.model.architecture != "encoder" for cell in cells):
        logging.warning(
            "model.norm is batch in a decoder: while it trains, its means and variances see later tokens and other "
            "examples. Testing takes running ones, which see neither."
        )


def ablate(config: ConfigDict, folder: str | Path, console: Console | None = None) -> None:
    """Runs what is missing of a sweep, then reports on all that the folder holds.

    Args:
        config: as a config file gives it.
        folder: for the results.
        console: where progress and table are shown; standard output where it is None.

    Raises:
        ValueError: as in `plan`.
    """
    execute(*plan(config, Path(folder)), Path(folder), console or Console())


def execute(asked: Work, missing: Work, folder: Path, console: Console) -> None:
    """Runs the missing cells one after the other, then reports."""
    console.print(f"{len(asked)} cells, {len(asked) - len(missing)} of them done; {len(asked[0][1])} seeds each.")
    with View(console, len(missing), sum(one.cell.train.steps for one, _ in missing)) as view:
        for one, block in missing:
            run(one, block, view)
    report.make(folder, console)


def run(folder: CellFolder, seeds: list[int], view: View) -> None:
    """Trains and evaluates one cell with some seeds, in one program each, and writes down what came out."""
    cell, started = folder.cell, time.monotonic()
    view.start(f"{cell.label('encoding')} on {cell.label('task')}")
    folder.start()
    twin = folder.twin(seeds)
    parameters, training = train(cell, seeds, view) if twin is None else twin.trained(seeds)
    rows, price = [], cost(cell)
    for length, second, metrics in evaluator_of(cell)(parameters):
        values = {name: np.asarray(value) for name, value in metrics.items()}
        rows += results.rows_of(cell, seeds, length, values, price, second)
    trained_in = (twin or folder).path.name
    folder.finish(seeds, rows, training, parameters, price, time.monotonic() - started, trained_in)
    view.finish(cell.train.steps, summary(cell, rows), time.monotonic() - started)


def train(cell: Cell, seeds: list[int], view: View) -> tuple[nnx.State, list[dict]]:
    """The trained parameters, with a leading axis of seeds, and the learning curves."""
    trainer, array = Trainer(cell), jnp.asarray(seeds, jnp.uint32)
    state, training = trainer.init(array), []
    for start, stop in chunks(cell.train.steps):
        state, losses = trainer.advance(state, array, start, stop)
        losses = np.asarray(losses)
        training += [dict(seed=seed, step=stop, loss=float(losses[i])) for i, seed in enumerate(seeds)]
        view.step(stop, cell.train.steps, losses.mean())
    return state.parameters, training


def summary(cell: Cell, rows: list[dict]) -> str:
    """The exact match of a cell, of text its bits per byte, in a few words."""
    metric = BITS if cell.layout.task.bytes else "exact_match"
    told = [row for row in rows if row["metric"] == metric]
    parts = []
    for trained, word in ((True, "at trained lengths"), (False, "beyond them")):
        values = [row["value"] for row in told if row["trained"] == trained]
        parts += [f"{np.mean(values):.2f} {word}"] if values else []
    return f"{metric.replace('_', ' ')} " + ", ".join(parts)


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        fail(f"{' '.join(argv[1:])!r} is not understood: options begin with --, as in --config=FILE --results=DIR.")
    if CONFIG.value is None or not RESULTS.value:
        fail("--config=FILE and --results=DIR are needed, as in --config=configs/quickstart.py --results=results/mine.")
    path = Path(config_flags.get_config_filename(flags.FLAGS["config"]).split(":")[0])
    if not path.is_file():
        fail(f"there is no config file {path}; expected a Python file, as configs/quickstart.py is one.")
    said = config_flags.get_override_values(flags.FLAGS["config"])
    try:
        add_axes(CONFIG.value, SWEEP.value, [path.removeprefix("sweep.") for path in said if path.startswith("sweep.")])
        asked, missing = plan(CONFIG.value, Path(RESULTS.value))
    except ValueError as error:
        fail(str(error))
    keep_programs()
    try:
        execute(asked, missing, Path(RESULTS.value), Console())
    except KeyboardInterrupt:
        print("stopped. The same command goes on with the first cell that is not finished.", file=sys.stderr)
        sys.exit(INTERRUPTED)


def parse(argv: list[str]) -> list[str]:
    """Reads the command line; what the user got wrong there ends in a sentence, not in a traceback."""
    try:
        rest = flags.FLAGS(argv)
    except (AttributeError, KeyError) as error:
        fail(f"the config has no field {one_line(error)}")
    except (flags.Error, TypeError, ValueError, OSError, SyntaxError) as error:
        fail(one_line(error))
    if flags.FLAGS["verbosity"].using_default_value:
        flags.FLAGS.verbosity = logging.WARNING  # at INFO, checkpointing tells of every file
    return rest


def one_line(error: Exception) -> str:
    """The message of an error, on one line. The text of a KeyError is its key, quoted; it means its argument."""
    text = error.args[0] if isinstance(error, KeyError) and error.args else error
    return " ".join(str(text).split())


def fail(message: str) -> None:
    """Ends the program over something that the user can mend."""
    print(f"error: {message}", file=sys.stderr)
    sys.exit(WRONG_INPUT)


if __name__ == "__main__":
    app.run(main, flags_parser=parse)
