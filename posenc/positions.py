"""Which position each token gets: an axis of the ablation of its own, apart from what an encoding does with it.

`Positions` travels from a scheme to the encodings. A scheme is a small callable

    scheme(key, lengths, size, batch) -> Positions        values [1|batch, size]

that gives `size` slots positions, of which the first `lengths` of each example are real tokens. Padding carries the
position of a real token, so that no encoding is ever asked about a position that no token has.
"""

import dataclasses
from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from posenc.shapes import Array, Int, Key, Num

__all__ = ["SCHEMES", "InOrder", "Positions", "PositionsLike", "Randomized", "distance", "interpolated"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Positions:
    """Where tokens stand.

    Attributes:
        values: whole or real positions, ``[t]`` or ``[1|b, t]``. They may skip, repeat and start anywhere.
        consecutive: promises that each real token stands one behind the token before it. Static, so that an encoding
            may take a faster road inside jit; the result must be the same.
    """

    values: Array
    consecutive: bool = dataclasses.field(default=False, metadata={"static": True})

    @classmethod
    def of(cls, positions: "PositionsLike") -> "Positions":
        """Positions with values of shape ``[1|b, t]``, from Positions or from a plain array.

        Raises:
            TypeError: values are neither whole numbers nor floats of at least 32 bits. In bfloat16 the positions 256
                and 257 are one.
            ValueError: values have no axis, or more than two.
        """
        values = readable(positions)
        if values.ndim not in (1, 2):
            grid = " Of the encodings, axial_rope alone reads grids." if values.ndim == 3 else ""
            raise ValueError(f"positions have shape {values.shape}; expected [tokens] or [1 or batch, tokens].{grid}")
        consecutive = isinstance(positions, Positions) and positions.consecutive
        return cls(values[None] if values.ndim == 1 else values, consecutive)

    @classmethod
    def grid(cls, positions: "PositionsLike") -> Num[Array, "#b t axes"]:
        """The coordinates of positions on a grid, ``[1|b, t, axes]``; those on a line have one axis.

        Raises:
            TypeError, ValueError: as in `of`, with an axis more.
        """
        values = readable(positions)
        return values if values.ndim == 3 else cls.of(positions).values[..., None]


PositionsLike = Positions | Num[Array | np.ndarray, "..."]


def readable(positions: PositionsLike) -> Num[Array, "..."]:
    """The values, as numbers that a difference can be taken of.

    Raises:
        TypeError: they are neither whole numbers nor floats of at least 32 bits.
    """
    values = jnp.asarray(positions.values if isinstance(positions, Positions) else positions)
    wide = jnp.issubdtype(values.dtype, jnp.floating) and values.dtype.itemsize >= 4
    if not (wide or jnp.issubdtype(values.dtype, jnp.integer)):
        raise TypeError(f"positions are {values.dtype}; expected whole numbers or float32. Convert them before use.")
    if jnp.issubdtype(values.dtype, jnp.unsignedinteger):
        values = values.astype(jnp.int32)  # a difference of unsigned numbers wraps around
    return values


def distance(q_positions: PositionsLike, k_positions: PositionsLike) -> Num[Array, "#b q k"]:
    """r = query position - key position, ``[1|b, q, k]``: positive for keys behind, whole where both are whole."""
    return Positions.of(q_positions).values[:, :, None] - Positions.of(k_positions).values[:, None, :]


def interpolated(read: Callable[[Array], Array], where: Array) -> Array:
    """`read`, which knows whole numbers only, carried on to real ones: linear between the two neighbours.

    Args:
        read: from whole numbers of any shape to values of that shape, with any axes behind.
        where: whole or real numbers. Whole ones are read once, as they are.
    """
    if jnp.issubdtype(where.dtype, jnp.integer):
        return read(where)
    below = jnp.floor(where)
    low, high = read(below.astype(jnp.int32)), read(jnp.ceil(where).astype(jnp.int32))
    share = (where - below).reshape(where.shape + (1,) * (low.ndim - where.ndim))
    return low + share * (high - low)


@dataclasses.dataclass(frozen=True)
class InOrder:
    """0, 1, 2, ...: each token stands one behind the token before it."""

    def __call__(self, key: Key[Array, ""], lengths: Int[Array, "#b"], size: int, batch: int = 1) -> Positions:
        """Positions shared by all examples, ``[1, size]``; `key` is not used."""
        del key, batch
        return Positions(jnp.minimum(jnp.arange(size), lengths.max() - 1)[None], consecutive=True)

    def limit(self, length: int) -> int:
        """Positions of `length` tokens lie in 0 .. limit-1."""
        return length


@dataclasses.dataclass(frozen=True)
class Randomized:
    """A sorted random subset: exactly `length` of the positions 0 .. max_position-1, without replacement.

    Every subset of that size is equally likely, whatever the number of padded slots. Ruoss et al. 2023,
    arXiv:2305.16843, where one draw serves a whole batch, in testing as in training.

    Args:
        max_position: how many positions there are to choose from.
        draw: one draw for the whole "batch" (as published), or one for each "example". With lengths that differ in a
            batch, one draw means that a shorter example has a subset of a longer one's positions.
    """

    max_position: int = 2048
    draw: Literal["batch", "example"] = "batch"

    def __call__(self, key: Key[Array, ""], lengths: Int[Array, "#b"], size: int, batch: int = 1) -> Positions:
        """Positions ``[1|b, size]``: one row where all examples share length and draw."""
        draws = 1 if self.draw == "batch" else batch
        ranks = jax.vmap(lambda one: jax.random.permutation(one, self.max_position))(jax.random.split(key, draws))
        chosen = ranks < lengths[:, None]  # the first `length` of a random order
        places = jnp.sort(jnp.where(chosen, jnp.arange(self.max_position)[None], self.max_position), axis=-1)
        places = jnp.pad(places, ((0, 0), (0, max(size - self.max_position, 0))), mode="edge")[:, :size]
        last = jnp.take_along_axis(places, jnp.minimum(lengths, self.max_position)[:, None] - 1, axis=-1)
        return Positions(jnp.minimum(places, last))

    def limit(self, length: int) -> int:
        """Positions of `length` tokens lie in 0 .. limit-1.

        Raises:
            ValueError: there are fewer positions than tokens.
        """
        if length > self.max_position:
            raise ValueError(
                f"randomized.max_position is {self.max_position}, but sequences of {length} tokens need as many "
                f"different positions. Set max_position to {length} or more, or use shorter sequences."
            )
        return self.max_position


SCHEMES = {"in_order": InOrder, "randomized": Randomized}
