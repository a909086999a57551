"""Real positions, shaken in training: all shifted alike, each a little for itself, and all stretched alike.

    p_t = lambda (t + Delta + epsilon_t),   Delta ~ U(-D, D),   epsilon_t ~ U(-e, e),   log lambda ~ U(-log L, log L)

CAPE, Likhomanenko et al. 2021, arXiv:2106.03143, made for the sinusoidal encoding. The defaults are those for text;
there, unlike in speech, positions are not centred on 0 first. With e up to 0.5 the order of tokens is kept. Positions
may be negative and are no whole numbers: a table has no row for them, and is refused. In testing they are 0, 1, 2, ...
"""

import dataclasses
import math

import jax
import jax.numpy as jnp

from posenc.positions import Positions
from posenc.schemes.base import Scheme, slots
from posenc.schemes.in_order import InOrder


@dataclasses.dataclass(frozen=True)
class Augmented(Scheme):
    """Shifted and stretched positions, drawn for each example.

    Args:
        global_shift: D, the furthest that a whole example is shifted, in tokens, either way.
        local_shift: e, the same for one token.
        scale: L, the most that an example is stretched; 1 / L the least.
    """

    global_shift: float = 5.0
    local_shift: float = 0.5
    scale: float = 1.03

    def __post_init__(self):
        if min(self.global_shift, self.local_shift) < 0 or self.scale < 1:
            raise ValueError(
                f"augmented has global_shift {self.global_shift}, local_shift {self.local_shift} and scale "
                f"{self.scale}; expected shifts of 0 or more and a scale of 1 or more."
            )

    def __call__(self, key, lengths, size, batch=1):
        keys = jax.random.split(key, 3)

        def uniform(key, most, *shape):
            return jax.random.uniform(key, (batch, *shape), minval=-most, maxval=most)

        # A draw for each slot by itself: how many slots there are changes none of them.
        each = jax.vmap(lambda slot: uniform(jax.random.fold_in(keys[0], slot), self.local_shift), out_axes=1)
        whole, local = uniform(keys[1], self.global_shift, 1), each(jnp.arange(size))
        stretch = jnp.exp(uniform(keys[2], math.log(self.scale), 1))
        real = slots(lengths, size)
        local = jnp.take_along_axis(local, jnp.broadcast_to(real, local.shape), axis=1)
        return Positions(stretch * (real + whole + local))

    def bounds(self, extent):
        furthest = self.global_shift + self.local_shift
        return -self.scale * furthest, self.scale * (extent - 1 + furthest)

    def tested(self):
        return InOrder()
