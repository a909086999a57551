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
        self.cell, self.name, self.done, self.reached, self.waited = 0, "", 0, 0, False
        self.last = self.shown = time.monotonic()
        self.stepping = self.stepped = self.waiting = (
            0.0  # seconds in steps, how many, seconds of compiling and testing
        )
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[state]}"))
        self.bar = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self.task = self.bar.add_task("", total=steps, state="")

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.stop()

    def start(self, name: str) -> None:
        """The next cell begins."""
        self.cell, self.name, self.reached = self.cell + 1, name, 0
        self.show("compiling")

    def step(self, step: int, of: int, loss: float) -> None:
        """The running cell has come to this step, at this loss."""
        now = time.monotonic()
        if self.reached:
            self.stepping, self.stepped = self.stepping + now - self.last, self.stepped + step - self.reached
        else:
            self.waiting += now - self.last  # the first piece is compiled before it runs
        self.reached, self.last = step, now
        self.show(f"step {step}/{of}, loss {loss:.3f}")

    def finish(self, steps: int, summary: str, seconds: float) -> None:
        """The running cell is done."""
        now = time.monotonic()
        self.waiting, self.last = self.waiting + now - self.last, now
        self.done, self.reached = self.done + steps, 0
        self.say(f"{summary} ({seconds:.0f} s)")

    def fail(self, steps: int, why: str) -> None:
        """The running cell has failed."""
        self.done, self.reached, self.last = self.done + steps, 0, time.monotonic()
        self.say(f"failed: {why}")

    def wait(self, cells: int) -> None:
        """Others work on all that is left."""
        if not self.waited:
            self.console.print(f"waiting for {cells} cells that other processes run.", highlight=False)
        self.waited = True

    def show(self, state: str) -> None:
        """The bar; or a line, now and then."""
        state += self.left()
        self.bar.update(self.task, completed=self.done + self.reached, state=escape(state))
        self.bar.update(self.task, description=f"{self.cell}/{self.cells} {escape(self.name)}")
        if not self.console.is_terminal and time.monotonic() - self.shown > PLAIN_EVERY:
            self.shown = time.monotonic()
            self.say(state)

    def say(self, text: str) -> None:
        """A plain line about the running cell."""
        line = f"[{self.cell}/{self.cells}] {self.name}: {text}"
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def left(self) -> str:
        """About how long the rest takes: its steps at the pace so far, and as much around them for each cell."""
        if not self.stepped:
            return ""
        steps = self.stepping / self.stepped * (self.steps - self.done - self.reached)
        seconds = steps + self.waiting / self.cell * (self.cells - self.cell)
        return f", {seconds / 60:.1f} min left" if seconds > 90 else f", {seconds:.0f} s left"
