"""The main job as a user starts it: run, stop, go on, ask for more, get it wrong."""

import io
import itertools
import json
import os
import signal
import subprocess
import sys
import typing
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import flagsaver
from flax import nnx
from ml_collections import ConfigDict
from rich.console import Console

from configs import quickstart
from experiments import ablate, report, worker
from experiments.ablate import TupleParser
from experiments.cells import TABLES, Cell
from experiments.config import SECTIONS, default_config, expand
from experiments.results import CellFolder, load
from experiments.train import State

ROOT = Path(__file__).resolve().parents[2]
CONFIG = f"--config={ROOT / 'configs' / 'quickstart.py'}"
TINY = {
    "model.width": 16, "model.depth": 1, "model.heads": 2,
    "train.steps": 3, "train.max_length": 3, "train.warmup": 1, "train.batch": 4,
    "evaluate.lengths": (2, 4), "evaluate.examples": 8, "evaluate.batch": 8,
}  # fmt: skip
FLAGS = [f"--config.{path}={value}" for path, value in TINY.items()]
SWEEP = [*FLAGS, "--config.sweep.encoding=rope,none", "--config.sweep.task=parity", "--config.seeds=2"]
# Reading a config file, ml_collections uses what Python will not have for ever.
pytestmark = pytest.mark.filterwarnings("ignore:the load_module:DeprecationWarning")


def python(*arguments, **environment):
    """Exit code, standard output and standard error of Python in the repository."""
    # Quick compilation, for programs that run for no time at all.
    quick = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "JAX_PLATFORMS": "cpu"}
    ended = subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=ROOT, env=os.environ | quick | environment, text=True,
        capture_output=True, timeout=300,
    )  # fmt: skip
    return ended.returncode, ended.stdout, ended.stderr


def rows_in(folder):
    """The rows of each cell, as they stand in its file."""
    return {
        path.parents[1].name.split("-")[0] + path.parent.name: path.read_text()
        for path in folder.glob("*/seeds-*/rows.jsonl")
    }


KILLED = """
import os, signal
from absl import app
from experiments import ablate, files

def write(path, lines, whole=files.write):
    if path.name == "status.json" and path.parents[1].name.startswith("none"):
        os.kill(os.getpid(), signal.SIGKILL)
    whole(path, lines)

files.write = write
app.run(ablate.main, flags_parser=ablate.parse)
"""


def test_a_killed_run_is_completed_by_the_same_command_and_gives_the_rows_of_an_undisturbed_one(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    cache = dict(JAX_COMPILATION_CACHE_DIR=str(tmp_path / "cache"), JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0")
    code, out, err = python("-m", "experiments.ablate", CONFIG, *SWEEP, f"--results={whole}", **cache)
    assert (code, "Traceback" in err) == (0, False), err
    assert "2 cells, 0 of them done" in out
    code, _, _ = python("-c", KILLED, CONFIG, *SWEEP, f"--results={killed}", **cache)
    assert code == -signal.SIGKILL
    assert set(load(killed)["encoding"]) == {"rope"}
    code, out, err = python("-m", "experiments.ablate", CONFIG, *SWEEP, f"--results={killed}", **cache)
    assert (code, "Traceback" in err) == (0, False), err
    assert "2 cells, 1 of them done" in out
    assert rows_in(whole) == rows_in(killed)
    for folder in (whole, killed):
        table = load(folder)
        assert set(zip(table["encoding"], table["task"], strict=True)) == {("rope", "parity"), ("none", "parity")}
        assert (set(table["seed"]), set(table["length"])) == ({0, 1}, {2, 4})
        files = {"rows.jsonl", "training.jsonl", "status.json", "parameters"}
        for cell in table["cell"].unique():
            assert {path.name for path in folder.glob(f"{cell}/*")} == {"config.json", "seeds-0-1"}
            assert {path.name for path in folder.glob(f"{cell}/seeds-0-1/*")} == files
        assert (folder / "accuracy_by_length.png").read_bytes().startswith(b"\x89PNG")
    assert (whole / "report.md").read_text() == (killed / "report.md").read_text()


class Untrained:
    """In place of a trainer: parameters are the seeds, and no step changes them."""

    def __init__(self, cell):
        self.cell = cell

    def init(self, seeds):
        nothing = jnp.zeros(len(seeds))
        return State(nnx.State({"seeds": nnx.Param(seeds)}), (), (), nothing, nothing.astype(jnp.int32) - 1)

    def proceed(self, state, seeds, start, stop):
        return state._replace(total=state.total + jnp.sum(1 / jnp.arange(start + 1, stop + 1)))


@pytest.fixture
def runs(monkeypatch):
    """Which cells were run with which seeds, in order; nothing is compiled."""
    ran = []

    class Told(Untrained):
        def init(self, seeds):
            ran.append((self.cell.config["encoding"]["name"], seeds.tolist()))
            return super().init(seeds)

    class Evaluator:
        def __init__(self, cell):
            self.cell = cell

        def __call__(self, parameters):
            for length in self.cell.evaluate.lengths:
                values = 1 / (1 + parameters["seeds"][...].astype(jnp.float32) + length)
                yield length, None, dict(exact_match=values, token_accuracy=1 - values, loss=-jnp.log(values))

    monkeypatch.setattr(worker, "Trainer", Told)
    monkeypatch.setattr(worker, "evaluator_of", Evaluator)
    return ran


def config_of(encodings=("rope", "none"), seeds=2):
    """The same small sweep as on the command line."""
    config = default_config()
    config.update_from_flattened_dict(TINY)
    config.sweep.encoding, config.sweep.task, config.seeds = encodings, ("parity",), seeds
    return config


def run(folder, **asked):
    """Runs a sweep in this process; what it showed."""
    shown = io.StringIO()
    ablate.ablate(config_of(**asked), folder, Console(file=shown, width=200))
    return shown.getvalue()


def test_what_is_done_is_not_run_again(tmp_path, runs, monkeypatch):
    run(tmp_path)
    assert runs == [("rope", [0, 1]), ("none", [0, 1])]
    before = rows_in(tmp_path)
    monkeypatch.setattr(worker, "Trainer", None)
    assert "2 cells, 2 of them done" in run(tmp_path)
    assert rows_in(tmp_path) == before


def test_one_encoding_more_runs_only_that(tmp_path, runs):
    run(tmp_path)
    del runs[:]
    assert "3 cells, 2 of them done" in run(tmp_path, encodings=("rope", "t5", "none"))
    assert runs == [("t5", [0, 1])]
    assert set(load(tmp_path)["encoding"]) == {"rope", "none", "t5"}


def test_seeds_more_run_only_those_and_give_what_all_at_once_give(tmp_path, runs):
    run(tmp_path / "grown", seeds=1)
    run(tmp_path / "grown", seeds=3)
    assert runs == [("rope", [0]), ("none", [0]), ("rope", [1, 2]), ("none", [1, 2])]
    run(tmp_path / "at once", seeds=3)
    keys = ["encoding", "seed", "length", "metric"]
    grown, at_once = (load(tmp_path / name).set_index(keys).sort_index() for name in ("grown", "at once"))
    assert grown.equals(at_once)


def test_fewer_seeds_and_cells_than_are_there_run_nothing_and_lose_nothing(tmp_path, runs):
    run(tmp_path)
    del runs[:]
    run(tmp_path, encodings=("rope",), seeds=1)
    assert runs == []
    assert len(load(tmp_path)) == 2 * 2 * 2 * 3


def test_a_cell_that_differs_in_testing_alone_is_not_trained_again(tmp_path):
    def sweep(seeds, **fields):
        config = config_of(encodings=("rope",), seeds=seeds)
        config.update_from_flattened_dict({key.replace("__", "."): value for key, value in fields.items()})
        ablate.ablate(config, tmp_path, Console(file=io.StringIO()))
        configs = tmp_path.glob("*/config.json")
        return {json.loads(path.read_text())["evaluate"]["encoding"]: path.parent for path in configs}

    plain = sweep(2)[""]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "Trainer", None)
        scaled = sweep(2, evaluate__encoding="rope.scaling=linear rope.factor=4")["rope.scaling=linear rope.factor=4.0"]
        assert not list(tmp_path.glob("*/failure.txt"))
        sweep(3, evaluate__encoding="rope.base=50")  # a seed that is not there
        sweep(2, train__steps=7)
        failures = list(tmp_path.glob("*/failure.txt"))
        assert ["TypeError: 'NoneType' object is not callable" in path.read_text() for path in failures] == [True, True]
    status = json.loads((scaled / "seeds-0-1" / "status.json").read_text())
    assert status["trained_in"] == plain.name
    assert (scaled / "seeds-0-1/training.jsonl").read_text() == (plain / "seeds-0-1/training.jsonl").read_text()
    table = load(tmp_path)
    assert set(table["encoding"]) == {"rope", "rope->scaling=linear, factor=4.0"}
    assert table["value"].nunique() > 1
    cells = [CellFolder(tmp_path, Cell(json.loads((path / "config.json").read_text()))) for path in (plain, scaled)]
    for one, other in zip(*(jax.tree.leaves(cell.parameters(1)) for cell in cells), strict=True):
        np.testing.assert_array_equal(one, other)
    losses = table[(table["metric"] == "loss") & (table["length"] == table["length"].max())]
    assert losses.groupby("encoding")["value"].first().nunique() == 2  # it is another model


def test_a_cell_whose_block_is_moved_away_is_run_again_whole(tmp_path, runs):
    run(tmp_path / "results")
    before = rows_in(tmp_path / "results")
    for path in tmp_path.glob("results/none-*/seeds-0-1"):
        path.rename(tmp_path / "moved")
    del runs[:]
    assert "2 cells, 1 of them done" in run(tmp_path / "results")
    assert runs == [("none", [0, 1])]
    assert rows_in(tmp_path / "results") == before


def test_a_run_that_breaks_off_in_the_middle_keeps_what_was_finished(tmp_path, runs, monkeypatch):
    class Stopped(worker.Trainer):
        def proceed(self, state, seeds, start, stop):
            if self.cell.config["encoding"]["name"] == "none" and stop > 1:
                raise KeyboardInterrupt
            return super().proceed(state, seeds, start, stop)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(worker, "Trainer", Stopped)
        run(tmp_path / "stopped")
    del runs[:]
    run(tmp_path / "stopped")
    assert runs == [("none", [0, 1])]
    run(tmp_path / "undisturbed")
    assert rows_in(tmp_path / "stopped") == rows_in(tmp_path / "undisturbed")


def test_what_is_shown_says_how_each_cell_went(tmp_path, runs):
    shown = run(tmp_path)
    assert "2 cells, 0 of them done" in shown
    for line in ("[1/2] rope on parity: exact match", "[2/2] none on parity: exact match"):
        assert line in shown
    assert "0.29 at trained lengths" in shown  # the mean of 1/3 and 1/4
    assert "parity" in (tmp_path / "report.md").read_text()


def test_the_report_can_be_made_again_from_the_rows_alone(tmp_path, runs):
    run(tmp_path)
    before = (tmp_path / "report.md").read_text()
    (tmp_path / "report.md").unlink()
    (tmp_path / "accuracy_by_length.png").unlink()
    code, out, err = python("-m", "experiments.report", tmp_path)
    assert (code, "Traceback" in err) == (0, False), err
    assert "rope" in out
    assert (tmp_path / "report.md").read_text() == before
    assert (tmp_path / "accuracy_by_length.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("metric", ["token_accuracy", "loss"])
def test_a_report_can_be_on_another_metric(tmp_path, runs, capsys, monkeypatch, metric):
    run(tmp_path)
    before = (tmp_path / "report.md").read_text()
    monkeypatch.setattr(sys, "argv", ["report", str(tmp_path), f"--metric={metric}"])
    report.main()
    assert (tmp_path / f"{metric}_by_length.png").stat().st_size > 5000
    assert (tmp_path / "report.md").read_text() == before
    rows = load(tmp_path).query("metric == @metric and trained and encoding == 'rope'")
    shown = capsys.readouterr().out
    assert f"{rows['value'].mean():.2f}" in next(line for line in shown.splitlines() if line.startswith(" rope"))
    assert {"token_accuracy": "Token accuracy", "loss": "Loss"}[metric] + ": mean over" in shown


def test_a_report_on_nothing_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["report", str(tmp_path / "nothing")])
    with pytest.raises(SystemExit, match=r"error: there is no results folder .*nothing"):
        report.main()


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """What a command line comes to in this process: exit code and standard error. Nothing is trained."""
    monkeypatch.setattr(worker, "Trainer", None)
    monkeypatch.chdir(tmp_path)

    def outcome(*arguments):
        monkeypatch.setattr(sys, "argv", ["ablate", *arguments])
        sys.modules.pop("config_config", None)  # what ml_collections remembers of the file before
        with flagsaver.flagsaver(), pytest.raises(SystemExit) as ended:
            ablate.main(ablate.parse(sys.argv))
        return ended.value.code, capsys.readouterr().err

    return outcome


def test_any_field_is_an_axis_on_the_command_line():
    axes = ["encoding=rope", "encoding.rope.base=1e2,1e4", "train.learning_rate=1e-3,3e-3", "encoding.share=True,False"]
    config = quickstart.get_config()
    ablate.add_axes(config, [*axes, "task=parity"])
    cells = expand(config)
    rope, shared = [[c.config["encoding"][key] for c in cells] for key in ("options", "share")]
    said = [(o["rope"]["base"], c.train.learning_rate, s) for o, c, s in zip(rope, cells, shared, strict=True)]
    assert sorted(said) == sorted(itertools.product((1e2, 1e4), (1e-3, 3e-3), (True, False)))


MISTAKES = {
    "unknown section": ([CONFIG, "--config.modle.width=8"], ["modle", "model"]),
    "unknown field": ([CONFIG, "--config.model.widht=8"], ["widht", "width"]),
    "unknown axis": ([CONFIG, "--config.sweep.encodings=rope"], ["encodings", "encoding"]),
    "unknown flag": ([CONFIG, "--resutls=r"], ["resutls"]),
    "unknown encoding": ([CONFIG, *SWEEP, "--config.sweep.encoding=rope,roppe"], ["'roppe'", "'rope'", "Known:"]),
    "empty axis": ([CONFIG, *SWEEP, "--config.sweep.encoding="], ["sweep.encoding is empty", "at least one"]),
    "empty field": ([CONFIG, *SWEEP, "--sweep=train.steps="], ["sweep.train.steps is empty", "at least one"]),
    "axis without values": ([CONFIG, *SWEEP, "--sweep=train.steps"], ["--sweep=train.steps", "field and its values"]),
    "axis of no field": ([CONFIG, *SWEEP, "--sweep=train.stepps=2,3"], ["'train.stepps'", "'steps'"]),
    "axis twice": ([CONFIG, *SWEEP, "--sweep=model.depth=1", "--sweep=model.depth=2"], ["model.depth", "twice"]),
    "axis in two ways": ([CONFIG, *SWEEP, "--sweep=task=sort"], ["--sweep=task=sort", "twice"]),
    "axis of a section": ([CONFIG, *SWEEP, "--sweep=train=2,3"], ["train is a section", "one of its fields"]),
    "no number": ([CONFIG, "--config.seeds=abc"], ["--config.seeds", "abc"]),
    "no seeds": ([CONFIG, "--config.seeds=0"], ["seeds is 0", "from 1"]),
    "nan": ([CONFIG, *SWEEP, "--config.train.learning_rate=nan"], ["train.learning_rate is nan", "finite"]),
    "no boolean": ([CONFIG, "--config.task.end=perhaps"], ["--config.task.end", "perhaps"]),
    "no lengths": ([CONFIG, *SWEEP, "--config.evaluate.lengths=long"], ["evaluate.lengths is ('long',)", "a tuple"]),
    "wrong order": ([CONFIG, *SWEEP, "--config.evaluate.lengths=4,2"], ["evaluate.lengths is (4, 2)", "ascending"]),
    "stray word": ([CONFIG, "rope"], ["'rope'", "--config=FILE --results=DIR"]),
    "no such file": (["--config=missing.py"], ["missing.py", "config file"]),
    "no such file, with a field": (["--config=missing.py", "--config.seeds=2"], ["missing.py"]),
    "no config": ([], ["--config=FILE", "--results=DIR"]),
}


@pytest.mark.parametrize("arguments, words", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_ends_in_one_clear_line_and_nothing_written(command, tmp_path, arguments, words):
    code, err = command("--results=results", *arguments)
    assert (code, err.count("\n"), err.startswith("error: ")) == (2, 1, True), err
    assert not [word for word in words if word not in err], err
    assert not list(tmp_path.iterdir())


def test_a_command_with_no_results_folder_says_what_is_needed(command):
    assert command(CONFIG)[0] == 2
    assert "--results=DIR" in command(CONFIG)[1]


@pytest.mark.parametrize("results", ["file", "file/below"])
def test_a_file_in_place_of_the_results_folder_is_told_and_kept(command, tmp_path, results):
    (tmp_path / "file").write_text("mine")
    code, err = command(CONFIG, *SWEEP, f"--results={results}")
    assert (code, err.count("\n"), err.startswith("error: file")) == (2, 1, True), err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    "text, words",
    [
        ("", ["get_config"]),
        ("def get_config(:", ["config.py"]),
        ("def get_config():\n    return {}", ["get_config", "default_config"]),
        ("import ml_collections\ndef get_config():\n    return ml_collections.ConfigDict()", ["default_config"]),
    ],
    ids=["empty", "no Python", "another thing", "an empty config"],
)
def test_a_config_file_that_gives_no_config_is_told_in_one_line(command, tmp_path, text, words):
    (tmp_path / "config.py").write_text(text)
    code, err = command("--config=config.py", "--results=results")
    assert (code, err.count("\n"), err.startswith("error: ")) == (2, 1, True), err
    assert not [word for word in words if word not in err], err
    assert not (tmp_path / "results").exists()


def test_a_mistake_ends_the_process_without_a_traceback(tmp_path):
    arguments = [CONFIG, *SWEEP, "--config.sweep.task=sorrt", f"--results={tmp_path / 'r'}"]
    code, out, err = python("-m", "experiments.ablate", *arguments)
    assert (code, out, "Traceback" in err) == (2, "", False)
    assert err.splitlines()[-1].startswith("error: ")
    assert "Did you mean 'sort'?" in err
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    "text, values",
    [
        ("a,b", ("a", "b")),
        ("rope", ("rope",)),
        (" rope , t5 ", ("rope", "t5")),
        ("('rope', 't5')", ("rope", "t5")),
        ("(1,2)", (1, 2)),
        ("(1, 2)", (1, 2)),
        ("1", (1,)),
        ("(1,)", (1,)),
        ("0.5,1e-3", (0.5, 0.001)),
        ("True,False", (True, False)),
        ("none", ("none",)),
        ("", ()),
        ("()", ()),
    ],
)
def test_tuples_on_the_command_line(text, values):
    assert TupleParser().parse(text) == values
    assert list(map(type, TupleParser().parse(text))) == list(map(type, values))


def flattened(config, prefix=""):
    """The fields of a config by their paths."""
    for name, value in config.items():
        if isinstance(value, ConfigDict):
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def another(path, value):
    """A value of the same kind that is not the one given."""
    section, *names = path.split(".")
    cls = SECTIONS.get(section) or TABLES.get(section, {}).get(names[0] if names else "")
    kind = typing.get_type_hints(cls.__init__).get(names[-1]) if cls else None
    if typing.get_origin(kind) is Literal:
        return next(choice for choice in typing.get_args(kind) if choice != value)
    if path == "encoding.share":
        return True
    if isinstance(value, tuple) or value is None:
        return ("a", "b")
    return (not value) if isinstance(value, bool) else f"{value}x" if isinstance(value, str) else value * 2 + 1


def test_every_field_of_a_config_can_be_set_on_the_command_line(tmp_path, monkeypatch):
    path = tmp_path / "config.py"
    path.write_text("from experiments.config import default_config\nget_config = default_config\n")
    wanted = {path: another(path, value) for path, value in flattened(default_config())}
    assert {"encoding.rope.base", "positions.test", "task.end", "seeds", "sweep.task", "model.norm"} <= set(wanted)
    given = {path: ",".join(value) if isinstance(value, tuple) else value for path, value in wanted.items()}
    argv = ["ablate", f"--config={path}", *(f"--config.{path}={value}" for path, value in given.items())]
    monkeypatch.setattr(sys, "argv", argv)
    with flagsaver.flagsaver():
        assert ablate.parse(argv) == ["ablate"]
        assert dict(flattened(ablate.CONFIG.value)) == wanted
