"""Consecutive positions have few distances: one for each diagonal, and a shift of rows puts them where they belong.

What is computed for the q + k - 1 distances that occur, and not for q times k pairs, is laid out as a matrix by reading
it with another row length (Huang et al. 2018, arXiv:1809.04281, section 3.4; Dai et al. 2019, appendix B).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from posenc.positions import Positions, PositionsLike, distance
from posenc.shapes import Array, Float, Num


def on_diagonals(q_positions: PositionsLike, k_positions: PositionsLike) -> bool:
    """Whether both are promised to be consecutive, and shared by all examples."""
    q, k = Positions.of(q_positions), Positions.of(k_positions)
    return q.consecutive and k.consecutive and len(q.values) == len(k.values) == 1


def diagonals(q_positions: PositionsLike, k_positions: PositionsLike) -> Num[Array, "r"]:
    """The distances that occur, ``[q + k - 1]``, descending: those of the first query to the keys come last."""
    q, k = (Positions.of(positions).values[0] for positions in (q_positions, k_positions))
    last = len(q) - 1
    return q[0] + last - k[0] - jnp.arange(len(q) + len(k) - 1)


def bias_of(
    read: Callable[[Array], Array], q_positions: PositionsLike, k_positions: PositionsLike
) -> Float[Array, "#b h q k"]:
    """A number for each head and pair of positions that depends on their distance alone.

    Args:
        read: from distances of any shape to numbers of that shape, with an axis of heads behind.
    """
    if not on_diagonals(q_positions, k_positions):
        return jnp.moveaxis(read(distance(q_positions, k_positions)), -1, 1)
    queries, keys = (Positions.of(positions).values.shape[1] for positions in (q_positions, k_positions))
    by_head = read(diagonals(q_positions, k_positions)).T

    def row(first: Array) -> Array:
        return jax.lax.dynamic_slice_in_dim(by_head, first, keys, axis=1)

    return jax.vmap(row, out_axes=1)(queries - 1 - jnp.arange(queries))[None]


def skewed(x: Float[Array, "b h q r"], keys: int) -> Float[Array, "b h q k"]:
    """From a value for each query and distance, in the order of `diagonals`, to one for each query and key.

    Query i and key j have the distance number last - i + j: each row starts one further left than the row above it.
    """
    b, h, queries, distances = x.shape
    flat = jnp.pad(x, ((0, 0), (0, 0), (0, 0), (0, 1))).reshape(b, h, -1)
    start = queries - 1
    flat = jnp.pad(flat, ((0, 0), (0, 0), (0, start)))[:, :, start : start + queries * distances]
    return flat.reshape(b, h, queries, distances)[..., :keys]
