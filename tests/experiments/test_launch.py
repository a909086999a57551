"""Many processes and one folder: each cell once, whoever dies."""

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console

from experiments import launch
from experiments.claims import alive, read
from experiments.results import load
from experiments.stopping import Stop, Stopped
from tests.experiments.test_command_line import CONFIG, FLAGS, ROOT, rows_in

SWEEP = [*FLAGS, "--config.sweep.encoding=rope,none,alibi", "--config.sweep.task=parity", "--config.seeds=1"]


def started(folder, *more, **environment):
    """A sweep in a process of its own."""
    quick = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(
        [sys.executable, "-m", "experiments.ablate", CONFIG, *SWEEP, f"--results={folder}", *more],
        cwd=ROOT, env=os.environ | quick | environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    return dict(JAX_COMPILATION_CACHE_DIR=str(folder), JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0")


def test_two_workers_give_the_rows_of_one_and_run_each_cell_once(tmp_path, cache):
    core = str(min(os.sched_getaffinity(0)))  # the same number of cores for all: it counts for the bits
    one = started(tmp_path / "one", f"--cores={core}", **cache)
    shown, _ = one.communicate(timeout=200)
    assert one.returncode == 0, shown
    two = started(tmp_path / "two", "--workers=2", f"--cores={core}", **cache)
    shown, _ = two.communicate(timeout=200)
    assert two.returncode == 0, shown
    assert rows_in(tmp_path / "one") == rows_in(tmp_path / "two")
    assert shown.count("exact match 0.") == 3, shown
    assert {line[:9] for line in shown.splitlines() if "exact match 0." in line} <= {"worker 0:", "worker 1:"}
    assert "3 cells, 0 of them done" in shown
    assert (tmp_path / "two" / "report.md").exists()
    assert not list(tmp_path.rglob("claims"))


def test_workers_end_with_the_process_that_started_them_and_no_cell_has_failed(tmp_path, cache):
    running = started(tmp_path, "--workers=2", "--config.train.steps=300", "--config.seeds=2", **cache)
    claims = until(lambda: [claim for claim in map(read, tmp_path.glob("*/claims/0*")) if claim])
    running.kill()
    running.communicate()
    until(lambda: not any(alive(claim["process"], claim["since"]) for claim in claims))
    assert not list(tmp_path.glob("*/failure.txt"))
    again = started(tmp_path, "--config.train.steps=300", "--config.seeds=2", **cache)
    shown, _ = again.communicate(timeout=200)
    assert again.returncode == 0, shown
    assert load(tmp_path)["cell"].nunique() == 3


def until(true, seconds=60):
    """Waits for something, and gives it."""
    end = time.monotonic() + seconds
    while not (what := true()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return what


def test_the_lines_for_a_shell_run_one_cell_each(tmp_path, cache):
    told = started(tmp_path, "--launcher=print")
    lines = told.communicate(timeout=100)[0].splitlines()
    assert (told.returncode, len(lines)) == (0, 3)
    assert not list(tmp_path.iterdir())
    words = shlex.split(lines[1])
    assert words[:3] == ["python", "-m", "experiments.ablate"]
    assert not [word for word in words if "launcher" in word]
    only = words[-1].removeprefix("--only=")
    ran = started(tmp_path, words[-1], **cache)
    assert (ran.communicate(timeout=200), ran.returncode)[1] == 0
    assert set(load(tmp_path)["cell"]) == {only}
    wrong = started(tmp_path, "--only=rope-parity-0")
    assert "error: --only=rope-parity-0: the sweep has no such cell. Did you mean" in wrong.communicate(timeout=100)[0]
    assert wrong.returncode == 2


@pytest.mark.parametrize(
    "arguments, kept",
    [
        (["--config=a", "--workers=2"], ["--config=a"]),
        (["--workers", "2", "--config=a"], ["--config=a"]),
        (["-workers=2", "--launcher", "print", "--config.model.workers=3"], ["--config.model.workers=3"]),
        (["--results=r", "--retry=failed"], ["--results=r", "--retry=failed"]),
    ],
)
def test_workers_get_the_command_line_but_for_who_runs(arguments, kept):
    assert launch.passed_on(arguments) == kept


def test_cores_are_shared_out_and_nobody_goes_without(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 4, 5, 7, 9}, raising=False)
    assert launch.shares(2) == [[3, 5, 9], [4, 7]]
    assert launch.shares(7) == [[3], [4], [5], [7], [9], [3], [4]]


def test_each_worker_has_a_gpu_or_its_share_of_one(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    names = [launch.surroundings(worker, 2)["CUDA_VISIBLE_DEVICES"] for worker in range(2)]
    assert names == ["2", "5"]
    assert launch.surroundings(3, 4)["CUDA_VISIBLE_DEVICES"] == "5"
    assert float(launch.surroundings(3, 4)["XLA_PYTHON_CLIENT_MEM_FRACTION"]) == 0.45
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in launch.surroundings(0, 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert launch.surroundings(0, 2) == dict(os.environ)


WORKER = """
import json, os, signal, sys, time
from pathlib import Path
folder = Path({folder!r})
mode = (folder / "mode").read_text()
if mode == "stay":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit((folder / f"{{os.getpid()}}.told").write_text("")))
(folder / str(os.getpid())).write_text(json.dumps(sys.argv[1:]))
print("hello")
if mode == "die" and len(list(folder.iterdir())) < 4:
    os.kill(os.getpid(), signal.SIGKILL)
if mode == "stay":
    time.sleep(60)
"""


@pytest.fixture
def pool(tmp_path, monkeypatch):
    """A pool of two whose workers do nothing but write down their arguments; and what it showed."""

    def make(mode):
        (tmp_path / "mode").write_text(mode)
        monkeypatch.setattr(launch, "COMMAND", (sys.executable, "-c", WORKER.format(folder=str(tmp_path))))
        shown = io.StringIO()
        return launch.Pool(["--config=a", "--workers=2"], 2, Console(file=shown, width=200)), shown

    return make


def test_a_worker_that_dies_is_started_again(pool, tmp_path):
    one, shown = pool("die")
    one.run(Stop())
    asked = [json.loads(path.read_text()) for path in tmp_path.iterdir() if path.name.isdigit()]
    assert len(asked) == 2 + shown.getvalue().count("was ended by signal 9; another takes its place")
    assert len(asked) > 2
    assert {words[1] for words in asked} == {"--worker=0", "--worker=1"}
    assert all(words[0] == "--config=a" for words in asked)


def test_workers_are_told_to_stop_and_waited_for(pool, tmp_path):
    one, _ = pool("stay")
    stop = Stop()
    looked = one.look

    def look():
        looked()
        if len([path for path in tmp_path.iterdir() if path.name.isdigit()]) == 2:
            stop.hear(signal.SIGTERM, None)

    one.look = look
    with pytest.raises(Stopped):
        one.run(stop)
    assert len(list(tmp_path.glob("*.told"))) == 2
