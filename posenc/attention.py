"""Attention, written as its equation. The only file that calls an encoding's hooks inside attention.

`attend` has three roads to one result. "dense" is the equation. "blocks" walks it over the queries, a block at a time
against all the keys, and computes a block anew when gradients are taken: memory grows with the length and not with its
square, for every encoding, also for those that count over keys. "fused" leaves the middle of the equation to
`jax.nn.dot_product_attention`, where an encoding leaves it alone.
"""

import dataclasses
import functools
import typing
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from posenc.dropout import Dropout
from posenc.encodings.base import Encoding
from posenc.positions import Positions, PositionsLike, taken
from posenc.shapes import Array, Bool, Float, Int
from posenc.sums import for_each
from posenc.visibility import Visibility

Road = Literal["auto", "dense", "blocks", "fused"]
MANY = 2**22  # logits; where there are more, "auto" takes blocks
BLOCK = 2**21  # logits of a block: 8 MiB in float32
LEAST = 16  # queries of a block
EXTENTS = 4  # numbers of keys that a block may be given, to leave out those that none of its queries sees


class Queries(NamedTuple):
    """What asks: queries, their positions, and their running totals where the encoding takes steps.

    The hook `queries_keys` has seen them inside `attend`, and not before: a cache holds keys as they are projected.
    """

    q: Float[Array, "b q h d"]
    positions: Positions
    totals: Float[Array, "b q h"] | None = None

    def rows(self, start: Int[Array, ""], size: int) -> "Queries":
        """`size` of them, from number `start` on."""
        totals = None if self.totals is None else jax.lax.dynamic_slice_in_dim(self.totals, start, size, axis=1)
        q = jax.lax.dynamic_slice_in_dim(self.q, start, size, axis=1)
        return Queries(q, self.positions.rows(start, size), totals)


class Keys(NamedTuple):
    """What is asked: keys and values, their positions, and running totals."""

    k: Float[Array, "b k h d"]
    v: Float[Array, "b k h v"]
    positions: Positions
    totals: Float[Array, "b k h"] | None = None

    @classmethod
    def room(cls, like: "Keys", slots: int) -> "Keys":
        """An empty cache of so many slots for keys like these; an empty slot has the position of the first token."""
        examples, first = len(like.k), like.positions.values[:, :1]

        def empty(x: Array) -> Array:
            return jnp.zeros((examples, slots, *x.shape[2:]), x.dtype)

        positions = Positions(jnp.broadcast_to(first, (examples, slots, *first.shape[2:])))
        return cls(empty(like.k), empty(like.v), positions, None if like.totals is None else empty(like.totals))

    def put(self, new: "Keys", slots: Int[Array, "b t"]) -> "Keys":
        """With new ones in these slots; those that are past the last slot are left out."""

        def write(old: Array, x: Array) -> Array:
            return jax.vmap(lambda row, at, x: row.at[at].set(x, mode="drop"))(old, slots, x)

        values = jnp.broadcast_to(new.positions.values, (len(slots), *new.positions.values.shape[1:]))
        positions = Positions(write(self.positions.values, values.astype(self.positions.values.dtype)))
        totals = None if self.totals is None or new.totals is None else write(self.totals, new.totals)
        return Keys(write(self.k, new.k), write(self.v, new.v), positions, totals)

    def first(self, count: int) -> "Keys":
        """The first so many of them."""
        totals = None if self.totals is None else self.totals[:, :count]
        return Keys(self.k[:, :count], self.v[:, :count], self.positions.rows(0, count), totals)


def attend(
    encoding: Encoding,
    q: Float[Array, "b q h d"],
    k: Float[Array, "b k h d"],
    v: Float[Array, "b k h v"],
    q_positions: PositionsLike,
    k_positions: PositionsLike,
    visible: Visibility | Bool[Array, "#b #h q k"],
    *,
    q_totals: Float[Array, "b q h"] | None = None,
    k_totals: Float[Array, "b k h"] | None = None,
    dropout: Dropout | Callable[[Array], Array] | None = None,
    road: Road = "auto",
) -> Float[Array, "b q h v"]:
    """What each query takes from the keys it may see, logits in float32 or wider.

    Args:
        q, k, v: projected, not yet scaled or turned.
        q_positions, k_positions: of queries and of keys; a cache asks with one query.
        visible: what a query may see. A `Visibility` takes no memory; a matrix takes as much as the logits of a head.
        q_totals, k_totals: running totals of the encoding's `steps`, where it takes any.
        dropout: applied to the weights. A function that is no `Dropout` is given all of them: "dense" only.
        road: "dense", "blocks" or "fused"; "auto" decides between the first two by the number of logits.

    Returns:
        The same on each road, up to rounding, for queries that are no padding.

    Raises:
        ValueError: the encoding takes steps, and their totals are missing; or it cannot take the road.
    """
    if encoding.overrides("steps") and (q_totals is None or k_totals is None):
        raise ValueError(
            f"{type(encoding).__name__} takes steps along the sequence, and their totals are missing. Use "
            "posenc.Attention, or pass q_totals and k_totals: the running sums, from the first token on, of "
            "encoding.steps(x, positions), x being what queries and keys are projected from."
        )
    queries, keys = Queries(q, Positions.led(q_positions), q_totals), Keys(k, v, Positions.led(k_positions), k_totals)
    q, k = encoding.queries_keys(q, k, queries.positions, keys.positions)  # once, and not for each block of queries
    queries, keys = queries._replace(q=q), keys._replace(k=k)
    go = {"dense": dense, "blocks": in_blocks, "fused": fused}[chosen(road, encoding, queries, keys, dropout)]
    return go(encoding, queries, keys, visible, dropout)


def chosen(road: Road, encoding: Encoding, queries: Queries, keys: Keys, dropout) -> str:
    """The road that is taken.

    Raises:
        ValueError: the encoding, or what drops weights, cannot take the one that is asked for.
    """
    if road not in typing.get_args(Road):
        raise ValueError(f'road is "{road}"; expected one of {", ".join(typing.get_args(Road))}.')
    obstacle = {"blocks": against_blocks(dropout), "fused": against_fused(encoding, queries, keys, dropout)}
    if road != "auto":
        if obstacle.get(road):
            raise ValueError(f'attention cannot take the road "{road}": {obstacle[road]} Use "auto" or "dense".')
        return road
    many = queries.q.shape[0] * queries.q.shape[2] * queries.q.shape[1] * keys.k.shape[1] > MANY
    return "blocks" if many and not obstacle["blocks"] else "dense"


def against_blocks(dropout) -> str:
    """Why weights cannot be made block by block; nothing where they can."""
    whole = dropout is not None and not isinstance(dropout, Dropout)
    return "a function that is no Dropout wants all weights at once." if whole else ""


def against_fused(encoding: Encoding, queries: Queries, keys: Keys, dropout) -> str:
    """Why the middle of attention cannot be left to a kernel; nothing where it can."""
    own = [hook for hook in ("steps", "logits", "weights", "values") if encoding.overrides(hook)]
    if own:
        return f"{type(encoding).__name__} has {' and '.join(own)} of its own."
    if dropout is not None:
        return "a fused kernel does not show the weights, which are to be dropped."
    if queries.totals is not None or keys.totals is not None:
        return "a fused kernel knows no running totals."
    if queries.q.shape[-1] != keys.v.shape[-1]:
        return f"values have {keys.v.shape[-1]} channels, and queries {queries.q.shape[-1]}."
    return ""


def dense(encoding: Encoding, queries: Queries, keys: Keys, visible, dropout) -> Float[Array, "b q h v"]:
    """The equation, for all queries and keys at once."""
    q, k, mask = queries.q, keys.k, matrix(visible, queries.q, keys.k)
    bias = encoding.bias(queries.positions, keys.positions)
    dtype = jnp.promote_types(q.dtype, jnp.float32)
    logits = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=dtype) * q.shape[-1] ** -0.5
    if bias is not None:
        trained = jax.tree.leaves(nnx.state(encoding, nnx.Param))  # what is not has no gradient to be summed
        logits = logits + (for_each(bias, len(q)) if trained and len(bias) < len(q) else bias)
    if queries.totals is not None and keys.totals is not None:  # without steps there may be totals all the same
        logits = logits + by_head(queries.totals)[:, :, :, None] - by_head(keys.totals)[:, :, None, :]
    logits = encoding.logits(logits, q, k, queries.positions, keys.positions, mask)
    weights = encoding.weights(logits, mask)
    weights = (weights if dropout is None else dropout(weights)).astype(keys.v.dtype)
    out = jnp.einsum("bhqk,bkhd->bqhd", weights, keys.v)
    return encoding.values(out, weights, keys.v, queries.positions, keys.positions)


def matrix(visible: Visibility | Array, q: Array, k: Array) -> Bool[Array, "#b #h q k"]:
    """What is visible, written out."""
    return visible.mask(q.shape[1], k.shape[1]) if isinstance(visible, Visibility) else visible


def in_blocks(encoding: Encoding, queries: Queries, keys: Keys, visible, dropout) -> Float[Array, "b q h v"]:
    """The same over blocks of queries, one after the other; keys that none of a block may see are left out."""
    b, total, h, _ = queries.q.shape
    many = keys.k.shape[1]
    blocks = -(-total // max(LEAST, BLOCK // (b * h * many)))
    size = -(-total // blocks)
    extents = sorted({-(-many * i // EXTENTS) for i in range(1, EXTENTS + 1)})

    def block(number: Int[Array, ""]) -> Array:
        start = jnp.minimum(number * size, total - size)  # the last block begins earlier than the rest would have it
        part, drop = queries.rows(start, size), None if dropout is None else dropout.of(number)
        if not isinstance(visible, Visibility):
            return dense(encoding, part, keys, jax.lax.dynamic_slice_in_dim(visible, start, size, axis=2), drop)
        rows = visible.rows(start, size, total)

        def see(count: int) -> Array:
            return dense(encoding, part, keys.first(count), rows, drop)

        needed = rows.reach(size, many)
        if isinstance(needed, int):
            return see(many)
        branch = sum((needed > less).astype(jnp.int32) for less in [0, *extents[:-1]])
        nothing = jnp.zeros((b, size, h, keys.v.shape[-1]), keys.v.dtype)
        return jax.lax.switch(branch, [lambda: nothing, *[lambda n=n: see(n) for n in extents]])

    out = jax.lax.map(jax.checkpoint(block, prevent_cse=False), jnp.arange(blocks))
    out = jnp.moveaxis(out, 0, 1).reshape(b, blocks * size, h, -1)
    return jnp.concatenate([out[:, : total - size], out[:, -size:]], axis=1)


def fused(encoding: Encoding, queries: Queries, keys: Keys, visible, dropout) -> Float[Array, "b q h v"]:
    """The same, with logits and weights left to a kernel: on a GPU to cuDNN's, which knows 16 bits only."""
    q, k, bias = queries.q, keys.k, encoding.bias(queries.positions, keys.positions)
    kernel = functools.partial(
        jax.nn.dot_product_attention, q, k, keys.v, bias=None if bias is None else bias.astype(q.dtype),
        implementation="cudnn" if jax.default_backend() == "gpu" and q.dtype.itemsize == 2 else "xla",
    )  # fmt: skip
    if isinstance(visible, Visibility) and visible.simple and q.shape[1] == k.shape[1]:  # no matrix is needed
        lengths = None if visible.lengths is None else jnp.broadcast_to(visible.lengths, len(q)).astype(jnp.int32)
        return kernel(is_causal=visible.causal, query_seq_lengths=lengths, key_value_seq_lengths=lengths)
    mask = matrix(visible, q, k)
    return jnp.where(jnp.moveaxis(mask.any(-1, keepdims=True), 1, 2), kernel(mask=mask), 0)  # not the mean of nothing


def by_head(totals: Float[Array, "b t h"]) -> Float[Array, "b h t"]:
    """Heads before tokens, as in the logits."""
    return jnp.swapaxes(totals, 1, 2)


class Attention(nnx.Module):
    """Attention with an encoding handed in; it owns the projections and nothing else.

    Args:
        width: channels of input and output.
        heads: number of heads.
        head_dim: channels of a query or key of one head; width / heads where it is None.
        value_dim: channels of a value of one head; `head_dim` where it is None.
        scale: of the logits; 1 / sqrt(head_dim) where it is None. With another one initial queries are drawn such that
            training begins with logits of the same size.
        dropout: rate on the attention weights, in training.
        road: how `attend` goes.
        dtype: of activations; parameters are kept in `param_dtype`.

    Raises:
        ValueError: `head_dim` is None and `heads` does not divide `width`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        head_dim: int | None = None,
        value_dim: int | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
        road: Road = "auto",
        dtype=jnp.float32,
        param_dtype=jnp.float32,
        rngs: nnx.Rngs,
    ):
        head_dim = head_dim or head_width(width, heads)
        self.heads, self.dropout, self.road = heads, dropout, road
        self.sharpened = 1.0 if scale is None else scale * head_dim**0.5  # `attend` divides by the root

        def linear(inputs: int, outputs: int, variance: float = 1.0) -> nnx.Linear:
            init = nnx.initializers.variance_scaling(variance, "fan_in", "truncated_normal")
            return nnx.Linear(
                inputs, outputs, use_bias=False, kernel_init=init, dtype=dtype, param_dtype=param_dtype, rngs=rngs
            )

        self.query = linear(width, heads * head_dim, self.sharpened**-2)
        self.key = linear(width, heads * head_dim)
        self.value = linear(width, heads * (value_dim or head_dim))
        self.out = linear(heads * (value_dim or head_dim), width)

    def __call__(
        self,
        x: Float[Array, "b t m"],
        positions: PositionsLike,
        encoding: Encoding,
        visible: Visibility | Bool[Array, "#b #h t t"],
        *,
        slots: Int[Array, "#b q"] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b q m"]:
        """What each token takes from those it may see.

        Args:
            positions: ``[t]`` or ``[1|b, t]``.
            visible: see `visibility`.
            slots: which tokens ask; all of them where it is None. They are told to a `Visibility`, not to a matrix.
            rngs: in training only.
        """
        # A token that nobody sees is padding, and 0 x NaN would carry what it holds into every sum.
        real = visible.real(x.shape[1]) if isinstance(visible, Visibility) else visible.any(axis=(1, 2))
        x, where = jnp.where(real[:, :, None], x, 0), Positions.led(positions)
        keys = self.keys(x, where, encoding)
        if slots is None:
            queries = Queries(self.queries(x), where, keys.totals)
        elif not isinstance(visible, Visibility):
            raise ValueError("slots say which tokens ask, and a matrix is for all. Pass a posenc.Visibility.")
        else:
            totals = None if keys.totals is None else taken(keys.totals, slots)
            queries = Queries(self.queries(taken(x, slots)), where.at(slots), totals)
            visible = dataclasses.replace(visible, slots=slots)
        return self.ask(queries, keys, encoding, visible, rngs)

    def keys(self, x: Float[Array, "b t m"], positions: Positions, encoding: Encoding) -> Keys:
        """What the tokens answer with; running totals begin with the first of them."""
        steps = encoding.steps(x, positions)
        totals = None if steps is None else jnp.cumsum(steps, axis=1)
        return Keys(self.split(self.key(x)), self.split(self.value(x)), positions, totals)

    def extend(
        self,
        x: Float[Array, "b t m"],
        positions: Positions,
        encoding: Encoding,
        cache: Keys,
        slots: Int[Array, "b t"],
        visible: Visibility,
    ) -> tuple[Float[Array, "b t m"], Keys]:
        """What more tokens take from those in a cache, from each other and from themselves; and the cache with them.

        Args:
            cache: keys as they are before `queries_keys`.
            slots: where the new ones go.
            visible: what they see of the slots then.
        """
        real = taken(visible.real(len(cache.k[0])), slots)
        new = self.keys(jnp.where(real[:, :, None], x, 0), positions, encoding)
        if cache.totals is not None and new.totals is not None:
            before = jnp.take_along_axis(cache.totals, jnp.maximum(slots[:, :1] - 1, 0)[:, :, None], axis=1)
            new = new._replace(totals=new.totals + jnp.where(slots[:, :1, None] > 0, before, 0))
        cache = cache.put(new, slots)
        queries = Queries(self.queries(x), positions, new.totals)
        return self.ask(queries, cache, encoding, dataclasses.replace(visible, slots=slots), None), cache

    def recall(
        self,
        x: Float[Array, "b q m"],
        positions: Positions,
        memory: Keys,
        encoding: Encoding,
        visible: Visibility,
        *,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b q m"]:
        """What each token takes from the keys of another text."""
        return self.ask(Queries(self.queries(x), positions), memory, encoding, visible, rngs)

    def queries(self, x: Float[Array, "b q m"]) -> Float[Array, "b q h d"]:
        """The heads' queries."""
        q = self.split(self.query(x))
        return q if self.sharpened == 1 else q * self.sharpened

    def ask(self, queries: Queries, keys: Keys, encoding: Encoding, visible, rngs) -> Float[Array, "b q m"]:
        """Attention, and the projection of what it gives."""
        drop = Dropout(self.dropout, rngs.dropout()) if rngs is not None and self.dropout else None
        out = attend(
            encoding, queries.q, keys.k, keys.v, queries.positions, keys.positions, visible,
            q_totals=queries.totals, k_totals=keys.totals, dropout=drop, road=self.road,
        )  # fmt: skip
        return self.out(out.reshape(*out.shape[:2], -1))

    def split(self, x: Float[Array, "b t n"]) -> Float[Array, "b t h d"]:
        """The heads apart."""
        return x.reshape(*x.shape[:2], self.heads, -1)


def head_width(width: int, heads: int) -> int:
    """Channels of a head where heads share the width.

    Raises:
        ValueError: they cannot share it evenly.
    """
    if heads < 1 or width % heads:
        raise ValueError(f"{heads} heads cannot share a width of {width} evenly. Change the width or the heads.")
    return width // heads
