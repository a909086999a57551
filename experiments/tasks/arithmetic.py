"""Sums of two numbers of `length` digits each, any digit uniform, leading zeros kept.

    addition                              reversed_digits=True
      4 7 + 0 5 -> 0 5 2                    7 4 + 5 0 -> 2 5 0
      9 9 + 9 9 -> 1 9 8                    9 9 + 9 9 -> 8 9 1

The sum is written with one digit more than the operands, so that its length says nothing about the carry.
"""

import dataclasses

import jax
import jax.numpy as jnp

from experiments.tasks.base import Example, Task

PLUS = 10


@dataclasses.dataclass(frozen=True)
class Addition(Task):
    """The sum of two numbers in decimal digits, most significant first.

    Args:
        reversed_digits: all three numbers least significant digit first: another convention, and a far easier one,
            for each digit then needs only what stands before it.
    """

    digits = range(10)

    reversed_digits: bool = False

    @property
    def symbols(self):
        return 11

    def input_length(self, length):
        return 2 * length + 1

    def answer_length(self, length):
        return length + 1

    def sample(self, key, length, longest):
        place = jnp.arange(longest)
        first, second = (
            jnp.where(place < length, jax.random.randint(one, (longest,), 0, 10), 0) for one in jax.random.split(key)
        )
        total = add(first, second)
        if not self.reversed_digits:
            first, second, total = (
                turned(digits, n) for digits, n in ((first, length), (second, length), (total, length + 1))
            )
        slot = jnp.arange(self.input_length(longest))
        second_there = second[jnp.clip(slot - length - 1, 0, longest - 1)]
        first_there = jnp.where(slot == length, PLUS, first[jnp.minimum(slot, longest - 1)])
        return Example(jnp.where(slot <= length, first_there, second_there), total)

    def longest_number(self, length):
        return length + 1

    def groups(self, length, longest):
        """A digit's weight, counted from 1, as Cho et al. 2024 (arXiv:2405.20671) have it; 0 before the lowest one."""
        slot, behind = jnp.arange(self.input_length(longest)), jnp.arange(longest + 3)
        place = jnp.where(slot < length, slot, slot - length - 1)  # in its number
        weight = place + 1 if self.reversed_digits else length - place
        return jnp.where(slot == length, 0, weight), behind if self.reversed_digits else length + 2 - behind

    def chance(self, length):
        """The likeliest sum, all nines, comes from 10^length pairs."""
        return 10.0**-length


def add(first, second):
    """The digits of the sum, least significant first, one more than the operands have."""

    def place(carry, digits):
        total = digits + carry
        return total // 10, total % 10

    carry, digits = jax.lax.scan(place, jnp.zeros((), first.dtype), first + second)
    return jnp.append(digits, carry)


def turned(digits, length):
    """The first `length` digits in the opposite order."""
    return digits[jnp.maximum(length - 1 - jnp.arange(len(digits)), 0)]
