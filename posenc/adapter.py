"""Encodings inside Flax's own attention layers, by way of their argument `attention_fn`.

    nnx.MultiHeadAttention(..., attention_fn=attention_fn(rope))
    linen.MultiHeadDotProductAttention(..., attention_fn=attention_fn(rope))

These layers hand over queries, keys, values and a mask. They say neither where tokens stand nor what queries and keys
were projected from, and whatever a function holds is a constant to Flax: a parameter in it would never be trained, and
nothing would tell. What cannot come out right on this road is refused; `posenc.Attention` and `posenc.attend` go all
the way.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from flax import nnx

from posenc.attention import attend
from posenc.encodings.base import Encoding
from posenc.positions import Positions, PositionsLike
from posenc.shapes import Array, Bool, Float
from posenc.visibility import visibility

UNKNOWN = {  # arguments of Flax's attention functions that `attend` does not take
    "bias": "Add it in the hook `bias` of an encoding.",
    "precision": "Leave it out of the layer, and call the model in `with jax.default_matmul_precision(...)`.",
    "qk_attn_weights_einsum": "Leave it out of the layer: an encoding may need other products than this one.",
    "attn_weights_value_einsum": "Leave it out of the layer: an encoding may need other products than this one.",
}
KEPT_AS = ("intermediates", "attention_weights")  # what Flax's own functions call the weights that are kept


def attention_fn(encoding: Encoding, positions: PositionsLike | None = None) -> Callable[..., Array]:
    """What to pass as `attention_fn` to `nnx.MultiHeadAttention` or `linen.MultiHeadDotProductAttention`.

    The layers' masks, dropout, shared keys (`num_kv_heads`) and `sow_weights` work as they do without it, except that a
    query that may see no key takes nothing, where Flax gives it the mean of all values. Queries and keys are taken to
    stand at the same positions: do not use it between two texts, also where they are equally long.

    Args:
        encoding: one that acts in attention only, has no trained parameters and takes no steps.
        positions: of the tokens in every call, ``[t]`` or ``[1|b, t]``; 0, 1, 2 and so on where it is None.

    Returns:
        A function of queries, keys, values and the layers' keywords; see `attention`, which says what it refuses.

    Raises:
        ValueError: the encoding acts on the embeddings, takes steps or has trained parameters; or positions have too
            many axes, or none.
        TypeError: positions are neither whole numbers nor floats of at least 32 bits.
    """
    check_encoding_fits(encoding)
    if positions is not None:
        Positions.grid(positions)  # raises what is wrong with them now, and not within somebody's model
    return functools.partial(attention, encoding, positions)


def attention(
    encoding: Encoding,
    positions: PositionsLike | None,
    query: Float[Array, "*b q h d"],
    key: Float[Array, "*b k g d"],
    value: Float[Array, "*b k g v"],
    *,
    bias: Any = None,
    mask: Array | None = None,
    broadcast_dropout: bool = True,
    dropout_rng: Array | None = None,
    dropout_rate: float = 0.0,
    deterministic: bool = False,
    dtype: Any = None,
    precision: Any = None,
    module: Any = None,
    is_causal: bool = False,
    input_positions: PositionsLike | None = None,
    qk_attn_weights_einsum: Any = None,
    attn_weights_value_einsum: Any = None,
) -> Float[Array, "b q h v"]:
    """`attend`, called as Flax calls an attention function. Linen passes only the keywords that it finds listed here.

    Args:
        query, key, value: projected; g heads of keys and values may serve h heads of queries.
        mask: not 0 where a query may see a key; may be broadcast to ``[b, h, q, k]``.
        module: the layer, where it wants to keep the weights.
        is_causal: whether keys after a query are hidden, besides those that the mask hides.
        input_positions: of this call, before those of the encoding's; newer versions of Flax pass them.

    Raises:
        ValueError: an argument of UNKNOWN is given; the numbers of queries, keys and positions differ; there is not one
            axis of examples; the mask has another shape; or the encoding does not fit the direction.
    """
    refuse(
        bias=bias,
        precision=precision,
        qk_attn_weights_einsum=qk_attn_weights_einsum,
        attn_weights_value_einsum=attn_weights_value_einsum,
    )
    q, k, v = of_one_kind(query, key, value, dtype)
    examples, tokens, heads = q.shape[:3]
    at = places(positions if input_positions is None else input_positions, examples, tokens)
    seen = None if mask is None else full_mask(mask, examples, heads, tokens)
    check_direction(encoding, is_causal, ordered=is_causal or (seen is not None and seen.shape[2] == tokens))
    visible = visibility(tokens, causal=is_causal)
    layer = nnx.Dropout(dropout_rate, broadcast_dims=(0, 1) if broadcast_dropout else ())

    def kept_and_dropped(weights: Array) -> Array:
        if module is not None:
            module.sow(*KEPT_AS, weights)
        return layer(weights, deterministic=deterministic, rngs=dropout_rng)

    seen = visible if seen is None else visible & seen
    return attend(encoding, q, k, v, at, at, seen, dropout=kept_and_dropped, road="dense")


def check_encoding_fits(encoding: Encoding) -> None:
    """Raises ValueError where a part of the encoding would be left out, or would never be trained."""
    name = type(encoding).__name__
    if encoding.overrides("embeddings"):
        elsewhere = any(map(encoding.overrides, ("queries_keys", "bias", "steps", "logits", "weights", "values")))
        rest = "use posenc.Attention, as it acts there too." if elsewhere else "no attention_fn is needed there."
        raise ValueError(
            f"{name} acts on the embeddings, which an attention layer never sees. Call encoding.embeddings(x, "
            f"positions) in front of the first layer; in the layers {rest}"
        )
    if encoding.overrides("steps"):
        raise ValueError(
            f"{name} takes steps from the layer's input, which an attention_fn is not told. Use posenc.Attention, or "
            "call posenc.attend in a layer of your own, with the running sums of encoding.steps(x, positions)."
        )
    held = [".".join(map(str, path)) for path, _ in nnx.to_flat_state(nnx.state(encoding, nnx.Variable))]
    if held:
        raise ValueError(
            f"{name} has trained parameters ({', '.join(held)}). Flax holds an attention_fn as a constant, and their "
            "gradients would be exactly 0. Use posenc.Attention, or make the encoding a submodule of a layer of your "
            "own that calls posenc.attend."
        )


def refuse(**arguments: Any) -> None:
    """Raises ValueError where one of the arguments of UNKNOWN is given."""
    for name, argument in arguments.items():
        if argument is not None:
            raise ValueError(f"attention_fn was given {name}, which posenc.attend does not take. {UNKNOWN[name]}")


def of_one_kind(query: Array, key: Array, value: Array, dtype: Any) -> tuple[Array, Array, Array]:
    """Queries, keys and values of one dtype and with as many heads: each key is repeated for the queries it serves.

    Raises:
        ValueError: there is not one axis of examples, or there are more keys than queries, or fewer.
    """
    if query.ndim != 4:
        raise ValueError(
            f"queries have shape {query.shape}; expected [batch, tokens, heads, channels]. Give the layer's input one "
            "axis of examples: x[None] where it has none, a reshaped x where it has more."
        )
    if query.shape[1] != key.shape[1]:
        raise ValueError(
            f"attention_fn was given {query.shape[1]} queries and {key.shape[1]} keys: the layer looks at another text "
            "or, with decode=True, into its cache, and does not say where the queries stand. Call posenc.attend in a "
            "layer of your own: it takes q_positions and k_positions."
        )
    dtype = jnp.result_type(query, key, value) if dtype is None else dtype
    served = query.shape[2] // key.shape[2]
    k, v = (jnp.repeat(x, served, axis=2) if served > 1 else x for x in (key, value))
    return query.astype(dtype), k.astype(dtype), v.astype(dtype)


def places(positions: PositionsLike | None, examples: int, tokens: int) -> PositionsLike:
    """The positions of the tokens, from 0 on where none are given.

    Raises:
        ValueError: they are those of another number of tokens or examples.
    """
    if positions is None:
        return Positions(jnp.arange(tokens), consecutive=True)
    found = Positions.grid(positions).shape[:2]
    if found[0] not in (1, examples) or found[1] != tokens:
        raise ValueError(
            f"attention_fn has positions of {found[1]} tokens in {found[0]} examples; the layer was given {tokens} "
            f"tokens in {examples}. Pass positions [{tokens}] or [1 or {examples}, {tokens}], or None to count from 0."
        )
    return positions


def full_mask(mask: Array, examples: int, heads: int, tokens: int) -> Bool[Array, "#b #h #q #k"]:
    """The mask with all four axes, True where a query may see a key.

    Raises:
        ValueError: it cannot be broadcast to ``[b, h, q, k]``.
    """
    shape, full = (1,) * (4 - mask.ndim) + mask.shape, (examples, heads, tokens, tokens)
    if len(shape) != 4 or any(size not in (1, whole) for size, whole in zip(shape, full, strict=True)):
        raise ValueError(
            f"the mask has shape {mask.shape}; expected {full}, or 1 in place of what is the same for all examples, "
            "heads, queries or keys."
        )
    return mask.reshape(shape).astype(bool)


def check_direction(encoding: Encoding, is_causal: bool, *, ordered: bool) -> None:
    """Raises ValueError where an encoding for one direction is used in the other.

    Args:
        ordered: whether each query has keys of its own that it may see; which, is not looked at.
    """
    name = type(encoding).__name__
    if (encoding.causal_only or encoding.bidirectional is False) and not ordered:
        raise ValueError(
            f"{name} is for causal models, and queries see keys after them: there is neither is_causal nor a mask with "
            "a row for each query. Call the layer with is_causal=True (NNX) or mask=make_causal_mask(...)."
        )
    if encoding.bidirectional and is_causal:
        raise ValueError(
            f"{name} was built with bidirectional=True; the layer is called with is_causal=True. Build it with "
            "bidirectional=False, or leave out is_causal."
        )
