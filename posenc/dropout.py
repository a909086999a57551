"""Dropout: a share of the numbers set to nothing, the rest scaled up by as much (Srivastava et al. 2014).

    y_i = x_i / (1 - rate)  where  word_i >= rate 2^32,   0 elsewhere

On a CPU the words of JAX's own generator cost more than the layer that they are for. Which numbers are dropped needs no
cryptography: here a word is a hash of the number's index, keyed with two words of that generator.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
from flax import nnx

from posenc.shapes import Array, Float, Int, Key

WORDS = 2**32


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Dropout:
    """A rate and a key: the same numbers are dropped each time.

    Attributes:
        rate: the share that is dropped, from 0 to below 1.
        key: decides which.
    """

    rate: float = dataclasses.field(metadata={"static": True})
    key: Key[Array, ""]

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        kept = words(self.key, x.shape) >= jnp.uint32(min(round(self.rate * WORDS), WORDS - 1))
        return jnp.where(kept, x / (1 - self.rate), 0).astype(x.dtype)

    def of(self, number: Int[Array, ""] | int) -> "Dropout":
        """Another one, for one of several parts."""
        return dataclasses.replace(self, key=jax.random.fold_in(self.key, number))


def dropped(x: Float[Array, "..."], rate: float, rngs: nnx.Rngs | None) -> Float[Array, "..."]:
    """`x` with dropout in training, where `rngs` are given; as it is otherwise."""
    return x if rngs is None or not rate else Dropout(rate, rngs.dropout())(x)


def words(key: Key[Array, ""], shape: tuple[int, ...]) -> Array:
    """Random words of 32 bits, one for each index: two rounds of a mixing function, a word of the key before each.

    The rounds are Chris Wellons's triple32 and lowbias32, bijections that spread each bit over all others.
    """
    first, second = jax.random.bits(key, (2,), jnp.uint32)
    word = jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape) + first
    for shift, factor in ((17, 0xED5AD4BB), (11, 0xAC4C1B51), (15, 0x31848BAB)):
        word = (word ^ word >> shift) * jnp.uint32(factor)
    word = word ^ word >> 14 ^ second
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
        word = (word ^ word >> shift) * jnp.uint32(factor)
    return word ^ word >> 15
