"""Text as bytes: where it comes from, and which part of it is for training, validation and testing.

A file's part is decided by the hash of what it holds, so that a copy of it falls into the same part, and adding files
moves no other. A part is its files one after the other, in the order of their hashes, with a NUL between them. One file
by itself is cut into pieces that are taken for files.
"""

import dataclasses
import functools
import hashlib
import sysconfig
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jaxtyping import UInt8

from posenc.shapes import Array

SPLITS = {"test": 0.05, "validation": 0.05, "train": 0.9}  # shares of the files
PIECE = 2**16  # bytes
NUL = b"\0"
LEFT_OUT = {"site-packages", "test", "tests", "idle_test", "lib2to3", "__pycache__"}  # of the standard library


@dataclasses.dataclass(frozen=True)
class Corpus:
    """The parts of a text.

    Attributes:
        name: of where it came from, for errors.
        digest: a hash over all files.
        files: how many there are.
        parts: the bytes of each, on the device.
    """

    name: str
    digest: str
    files: int
    parts: dict[str, UInt8[Array, "n"]]

    def part(self, split: str, least: int) -> UInt8[Array, "n"]:
        """The bytes of a part.

        Raises:
            ValueError: there are fewer than `least` of them.
        """
        part = self.parts[split]
        if len(part) < least:
            raise ValueError(
                f"task.text.path: {self.name} has {self.files} files, and its {split} part {len(part)} bytes; a window "
                f"takes {least}. Give more text, or shorter lengths."
            )
        return part


@functools.lru_cache(maxsize=2)
def read(path: str) -> Corpus:
    """The corpus at a path, a file or a folder; Python's own standard library where it is empty.

    Hidden files, and those that hold a NUL and so are no text, are left out.

    Raises:
        ValueError: there is no text.
    """
    texts = library() if not path else folder(Path(path))
    if not texts:
        raise ValueError(f"task.text.path: there is no text in {path}; expected a file of text, or a folder with some.")
    name = path or "the standard library"
    hashed = sorted((hashlib.sha256(text).digest(), text) for text in texts)
    parts = {split: joined([text for digest, text in hashed if of(digest) == split]) for split in SPLITS}
    whole = hashlib.sha256(b"".join(digest for digest, _ in hashed)).hexdigest()
    return Corpus(name, whole, len(texts), parts)


def library() -> list[bytes]:
    """The sources of Python's standard library, without its tests and what is installed beside it."""
    root = Path(sysconfig.get_paths()["stdlib"])
    paths = [path for path in root.rglob("*.py") if not LEFT_OUT & set(path.relative_to(root).parts)]
    return [path.read_bytes() for path in paths]


def folder(path: Path) -> list[bytes]:
    """The files of a folder, or the pieces of a file.

    Raises:
        ValueError: there is nothing at the path.
    """
    if not path.exists():
        raise ValueError(f"task.text.path is {str(path)!r}, and there is nothing; expected a file or a folder of text.")
    if path.is_file():
        text = path.read_bytes()
        pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
        return [piece for piece in pieces if NUL not in piece]
    found = [one for one in path.rglob("*") if one.is_file()]
    texts = [one.read_bytes() for one in found if not any(p.startswith(".") for p in one.relative_to(path).parts)]
    return [text for text in texts if text and NUL not in text]


def of(digest: bytes) -> str:
    """The part that a file of this hash is in."""
    share = int.from_bytes(digest[:8], "big") / 2**64
    for split, size in SPLITS.items():
        if share < size:
            return split
        share -= size
    return "train"


def joined(texts: list[bytes]) -> UInt8[Array, "n"]:
    """Texts one after the other."""
    return jnp.asarray(np.frombuffer(NUL.join(texts), np.uint8))
