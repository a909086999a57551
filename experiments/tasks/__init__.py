"""The table of tasks."""

from experiments.tasks.arithmetic import Addition
from experiments.tasks.base import Asked, Batch, Example, Layout, Stream, Task, positions
from experiments.tasks.strings import Copy, Parity, Reverse, Sort

TASKS: dict[str, type[Task]] = {
    "copy": Copy,
    "reverse": Reverse,
    "sort": Sort,
    "parity": Parity,
    "addition": Addition,
}

__all__ = ["TASKS", "Asked", "Batch", "Example", "Layout", "Stream", "Task", "positions"]
