"""Where tokens stand: what travels from a position scheme to the encodings, and how encodings read it."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from posenc.shapes import Array, Int, Num


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
    def led(cls, positions: "PositionsLike") -> "Positions":
        """Positions, on a line or on a grid, with the leading axis of examples: ``[1|b, t]`` or ``[1|b, t, axes]``."""
        values = readable(positions)
        consecutive = isinstance(positions, Positions) and positions.consecutive
        return cls(values[None] if values.ndim == 1 else values, consecutive)

    def rows(self, start: Int[Array, ""] | int, size: int) -> "Positions":
        """Those of `size` tokens from number `start` on; there is a leading axis."""
        return dataclasses.replace(self, values=jax.lax.dynamic_slice_in_dim(self.values, start, size, axis=1))

    def at(self, slots: Int[Array, "#b q"]) -> "Positions":
        """Those of the tokens in these slots; there is a leading axis."""
        return Positions(taken(self.values, slots))

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


def taken(x: Array, slots: Int[Array, "#b q"]) -> Array:
    """Those tokens of ``[1|b, t, ...]`` that stand in these slots, ``[1|b, q, ...]``."""
    if len(slots) == 1:
        return x[:, slots[0]]
    x = jnp.broadcast_to(x, (len(slots), *x.shape[1:]))
    return jax.vmap(lambda row, chosen: row[chosen])(x, slots)
