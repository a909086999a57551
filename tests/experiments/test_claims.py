"""One process at a time works on a cell, and one that is gone keeps nobody waiting."""

import json
import os
import subprocess
import sys
import time

import pytest

from experiments import claims
from experiments.claims import Claim, holder


@pytest.fixture
def strangers(monkeypatch):
    """Claims look as if they came from another machine: only their age tells whether anybody is there."""
    here = claims.process()
    monkeypatch.setattr(claims, "process", lambda: here | {"host": "elsewhere"})
    yield
    monkeypatch.undo()


def age(claim, seconds):
    past = time.time() - seconds
    os.utime(claim.path, (past, past))


def test_a_cell_is_taken_once_and_again_when_it_is_given_back(tmp_path):
    first = Claim.take(tmp_path)
    assert first.held()
    assert Claim.take(tmp_path) is None
    assert holder(tmp_path)["process"] == os.getpid()
    first.release()
    assert holder(tmp_path) is None
    assert not list(tmp_path.iterdir())
    with Claim.take(tmp_path) as second:
        assert second.held()
        assert not first.held()
    assert not second.held()


def test_what_is_touched_all_the_time_is_kept(tmp_path):
    with Claim.take(tmp_path, lease=2.0) as claim:
        for _ in range(30):
            time.sleep(0.1)
            assert Claim.take(tmp_path, lease=2.0) is None
        assert claim.held()


def test_what_nobody_touches_is_taken_over_by_one_and_the_old_one_knows(tmp_path, strangers):
    old = Claim.take(tmp_path)
    age(old, claims.LEASE - 10)
    assert Claim.take(tmp_path) is None
    age(old, claims.LEASE + 10)
    new = Claim.take(tmp_path)
    assert (old.held(), new.held()) == (False, True)
    assert Claim.take(tmp_path) is None
    old.release()  # it gives back what is not its own
    assert new.held()
    new.release()


def test_a_number_that_is_used_again_is_not_the_old_one(tmp_path, strangers):
    old = Claim.take(tmp_path)
    age(old, claims.LEASE + 10)
    Claim.take(tmp_path).release()
    third = Claim.take(tmp_path)
    assert third.path == old.path
    assert (old.held(), third.held()) == (False, True)


def test_the_claim_of_a_process_that_has_ended_is_free_at_once(tmp_path):
    code = f"""
import os
from pathlib import Path
from experiments.claims import Claim

Claim.take(Path({str(tmp_path)!r}))
os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 9
    assert [path.name for path in (tmp_path / "claims").iterdir()] == ["000001"]
    assert holder(tmp_path) is None
    with Claim.take(tmp_path) as claim:
        assert claim.path.name == "000002"


def test_another_process_under_the_number_of_the_old_one_does_not_count(tmp_path):
    claim = Claim.take(tmp_path)
    claim.over.set()
    claim.path.write_text(json.dumps(claim.content | {"since": "1"}))
    assert Claim.take(tmp_path) is not None


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff"])
def test_a_damaged_claim_counts_until_it_is_old(tmp_path, damage):
    claim = Claim.take(tmp_path)
    claim.over.set()
    claim.path.write_bytes(damage)
    assert Claim.take(tmp_path) is None
    age(claim, claims.LEASE + 10)
    assert Claim.take(tmp_path) is not None


MANY = """
import sys, time
from pathlib import Path
from experiments.claims import Claim

folder, me, others = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def meet(what):
    (folder / f"{what} {me}").touch()
    while len(list(folder.glob(f"{what} *"))) < others:
        time.sleep(0.01)

meet("here")
for cell in range(40):
    claim = Claim.take(folder / str(cell))
    if claim is not None:
        with (folder / f"{cell}.txt").open("a") as file:
            file.write("x")
meet("through")  # who has ended holds nothing any more
"""


def test_of_many_that_want_a_cell_at_once_one_gets_it(tmp_path):
    command = [sys.executable, "-c", MANY, str(tmp_path)]
    workers = [subprocess.Popen([*command, str(number), "4"]) for number in range(4)]
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0, 0, 0]
    assert [(tmp_path / f"{cell}.txt").read_text() for cell in range(40)] == ["x"] * 40
