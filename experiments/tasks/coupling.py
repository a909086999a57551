"""Arithmetic of the position-coupling paper whose operands have fixed sizes (Cho et al. 2024, arXiv:2405.20671).

    short_multiplication                      second=1
      1 2 x 0 7 -> 4 8 0 0      (12 * 7)        3 0 x 9       -> 0 7 2      (30 * 9)
      5 x 1 0   -> 0 5 0        (5 * 10)        0 x 4         -> 0 0

    triple_addition
      0 1 2 + 0 0 5 + 0 9 9 -> 6 1 1      (12 + 5 + 99)
      0 9 + 0 9 + 0 9       -> 7 2        (9 + 9 + 9)

Operands are written most significant digit first, the answer the other way round and padded with zeros to the most
digits that it can have. Operands of three are padded to as many, too.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp

from experiments.tasks.arithmetic import turned
from experiments.tasks.base import Example, Task
from experiments.tasks.digits import carried, multiply, number
from experiments.tasks.operands import joined

OPERATOR = 10


@dataclasses.dataclass(frozen=True)
class ShortMultiplication(Task):
    """A number of `length` digits times one of a few digits: N x 1, N x 2.

    Args:
        second: how many digits the second operand has. They are uniform, leading zeros kept; the first operand has no
            leading zero, but may be zero where it has one digit.
    """

    digits = range(10)

    second: int = 2

    def __post_init__(self):
        if self.second < 1:
            raise ValueError(f"second is {self.second}; expected 1 or more digits.")

    @property
    def symbols(self):
        return 11

    def input_length(self, length):
        return length + 1 + self.second

    def answer_length(self, length):
        return length + self.second

    def longest_number(self, length):
        return self.answer_length(length)

    def sample(self, key, length, longest):
        one, other = jax.random.split(key)
        first, second = number(one, length, longest, 0), jax.random.randint(other, (self.second,), 0, 10)
        question = joined(turned(first, length), second[::-1], length, OPERATOR, self.input_length(longest))
        return Example(question, multiply(first, second))

    def groups(self, length, longest):
        """A digit's weight, counted from 1; 0 behind the lowest one of the first operand and before the answer.

        Cho et al. count downwards here: the same ids but for their sign and where they begin.
        """
        slot = jnp.arange(self.input_length(longest))
        weight = jnp.where(slot < length, length - slot, length + 1 + self.second - slot)
        return jnp.where(slot == length, 0, weight), jnp.arange(self.answer_length(longest) + 2)

    def chance(self, length):
        """Zero is the likeliest product; any other comes from one second operand for each first one, at most."""
        share = 10.0**-self.second
        return 0.1 + 0.9 * share if length == 1 else share


@dataclasses.dataclass(frozen=True)
class TripleAddition(Task):
    """The sum of three numbers of `length` digits each, any digit uniform, leading zeros kept, one more added."""

    digits = range(10)

    @property
    def symbols(self):
        return 11

    def input_length(self, length):
        return 3 * (length + 1) + 2

    def answer_length(self, length):
        return length + 1

    def longest_number(self, length):
        return length + 1

    def sample(self, key, length, longest):
        place = jnp.arange(longest + 1)
        numbers = [
            jnp.where(place < length, jax.random.randint(one, place.shape, 0, 10), 0)
            for one in jax.random.split(key, 3)
        ]
        first, second, third = (turned(digits, length + 1) for digits in numbers)
        longer = joined(second, third, length + 1, OPERATOR, 2 * longest + 3)
        return Example(joined(first, longer, length + 1, OPERATOR, self.input_length(longest)), carried(sum(numbers)))

    def groups(self, length, longest):
        """A digit's weight, counted from 1; 0 before the lowest one."""
        slot = jnp.arange(self.input_length(longest))
        return (length + 1 - slot) % (length + 2), jnp.arange(longest + 3)

    def chance(self, length):
        """The sum in the middle is the likeliest: as many triples as there are of any size, without those too large."""
        count = 10**length
        middle = 3 * (count - 1) // 2
        return (math.comb(middle + 2, 2) - 3 * math.comb(middle - count + 2, 2)) / count**3
