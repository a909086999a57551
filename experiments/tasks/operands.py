"""Two operands of unlike sizes, as in "Transformers Can Do Arithmetic with the Right Embeddings".

McLeish et al. 2024, arXiv:2405.17399, draw every pair of sizes equally often and test on the whole grid of sizes.
`length` is the size of the first operand; the second has as many digits, or 1 .. `second` of them, or as many as
`sample` is told.

    addition_operands                         order="reversed_answer", padding="zeros"
      3 2 1 + 9 9 -> 2 2 2      (123 + 99)      1 2 3 + 0 9 9 -> 2 2 2 0
      5 + 5       -> 0 1        (5 + 5)         5 + 5         -> 0 1

    multiplication
      2 1 x 2 1   -> 4 4 1      (12 * 12)       1 2 x 1 2     -> 4 4 1 0
      5 1 x 7     -> 5 0 1      (15 * 7)        1 5 x 7       -> 5 0 1

    bitwise_or                                bits="uniform"
      0 1 | 0 0 0 -> 0 1 0                      0 1 1 | 1 0   -> 1 1 1
      0 0 0 | 1   -> 1 0 0                      1 0 | 1 0 0 1 -> 1 0 0 1

A number has no leading zero. The defaults are those of McLeish et al.: all numbers least significant digit first and as
long as they are. The other column is the convention of position coupling (Cho et al. 2024, arXiv:2405.20671): operands
most significant digit first, the answer the other way round and padded with zeros to the most digits that it can have.

The bits are vectors, not numbers: they are aligned on the left, and the answer is as long as the longer one. McLeish et
al. put a single one somewhere in the shorter vector, or in either where both are equally long.
"""

import dataclasses
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp

from experiments.tasks.arithmetic import add, turned
from experiments.tasks.base import Example, Task, at
from experiments.tasks.digits import likeliest_product, likeliest_sum, multiply, number, size
from experiments.tasks.sizes import larger
from posenc.options import check_options


@dataclasses.dataclass(frozen=True)
class Operands(Task):
    """Two operands with an operator between them.

    Args:
        second: the most digits of the second operand, which has any number from 1 on, equally often; 0 gives it as many
            as the first one has.
    """

    alike = False
    grid = True
    operator: ClassVar[int]

    second: int = 0

    def __post_init__(self):
        check_options(type(self), type(self).__name__, dataclasses.asdict(self))
        if self.second < 0:
            raise ValueError(
                f"second is {self.second}; expected 1 or more digits, or 0 for as many as the first operand has."
            )

    @property
    def symbols(self):
        return self.operator + 1

    def most(self, length):
        """The most digits of the second operand."""
        return self.second or length

    def seconds(self, length):
        """The sizes of the second operand, on the host."""
        return range(1, self.second + 1) if self.second else range(length, length + 1)

    def draw_second(self, key, length):
        """How many digits the second operand has."""
        return jax.random.randint(key, (), 1, self.second + 1) if self.second else length

    def input_length(self, length):
        return length + 1 + self.most(length)

    def longest_number(self, length):
        return self.answer_length(length)


@dataclasses.dataclass(frozen=True)
class Numbers(Operands):
    """Two numbers in decimal digits and what they make.

    Args:
        order: which numbers are written least significant digit first: "reversed", all three; "reversed_answer", the
            answer alone; "plain", none.
        padding: "zeros" gives the answer as many digits as it can have for operands of their sizes; "none" as many as
            it has.
        least: the least number of one digit: 1 as McLeish et al. have it, 0 as Cho et al. do.
    """

    digits = range(10)
    operator = 10
    padded_operands: ClassVar[bool] = False  # zeros make the shorter operand as long as the longer one, too

    order: Literal["reversed", "reversed_answer", "plain"] = "reversed"
    padding: Literal["none", "zeros"] = "none"
    least: Literal[0, 1] = 1

    def largest(self, first, second):
        """The most digits of the answer to operands of these sizes."""
        raise NotImplementedError

    def result(self, first, second):
        """Digits from digits, least significant first."""
        raise NotImplementedError

    def written(self, length, second):
        """How many digits the operands are written with."""
        equal = self.padded_operands and self.padding == "zeros"
        return (larger(length, second),) * 2 if equal else (length, second)

    def input_length(self, length):
        return sum(self.written(length, self.most(length))) + 1

    def answer_length(self, length):
        return self.largest(length, self.most(length))

    def sample(self, key, length, longest, second=None):
        sizing, *keys = jax.random.split(key, 3)
        second = self.draw_second(sizing, length) if second is None else second
        width = max(longest, self.most(longest))  # for both, as zeros may make the shorter as long as the longer
        operands = [number(one, count, width, self.least) for one, count in zip(keys, (length, second), strict=True)]
        answer = self.result(*operands)[: self.answer_length(longest)]
        answered = self.largest(length, second) if self.padding == "zeros" else size(answer)
        written = self.written(length, second)
        if self.order == "plain":
            answer = turned(answer, answered)
        if self.order != "reversed":
            operands = [turned(digits, count) for digits, count in zip(operands, written, strict=True)]
        question = joined(*operands, written[0], self.operator, self.input_length(longest))
        return Example(question, answer, sum(written) + 1, answered, self.weights(length, second, longest))

    def groups(self, length, longest):
        """A digit's weight, counted from 1, as Cho et al. 2024 have it; 0 before the lowest one.

        None where the ids of an answer would give away how many digits it has.
        """
        return self.weights(length, self.most(length), longest)

    def weights(self, length, second, longest):
        """The same for a second operand of this size."""
        if self.order == "plain" and self.padding == "none":
            return None
        first, other = self.written(length, second)
        slot, behind = jnp.arange(self.input_length(longest)), jnp.arange(self.answer_length(longest) + 2)
        place = jnp.where(slot < first, slot, slot - first - 1)  # in its number
        weight = place + 1 if self.order == "reversed" else jnp.where(slot < first, first, other) - place
        answer = self.largest(length, second) + 1 - behind if self.order == "plain" else behind
        return jnp.where(slot == first, 0, weight), answer


@dataclasses.dataclass(frozen=True)
class AdditionOperands(Numbers):
    """The sum. Zeros are for the shorter operand as well, as Cho et al. have it."""

    padded_operands = True

    def largest(self, first, second):
        return larger(first, second) + 1

    def result(self, first, second):
        return add(first, second)

    def chance(self, length):
        """Exact. Of padded sums, those are likeliest that are as long as with a second operand of no more digits."""
        seconds = self.seconds(length)
        some = seconds if self.padding == "none" else range(seconds[0], min(length, seconds[-1]) + 1)
        return likeliest_sum(length, some, self.least) / len(seconds)


@dataclasses.dataclass(frozen=True)
class Multiplication(Numbers):
    """The product. Zeros are for the answer alone."""

    def largest(self, first, second):
        return first + second

    def result(self, first, second):
        return multiply(first, second)

    def chance(self, length):
        """Exact where the operands cannot have more than six digits together; an upper bound beyond."""
        seconds = self.seconds(length)
        if self.padding == "none":
            return likeliest_product(length, seconds, self.least) / len(seconds)
        return max(likeliest_product(length, range(one, one + 1), self.least) for one in seconds) / len(seconds)


@dataclasses.dataclass(frozen=True)
class BitwiseOr(Operands):
    """Where either of two vectors of bits has a one.

    Args:
        bits: "single", one 1 in the shorter vector, at any place of it; "uniform", every bit 0 or 1.
    """

    digits = range(2)
    operator = 2

    bits: Literal["single", "uniform"] = "single"

    def answer_length(self, length):
        return larger(length, self.most(length))

    def sample(self, key, length, longest, second=None):
        sizing, *keys = jax.random.split(key, 3)
        second = self.draw_second(sizing, length) if second is None else second
        place = jnp.arange(self.answer_length(longest))
        if self.bits == "single":
            one = place == jax.random.randint(keys[0], (), 0, jnp.minimum(length, second))
            in_first = jnp.where(length == second, jax.random.bernoulli(keys[1]), length < second)
            vectors = one & in_first, one & ~in_first
        else:
            drawn = (jax.random.bernoulli(one, shape=place.shape) for one in keys)
            vectors = [bits & (place < count) for bits, count in zip(drawn, (length, second), strict=True)]
        first, other = (bits.astype(jnp.int32) for bits in vectors)
        question = joined(first, other, length, self.operator, self.input_length(longest))
        return Example(question, first | other, length + 1 + second, jnp.maximum(length, second))

    def groups(self, length, longest):
        """A bit's place, counted from 1 on the left; 0 before the first one."""
        slot = jnp.arange(self.input_length(longest))
        return jnp.where(slot < length, slot + 1, slot - length), jnp.arange(self.answer_length(longest) + 2)

    def chance(self, length):
        """Exact: a one at the first place, or ones throughout, in an answer of the likeliest size."""
        seconds = self.seconds(length)
        shares = {second: 1 / min(length, second) for second in seconds}
        if self.bits == "uniform":
            shares = {second: 0.75 ** min(length, second) * 0.5 ** abs(length - second) for second in seconds}
        as_long = sum(share for second, share in shares.items() if second <= length)
        return max([as_long, *(share for second, share in shares.items() if second > length)]) / len(seconds)


def joined(first, second, count, operator, longest):
    """The `count` symbols of the first operand, the operator, the second operand."""
    slot = jnp.arange(longest)
    return jnp.where(slot < count, at(first, slot), jnp.where(slot == count, operator, at(second, slot - count - 1)))
