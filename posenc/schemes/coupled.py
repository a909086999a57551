"""Tokens that belong together have one position: a digit of the sum stands where the digits stand that it is made of.

    p_t = g_t + k,   g_t = g_s where t and s belong together,   k such that all lies within N positions

Position coupling, Cho et al. 2024, arXiv:2405.20671; McLeish et al.'s `digits` came at the same time. What belongs
together is the task's to say, and so the position knows part of the answer's structure: compare it with other schemes
bearing that in mind. k is drawn for each example in training, uniformly from what fits, and is the lowest in testing.
The authors count from 1, with 0 for what comes before the question; here nothing does, and ids count from 0.
"""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp

from posenc.positions import Positions
from posenc.schemes.base import Scheme, check_room, slots


@dataclasses.dataclass(frozen=True)
class Coupled(Scheme):
    """The task's ids of tokens, shifted.

    Args:
        max_position: how many positions there are, N; the paper's for sums of 200 digits.
        start: "random", or always the "first".
    """

    needs = "groups"

    max_position: int = 202
    start: Literal["random", "first"] = "random"

    def __call__(self, key, lengths, size, batch=1, *, groups):  # type: ignore[override]
        groups = jnp.take_along_axis(groups, jnp.broadcast_to(slots(lengths, size), groups.shape), axis=1)
        groups = groups - groups.min(axis=1, keepdims=True)
        if self.start == "first":
            return Positions(groups)
        room = self.max_position - groups.max(axis=1, keepdims=True)
        return Positions(groups + jax.random.randint(key, (batch, 1), 0, room))

    def bounds(self, extent):
        if self.start == "first":
            return 0, extent - 1
        check_room("coupled.max_position", self.max_position, extent, "different ids")
        return 0, self.max_position - 1

    def tested(self):
        return dataclasses.replace(self, start="first")
