"""A digit's place inside its number, from a random start; whatever is no digit stands at 0.

    p_t = k + 1, k + 2, ... along the digits of each number,   k ~ U{0, ..., K}

Abacus, McLeish et al. 2024, arXiv:2405.17399, where K = 99 and the table is a learned one (`chain` of `learned` and
`fire` gives "Abacus + FIRE"). One k serves all numbers of a batch in training, and k = 0 in testing. Digits of the same
weight get the same position only where numbers are written with the lowest digit first (`addition.reversed_digits`).
"""

import dataclasses

import jax
import jax.numpy as jnp

from posenc.positions import Positions
from posenc.schemes.base import Scheme, slots


@dataclasses.dataclass(frozen=True)
class Digits(Scheme):
    """Positions counted within numbers.

    Args:
        max_start: the highest k, K.
    """

    needs = "numbers"

    max_start: int = 99

    def __post_init__(self):
        if self.max_start < 0:
            raise ValueError(f"digits.max_start is {self.max_start}; expected 0 or more.")

    def __call__(self, key, lengths, size, batch=1, *, numbers):  # type: ignore[override]
        start = jax.random.randint(key, (), 0, self.max_start + 1)
        slot = jnp.arange(size)[None]
        begins = numbers != jnp.pad(numbers, ((0, 0), (1, 0)))[:, :-1]
        first = jax.lax.cummax(jnp.where(begins, slot, 0), axis=1)  # the slot where this run of tokens began
        places = jnp.where(numbers > 0, start + 1 + slot - first, 0)
        return Positions(jnp.take_along_axis(places, jnp.broadcast_to(slots(lengths, size), places.shape), axis=1))

    def bounds(self, extent):
        return 0, self.max_start + extent

    def tested(self):
        return Digits(max_start=0)
