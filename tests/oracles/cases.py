"""What is compared with an outside implementation: one case, and a file of cases.

A file holds arrays and one JSON text, nothing else, and is read with allow_pickle=False. Its digest covers all of it.
"""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any, Literal

import numpy as np

GOLDEN = Path(__file__).parent / "golden"

Hook = Literal["embeddings", "bias", "turned", "weights", "out"]


@dataclasses.dataclass(frozen=True)
class Case:
    """One comparison.

    Attributes:
        title: what it is about.
        hook: what is compared. "embeddings", "bias" and "turned" (queries and keys) are hooks of an encoding;
            "weights" and "out" are the attention weights and the output of `posenc.attend`.
        sizes: width, heads, head_dim and so on, of `posenc.make`.
        inputs: x, positions; or q, k, v, q_positions, k_positions, visible: as many as the hook needs.
        expected: what the outside implementation gives, by name.
        options: the encoding's own.
        parts: options of the encodings inside it.
        parameters: by path; all that the encoding has.
        per_row: the bias need agree but for a number for each query, which a softmax does not see.
    """

    title: str
    hook: Hook
    sizes: dict[str, Any]
    inputs: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    parts: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    parameters: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    per_row: bool = False


GROUPS = ("inputs", "parameters", "expected")
PLAIN = ("title", "hook", "sizes", "options", "parts", "per_row")


@dataclasses.dataclass(frozen=True)
class Golden:
    """A file: the cases of one encoding and one source.

    Attributes:
        encoding: its name in `posenc.ENCODINGS`.
        source: short for where it comes from.
        version: of the package, or the commit; with its name.
        cases: the comparisons.
        digest: SHA-256 of all that.
    """

    encoding: str
    source: str
    version: str
    cases: tuple[Case, ...]
    digest: str

    @property
    def path(self) -> Path:
        return GOLDEN / f"{self.encoding}-{self.source}.npz"


def described(encoding: str, source: str, version: str, cases: list[Case]) -> tuple[str, dict[str, np.ndarray]]:
    """The JSON text and the arrays of a file."""
    plain = [{name: getattr(case, name) for name in PLAIN} for case in cases]
    about = json.dumps({"encoding": encoding, "source": source, "version": version, "cases": plain}, sort_keys=True)
    arrays = {
        f"{number}.{group}.{name}": np.asarray(array)
        for number, case in enumerate(cases)
        for group in GROUPS
        for name, array in getattr(case, group).items()
    }
    return about, arrays


def digest(about: str, arrays: dict[str, np.ndarray]) -> str:
    """SHA-256 of the text and, in the order of their names, of all arrays with their types and shapes."""
    total = hashlib.sha256(about.encode())
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def save(encoding: str, source: str, version: str, cases: list[Case]) -> Path:
    """Writes a file and returns its path."""
    about, arrays = described(encoding, source, version, cases)
    wide = [name for name, array in arrays.items() if array.dtype not in (np.float32, np.int32, bool)]
    if wide:
        raise TypeError(f"{encoding}-{source}: {wide} are neither float32, int32 nor bool.")
    path = GOLDEN / f"{encoding}-{source}.npz"
    np.savez_compressed(path, about=np.array(about), sha256=np.array(digest(about, arrays)), **arrays)
    return path


def load(path: Path) -> Golden:
    """Reads a file."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    text, stated = str(arrays.pop("about")), str(arrays.pop("sha256"))
    about = json.loads(text)
    if digest(text, arrays) != stated:
        raise ValueError(f"{path.name} does not have the digest that it states.")
    cases = []
    for number, plain in enumerate(about["cases"]):
        groups: dict[str, dict[str, np.ndarray]] = {group: {} for group in GROUPS}
        for name, array in arrays.items():
            owner, group, key = name.split(".", 2)
            if owner == str(number):
                groups[group][key] = array
        cases.append(Case(**plain, **groups))
    return Golden(about["encoding"], about["source"], about["version"], tuple(cases), stated)
