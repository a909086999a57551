"""What training has come to, kept on disk, so that a process that is killed loses minutes at most.

A checkpoint holds all that training carries from step to step; what is drawn depends on seed and step alone. It comes
with a digest of every number in it: Orbax writes whole checkpoints or none, but does not notice a bit that has changed
since. One that is damaged is named, and the one before it is taken.
"""

import contextlib
import os
import shutil
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import jax
from absl import logging
from orbax.checkpoint import v1 as ocp

from experiments.environment import code, differences, environment
from experiments.files import check_files, digest_of_arrays, digests, read_sealed, write_sealed
from experiments.train import State

KEPT = 2  # the newest, and one to fall back on


class Progress(NamedTuple):
    """Where training stands.

    Attributes:
        step: the next one.
        state: before it.
        training: the learning curves so far.
        seconds: that it took to come here.
    """

    step: int
    state: State
    training: list[dict[str, Any]]
    seconds: float


class Checkpoints:
    """Those of some seeds of a cell.

    Args:
        path: their folder; created when something is saved.
    """

    def __init__(self, path: Path):
        self.path = path

    def steps(self) -> list[int]:
        """The steps that are there, the newest first."""
        names = [path.name for path in self.path.glob("[0-9]*") if path.name.isdigit()]
        return sorted(map(int, names), reverse=True)

    def save(self, progress: Progress) -> None:
        """Keeps it, whole or not at all, and lets older ones go."""
        made, final = self.path / f".{uuid.uuid4().hex}", self.path / f"{progress.step:09d}"
        self.path.mkdir(parents=True, exist_ok=True)
        for left in self.path.glob(".*"):
            shutil.rmtree(left, ignore_errors=True)  # by a process that was killed
        made.mkdir()
        ocp.save((made / "state").resolve(), leaves(progress.state))
        told = dict(
            step=progress.step,
            training=progress.training,
            seconds=progress.seconds,
            arrays=shapes(progress.state),
            numbers=digest_of_arrays(progress.state),
            digests=digests(made),
            code=code(),
            environment=environment(),
        )
        write_sealed(made / "progress.json", told)
        if final.exists():
            discard(final)  # damaged, or it would have been taken
        made.rename(final)
        for step in self.steps()[KEPT:]:
            discard(self.path / f"{step:09d}")

    def newest(self, like: State) -> Progress | None:
        """The newest that is what was written, if there is any.

        Args:
            like: a state of the same shapes.
        """
        for step in self.steps():
            try:
                return self.load(step, like)
            except ValueError as error:
                logging.warning("checkpoint of step %d is not used; going on with what is older. %s", step, error)
        return None

    def load(self, step: int, like: State) -> Progress:
        """The checkpoint of a step.

        Raises:
            ValueError: it is not what was written; the message names it.
        """
        path = self.path / f"{step:09d}"
        told = read_sealed(path / "progress.json")
        check_files(path, told["digests"])
        if told["arrays"] != shapes(like):
            raise ValueError(f"{path} is of other arrays than this code has for the model and its optimiser.")
        here = jax.sharding.SingleDeviceSharding(jax.devices()[0])  # wherever it was saved
        like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=here), like)
        found = ocp.load((path / "state").resolve(), leaves(like))
        state = jax.tree.unflatten(jax.tree.structure(like), [found[name] for name in sorted(found)])
        if told["step"] != step or digest_of_arrays(state) != told["numbers"]:
            raise ValueError(f"{path} holds other numbers than those that were written.")
        changed = differences(told["environment"] | told["code"], environment() | code())
        if changed:
            logging.warning(
                "Training goes on at step %d, and where it goes on is not where it was begun: %s. The last digits of "
                "its results may be others than those of a run that was never stopped.", step, changed
            )  # fmt: skip
        return Progress(step, state, told["training"], told["seconds"])

    def clear(self) -> None:
        """Lets all of them go."""
        if self.path.exists():
            discard(self.path)
            with contextlib.suppress(OSError):  # those of other seeds are there
                self.path.parent.rmdir()


def leaves(state: State) -> dict[str, Any]:
    """The arrays of a state, by number."""
    return {f"{i:04d}": leaf for i, leaf in enumerate(jax.tree.leaves(state))}


def shapes(state: State) -> list[str]:
    """The arrays of a state, as they are called, with their sizes and kinds."""
    found = jax.tree_util.tree_leaves_with_path(state)
    return [f"{jax.tree_util.keystr(path)} {leaf.dtype} {leaf.shape}" for path, leaf in found]


def discard(path: Path) -> None:
    """Removes a folder; nobody sees half of it."""
    hidden = path.parent / f".{uuid.uuid4().hex}"
    os.rename(path, hidden)
    shutil.rmtree(hidden, ignore_errors=True)
