"""What is told of a sweep that runs, here or elsewhere."""

import io
import sys

import pytest
from rich.console import Console

from experiments import status
from experiments.checkpoints import Checkpoints
from experiments.claims import Claim
from experiments.results import CellFolder
from tests.experiments.test_results import finish, make_cell

NAMES = ("none", "rope", "alibi", "t5", "shaw", "fire")


@pytest.fixture
def sweep(tmp_path):
    """A folder with a cell in each state; of two seeds each."""
    cells = {name: make_cell(encoding__name=name) for name in NAMES}
    status.ask(tmp_path, cells.values(), 2)
    finish(tmp_path, cells["none"], [0, 1], diverged={1: 3})
    finish(tmp_path, cells["rope"], [0])
    claim = Claim.take(tmp_path / cells["rope"].name)
    failed = CellFolder(tmp_path, cells["alibi"])
    failed.start()
    failed.fail([0, 1], "Traceback: out of memory")
    damaged = finish(tmp_path, cells["t5"], [0, 1])
    (damaged.path / "seeds-0-1" / "status.json").write_text("{}")
    stopped = CellFolder(tmp_path, cells["shaw"])
    stopped.start()
    (stopped.path / "checkpoints" / "seeds-0-1" / "000000002").mkdir(parents=True)
    yield tmp_path
    claim.release()


def states(folder):
    found = [status.standing(folder, name, wanted) for name, wanted in status.asked(folder).items()]
    return {one.what.split()[0].split("-")[0]: one for one in found}


def test_each_cell_is_told_as_it_stands(sweep):
    found = states(sweep)
    assert {name: one.state for name, one in found.items()} == {
        "none": "done", "rope": "running", "alibi": "failed", "t5": "damaged", "shaw": "left", "fire": "left",
    }  # fmt: skip
    assert [(found[name].seeds, found[name].wanted) for name in NAMES[:3]] == [(2, 2), (1, 2), (0, 2)]
    assert found["none"].told == "1 diverged"
    assert "process" in found["rope"].told
    assert found["alibi"].told.endswith("failure.txt")
    assert "status.json is damaged" in found["t5"].told
    assert found["shaw"].told == "step 2/4 is saved"
    assert found["fire"].name == make_cell(encoding__name="fire").name


def test_the_time_to_the_end_is_that_of_the_seeds_that_are_left(sweep):
    # 3 seeds took 1.5 s a block; rope lacks one seed, shaw and fire two each, and one process runs.
    assert status.seconds_left(list(states(sweep).values())) == pytest.approx(5 * 3.0 / 3)
    assert status.seconds_left([one for one in states(sweep).values() if not one.seeds]) is None


def test_a_larger_sweep_wants_more_and_the_same_again_nothing(sweep):
    status.ask(sweep, [make_cell(encoding__name="none")], 2)
    assert states(sweep)["none"].state == "done"
    status.ask(sweep, [make_cell(encoding__name="none")], 5)
    status.ask(sweep, [make_cell(encoding__name="none")], 5)
    assert (states(sweep)["none"].state, states(sweep)["none"].wanted) == ("left", 5)
    assert len(list((sweep / "asked").iterdir())) == 3


def test_the_command_tells_and_its_exit_status_says_whether_something_failed(sweep, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["status", str(sweep)])
    with pytest.raises(SystemExit) as ended:
        status.main()
    assert ended.value.code == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "6 cells: 1 done, 1 running, 1 failed, 1 damaged, 2 left, about 5 s to the end." in shown


def test_a_folder_that_is_done_takes_one_line(tmp_path, monkeypatch, capsys):
    finish(tmp_path, make_cell(), [0])
    monkeypatch.setattr(sys, "argv", ["status", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        status.main()
    assert (ended.value.code, capsys.readouterr().out) == (0, "1 cells: 1 done.\n")
    monkeypatch.setattr(sys, "argv", ["status", str(tmp_path / "nothing")])
    with pytest.raises(SystemExit, match="there is no results folder"):
        status.main()


def test_reading_changes_nothing(sweep):
    before = {path: path.read_bytes() for path in sweep.rglob("*") if path.is_file()}
    status.show(list(states(sweep).values()), Console(file=io.StringIO()))
    assert {path: path.read_bytes() for path in sweep.rglob("*") if path.is_file()} == before
    assert Checkpoints(sweep / "nothing").steps() == []
