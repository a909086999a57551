"""The main job: a config becomes cells, cells become rows, rows become a table and a picture.

    python -m experiments.ablate --config=configs/quickstart.py --results=results/quickstart
    python -m experiments.ablate --config=configs/quickstart.py --results=DIR --sweep=encoding=rope,t5

Any field of the config can be set on the command line; `--sweep=FIELD=a,b` narrows an axis of the sweep or adds one.
All cells are checked before the first one runs. What is finished is not run again: the same command goes on where it
was stopped, or killed, with the same bits, and a command that asks for more cells or seeds runs only those. Several
processes may work on one folder, on one machine (`--workers=4`) or on many: `--launcher=slurm` submits jobs, and
`--launcher=print` gives a line for a shell for each cell. A cell that fails does not stop the others; the traceback
stands in its folder, `--retry=failed` runs it again, and until then the exit status is 1.
"""

import math
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from absl import app, flags, logging
from ml_collections import ConfigDict, config_flags
from rich.console import Console

from experiments import launch, report, slurm, status
from experiments.cells import Cell
from experiments.compiling import keep_programs
from experiments.config import check_seeds, cluster_of, expand
from experiments.progress import View
from experiments.results import CellFolder
from experiments.settings import literal
from experiments.stopping import Stop, Stopped
from experiments.worker import EVERY, Work, Worker
from posenc.options import nearest

FAILED, WRONG_INPUT = 1, 2  # exit codes


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
RETRY = flags.DEFINE_enum("retry", None, ["failed"], "Run again what has failed before.")
WORKERS = flags.DEFINE_integer("workers", 1, "Processes that share the cells, and the cores.", lower_bound=1)
LAUNCHER = flags.DEFINE_enum(
    "launcher", "here", ["here", "print", "slurm"], "Where cells run: here, in jobs of Slurm, or by lines for a shell."
)
ONLY = flags.DEFINE_list("only", [], "Names of cells: runs those of the sweep alone.")
WORKER = flags.DEFINE_integer("worker", None, "The number of this process among the workers; they set it themselves.")
CORES = flags.DEFINE_list("cores", [], "The processor cores that this process keeps to, by number.")
PATIENCE = flags.DEFINE_float(
    "patience", math.inf, "Seconds to wait for cells that other processes run.", lower_bound=0
)
EVERY_SECONDS = flags.DEFINE_float("checkpoint_every", EVERY, "Seconds of training between checkpoints.", lower_bound=0)


class Plan(NamedTuple):
    """What a config asks for, and what of it is missing in a results folder, without what has failed there before."""

    asked: Work
    missing: Work
    failed: list[CellFolder]


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


def plan(config: ConfigDict, folder: Path, retry: bool = False) -> Plan:
    """What is to be done in a results folder. Runs and writes nothing.

    Args:
        retry: what has failed before counts as missing.

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
    missing = [(one, seeds) for one in folders if not set(seeds) <= set(one.done())]
    failed = [] if retry else [one for one, _ in missing if one.failure()]
    return Plan([(one, seeds) for one in folders], [item for item in missing if item[0] not in failed], failed)


def warn(cells: list[Cell]) -> None:
    """Tells, once, of what is allowed and may surprise."""
    if any(cell.model.norm == "batch" and cell.model.architecture != "encoder" for cell in cells):
        logging.warning(
            "model.norm is batch in a decoder: while it trains, its means and variances see later tokens and other "
            "examples. Testing takes running ones, which see neither."
        )


def ablate(config: ConfigDict, folder: str | Path, console: Console | None = None, retry: bool = False) -> list[Path]:
    """Runs what is missing of a sweep, then reports on all that the folder holds.

    Args:
        config: as a config file gives it.
        folder: for the results.
        console: where progress and table are shown; standard output where it is None.
        retry: whether to run again what has failed before.

    Returns:
        The folders of those cells that failed, now or before.

    Raises:
        ValueError: as in `plan`.
    """
    return execute(plan(config, Path(folder), retry), Path(folder), console or Console(), Stop())


def only(plan: Plan, names: list[str]) -> Plan:
    """A plan for some of its cells.

    Raises:
        ValueError: it has no cell of a name.
    """
    known = [one.cell.name for one, _ in plan.asked]
    for name in names:
        if name not in known:
            raise ValueError(f"--only={name}: the sweep has no such cell.{nearest(name, known)}")
    return Plan(
        [item for item in plan.asked if item[0].cell.name in names],
        [item for item in plan.missing if item[0].cell.name in names],
        [one for one in plan.failed if one.cell.name in names],
    )


def execute(plan: Plan, folder: Path, console: Console, stop: Stop, every: float = EVERY) -> list[Path]:
    """Runs the missing cells one after the other, then reports; the folders of those that failed, now or before."""
    announce(plan, folder, console)
    failed = work(plan, console, stop, every)
    return sorted({*failed, *conclude(plan, folder, console)})


def announce(plan: Plan, folder: Path, console: Console) -> None:
    """Says what is to be done, on the screen and in the folder, and lets those cells be tried again that are to."""
    done = len(plan.asked) - len(plan.missing) - len(plan.failed)
    console.print(f"{len(plan.asked)} cells, {done} of them done; {len(plan.asked[0][1])} seeds each.")
    status.ask(folder, [one.cell for one, _ in plan.asked], len(plan.asked[0][1]))
    for one, _ in plan.missing:
        one.forgive()


def work(plan: Plan, console: Console, stop: Stop, every: float, patience: float = math.inf) -> list[Path]:
    """Runs the missing cells one after the other, in this process; the folders of those that failed."""
    with View(console, len(plan.missing), sum(one.cell.train.steps for one, _ in plan.missing)) as view:
        worker = Worker(view, stop, every, patience)
        worker.work(plan.missing)
    return worker.failed


def conclude(plan: Plan, folder: Path, console: Console) -> list[Path]:
    """Reports on all that the folder holds, and names those cells of the plan that have failed."""
    if any(one.done() for one, _ in plan.asked):
        report.make(folder, console)
    failed = [one.path for one, _ in plan.asked if one.failure()]
    for path in failed:
        console.print(f"failed: {path / 'failure.txt'} tells why.", style="bold", highlight=False, soft_wrap=True)
    return failed


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
        todo = plan(CONFIG.value, Path(RESULTS.value), RETRY.value == "failed")
        todo = only(todo, ONLY.value) if ONLY.value else todo
    except ValueError as error:
        fail(str(error))
    if LAUNCHER.value == "print":
        print("\n".join(launch.lines(sys.argv[1:], [one.cell.name for one, _ in todo.missing])))
        return
    if LAUNCHER.value == "slurm":
        return submitted(todo, Path(RESULTS.value))
    keep_programs()
    try:
        with Stop() as stop:
            failed = launched(todo, Path(RESULTS.value), Console(), stop)
    except Stopped as stopped:
        print(f"{stopped}. The same command goes on from there.", file=sys.stderr)
        sys.exit(stopped.code)
    except BrokenPipeError:  # nobody reads what is shown
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is not said yet goes nowhere
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:
        fail(f"{one_line(error)}. The same command goes on from there.")
    sys.exit(FAILED if failed else 0)


def submitted(todo: Plan, folder: Path) -> None:
    """Hands a plan to Slurm."""
    try:
        wanted = cluster_of(CONFIG.value)
        slurm.check()
        announce(todo, folder, Console())
        jobs = slurm.submit(wanted, launch.passed_on(sys.argv[1:]), folder, min(wanted.jobs, len(todo.missing)))
    except (ValueError, RuntimeError) as error:
        fail(str(error))
    if not jobs:
        print("nothing is left to submit.")
        return
    print(f"{len(jobs)} jobs: {', '.join(jobs)}. python -m experiments.status {folder} tells how they stand.")


def launched(todo: Plan, folder: Path, console: Console, stop: Stop) -> list[Path]:
    """Runs a plan in as many processes as are asked for; the folders of the cells that failed."""
    if CORES.value and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, map(int, CORES.value))  # before there is a thread for each core
    if WORKER.value is not None:
        launch.end_with_the_parent()
        work(todo, console, stop, EVERY_SECONDS.value, PATIENCE.value)
        return []  # the process that started this one tells
    if WORKERS.value == 1:
        return execute(todo, folder, console, stop, EVERY_SECONDS.value)
    announce(todo, folder, console)
    pool = launch.Pool(sys.argv[1:], WORKERS.value, console)
    pool.run(stop)
    left = [one.path for one, seeds in todo.missing if not set(seeds) <= set(one.done()) and not one.failure()]
    for path in left:
        console.print(f"unfinished: {path}: the workers have ended.", style="bold", highlight=False, soft_wrap=True)
    return conclude(todo, folder, console) + left


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
