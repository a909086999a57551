"""What a running sweep shows: a live view in a terminal, plain lines anywhere else."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

PLAIN_EVERY = 10.0  # seconds between plain lines


class View:
    """Which cell is running, its step and loss, and the time left for the sweep.

    Args:
        console: where it is shown.
        cells: how many cells will run.
        steps: how many steps they take together.
    """

    def __init__(self, console: Console, cells: int, steps: int):
        self.console, self.cells, self.steps = console, cells, steps
        self.cell, self.name, self.before = 0, "", 0
        self.started = self.shown = time.monotonic()
        self.bar = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[state]}"),
            console=console, disable=not console.is_terminal, transient=True,
        )  # fmt: skip
        self.task = self.bar.add_task("", total=steps, state="")

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.stop()

    def start(self, name: str) -> None:
        """The next cell begins."""
        self.cell, self.name = self.cell + 1, name
        self.show("compiling", self.before)

    def step(self, step: int, of: int, loss: float) -> None:
        """The running cell has come to this step, at this loss."""
        self.show(f"step {step}/{of}, loss {loss:.3f}", self.before + step)

    def finish(self, steps: int, summary: str, seconds: float) -> None:
        """The running cell is done."""
        self.before += steps
        self.console.print(f"[{self.cell}/{self.cells}] {self.name}: {summary} ({seconds:.0f} s)", markup=False)

    def show(self, state: str, steps: int) -> None:
        """The bar; or a line, now and then."""
        left = self.left(steps)
        self.bar.update(self.task, completed=steps, description=f"{self.cell}/{self.cells} {escape(self.name)}")
        self.bar.update(self.task, state=escape(f"{state}{left}"))
        if not self.console.is_terminal and time.monotonic() - self.shown > PLAIN_EVERY:
            self.shown = time.monotonic()
            self.console.print(f"[{self.cell}/{self.cells}] {self.name}: {state}{left}", markup=False)

    def left(self, steps: int) -> str:
        """About how long the rest of the sweep takes, going by what is done."""
        if not steps:
            return ""
        seconds = (time.monotonic() - self.started) / steps * (self.steps - steps)
        return f", {seconds / 60:.1f} min left" if seconds > 90 else f", {seconds:.0f} s left"
