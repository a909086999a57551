"""Context-sensitive languages, the upper level of the Chomsky hierarchy: it takes a bounded tape to answer.

The seven tasks of this level from Delétang et al. 2022, "Neural Networks and the Chomsky Hierarchy"
(arXiv:2207.02098), on which Ruoss et al. 2023 (arXiv:2305.16843) compare position encodings. Sums and products have
the least significant bit first, square roots the most significant one.

duplicate_string          1 0 1                 -> 1 0 1 1 0 1
                          0 1                   -> 0 1 0 1
missing_duplicate_string  0 1 1 0 0 ? 1 0       -> 1                (0 1 1 0 twice)
                          1 0 1 1 ? 1 .         -> 0                (1 0 1 twice, and a filler)
odds_first                0 0 1 1 0 1 0 1       -> 0 1 1 1 0 1 0 0  (places 1 3 5 7, then 0 2 4 6)
                          1 1 0                 -> 1 1 0
binary_addition           0 0 1 | 0 1 1 0 1     -> 0 1 0 1 1        (4 + 22 = 26)
                          1 0 0 1 | 0 0 0 0 0 1 -> 1 0 0 1 0 1      (9 + 32 = 41)
binary_multiplication     0 0 1 | 0 1 1 0 1     -> 0 0 0 1 1 0 1    (4 * 22 = 88)
                          1 1 0 | 1 1           -> 1 0 0 1          (3 * 3 = 9)
compute_sqrt              1 0 0 1 0 1           -> 1 1 0            (37: 6, and some more)
                          1 1 1                 -> 1 0              (7: 2, and some more)
bucket_sort               3 1 4 1               -> 1 1 3 4
                          1 0 2 0 4 1 1 2       -> 0 0 1 1 1 2 2 4
"""

import abc
import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks.base import Example, Task
from experiments.tasks.bits import carried, positive, product, root
from experiments.tasks.strings import Sort, String

HOLE, FILLER = 2, 3
BETWEEN = 2  # two numbers


@dataclasses.dataclass(frozen=True)
class DuplicateString(String):
    """The string, said `times` times.

    Args:
        alphabet: how many symbols there are.
        times: how often the answer has the string.
    """

    alphabet: int = 2
    times: int = 2

    def __post_init__(self):
        super().__post_init__()
        if self.times < 1:
            raise ValueError(f"times is {self.times}; expected 1 or more, or there is no answer.")

    def answer_length(self, length):
        return self.times * length

    def sample(self, key, length, longest):
        string = self.draw(key, longest)
        return Example(string, string[jnp.arange(self.answer_length(longest)) % length])

    def groups(self, length, longest):
        """A symbol of the answer with that of the input which it repeats."""
        behind, most = jnp.arange(self.answer_length(longest) + 2), self.answer_length(length)
        said = jnp.where(behind > most, length, (behind - 1) % length)
        return 1 + jnp.arange(longest), jnp.where(behind == 0, 0, 1 + said)


@dataclasses.dataclass(frozen=True)
class MissingDuplicateString(Task):
    """The bit that a hole has replaced in a string of `length // 2` bits said twice; each bit is as likely to be it.

    A filler comes last where the length is odd. There is no such string of length 1: the paper's code has the input 1
    and the answer 1 instead.
    """

    @property
    def symbols(self):
        return 4

    def answer_length(self, length):
        return 1

    def sample(self, key, length, longest):
        bits_key, hole_key = jax.random.split(key)
        place, half = jnp.arange(longest), jnp.maximum(length // 2, 1)
        said = jax.random.randint(bits_key, (longest,), 0, 2)[place % half]
        hole = jax.random.randint(hole_key, (), 0, 2 * half)
        question = jnp.select([place == hole, place < 2 * half], [HOLE, said], FILLER)
        alone = length == 1
        return Example(jnp.where(alone, 1, question), jnp.where(alone, 1, said[hole % half])[None])

    def chance(self, length):
        return 1.0 if length == 1 else 0.5


@dataclasses.dataclass(frozen=True)
class OddsFirst(String):
    """The symbols in places 1, 3, 5, ... and then those in places 0, 2, 4, ..., counted from 0.

    So the paper's code has it; its text counts from 1 and puts the others first.
    """

    alphabet: int = 2

    def sample(self, key, length, longest):
        string = self.draw(key, longest)
        return Example(string, string[self.source(jnp.arange(longest), length)])

    def source(self, place, length):
        """The place in the input of what is in this place of the answer."""
        return jnp.where(place < length // 2, 2 * place + 1, 2 * (place - length // 2))

    def groups(self, length, longest):
        """A symbol of the answer with that of the input which it repeats."""
        behind = jnp.arange(longest + 2)
        said = jnp.where(behind > length, length, self.source(behind - 1, length))
        return 1 + jnp.arange(longest), jnp.where(behind == 0, 0, 1 + said)


@dataclasses.dataclass(frozen=True)
class BucketSort(Sort):
    """The string's symbols in ascending order, repeats kept: the task `sort` on five symbols."""

    alphabet: int = 5


@dataclasses.dataclass(frozen=True)
class BinaryOperation(Task):
    """Two numbers with a separator between them, `length` symbols in all, least significant bit first.

    The first number has 1 to length-2 bits, each as likely, and the second one has the others. Each is drawn uniformly
    from 1 to the largest of so many bits, and padded with zeros to them. The answer is not padded.

    Below length 3 there is no room for two numbers. The paper's code then has one from 0 to 2^length - 2, all of
    `length` bits, and so it is here; what it answers is like an operation with zero.

    The terminator of the paper, and zeros behind it, are the end token here.
    """

    digits = range(2)
    alike = False

    @property
    def symbols(self):
        return 3

    @abc.abstractmethod
    def result(self, first, second):
        """The result's bits from those of both numbers."""

    def sample(self, key, length, longest):
        size_key, first_key, second_key = jax.random.split(key, 3)
        place, room = jnp.arange(longest), length > 2
        size = jnp.where(room, jax.random.randint(size_key, (), 1, jnp.maximum(length - 1, 2)), length)
        alone = jax.random.randint(first_key, (), 0, jnp.where(length == 1, 1, 3))
        alone = jnp.where(place < 2, alone >> jnp.minimum(place, 1) & 1, 0)
        first = jnp.where(room, positive(first_key, size, longest), alone)
        second = jnp.where(room, positive(second_key, jnp.maximum(length - 1 - size, 1), longest), 0)
        behind = second[jnp.clip(place - size - 1, 0, longest - 1)]
        question = jnp.select([place < size, place == size], [first, BETWEEN], behind)
        answer = self.result(first, second)
        answered = jnp.max(jnp.where(answer == 1, place + 1, 1))
        return Example(question, answer[: self.answer_length(longest)], answered=answered)

    def longest_number(self, length):
        return max(self.answer_length(length), length if length < 3 else length - 2)


@dataclasses.dataclass(frozen=True)
class BinaryAddition(BinaryOperation):
    """The sum of the numbers; below length 3, the one number."""

    def answer_length(self, length):
        return length - (length > 2)

    def result(self, first, second):
        return carried(first + second)

    def chance(self, length):
        """Of the likeliest sum, a power of two.

        By each split of the bits, the pairs that have a sum are the more the larger it is, up to the shorter number's
        largest value plus one; as many, up to the longer number's plus one; and then fewer. Both are powers of two.
        Only there does the straight line bend down, and so does the mean of all splits: it is largest at one of them.
        """
        if length < 3:
            return 1 / (2**length - 1)
        longer, power = longer_numbers(length), np.arange(1, length - 1)[:, None]
        shorter = length - 1 - longer
        missing = np.maximum(shorter - power, 0)  # the sum is that power of two
        share = np.where(missing > 0, 0.5**missing * (1 - 0.5**power) / (1 - 0.5**shorter), 1)  # of shorter numbers
        pairs = np.where(power <= longer, share, 0) * 0.5**longer / (1 - 0.5**longer)
        return float(pairs.mean(1).max())


@dataclasses.dataclass(frozen=True)
class BinaryMultiplication(BinaryOperation):
    """The product of the numbers; below length 3, zero.

    The paper's code answers nothing, instead of zero, at length 1.
    """

    def answer_length(self, length):
        return length - 1 - (length < 5) + (length < 3) + (length < 2)

    def result(self, first, second):
        return product(first, second)

    def chance(self, length):
        """Exact up to length 16; beyond, an upper bound.

        By each split of the bits, to a shorter number there is at most one longer one with which it has a product.
        """
        if length < 3:
            return 1.0
        if length <= 16:
            return likeliest_product(length)
        longer = longer_numbers(length)
        return float(np.mean(0.5**longer / (1 - 0.5**longer)))


def longer_numbers(length):
    """The bits of the longer one of two numbers, by each split of the bits between them."""
    return np.maximum(np.arange(1, length - 1), np.arange(length - 2, 0, -1))


@functools.cache
def likeliest_product(length):
    """The probability of the likeliest product, from all pairs."""
    products = np.zeros(2 ** (length - 1))
    for size in range(1, length - 1):
        pairs = np.outer(np.arange(1, 2**size), np.arange(1, 2 ** (length - 1 - size))).ravel()
        products += np.bincount(pairs, minlength=len(products)) / len(pairs)
    return float(products.max() / (length - 2))


@dataclasses.dataclass(frozen=True)
class ComputeSqrt(Task):
    """The floor of the square root of a number from 1 to 2^length - 1, both with the most significant bit first.

    Both are padded with zeros: the number to `length` bits, the root to half as many, or half of one more.
    """

    digits = range(2)

    @property
    def symbols(self):
        return 2

    def answer_length(self, length):
        return (length + 1) // 2

    def sample(self, key, length, longest):
        number = positive(key, length, longest)
        higher = 2 * jnp.arange(self.answer_length(longest)) - length % 2
        pairs = jnp.stack([number[jnp.minimum(higher + 1, longest - 1)], jnp.where(higher < 0, 0, number[higher])], 1)
        return Example(number, root(pairs))

    def chance(self, length):
        """A root r is that of 2r + 1 numbers, but for the largest one, where 2^length may come first."""
        largest = math.isqrt(2**length - 1)
        return max(2**length - largest**2, 2 * largest - 1) / (2**length - 1)
