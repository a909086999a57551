"""What becomes of a sweep when something goes wrong: each drill does it for real, and prints its figure.

    python -m experiments.drills                       all of them, about a quarter of an hour on two cores
    python -m experiments.drills kill --times=10       one of them, shorter

Sweeps run in processes of their own, on cells that train for a moment. What comes of them is compared with a sweep that
nobody disturbed: rows, learning curves and the digests of parameters, to the last bit. The exit status is 1 if anything
is not as it should be.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from experiments.config import expand
from experiments.environment import cores
from experiments.results import CellFolder

CONFIG = """
from experiments.config import default_config

def get_config():
    config = default_config()
    config.update_from_flattened_dict({settings!r})
    {sweep}
    return config
"""
SETTINGS = {
    "task.name": "parity", "seeds": 2, "model.width": 16, "model.depth": 1, "model.heads": 2,
    "train.steps": 400, "train.batch": 8, "train.max_length": 4, "train.warmup": 1, "train.buckets": 1,
    "evaluate.lengths": (2, 4), "evaluate.examples": 16, "evaluate.batch": 16,
}  # fmt: skip
SIX = 'config.sweep.encoding = ("none", "rope", "alibi", "t5", "shaw", "fire")'
MANY = 'config.sweep["train.learning_rate"] = tuple(1e-3 + 1e-5 * i for i in range({cells}))'


class Figure(NamedTuple):
    """What came of a drill."""

    drill: str
    figure: str
    fine: bool


class Ground:
    """A folder for drills.

    Args:
        path: where; it is empty.
    """

    def __init__(self, path: Path):
        self.path = path
        self.environment = os.environ | {
            "JAX_COMPILATION_CACHE_DIR": str(path / "cache"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(Path(__file__).parents[1]),
        }  # fmt: skip

    def config(self, name: str, sweep: str, **settings: object) -> Path:
        """A config file."""
        path = self.path / f"{name}.py"
        values = SETTINGS | {key.replace("__", "."): value for key, value in settings.items()}
        path.write_text(CONFIG.format(settings=values, sweep=sweep))
        return path

    def start(self, config: Path, folder: Path, *more: str) -> subprocess.Popen:
        """A sweep in a process of its own."""
        command = [sys.executable, "-m", "experiments.ablate", f"--config={config}", f"--results={folder}", *more]
        told = (self.path / "told.txt").open("a")
        with told:
            return subprocess.Popen(command, env=self.environment, stdout=told, stderr=told)  # noqa: S603

    def told(self) -> str:
        """What all sweeps have said so far."""
        return (self.path / "told.txt").read_text()


class Found(NamedTuple):
    """What is published in a results folder: every row as often as it stands there, curves, digests of parameters."""

    rows: list[str]
    curves: list[str]
    numbers: list[str]


def found(folder: Path) -> Found:
    """What is published of the cells that were asked for."""
    rows, curves, numbers = [], [], []
    for path in sorted(folder.glob("*/seeds-*")):
        rows += (path / "rows.jsonl").read_text().splitlines()
        curves += (path / "training.jsonl").read_text().splitlines()
        numbers += [json.loads((path / "status.json").read_text())["numbers"]]
    return Found(rows, curves, numbers)


def compared(whole: Found, other: Found) -> tuple[str, bool]:
    """How a disturbed sweep differs from one that was not."""
    lost, doubled = len(set(whole.rows) - set(other.rows)), len(other.rows) - len(set(other.rows))
    changed = sum(one != another for one, another in zip(whole.numbers, other.numbers, strict=False))
    same = whole == other
    return f"{lost} of {len(whole.rows)} rows lost, {doubled} doubled, {changed} digests changed", same


def undisturbed(ground: Ground, config: Path, *more: str) -> tuple[Found, float]:
    """What a sweep gives, and how long it takes once its programs are in the cache."""
    for name in ("first", "whole"):  # what is compiled for the first is there for the second
        began = time.monotonic()
        code = ground.start(config, ground.path / f"{config.stem} {name}", *more).wait()
        if code:
            raise RuntimeError(f"the undisturbed sweep ended with {code}: {ground.told()[-2000:]}")
    return found(ground.path / f"{config.stem} whole"), time.monotonic() - began


def kill(ground: Ground, times: int) -> Figure:
    """A sweep is killed at random moments, and the same command is given again, until it comes to its end."""
    config, folder = ground.config("kill", SIX), ground.path / "killed"
    whole, seconds = undisturbed(ground, config, "--checkpoint_every=0")
    chance, killed, sweeps = random.Random(0), 0, [folder]  # noqa: S311
    while killed < times or len(found(sweeps[-1]).numbers) < len(whole.numbers):
        if len(found(sweeps[-1]).numbers) == len(whole.numbers):
            sweeps += [ground.path / f"killed {len(sweeps)}"]
        running = ground.start(config, sweeps[-1], "--checkpoint_every=0")
        try:
            code = running.wait(chance.uniform(0.2, 0.8) * seconds if killed < times else None)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
            killed, code = killed + 1, 0
        if code:
            return Figure("kill -9", f"after {killed} kills the sweep ended with {code}", False)
    each = [compared(whole, found(one)) for one in sweeps]
    resumed = ground.told().count("goes on at step")
    told = f"{killed} kills of {len(sweeps)} sweeps, {resumed} times training went on from a checkpoint: "
    return Figure("kill -9", told + "; ".join(sorted({text for text, _ in each})), all(same for _, same in each))


def sigterm(ground: Ground, times: int) -> Figure:
    """A sweep is told to stop at random moments."""
    config, folder = ground.config("stop", SIX, train__steps=4000), ground.path / "stopped"
    whole, seconds = undisturbed(ground, config)
    chance, codes, took = random.Random(1), [], []  # noqa: S311
    while len(codes) < times:
        running = ground.start(config, folder)
        try:
            running.wait(chance.uniform(0.2, 0.8) * seconds)
            folder = ground.path / f"stopped {time.monotonic()}"  # it came to its end too early
        except subprocess.TimeoutExpired:
            began = time.monotonic()
            running.terminate()
            codes += [running.wait()]
            took += [time.monotonic() - began]
    ground.start(config, folder).wait()
    figure, same = compared(whole, found(folder))
    fine = same and set(codes) <= {143, -signal.SIGTERM} and max(took) < 30
    told = f"{times} times, exit codes {sorted(set(codes))}, within {max(took):.1f} s at most: {figure}"
    return Figure("SIGTERM", told, fine)


def workers(ground: Ground, times: int) -> Figure:
    """Eight workers share tiny cells; three of them are killed in the midst."""
    cells = 4 * times
    config = ground.config("many", MANY.format(cells=cells), train__steps=20, seeds=1)
    folder = ground.path / "many"
    running, chance, killed = ground.start(config, folder, "--workers=8"), random.Random(2), 0  # noqa: S311
    while running.poll() is None:
        time.sleep(0.2)
        done = len(list(folder.glob("*/seeds-*")))
        if killed < 3 and done > cells // 8 * (killed + 1) and (victims := children(running.pid)):
            os.kill(chance.choice(victims), signal.SIGKILL)
            killed += 1
    rows = found(folder).rows
    each = [(row["cell"], row["length"], row["metric"]) for row in map(json.loads, rows)]
    ran = ground.told().count("] none on parity: exact match")
    fine = running.returncode == 0 and len(each) == len(set(each)) == cells * 6 and ran == cells and killed == 3
    told = f"{cells} cells, {killed} of 8 workers killed: {len(set(each))} of {cells * 6} rows, "
    return Figure("workers", told + f"{len(each) - len(set(each))} doubled, {ran} cells finished once", fine)


def requeue(ground: Ground, times: int) -> Figure:
    """Twenty cells run in jobs of a real Slurm, and one job is queued again in the midst."""
    if shutil.which("scontrol") is None:
        return Figure("Slurm", "there is no Slurm here", True)
    cells = 20 * times
    config, folder = ground.config("jobs", MANY.format(cells=cells), train__steps=2000), ground.path / "jobs"
    whole, _ = undisturbed(ground, config)
    ground.start(config, folder, "--launcher=slurm", "--config.cluster.jobs=2").wait()
    job = ask_slurm("squeue", "--noheader", "--array", "--format=%i").split()[0]
    until(lambda: len(found(folder).numbers) >= cells // 4)
    ask_slurm("scontrol", "requeue", job)
    until(lambda: len(found(folder).numbers) == cells)
    again = re.findall(r"Restarts=(\d+)", ask_slurm("scontrol", "show", "job", job))
    figure, same = compared(whole, found(folder))
    ask_slurm("scancel", job)
    return Figure("Slurm", f"{cells} cells, job {job} started again {again[0]} time: {figure}", same and again == ["1"])


def ask_slurm(*command: str) -> str:
    """What a command of Slurm says."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603


def until(true: Callable[[], bool], seconds: float = 1800) -> None:
    """Waits for something.

    Raises:
        TimeoutError: it does not come.
    """
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"nothing has come of it in {seconds} s.")
        time.sleep(0.5)


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    listed = Path(f"/proc/{process}/task/{process}/children")
    return list(map(int, listed.read_text().split())) if listed.exists() else []


def nan(ground: Ground, times: int) -> Figure:
    """One cell of a sweep gets a learning rate at which nothing can be learnt."""
    sweep = 'config.sweep["train.learning_rate"] = (1e-3, 1e38)'
    config, folder = ground.config("nan", sweep, train__weight_decay=1.0, encoding__name="rope"), ground.path / "nan"
    code = ground.start(config, folder).wait()
    rows = [json.loads(row) for row in found(folder).rows]
    away = {row["cell"] for row in rows if row["diverged"] is not None}
    states = [json.loads(path.read_text())["status"] for path in folder.glob("*/seeds-*/status.json")]
    named = "runs diverged" in (folder / "report.md").read_text()
    fine = (code, sorted(states), len(away), named) == (0, ["diverged", "done"], 1, True)
    return Figure("NaN", f"{len(states)} cells, {sorted(states)}; the report names them: {named}", fine)


def full(ground: Ground, times: int) -> Figure:
    """The disk is full at several points of a sweep; then there is room again."""
    config, folder = ground.config("full", SIX), ground.path / "small"
    whole, _ = undisturbed(ground, config, "--checkpoint_every=0")
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:  # noqa: S603
        return Figure("disk full", "a small file system needs root and the right to mount", True)
    codes, right = [], []
    try:
        for size in ("16k", "100k", "300k", "500k", "700k", "32m"):
            subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)  # noqa: S603, S607
            codes += [ground.start(config, folder / "results", "--checkpoint_every=0", "--retry=failed").wait()]
            right += [(codes[-1] == 0) == (found(folder / "results") == whole)]
        figure, same = compared(whole, found(folder / "results"))
    finally:
        subprocess.run(["umount", str(folder)], check=True)  # noqa: S603, S607
    told = f"{len(codes) - codes.count(0)} times, exit codes {codes}; with room again {figure}"
    return Figure("disk full", told, same and all(right) and codes[0] != 0)


def damage(ground: Ground, times: int) -> Figure:
    """A bit is flipped, or the end cut off, in each file of a finished cell; is it noticed when all of it is read?"""
    config, folder = ground.config("damage", "", encoding__name="t5"), ground.path / "damage"
    ground.start(config, folder).wait()
    namespace: dict = {}
    exec(compile(config.read_text(), str(config), "exec"), namespace)  # noqa: S102
    (cell,) = expand(namespace["get_config"]())
    one, chance = CellFolder(folder, cell), random.Random(3)  # noqa: S311
    whole, noticed, harmless, silent = read(one), 0, 0, 0
    for path in sorted(path for path in one.path.rglob("*") if path.is_file() and path.stat().st_size):
        before = path.read_bytes()
        for number in range(times):
            place = chance.randrange(len(before))
            flipped = before[:place] + bytes([before[place] ^ 1 << chance.randrange(8)]) + before[place + 1 :]
            path.write_bytes(flipped if number % 2 else before[:place])
            after = read(one)
            noticed, harmless = noticed + (after is None), harmless + (after == whole)
            silent += after is not None and after != whole
        path.write_bytes(before)
    told = f"{noticed} noticed, {harmless} without effect, {silent} silent, of {noticed + harmless + silent}"
    return Figure("bits", told, silent == 0 and noticed > 0)


def read(one: CellFolder) -> tuple | None:
    """All that a reader can get of a cell; None where it is told that something is damaged."""
    try:
        one.check()
        return one.rows(), one.training(), [[*block.status()["seeds"]] for block in one.blocks()], numbers(one)
    except ValueError:
        return None


def numbers(one: CellFolder) -> list[bytes]:
    """The bytes of the parameters of all seeds."""
    import jax
    import numpy as np

    return [np.asarray(leaf).tobytes() for seed in one.done() for leaf in jax.tree.leaves(one.parameters(seed))]


DRILLS: dict[str, tuple[Callable[[Ground, int], Figure], int]] = {
    "kill": (kill, 50),
    "sigterm": (sigterm, 5),
    "workers": (workers, 50),
    "slurm": (requeue, 1),
    "nan": (nan, 1),
    "full": (full, 1),
    "damage": (damage, 10),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Does to sweeps what happens to them, and tells what came of it.")
    parser.add_argument("drills", nargs="*", choices=[[], *DRILLS], help="which; all of them unless named")
    parser.add_argument("--times", type=int, help="how often, in place of each drill's own number")
    given, console, fine = parser.parse_args(), Console(), True
    table = Table("drill", "what came of it", "", show_edge=False)
    for name in given.drills or DRILLS:
        drill, times = DRILLS[name]
        with tempfile.TemporaryDirectory() as folder:
            figure = drill(Ground(Path(folder)), given.times or times)
        table.add_row(figure.drill, figure.figure, "as it should be" if figure.fine else "NOT as it should be")
        console.print(f"{figure.drill}: {figure.figure}", highlight=False)
        fine = fine and figure.fine
    console.print(table)
    console.print(f"on {cores()} cores.", highlight=False)
    sys.exit(not fine)


if __name__ == "__main__":
    main()
