"""0, 1, 2, ...: each token stands one behind the token before it.

    p_t = t

What everybody takes for granted, and what random positions are compared with.
"""

import dataclasses

import jax.numpy as jnp

from posenc.positions import Positions
from posenc.schemes.base import Scheme


@dataclasses.dataclass(frozen=True)
class InOrder(Scheme):
    """Consecutive positions from 0 on, shared by all examples."""

    def __call__(self, key, lengths, size, batch=1):
        return Positions(jnp.minimum(jnp.arange(size), lengths.max() - 1)[None], consecutive=True)

    def bounds(self, extent):
        return 0, extent - 1
