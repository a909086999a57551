"""A worker loses nothing, whatever happens to it or to the cells it runs."""

import io
import json
import os
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from absl.testing import flagsaver
from flax import nnx
from rich.console import Console

from experiments import ablate, worker
from experiments.ablate import execute, plan
from experiments.claims import Claim
from experiments.files import read_lines
from experiments.results import CellFolder, load
from experiments.stopping import Stop, Stopped
from experiments.train import Trainer
from tests.experiments.test_command_line import ROOT, config_of, rows_in
from tests.experiments.test_command_line import runs as runs  # a fixture


def told(folder):
    """All that is published of some cells, but for the time it took."""
    cells = [CellFolder(folder, one.cell) for one, _ in plan(config_of(), folder).asked]
    statuses = [block.status() for cell in cells for block in cell.blocks()]
    return rows_in(folder), [cell.training() for cell in cells], [status["numbers"] for status in statuses]


def run(folder, stop=None, retry=False, every=1e9, **asked):
    """Runs a sweep in this process: the folders of failed cells, and what it showed."""
    shown = io.StringIO()
    failed = execute(
        plan(config_of(**asked), folder, retry), folder, Console(file=shown, width=200), stop or Stop(), every
    )
    return failed, shown.getvalue()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    run(folder)
    return told(folder)


# Reading a config file, ml_collections uses what Python will not have for ever.
pytestmark = pytest.mark.filterwarnings("ignore:the load_module:DeprecationWarning")


class Interrupted(Trainer):
    """Somebody wants the process to end while the steps before `at` run."""

    stop, at = None, 2

    def proceed(self, states, seeds, start, stop):
        if stop >= self.at and self.stop is not None:
            type(self).stop, told = None, self.stop
            told.hear(signal.SIGTERM, None)
        return super().proceed(states, seeds, start, stop)


def test_a_sweep_that_is_stopped_in_the_midst_of_training_goes_on_to_the_same_bits(tmp_path, undisturbed, monkeypatch):
    stop = Stop()
    monkeypatch.setattr(worker, "Trainer", Interrupted)
    monkeypatch.setattr(Interrupted, "stop", stop)
    with pytest.raises(Stopped) as stopped:
        run(tmp_path, stop)
    assert stopped.value.code == 143
    assert [path.name for path in tmp_path.glob("rope-*/checkpoints/seeds-0-1/*")] == ["000000002"]
    assert not list(tmp_path.glob("*/claims"))
    begun = []
    monkeypatch.setattr(Trainer, "init", lambda self, seeds, init=Trainer.init: begun.append(self) or init(self, seeds))
    _, shown = run(tmp_path)
    assert "rope on parity: goes on at step 2" in shown
    assert not list(tmp_path.glob("*/checkpoints"))
    assert told(tmp_path) == undisturbed


def test_checkpoints_are_saved_by_the_clock(tmp_path, undisturbed, monkeypatch):
    saved = []
    monkeypatch.setattr(worker.Checkpoints, "save", lambda self, progress: saved.append(progress.step))
    run(tmp_path / "always", every=0.0)
    assert saved == [1, 2, 3] * 2
    del saved[:]
    run(tmp_path / "never")
    assert saved == []
    monkeypatch.setattr(worker, "WORTH", 0.0)  # what took long is kept while it is tested
    run(tmp_path / "before testing")
    assert saved == [3] * 2
    assert told(tmp_path / "always") == undisturbed


def test_a_cell_that_fails_stops_no_other_and_is_left_alone_until_asked_for(tmp_path, undisturbed, monkeypatch):
    class Broken(Trainer):
        def proceed(self, states, seeds, start, stop):
            if self.cell.config["encoding"]["name"] == "rope":
                raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1e12 bytes")
            return super().proceed(states, seeds, start, stop)

    with monkeypatch.context() as patch:
        patch.setattr(worker, "Trainer", Broken)
        (failed,), shown = run(tmp_path)
    assert failed.name.startswith("rope")
    assert "rope on parity: failed: JaxRuntimeError: RESOURCE_EXHAUSTED" in shown
    assert f"failed: {failed / 'failure.txt'}" in shown
    text = (failed / "failure.txt").read_text()
    assert all(word in text for word in ("seeds-0-1", "Traceback", "in proceed", "RESOURCE_EXHAUSTED", "sources: "))
    assert set(load(tmp_path)["encoding"]) == {"none"}
    with monkeypatch.context() as patch:
        patch.setattr(worker, "Trainer", None)
        again, shown = run(tmp_path)
    assert (again, "2 cells, 1 of them done" in shown) == ([failed], True)
    assert (failed / "failure.txt").read_text() == text  # it was not tried
    assert run(tmp_path, retry=True)[0] == []
    assert not (failed / "failure.txt").exists()
    assert told(tmp_path) == undisturbed


def test_where_a_failure_cannot_be_written_down_it_is_told_all_the_same(tmp_path, undisturbed, monkeypatch):
    def no_room(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(CellFolder, "publish", no_room)
        patch.setattr(CellFolder, "fail", no_room)
        failed, shown = run(tmp_path)
    assert sorted(path.name.split("-")[0] for path in failed) == ["none", "rope"]
    assert shown.count("why it failed could not be written down: [Errno 28] No space left") == 2
    assert run(tmp_path)[0] == []  # it is simply tried again
    assert told(tmp_path) == undisturbed


def test_the_exit_status_tells_of_failed_cells(tmp_path, monkeypatch):
    monkeypatch.setattr(ablate, "plan", lambda *_: None)
    monkeypatch.setattr(ablate, "keep_programs", lambda: None)
    path = str(tmp_path / "config.py")
    for failed, code in (([tmp_path], 1), ([], 0)):
        monkeypatch.setattr(ablate, "execute", lambda *_, failed=failed: failed)
        (tmp_path / "config.py").write_text("from configs.quickstart import get_config")
        arguments = ["ablate", f"--config={path}", f"--results={tmp_path / 'r'}"]
        with flagsaver.flagsaver(), pytest.raises(SystemExit) as ended:
            ablate.main(ablate.parse(arguments))
        assert ended.value.code == code


class Diverging(Trainer):
    """The seeds of `away` get no numbers from step 1 on."""

    away = ()

    def proceed(self, states, seeds, start, stop):
        if start >= 1:
            gone = np.isin(seeds, self.away)
            broken = jax.tree.map(
                lambda x: np.where(gone.reshape(-1, *[1] * (x.ndim - 1)), np.nan, x).astype(x.dtype),
                nnx.to_pure_dict(states.parameters),
            )
            nnx.replace_by_pure_dict(states.parameters, broken)
        return super().proceed(states, seeds, start, stop)


@pytest.mark.parametrize("away", [(1,), (0, 1)])
def test_a_seed_that_diverges_is_told_and_counts_as_wrong(tmp_path, undisturbed, monkeypatch, away):
    monkeypatch.setattr(worker, "Trainer", Diverging)
    monkeypatch.setattr(Diverging, "away", away)
    failed, shown = run(tmp_path, encodings=("none",))
    assert failed == []
    assert f"seed {away[0]} diverged at step 1" in shown
    table = load(tmp_path)
    gone = table["seed"].isin(away)
    assert set(table.loc[gone, "diverged"]) == {1}
    assert (table.loc[gone & (table["metric"] == "exact_match"), "value"] == 0).all()
    assert table.loc[gone & (table["metric"] == "loss"), "value"].isna().all()
    assert table.loc[~gone, "diverged"].isna().all()
    (status,) = [json.loads(path.read_text())["status"] for path in tmp_path.glob("*/*/status.json")]
    assert status == ("diverged" if len(away) == 2 else "done")
    steps = {row["step"] for path in tmp_path.glob("*/*/training.jsonl") for row in read_lines(path)}
    assert steps == ({1, 2} if len(away) == 2 else {1, 2, 3})  # nothing is left to train


def test_two_sweeps_on_one_folder_share_the_cells(tmp_path, runs, monkeypatch):
    """The other one works on a cell; this one runs the rest, waits, and does not run that cell again."""
    first = plan(config_of(), tmp_path).missing[0][0]
    first.start()
    claim, wait = Claim.take(first.path), worker.View.wait

    def waiting(self, cells):
        wait(self, cells)
        with claim:
            worker.Worker(worker.View(Console(file=io.StringIO()), 1, 3), Stop()).run(first, [0, 1], claim)

    monkeypatch.setattr(worker.View, "wait", waiting)
    monkeypatch.setattr(worker, "POLL", 0.0)
    _, shown = run(tmp_path)
    assert "waiting for 1 cells that other processes run" in shown
    assert runs == [("none", [0, 1]), ("rope", [0, 1])]


def test_who_comes_too_late_publishes_nothing(tmp_path, runs, monkeypatch):
    monkeypatch.setattr(Claim, "held", lambda self: False)
    asked = plan(config_of(encodings=("rope",)), tmp_path)
    one = worker.Worker(worker.View(Console(file=io.StringIO()), 1, 3), Stop())
    one.attempt(*asked.missing[0])
    assert runs == [("rope", [0, 1])]
    assert asked.missing[0][0].done() == []


def test_signals_end_a_process_at_once_unless_it_asked_for_time():
    with pytest.raises(Stopped, match="SIGTERM"), Stop():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
    with Stop() as stop:
        with pytest.raises(Stopped) as stopped, stop.postponed():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
            assert stop.number == signal.SIGINT
        assert stopped.value.code == 130
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


COMPUTING = """
import hashlib, os, signal, threading, time
from experiments import stopping

stopping.GRACE = 0.5
with stopping.Stop() as stop:
    if {saving}:
        def save():
            with stop.saving:
                time.sleep(6)
                print("saved", flush=True)
        threading.Thread(target=save, daemon=True).start()
    threading.Timer(2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)  # minutes, and Python hears of nothing meanwhile
"""


@pytest.mark.parametrize("saving", [False, True])
def test_a_process_that_hears_nothing_is_ended_all_the_same_but_not_while_it_saves(saving):
    ended = subprocess.run(
        [sys.executable, "-c", COMPUTING.format(saving=saving)], capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (143, "saved\n" if saving else "", "")
