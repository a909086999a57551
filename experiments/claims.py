"""Who works on a cell: one process at a time, of all that share a results folder.

    claims/000003        held by the third that took the cell, for as long as it keeps touching the file

A claim is taken by creating the next number, which only one can do. Its holder touches the file all the time; one that
has not been touched for LEASE seconds, by the clock of the file system, belongs to a process that is gone, and is taken
over. So is one whose process was on this machine and is not there any more. A process that comes back from a long sleep
finds a higher number than its own and gives up; should it publish all the same, it is too late by then: results are
published under a name that exists once.
"""

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from pathlib import Path
from typing import Any, Self

LEASE = 60.0  # seconds
BEATS = 6  # in a lease


class Claim:
    """The right to work on a cell, until `release`.

    Args:
        path: of its file, which exists.
        content: what stands in it.
        lease: in seconds.
    """

    def __init__(self, path: Path, content: dict[str, Any], lease: float):
        self.path, self.content, self.lease = path, content, lease
        self.over = threading.Event()
        threading.Thread(target=self.beat, daemon=True, name="claim").start()

    @classmethod
    def take(cls, folder: Path, reached: int = 0, lease: float = LEASE) -> Self | None:
        """A claim on the cell of a folder; None where another process works on it.

        Args:
            folder: of the cell.
            reached: how far its training is, by what is on disk.
            lease: in seconds.
        """
        claims = folder / "claims"
        claims.mkdir(parents=True, exist_ok=True)
        newest = max(numbers(claims), default=0)
        before = read(claims / name(newest)) if newest else {}
        if newest and not abandoned(claims / name(newest), lease):
            return None
        lost = before.get("lost", 0) + 1 if before.get("reached") == reached else 0
        content = {**process(), "id": uuid.uuid4().hex, "lease": lease, "reached": reached, "lost": lost}
        path = claims / name(newest + 1)
        try:
            with path.open("x") as file:  # another process may have just done so
                json.dump(content, file)
        except (FileExistsError, FileNotFoundError):  # or the one before has just cleared the folder away
            return None
        for number in range(1, newest + 1):
            (claims / name(number)).unlink(missing_ok=True)
        return cls(path, content, lease)

    @property
    def lost(self) -> int:
        """How many processes in a row have taken the cell before, got no further, and ended without a word."""
        return self.content["lost"]

    def held(self) -> bool:
        """Whether nobody has taken over."""
        claims = self.path.parent
        return max(numbers(claims), default=0) == int(self.path.name) and read(self.path) == self.content

    def beat(self) -> None:
        """Touches the file all the time, in a thread."""
        while not self.over.wait(self.lease / BEATS):
            try:
                if self.held():
                    os.utime(self.path)
            except OSError:
                continue  # perhaps the file system comes back

    def release(self) -> None:
        """Lets others work on the cell."""
        self.over.set()
        try:
            if self.held():
                self.path.unlink()
                self.path.parent.rmdir()
        except OSError:
            pass  # somebody else is at it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def holder(folder: Path, lease: float = LEASE) -> dict[str, Any] | None:
    """The process that works on the cell of a folder; None where there is none."""
    newest = max(numbers(folder / "claims"), default=0)
    path = folder / "claims" / name(newest)
    return None if not newest or abandoned(path, lease) else read(path)


def numbers(claims: Path) -> list[int]:
    """Those of the claims there are."""
    try:
        return [int(path.name) for path in claims.iterdir() if path.name.isdigit()]
    except FileNotFoundError:
        return []


def name(number: int) -> str:
    """Of the file of a claim."""
    return f"{number:06d}"


def read(path: Path) -> dict[str, Any]:
    """What stands in a claim; nothing where it is gone or damaged."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def abandoned(path: Path, lease: float) -> bool:
    """Whether the process that made a claim is gone, or has not touched it for its lease."""
    content, here = read(path), process()
    near = bool(content) and all(content.get(key) == here[key] for key in ("host", "space"))
    if near and not alive(content.get("process"), content.get("since")):
        return True
    try:
        return now(path.parent) - path.stat().st_mtime > content.get("lease", lease)
    except FileNotFoundError:
        return True  # released


def now(folder: Path) -> float:
    """The time, by the clock that the file system of a folder goes by; for who may not write there, by our own."""
    probe = folder / f".{uuid.uuid4().hex}"
    try:
        probe.touch()
        return probe.stat().st_mtime
    except OSError:
        return time.time()
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()


def process() -> dict[str, Any]:
    """This process, and where it runs: numbers of processes mean something within their space alone."""
    space = [text_of("/proc/sys/kernel/random/boot_id"), link_of("/proc/self/ns/pid")]
    return {"host": socket.gethostname(), "space": space, "process": os.getpid(), "since": since(os.getpid())}


def alive(number: object, started: object) -> bool:
    """Whether a process of this machine is still there, and no other under its number."""
    if not isinstance(number, int):
        return False
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's
    return since(number) == started


def since(number: int) -> str:
    """When a process was started, as Linux counts it; "ended" of one that waits to be buried, empty elsewhere."""
    told = text_of(f"/proc/{number}/stat").rpartition(")")[2].split()
    if not told:
        return ""
    return "ended" if told[0] in "ZX" else told[19]


def text_of(path: str) -> str:
    """What stands in a file of the system; empty where there is none."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def link_of(path: str) -> str:
    """Where a link of the system leads; empty where there is none."""
    try:
        return os.readlink(path)
    except OSError:
        return ""
