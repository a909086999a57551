"""Attention, written as its equation. The only file that calls an encoding's hooks inside attention."""

from collections.abc import Callable

import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding
from posenc.positions import PositionsLike
from posenc.shapes import Array, Bool, Float, Int


def attend(
    encoding: Encoding,
    q: Float[Array, "b q h d"],
    k: Float[Array, "b k h d"],
    v: Float[Array, "b k h v"],
    q_positions: PositionsLike,
    k_positions: PositionsLike,
    visible: Bool[Array, "#b #h q k"],
    *,
    q_totals: Float[Array, "b q h"] | None = None,
    k_totals: Float[Array, "b k h"] | None = None,
    dropout: Callable[[Array], Array] = lambda weights: weights,
) -> Float[Array, "b q h v"]:
    """What each query takes from the keys it may see, logits in float32 or wider.

    Args:
        q, k, v: projected, not yet scaled or turned.
        q_positions, k_positions: of queries and of keys; a cache asks with one query.
        visible: what a query may see.
        q_totals, k_totals: running totals of the encoding's `steps`, where it takes any.
        dropout: applied to the weights.

    Raises:
        ValueError: the encoding takes steps, and their totals are missing.
    """
    if encoding.overrides("steps") and (q_totals is None or k_totals is None):
        raise ValueError(
            f"{type(encoding).__name__} takes steps along the sequence, and their totals are missing. Use "
            "posenc.Attention, or pass q_totals and k_totals: the running sums, from the first token on, of "
            "encoding.steps(x, positions), x being what queries and keys are projected from."
        )
    q, k = encoding.queries_keys(q, k, q_positions, k_positions)
    dtype = jnp.promote_types(q.dtype, jnp.float32)
    logits = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=dtype) * q.shape[-1] ** -0.5
    bias = encoding.bias(q_positions, k_positions)
    if bias is not None:
        logits = logits + bias
    if q_totals is not None and k_totals is not None:  # without steps there may be totals all the same
        logits = logits + by_head(q_totals)[:, :, :, None] - by_head(k_totals)[:, :, None, :]
    logits = encoding.logits(logits, q, k, q_positions, k_positions, visible)
    weights = dropout(encoding.weights(logits, visible)).astype(v.dtype)
    out = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
    return encoding.values(out, weights, v, q_positions, k_positions)


def by_head(totals: Float[Array, "b t h"]) -> Float[Array, "b h t"]:
    """Heads before tokens, as in the logits."""
    return jnp.swapaxes(totals, 1, 2)


def visibility(tokens: int, *, causal: bool, lengths: Int[Array, "#b"] | None = None) -> Bool[Array, "#b 1 q k"]:
    """What each of `tokens` queries may see: no padding, and in a causal model nothing after itself.

    Args:
        lengths: how many of the tokens are real, the first ones; all where it is None.
    """
    slot = jnp.arange(tokens)
    seen = slot[:, None] >= slot[None, :] if causal else jnp.ones((tokens, tokens), bool)
    if lengths is None:
        return seen[None, None]
    return seen[None, None] & (slot[None, :] < lengths[:, None])[:, None, None, :]


class Attention(nnx.Module):
    """Self-attention with an encoding handed in; it owns the projections and nothing else.

    Args:
        width: channels of input and output.
        heads: number of heads.
        head_dim: channels of a query or key of one head; width / heads where it is None.
        value_dim: channels of a value of one head; `head_dim` where it is None.
        dropout: rate on the attention weights, in training.
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
        dropout: float = 0.0,
        dtype=jnp.float32,
        param_dtype=jnp.float32,
        rngs: nnx.Rngs,
    ):
        head_dim = head_dim or head_width(width, heads)
        self.heads = heads

        def linear(inputs: int, outputs: int) -> nnx.Linear:
            return nnx.Linear(inputs, outputs, use_bias=False, dtype=dtype, param_dtype=param_dtype, rngs=rngs)

        self.query = linear(width, heads * head_dim)
        self.key = linear(width, heads * head_dim)
        self.value = linear(width, heads * (value_dim or head_dim))
        self.out = linear(heads * (value_dim or head_dim), width)
        self.dropout = nnx.Dropout(dropout)

    def __call__(
        self,
        x: Float[Array, "b t m"],
        positions: PositionsLike,
        encoding: Encoding,
        visible: Bool[Array, "#b #h t t"],
        *,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b t m"]:
        """Args: x; positions ``[t]`` or ``[1|b, t]``; visible, see `visibility`; rngs, in training only."""
        # A token that nobody sees is padding, and 0 x NaN would carry what it holds into every sum.
        x = jnp.where(visible.any(axis=(1, 2))[:, :, None], x, 0)
        q, k, v = (self.split(projection(x)) for projection in (self.query, self.key, self.value))
        steps = encoding.steps(x, positions)
        totals = None if steps is None else jnp.cumsum(steps, axis=1)

        def drop(weights: Array) -> Array:
            return self.dropout(weights, deterministic=rngs is None, rngs=rngs)

        out = attend(encoding, q, k, v, positions, positions, visible, q_totals=totals, k_totals=totals, dropout=drop)
        return self.out(out.reshape(*x.shape[:2], -1))

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
