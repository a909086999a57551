"""What one process does: takes cells that nobody else works on, trains, tests and publishes them.

A cell that fails does not stop the others: why it failed stands in its folder, and it is left alone until somebody asks
for it again.
"""

import math
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from experiments import results
from experiments.cells import Cell
from experiments.checkpoints import Checkpoints, Progress
from experiments.claims import Claim
from experiments.cost import cost
from experiments.environment import code
from experiments.evaluate import BITS, evaluator_of
from experiments.progress import View
from experiments.results import CellFolder, Outcome
from experiments.stopping import Stop
from experiments.train import State, Trainer, chunks, told

Work = list[tuple[CellFolder, list[int]]]  # cells, each with the seeds that are wanted
EVERY = 120.0  # seconds between checkpoints
PIECE = 1.0  # seconds of training between two looks at the clock
WORTH = 10.0  # seconds of training that are kept while a cell is tested
LOST = 10  # processes that have ended without a word on a cell are enough
POLL = 2.0  # seconds between two looks at what others do


class Trained(NamedTuple):
    """What training gave: parameters with a leading axis of seeds, learning curves, which seeds diverged, seconds."""

    parameters: nnx.State
    training: list[dict[str, Any]]
    diverged: dict[int, int]
    seconds: float


class Worker:
    """One process.

    Args:
        view: where it shows what it does.
        stop: what tells it to stop.
        every: seconds between checkpoints.
        patience: seconds that it waits for cells that others run, lest they end before they are through.
    """

    def __init__(self, view: View, stop: Stop, every: float = EVERY, patience: float = math.inf):
        self.view, self.stop, self.every, self.patience = view, stop, every, patience
        self.failed: list[Path] = []  # folders of cells
        code()  # as it is now: somebody may edit it while cells run

    def work(self, wanted: Work) -> None:
        """Runs what is wanted, each cell by whoever takes it first, until all of it is done or has failed."""
        left, idle = list(wanted), time.monotonic()
        while left:
            waiting = [item for item in left if not self.attempt(*item)]
            if len(waiting) < len(left):
                left, idle = waiting, time.monotonic()
                continue
            if time.monotonic() - idle >= self.patience:
                return
            self.view.wait(len(left))
            time.sleep(POLL)

    def attempt(self, folder: CellFolder, seeds: list[int]) -> bool:
        """Runs a cell, unless somebody else is at it: False then, and True when there is nothing left to do."""
        missing = [seed for seed in seeds if seed not in folder.done()]
        if not missing or folder.failure():
            return True
        folder.start()
        reached = Checkpoints(folder.path / "checkpoints" / results.block(missing)).steps()
        claim = Claim.take(folder.path, max(reached, default=0))
        if claim is None:
            return False
        with claim:
            folder.tidy()
            missing = [seed for seed in seeds if seed not in folder.done()]
            if missing and not folder.failure():
                self.guarded(folder, missing, claim)
        return True

    def guarded(self, folder: CellFolder, seeds: list[int], claim: Claim) -> None:
        """Runs a cell; where it fails, writes down why."""
        try:
            if claim.lost >= LOST:
                raise RuntimeError(
                    f"{claim.lost} processes in a row have ended without a word while they ran it, and got no further: "
                    "perhaps they needed more memory than there is."
                )
            self.run(folder, seeds, claim)
        except BrokenPipeError:
            raise  # nobody listens any more: the cell has nothing to do with it
        except Exception as error:
            if not claim.held():
                return  # who has taken over has its folder too
            self.failed.append(folder.path)
            self.view.fail(folder.cell.train.steps, summary_of(error))
            try:
                folder.fail(seeds, "".join(traceback.format_exception(error)))
            except OSError as also:  # perhaps the disk is full: nothing keeps the cell from being tried again
                self.view.say(f"why it failed could not be written down: {also}")

    def run(self, folder: CellFolder, seeds: list[int], claim: Claim) -> None:
        """Trains and evaluates one cell with some seeds, in one program each, and publishes what came out."""
        cell = folder.cell
        self.view.start(f"{cell.label('encoding')} on {cell.label('task')}")
        checkpoints = Checkpoints(folder.path / "checkpoints" / results.block(seeds))
        twin = folder.twin(seeds)
        trained = self.train(cell, seeds, checkpoints) if twin is None else Trained(*twin.trained(seeds), 0.0)
        started, rows, price = time.monotonic(), [], cost(cell)
        for length, second, metrics in evaluator_of(cell)(trained.parameters):
            values = {name: np.asarray(value) for name, value in metrics.items()}
            rows += results.rows_of(cell, seeds, length, values, price, second)
        seconds = trained.seconds + time.monotonic() - started
        trained_in = (twin or folder).path.name
        outcome = Outcome(
            seeds, rows, trained.training, trained.parameters, price, seconds, trained_in, trained.diverged
        )
        if not claim.held():
            return  # another process has taken over, and will publish the same
        folder.publish(outcome)
        checkpoints.clear()
        self.view.finish(cell.train.steps, summary(cell, rows, trained.diverged), seconds)

    def train(self, cell: Cell, seeds: list[int], checkpoints: Checkpoints) -> Trained:
        """Trains from the newest checkpoint on, or from the beginning."""
        trainer, array = Trainer(cell), jnp.asarray(seeds, jnp.uint32)
        progress = begun = self.begin(trainer, array, checkpoints)
        saved, unsaved = time.monotonic(), 0.0
        with self.stop.postponed():
            for progress in self.pieces(trainer, array, begun):
                unsaved = time.monotonic() - saved
                if unsaved > self.every or self.stop.number is not None:
                    self.save(checkpoints, progress)
                    saved, unsaved = time.monotonic(), 0.0
                if self.stop.number is not None:
                    break
            if unsaved > WORTH and self.stop.number is None:
                self.save(checkpoints, progress)
        return Trained(progress.state.parameters, progress.training, diverged(progress.state, seeds), progress.seconds)

    def begin(self, trainer: Trainer, seeds: jax.Array, checkpoints: Checkpoints) -> Progress:
        """Where training goes on."""
        found = checkpoints.newest(jax.eval_shape(trainer.init, seeds)) if checkpoints.steps() else None
        if found is None:
            return Progress(0, trainer.init(seeds), [], 0.0)
        self.view.say(f"goes on at step {found.step}")
        return found._replace(state=trainer.placed(found.state))

    def save(self, checkpoints: Checkpoints, progress: Progress) -> None:
        """Keeps where training stands; nobody ends the process meanwhile."""
        with self.stop.saving:
            checkpoints.save(progress)

    def pieces(self, trainer: Trainer, seeds: jax.Array, progress: Progress) -> Iterator[Progress]:
        """Training, piece by piece; it ends early where no seed has numbers any more."""
        steps, pace, before = trainer.cell.train.steps, Pace(), progress.seconds
        step, state, training, started = progress.step, progress.state, list(progress.training), time.monotonic()
        numbers = seeds.tolist()
        for start, stop in chunks(steps):
            while start <= step < stop:
                ahead = min(stop, step + pace.steps)
                state = jax.block_until_ready(trainer.proceed(state, seeds, step, ahead))
                pace.took(ahead - step)
                step, losses = ahead, np.asarray(state.total) / (ahead - start)
                if step == stop:
                    told_of = zip(numbers, losses, strict=True)
                    training += [dict(seed=seed, step=stop, loss=float(loss)) for seed, loss in told_of]
                    state = told(state)
                self.view.step(step, steps, losses.mean())
                yield Progress(step, state, training, before + time.monotonic() - started)
            if step == stop and (np.asarray(state.diverged) >= 0).all():
                return


class Pace:
    """How many steps to go before looking at the clock again: PIECE of them, as far as one can tell."""

    def __init__(self) -> None:
        self.steps, self.last, self.first = 1, time.monotonic(), True

    def took(self, steps: int) -> None:
        """So many steps have been gone since the last time."""
        now = time.monotonic()
        seconds, self.last = max(now - self.last, 1e-6), now
        if not self.first:  # the first one was compiled meanwhile
            self.steps = max(1, min(10 * self.steps, int(steps * PIECE / seconds)))
        self.first = False


def diverged(state: State, seeds: list[int]) -> dict[int, int]:
    """The seeds whose loss was no number any more, and the steps from which on."""
    return {seed: int(step) for seed, step in zip(seeds, np.asarray(state.diverged), strict=True) if step >= 0}


def summary(cell: Cell, rows: list[dict], diverged: dict[int, int]) -> str:
    """The exact match of a cell, of text its bits per byte, in a few words."""
    metric = BITS if cell.layout.task.bytes else "exact_match"
    told = [row for row in rows if row["metric"] == metric]
    parts = []
    for trained, word in ((True, "at trained lengths"), (False, "beyond them")):
        values = [row["value"] for row in told if row["trained"] == trained]
        parts += [f"{np.mean(values):.2f} {word}"] if values else []
    away = [f"seed {seed} diverged at step {step}" for seed, step in diverged.items()]
    return f"{metric.replace('_', ' ')} " + ", ".join(parts + away)


def summary_of(error: BaseException) -> str:
    """An error on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
