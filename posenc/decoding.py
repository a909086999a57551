"""Text from a decoder: the prompt at once, then token by token, in one compiled loop over a cache."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from posenc.blocks import Memory
from posenc.cache import Cache
from posenc.encoder_decoder import EncoderDecoder
from posenc.positions import Positions, PositionsLike, taken
from posenc.shapes import Array, Float, Int, Key
from posenc.transformer import Transformer


def generate(
    model: Transformer | EncoderDecoder,
    tokens: Int[Array, "b t"],
    steps: int,
    *,
    lengths: Int[Array, "b"] | None = None,
    positions: PositionsLike | None = None,
    end: int | None = None,
    key: Key[Array, ""] | None = None,
    temperature: float = 1.0,
    memory: Sequence[Memory] | None = None,
) -> Int[Array, "b steps"]:
    """What a decoder writes behind prompts.

    Args:
        tokens: the prompts, padded behind.
        steps: how many tokens are written.
        lengths: of the prompts, 1 or more; all of `tokens` where it is None.
        positions: of all tokens, prompts and written ones, by their place in the text, ``[t + steps]`` or
            ``[1|b, t + steps]``; 0, 1, 2, ... where it is None.
        end: the token after which a text is over; everything behind it is this token too.
        key: to draw each token from the softmax of its logits; the likeliest one is taken where it is None.
        temperature: of that softmax; 1 is the model's own.
        memory: what the decoder of an `EncoderDecoder` may ask, as its `read` gives it; prompts and written tokens are
            the decoder's.

    Raises:
        ValueError: nothing is to be written, the temperature is not above 0, there are too few positions, or the model
            is not causal.
    """
    total = tokens.shape[1] + steps
    where = Positions.led(jnp.arange(total) if positions is None else positions)
    if steps < 1 or temperature <= 0:
        raise ValueError(f"steps is {steps} and temperature {temperature}; expected 1 or more, and a number above 0.")
    if where.values.shape[1] < total:
        raise ValueError(
            f"there are {where.values.shape[1]} positions for {tokens.shape[1]} tokens and {steps} steps. Pass {total}."
        )
    lengths = jnp.full(len(tokens), tokens.shape[1]) if lengths is None else lengths
    extend = extending(model, memory)
    logits, cache = extend(tokens, where.rows(0, tokens.shape[1]), Cache.empty(len(tokens), total), lengths=lengths)
    last = jnp.take_along_axis(logits, lengths[:, None, None] - 1, axis=1)[:, 0]

    def one(carry, number):
        logits, cache, over = carry
        token = chosen(logits, None if key is None else jax.random.fold_in(key, number), temperature)
        token = token if end is None else jnp.where(over, end, token)
        position = Positions(taken(where.values, cache.lengths[:, None]))
        logits, cache = extend(token[:, None], position, cache)
        return (logits[:, 0], cache, over | (token == end)), token

    _, written = jax.lax.scan(one, (last, cache, jnp.zeros(len(tokens), bool)), jnp.arange(steps))
    return written.T


def extending(model: Any, memory: Sequence[Memory] | None) -> Callable[..., tuple[Array, Cache]]:
    """What takes more tokens: of an encoder-decoder, its decoder with what its encoder has read."""
    return model.extend if memory is None else functools.partial(model.extend, memory=memory)


def chosen(logits: Float[Array, "b v"], key: Key[Array, ""] | None, temperature: float) -> Int[Array, "b"]:
    """The next token of each text."""
    return logits.argmax(-1) if key is None else jax.random.categorical(key, logits / temperature)
