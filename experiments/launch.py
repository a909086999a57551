"""Where cells run: in this process, in some processes of this machine, or wherever somebody takes a line to.

All of them work on one results folder, each cell is taken by one, and what one leaves behind the next one goes on with.
"""

import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from experiments.stopping import Stop

COMMAND = (sys.executable, "-m", "experiments.ablate")
AGAIN = 3  # times that a process which ends without a word is started again
LOOK = 0.2  # seconds between two looks at them
OURS = ("workers", "launcher")  # what is not passed on


def lines(arguments: Sequence[str], cells: Sequence[str]) -> list[str]:
    """A line for a shell for each cell, that runs it alone.

    Args:
        arguments: of the command line at hand.
        cells: by name.
    """
    return [shlex.join(["python", *COMMAND[1:], *passed_on(arguments), f"--only={cell}"]) for cell in cells]


def passed_on(arguments: Sequence[str]) -> list[str]:
    """Those arguments that a worker gets too."""
    kept, skip = [], False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        ours = argument.startswith("-") and name.lstrip("-") in OURS
        if not ours and not skip:
            kept.append(argument)
        skip = ours and not equals
    return kept


def shares(workers: int) -> list[list[int]]:
    """The processor cores of each worker: as even as can be, each at least one."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    each = [cores[i::workers] for i in range(workers)]
    return [share or [cores[i % len(cores)]] for i, share in enumerate(each)]


def accelerators() -> list[str]:
    """The GPUs that this process may use, by the names that CUDA has for them."""
    said = os.environ.get("CUDA_VISIBLE_DEVICES")
    if said is not None:
        return [name for name in said.split(",") if name.strip()]
    return [str(i) for i, _ in enumerate(Path("/proc/driver/nvidia/gpus").glob("*"))]


def surroundings(worker: int, workers: int) -> dict[str, str]:
    """The environment of a worker: a GPU of its own where there are enough, or a share of one."""
    gpus = accelerators()
    if not gpus:
        return dict(os.environ)
    together = -(-workers // len(gpus))
    share = {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{0.9 / together:.3f}"} if together > 1 else {}
    return dict(os.environ) | {"CUDA_VISIBLE_DEVICES": gpus[worker % len(gpus)]} | share


class Pool:
    """Some processes of this machine that work on one folder.

    Args:
        arguments: of the command line at hand; each process gets them too.
        workers: how many.
        console: where they say what they do.
    """

    def __init__(self, arguments: Sequence[str], workers: int, console: Console):
        self.arguments, self.console = passed_on(arguments), console
        self.cores = shares(workers)
        self.running: dict[int, subprocess.Popen] = {}
        self.telling: list[threading.Thread] = []
        self.again = dict.fromkeys(range(workers), AGAIN)

    def run(self, stop: Stop) -> None:
        """Starts them and waits for all; one that ends without a word is started again, a few times."""
        with stop.postponed():
            for worker in self.again:
                self.start(worker)
            while self.running and stop.number is None:
                time.sleep(LOOK)
                self.look()
            with stop.saving:  # they end by themselves, and within seconds
                self.end()

    def end(self) -> None:
        """Tells all to stop, and waits until they and what they have said last are through."""
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait()
        for thread in self.telling:
            thread.join()

    def start(self, worker: int) -> None:
        """Starts one."""
        cores = ",".join(map(str, self.cores[worker]))
        self.running[worker] = subprocess.Popen(  # noqa: S603
            [*COMMAND, *self.arguments, f"--worker={worker}", f"--cores={cores}"],
            env=surroundings(worker, len(self.cores)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,  # Ctrl-C comes to us, and we tell them
        )  # fmt: skip
        self.telling.append(threading.Thread(target=self.tell, args=(worker, self.running[worker].stdout)))
        self.telling[-1].start()

    def tell(self, worker: int, told) -> None:
        """Passes on what one says, line by line."""
        with told:
            for line in told:
                self.console.print(f"worker {worker}: {line.rstrip()}", markup=False, highlight=False, soft_wrap=True)

    def look(self) -> None:
        """Who has ended?"""
        for worker, process in list(self.running.items()):
            code = process.poll()
            if code is None:
                continue
            del self.running[worker]
            if code < 0 and self.again[worker]:
                self.again[worker] -= 1
                self.console.print(f"worker {worker} was ended by signal {-code}; another takes its place.")
                self.start(worker)


def end_with_the_parent() -> None:
    """Tells this process to stop when the one that started it is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), 15)

    threading.Thread(target=watch, daemon=True, name="parent").start()
