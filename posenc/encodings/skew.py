"""Consecutive positions have few distances: one for each diagonal, and a shift of rows puts them where they belong.

What is computed for the q + k - 1 distances that occur, and not for q times k pairs, is laid out as a matrix by reading
it with another row length (Huang et al. 2018, arXiv:1809.04281, section 3.4; Dai et al. 2019, appendix B).
"""

from collections.abc import Callable

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
    return skewed(jnp.broadcast_to(by_head[None, :, None], (1, len(by_head), queries, by_head.shape[1])), keys)


def dots(
    x: Float[Array, "b q h d"],
    read: Callable[[Array], Array],
    x_positions: PositionsLike,
    y_positions: PositionsLike,
) -> Float[Array, "b h q k"]:
    """The product of each x_i with the row of its distance to each y_j, where `on_diagonals`.

    Args:
        read: from distances of any shape to rows of that shape, with axes for heads, or 1, and channels behind.
    """
    b, count, h, _ = x.shape
    others = Positions.of(y_positions).values.shape[1]
    size = min(count, others)  # of a tile: longer ones would meet more distances than they have pairs
    tiles = -(-count // size)
    x = jnp.pad(x, ((0, 0), (0, tiles * size - count), (0, 0), (0, 0))).reshape(b, tiles, size, h, -1)
    first, y = Positions.of(x_positions).values[0, 0], Positions.of(y_positions).values[0, 0]
    last = size * (1 + jnp.arange(tiles)) - 1
    rows = read(first - y + last[:, None] - jnp.arange(size + others)[None])  # one more than occurs: see `skewed`
    rows = jnp.broadcast_to(rows, (*rows.shape[:2], h, rows.shape[3]))
    pairs = skewed(jnp.einsum("btqhd,trhd->thbqr", x, rows), others)  # heads first, as the product comes out
    return jnp.transpose(pairs, (2, 1, 0, 3, 4)).reshape(b, h, tiles * size, others)[:, :, :count]


def sums(
    weights: Float[Array, "b h q k"],
    read: Callable[[Array], Array],
    q_positions: PositionsLike,
    k_positions: PositionsLike,
) -> Float[Array, "b q h d"]:
    """The row of each key's distance, weighted, and summed over the keys.

    Args:
        read: from distances of any shape to rows of that shape, with an axis for channels behind.
    """
    if not on_diagonals(q_positions, k_positions):
        return jnp.einsum("bhqk,bqkd->bqhd", weights, read(distance(q_positions, k_positions)))
    return jnp.einsum("bhqr,rd->bqhd", unskewed(weights), read(diagonals(q_positions, k_positions)))


def skewed(x: Float[Array, "... q r"], keys: int) -> Float[Array, "... q k"]:
    """From a value for each query and distance, in the order of `diagonals`, to one for each query and key.

    Query i and key j have the distance number q - 1 - i + j. Read with rows one number shorter, each row starts one
    further right than the row above it: key j of every query is then in column q - 1 + j. There may be numbers behind
    those of the distances that occur.
    """
    *lead, queries, distances = x.shape
    needed = queries + keys  # a row with one number more than there are distances
    if distances < needed:
        x = jnp.concatenate([x, x[..., :1]], axis=-1)
    flat = x.reshape(*lead, queries * needed)[..., : queries * (needed - 1)]
    return flat.reshape(*lead, queries, needed - 1)[..., queries - 1 :]


def unskewed(x: Float[Array, "... q k"]) -> Float[Array, "... q r"]:
    """The way back: from a value for each query and key to one for each query and distance, 0 where no key is."""
    *lead, queries, keys = x.shape
    none = [(0, 0)] * len(lead)
    flat = jnp.pad(x, [*none, (0, 0), (queries - 1, 0)]).reshape(*lead, -1)
    flat = jnp.pad(flat, [*none, (0, queries)])
    return flat.reshape(*lead, queries, queries + keys)[..., :-1]
