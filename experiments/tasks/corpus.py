"""Text as bytes: where it comes from, and which part of it is for training, validation and testing.

A document's part is decided by the hash of what it holds, so that a copy of it falls into the same part, and adding
documents moves no other. A part is its documents one after the other, in the order of their hashes, with a NUL between
them. Documents are the files of a folder, the pieces of one file by itself, or the records of a dataset of the package
`datasets`, whose own three parts are kept where it has them.

A part that fits is held whole. Of one that does not, a pool is held: pieces from all over the part, in an order that
Grain shuffles anew for each pass over it. Which pieces a pool has depends on its number alone, so that training goes on
after a break with the pool that it would have had.
"""

import dataclasses
import functools
import hashlib
import importlib
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType

import jax.numpy as jnp
import numpy as np
from jaxtyping import UInt8

from experiments.tasks.base import Split
from posenc.shapes import Array

SPLITS: dict[Split, float] = {"test": 0.05, "validation": 0.05, "train": 0.9}  # shares of the documents
PIECE = 2**16  # bytes
NUL = b"\0"
LEFT_OUT = {"site-packages", "test", "tests", "idle_test", "lib2to3", "__pycache__"}  # of the standard library


@dataclasses.dataclass(frozen=True)
class Document:
    """Some text.

    Attributes:
        digest: the hash of what it holds.
        size: in bytes.
        read: the bytes from one place to another.
    """

    digest: bytes
    size: int
    read: Callable[[int, int], bytes]

    @classmethod
    def of(cls, text: bytes, read: Callable[[int, int], bytes]) -> "Document":
        """The document with this text, which is not kept."""
        return cls(hashlib.sha256(text).digest(), len(text), read)


class Part:
    """The documents of a part, one after the other, read where they are asked for. As Grain has it, a list of pieces.

    Args:
        documents: in any order.
    """

    def __init__(self, documents: Iterable[Document]):
        self.documents = sorted(documents, key=lambda document: document.digest)
        self.starts = np.cumsum([0, *(document.size + len(NUL) for document in self.documents)])

    @property
    def size(self) -> int:
        """In bytes."""
        return max(int(self.starts[-1]) - len(NUL), 0)

    def __len__(self) -> int:
        return self.size // PIECE

    def __getitem__(self, piece: int) -> UInt8[np.ndarray, "n"]:
        return np.frombuffer(self.between(piece * PIECE, (piece + 1) * PIECE), np.uint8)

    def between(self, start: int, stop: int) -> bytes:
        """The bytes from one place to another."""
        first, last = np.searchsorted(self.starts, (start, stop - 1), side="right") - 1
        found = [
            document.read(max(start - begin, 0), min(stop - begin, document.size))
            for document, begin in zip(self.documents[first : last + 1], self.starts[first : last + 1], strict=True)
        ]
        return NUL.join(found).ljust(stop - start, NUL)  # a NUL at the very end belongs to a document that is past it

    @functools.cached_property
    def whole(self) -> UInt8[Array, "n"]:
        """All of it, on the device."""
        return jnp.asarray(np.frombuffer(self.between(0, self.size), np.uint8))

    def pool(self, number: int, size: int) -> UInt8[Array, "n"]:
        """The pieces of one pool, with a NUL between them, on the device: as many as make `size` bytes."""
        pools = needed("grain").MapDataset.source(self).shuffle(seed=0).repeat().batch(size // PIECE)
        pieces = pools[number]
        return jnp.asarray(np.pad(pieces, ((0, 0), (0, len(NUL)))).reshape(-1)[: -len(NUL)])


@dataclasses.dataclass(frozen=True)
class Corpus:
    """The parts of a text.

    Attributes:
        name: of where it came from, for errors.
        digest: a hash over all documents.
        documents: how many there are.
        parts: training, validation and test.
    """

    name: str
    digest: str
    documents: int
    parts: dict[Split, Part]

    def held(self, split: Split, least: int, pool: int, number: int) -> UInt8[Array, "n"]:
        """The bytes of a part, or of one of its pools where it is larger than such a one.

        Raises:
            ValueError: there are fewer than `least` of them.
        """
        part = self.parts[split]
        if part.size < least:
            raise ValueError(
                f"task.text: {self.name} has {self.documents} documents, and its {split} part {part.size} bytes; a "
                f"window takes {least}. Give more text, or shorter lengths."
            )
        if not pool or part.size <= pool:
            return part.whole
        if least > PIECE:
            raise ValueError(f"task.text.pool has pieces of {PIECE} bytes, and a window takes {least}. Set it to 0.")
        return part.pool(number, pool)


@functools.lru_cache(maxsize=2)
def read(path: str, dataset: str = "", column: str = "text") -> Corpus:
    """The corpus at a path, a file or a folder, or in a dataset; Python's own standard library where neither is named.

    Hidden files, and those that hold a NUL and so are no text, are left out.

    Raises:
        ValueError: there is no text; or the package `datasets` is not installed and needed.
    """
    if dataset:
        name, found = f"the dataset {dataset}", list(records(dataset, column))
    else:
        files = folder(Path(path)) if path else library()
        name, found = path or "the standard library", [(None, document) for document in files]
    if not found:
        raise ValueError(f"task.text: there is no text in {name}; expected a file of text, or a folder with some.")
    parts: dict[Split, list[Document]] = {split: [] for split in SPLITS}
    for split, document in found:
        parts[split or of(document.digest)].append(document)
    digests = sorted(document.digest for _, document in found)
    whole = hashlib.sha256(b"".join(digests)).hexdigest()
    return Corpus(name, whole, len(found), {split: Part(part) for split, part in parts.items()})


def library() -> Iterator[Document]:
    """The sources of Python's standard library, without its tests and what is installed beside it."""
    root = Path(sysconfig.get_paths()["stdlib"])
    paths = (path for path in root.rglob("*.py") if not LEFT_OUT & set(path.relative_to(root).parts))
    return (Document.of(path.read_bytes(), functools.partial(bytes_of, path)) for path in paths)


def folder(path: Path) -> Iterator[Document]:
    """The files of a folder, or the pieces of a file.

    Raises:
        ValueError: there is nothing at the path.
    """
    if not path.exists():
        raise ValueError(f"task.text.path is {str(path)!r}, and there is nothing; expected a file or a folder of text.")
    if path.is_file():
        for start in range(0, path.stat().st_size, PIECE):
            text = bytes_of(path, start, start + PIECE)
            if NUL not in text:
                yield Document.of(text, functools.partial(within, path, start))
        return
    for one in path.rglob("*"):
        if one.is_file() and not any(part.startswith(".") for part in one.relative_to(path).parts):
            text = one.read_bytes()
            if text and NUL not in text:
                yield Document.of(text, functools.partial(bytes_of, one))


def bytes_of(path: Path, start: int, stop: int) -> bytes:
    """Of a file, those from one place to another."""
    with path.open("rb") as file:
        file.seek(start)
        return file.read(stop - start)


def within(path: Path, begin: int, start: int, stop: int) -> bytes:
    """The same, counted from a place within the file."""
    return bytes_of(path, begin + start, begin + stop)


def records(name: str, column: str) -> Iterator[tuple[Split | None, Document]]:
    """The records of a dataset that `datasets.load_dataset` knows, "name" or "name:configuration", with their parts.

    Raises:
        ValueError: it cannot be loaded, or has no such column.
    """
    package = needed("datasets")
    name, _, configuration = name.partition(":")
    try:
        tables = package.load_dataset(name, configuration or None)
    except Exception as error:  # of many kinds: no such name, no such configuration, no network
        raise ValueError(f"task.text.dataset is {name!r}, which `datasets` cannot load: {error}") from error
    parted = set(tables) == set(SPLITS)
    for split, table in tables.items():
        if column not in table.column_names:
            known = ", ".join(table.column_names)
            raise ValueError(f"task.text.column is {column!r}, and the dataset {name} has {known}. Name one of these.")
        for row, text in enumerate(table[column]):
            if text:
                yield (
                    split if parted else None,
                    Document.of(text.encode(), functools.partial(record, table, row, column)),
                )


def record(table, row: int, column: str, start: int, stop: int) -> bytes:
    """Of a record, the bytes from one place to another."""
    return table[row][column].encode()[start:stop]


def needed(package: str) -> ModuleType:
    """A package that not everybody has.

    Raises:
        ValueError: it is not installed.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        why = {"grain": "task.text.pool", "datasets": "task.text.dataset"}[package]
        raise ValueError(f"{why} needs the package {package}: pip install 'posenc[text]'.") from error


def of(digest: bytes) -> Split:
    """The part that a document of this hash is in."""
    share = int.from_bytes(digest[:8], "big") / 2**64
    for split, size in SPLITS.items():
        if share < size:
            return split
        share -= size
    return "train"
