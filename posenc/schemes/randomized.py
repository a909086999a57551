"""A sorted random subset: exactly as many of the positions 0 .. N-1 as there are tokens, without replacement.

    {p_0 < p_1 < ... < p_T-1}, each subset of {0, ..., N-1} of that size as likely as any other

Ruoss et al. 2023, arXiv:2305.16843, where N = 2048, and one draw serves a whole batch, in testing as in training: a
model trained so and tested in order is another protocol.
"""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp

from posenc.positions import Positions
from posenc.schemes.base import Scheme, check_room


@dataclasses.dataclass(frozen=True)
class Randomized(Scheme):
    """Sorted positions drawn without replacement.

    Args:
        max_position: how many positions there are to choose from, N.
        draw: one draw for the whole "batch" (as published), or one for each "example". With lengths that differ in a
            batch, one draw means that a shorter example has a subset of a longer one's positions.
    """

    max_position: int = 2048
    draw: Literal["batch", "example"] = "batch"

    def __call__(self, key, lengths, size, batch=1):
        draws = 1 if self.draw == "batch" else batch
        ranks = jax.vmap(lambda one: jax.random.permutation(one, self.max_position))(jax.random.split(key, draws))
        chosen = ranks < lengths[:, None]  # the first `length` of a random order
        places = jnp.sort(jnp.where(chosen, jnp.arange(self.max_position)[None], self.max_position), axis=-1)
        places = jnp.pad(places, ((0, 0), (0, max(size - self.max_position, 0))), mode="edge")[:, :size]
        last = jnp.take_along_axis(places, jnp.minimum(lengths, self.max_position)[:, None] - 1, axis=-1)
        return Positions(jnp.minimum(places, last))

    def bounds(self, extent):
        check_room("randomized.max_position", self.max_position, extent)
        return 0, self.max_position - 1
