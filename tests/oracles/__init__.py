"""The encodings beside outside implementations, by files of what those gave.

`tests.oracles.write` makes the files, where the other packages are installed; to compare with them takes neither.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

import posenc
from posenc.positions import Positions
from tests.oracles.cases import GOLDEN, Case, load


def compared(name: str) -> list[tuple[str, float]]:
    """For each file of an encoding its source, with version, and the largest error of ours against it."""
    files = [load(path) for path in sorted(GOLDEN.glob("*.npz"))]
    return [
        (f"{file.source} ({file.version})", max(error(name, case) for case in file.cases))
        for file in files
        if file.encoding == name
    ]


def error(name: str, case: Case) -> float:
    """The largest absolute difference; NaN where anything is NaN.

    Where positions are consecutive it is the larger of two: with that promise, by which some encodings take another
    road, and without.
    """
    both = [False, True] if all(map(consecutive, positions_of(case))) else [False]
    return float(np.max([difference(case, ours(name, case, promise)) for promise in both]))


def positions_of(case: Case) -> list[np.ndarray]:
    """The positions among the inputs."""
    return [array for name, array in case.inputs.items() if name.endswith("positions")]


def consecutive(positions: np.ndarray) -> bool:
    """Whether each stands one behind the one before it."""
    return positions.ndim == 1 and positions.dtype == np.int32 and bool((np.diff(positions) == 1).all())


def difference(case: Case, given: dict[str, np.ndarray]) -> float:
    """The largest absolute difference from what is expected, among what is visible."""
    largest = []
    for name, expected in case.expected.items():
        ours = given[name]
        if ours.shape != expected.shape:
            raise ValueError(f"{case.title}: {name} has shape {ours.shape}, expected {expected.shape}.")
        if name == "bias":
            seen = np.broadcast_to(case.inputs.get("visible", np.array(True)), expected.shape)
            if case.per_row:
                ours, expected = centred(ours, seen), centred(expected, seen)
            ours, expected = ours[seen], expected[seen]
        largest.append(np.abs(ours.astype(np.float64) - expected).max())
    return float(np.max(largest))


def centred(bias: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """`bias` less its mean over what each query sees."""
    wide = bias.astype(np.float64)
    return wide - wide.mean(axis=-1, keepdims=True, where=seen)


def ours(name: str, case: Case, promise: bool) -> dict[str, np.ndarray]:
    """What our encoding gives for a case; `promise` says that the positions are consecutive."""
    encoding = built(name, case)
    given: dict[str, Any] = {
        key: Positions(jnp.asarray(array), consecutive=True)
        if promise and key.endswith("positions")
        else jnp.asarray(array)
        for key, array in case.inputs.items()
    }
    if case.hook == "embeddings":
        result = {"x": encoding.embeddings(given["x"], given["positions"])}
    elif case.hook == "bias":
        result = {"bias": encoding.bias(given["q_positions"], given["k_positions"])}
    elif case.hook == "turned":
        where = given["q_positions"], given["k_positions"]
        result = dict(zip("qk", encoding.queries_keys(given["q"], given["k"], *where), strict=True))
    else:
        result = attended(encoding, given)
    return {key: np.asarray(value) for key, value in result.items() if key in case.expected}


def attended(encoding: posenc.Encoding, given: dict[str, Any]) -> dict[str, Any]:
    """Weights and output of attention."""
    kept: dict[str, Any] = {}

    def keep(weights):
        kept["weights"] = weights
        return weights

    totals = None
    if "x" in given:
        steps = encoding.steps(given["x"], given["q_positions"])
        totals = None if steps is None else jnp.cumsum(steps, axis=1)
    order = ("q", "k", "v", "q_positions", "k_positions", "visible")
    out = posenc.attend(encoding, *map(given.get, order), q_totals=totals, k_totals=totals, dropout=keep)
    return kept | {"out": out}


def built(name: str, case: Case) -> posenc.Encoding:
    """The encoding of a case, with its options and with its parameters, every one of them."""
    options = {key: hashable(value) for key, value in case.options.items()}
    parts = {part: {key: hashable(value) for key, value in own.items()} for part, own in case.parts.items()}
    encoding = posenc.make(name, **case.sizes, **options, parts=parts or None, rngs=nnx.Rngs(0))
    graph, state = nnx.split(encoding)
    flat = dict(nnx.to_flat_state(state))
    paths = {".".join(map(str, path)): path for path in flat}
    if paths.keys() != case.parameters.keys():
        raise ValueError(f"{case.title}: parameters {sorted(paths)}, expected {sorted(case.parameters)}.")
    for key, path in paths.items():
        if flat[path].shape != case.parameters[key].shape:
            raise ValueError(f"{case.title}: {key} has shape {flat[path].shape}, not {case.parameters[key].shape}.")
        flat[path] = flat[path].replace(jnp.asarray(case.parameters[key]))
    return nnx.merge(graph, nnx.from_flat_state(flat))


def hashable(value: Any) -> Any:
    """A list, which JSON has, as a tuple, which options have."""
    return tuple(value) if isinstance(value, list) else value
