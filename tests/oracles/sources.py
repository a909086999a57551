"""What outside implementations give, by running them. Each function makes the cases of one encoding and one source.

Numbers are drawn from a seed of the source's name. torch and all packages are imported where they are used, so that
this file can be read without them.
"""

import dataclasses
import importlib
import importlib.metadata
import subprocess
import types
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.oracles.cases import Case


@dataclasses.dataclass(frozen=True)
class Source:
    """An outside implementation of one encoding.

    Attributes:
        encoding: its name here.
        label: what the file is called after it.
        origin: a package to be installed, or "owner/name@commit".
        function: from a random generator and, for a repository, its folder, to cases.
        needs: other packages that it imports.
    """

    encoding: str
    label: str
    origin: str
    function: Callable[..., list[Case]]
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.encoding}-{self.label}"

    @property
    def repository(self) -> str | None:
        """ "owner/name", or None for a package."""
        return self.origin.split("@")[0] if "/" in self.origin else None

    def version(self) -> str:
        """The package with the version that is installed, or the repository with its commit."""
        if self.repository:
            return self.origin[:-30]  # ten of forty digits tell commits apart
        return f"{self.origin} {importlib.metadata.version(self.origin)}"

    def run(self, authors: Path | None = None) -> list[Case]:
        """The cases, made anew.

        Raises:
            ValueError: the repository is not at its commit.
        """
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        if not self.repository:
            return self.function(rng)
        if authors is None:
            raise ValueError(f"{self.name} runs the code of {self.repository}: say where it is, with --authors FOLDER.")
        folder = authors / self.repository.replace("/", "+")
        asked = ["git", "-C", str(folder), "rev-parse", "HEAD"]
        commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        if commit != self.origin.split("@")[1]:
            raise ValueError(f"{folder} is at {commit}; expected {self.origin}.")
        return self.function(rng, folder)


SOURCES: list[Source] = []


def source(encoding: str, label: str, origin: str, *needs: str) -> Callable[[Callable], Callable]:
    """Adds a function to the list."""

    def add(function: Callable[..., list[Case]]) -> Callable[..., list[Case]]:
        SOURCES.append(Source(encoding, label, origin, function, needs))
        return function

    return add


# Numbers, and the way to torch and back.


def normal(rng: np.random.Generator, *shape: int, size: float = 1.0) -> np.ndarray:
    """float32, of deviation `size`."""
    return (size * rng.standard_normal(shape)).astype(np.float32)


def tensor(array: np.ndarray) -> Any:
    """A torch tensor with a copy of the numbers."""
    import torch

    return torch.tensor(np.array(array))


def array(value: Any) -> np.ndarray:
    """float32 numbers of a torch tensor."""
    return np.array(value.detach().numpy(), np.float32)


def by_head(x: np.ndarray) -> Any:
    """A tensor ``[b, h, t, d]`` of an array ``[b, t, h, d]``."""
    return tensor(x.swapaxes(1, 2))


def from_heads(x: Any) -> np.ndarray:
    """The other way round."""
    return array(x.transpose(1, 2))


def fill(parameter: Any, values: np.ndarray | float) -> None:
    """Sets a torch parameter, which must have that shape."""
    import torch

    values = np.broadcast_to(np.float32(values), parameter.shape) if np.ndim(values) == 0 else np.asarray(values)
    if tuple(parameter.shape) != values.shape:
        raise ValueError(f"a parameter of shape {tuple(parameter.shape)} was given {values.shape}.")
    with torch.no_grad():
        parameter.copy_(tensor(values))


def steps(tokens: int, start: int = 0) -> np.ndarray:
    """Consecutive positions."""
    return np.arange(start, start + tokens, dtype=np.int32)


def triangle(tokens: int) -> np.ndarray:
    """What a causal model sees, ``[1, 1, q, k]``."""
    return np.tril(np.ones((tokens, tokens), bool))[None, None]


def everything(queries: int, keys: int) -> np.ndarray:
    """What a model sees that is not causal."""
    return np.ones((1, 1, queries, keys), bool)


def triple(
    rng: np.random.Generator, tokens: int, heads: int, head_dim: int, size: float = 1.0
) -> dict[str, np.ndarray]:
    """Queries, keys and values ``[1, t, h, d]``."""
    return {name: normal(rng, 1, tokens, heads, head_dim, size=size) for name in "qkv"}


def attention(tokens: int, causal: bool) -> dict[str, np.ndarray]:
    """Positions from 0 on, and what is visible."""
    visible = triangle(tokens) if causal else everything(tokens, tokens)
    return {"q_positions": steps(tokens), "k_positions": steps(tokens), "visible": visible}


def shape(heads: int, head_dim: int, width: int = 8, **more: Any) -> dict[str, Any]:
    """Sizes of `posenc.make`."""
    return {"width": width, "heads": heads, "head_dim": head_dim, **more}


def softmax(logits: Any, visible: np.ndarray) -> np.ndarray:
    """torch's, of scaled logits."""
    return array(logits.masked_fill(~tensor(visible), float("-inf")).softmax(-1))


def linear(layer: Any, weight: np.ndarray, bias: np.ndarray | float = 0.0) -> None:
    """Sets a torch linear layer from a matrix [inputs, outputs], which torch keeps the other way round."""
    fill(layer.weight, np.ascontiguousarray(weight.T))
    if layer.bias is not None:
        fill(layer.bias, bias)


def split(x: np.ndarray, heads: int) -> np.ndarray:
    """``[b, t, h d]`` with the heads apart."""
    return x.reshape(*x.shape[:2], heads, -1)


def some(bias: np.ndarray, rows: Sequence[int], *, per_row: bool = False, causal: bool = False) -> dict[str, Any]:
    """Inputs and expectation of a case for the bias ``[1, h, q, k]``, of a few queries and all keys."""
    inputs = {"q_positions": np.array(rows, np.int32), "k_positions": steps(bias.shape[-1])}
    if causal:
        inputs["visible"] = triangle(bias.shape[-1])[:, :, list(rows)]
    picked = bias if bias.shape[2] == 1 else bias[:, :, list(rows)]
    expected = {"bias": np.ascontiguousarray(np.broadcast_to(picked, (*bias.shape[:2], len(rows), bias.shape[-1])))}
    return {"hook": "bias", "inputs": inputs, "expected": expected, "per_row": per_row}


def module(package: str) -> types.ModuleType:
    """A module, imported now."""
    return importlib.import_module(package)
