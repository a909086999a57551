"""Being told to stop: by Ctrl-C, or by a scheduler that wants the machine.

A process that is told so saves what it has and ends within seconds, with the exit code that shells and schedulers
know: 128 and the number of the signal.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)  # Slurm warns with the last ones
GRACE = 15.0  # seconds, after which a program that is being compiled is not waited for


class Stopped(KeyboardInterrupt):
    """Somebody wants this process to end.

    Attributes:
        code: the exit code.
    """

    def __init__(self, number: int):
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.code = 128 + number


class Stop:
    """Listens to signals, in the main thread. Outside `postponed` they raise `Stopped` at once.

    A second signal ends the process where it stands, and so does GRACE, unless something is being saved.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.waiting, self.saving = False, threading.Lock()
        self.over = threading.Event()
        self.before: dict[int, object] = {}

    def __enter__(self) -> Self:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.writer, False)
        self.wakeup = signal.set_wakeup_fd(self.writer, warn_on_full_buffer=False)
        self.before = {number: signal.signal(number, self.hear) for number in SIGNALS}
        threading.Thread(target=self.watch, daemon=True, name="stop").start()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self.wakeup)
        self.over.set()
        os.close(self.writer)

    def hear(self, number: int, frame: FrameType | None) -> None:
        """Called by Python, between two of its instructions."""
        if self.number is not None:
            os._exit(128 + number)
        self.number = number
        if not self.waiting:
            raise Stopped(number)

    def watch(self) -> None:
        """Waits for a signal, in a thread: Python hears of one only when compiled code has come to its end."""
        with os.fdopen(self.reader, "rb", buffering=0) as pipe:
            number = next((n for n in iter(lambda: ord(pipe.read(1) or b"\0"), 0) if n in SIGNALS), None)
        if number is not None and not self.over.wait(GRACE):
            with self.saving:
                os._exit(128 + number)

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """Within, signals are noted in `number`; Stopped is raised at the end."""
        self.waiting = True
        try:
            yield
        finally:
            self.waiting = False
        if self.number is not None:
            raise Stopped(self.number)
