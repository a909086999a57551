"""The mathematical and reasoning tasks of Kazemnejad et al. 2023: count through items, or sort them.

summation      3 9 4            -> 6                    the sum mod 10
               5 5              -> 0
polynomial     - 2 + 3 2 - 1 3  -> 0                    at x = -2: 3 x^2 - 1 x^3 = 20, mod 10
               + 2 - 3 1        -> 4                    at x = 2: -3 x^1 = -6, mod 10
lego           c + 1 a - c b - a b  -> +                c = +1, a = -c, b = -a: what is b?
               b - 1 d + b d        -> -                b = -1, d = +b: what is d?
sort_single    7 2 9 2          -> 2 2 7 9              one symbol per item
               4 0              -> 0 4
sort_numbers   8 8 1 , 4 1 2 5 , 9 0 -> 9 0 , 8 8 1 , 4 1 2 5
               5 7 , 5 7             -> 5 7 , 5 7
addition_any   9 5 + 7          -> 1 0 2                operands of unlike digits, none with leading zeros
               8 + 1 2 0        -> 1 2 8

https://arxiv.org/abs/2305.19466. The length is the number of items: digits, terms, variables, numbers; for addition,
the digits of the longer operand. Words that say nothing are left out, as are the plus signs between what is summed,
"= x **", and the commas between items of one size. Coefficients and x are a sign and a digit; zero has a plus. Their
parity is `strings.Parity` in other words.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks.arithmetic import PLUS, add, turned
from experiments.tasks.base import Example, Task, at
from experiments.tasks.strings import Sort

MINUS = PLUS + 1
COMMA = 10


@dataclasses.dataclass(frozen=True)
class Summation(Task):
    """The sum of `length` digits 1 .. 9, each drawn uniformly, mod 10."""

    @property
    def symbols(self):
        return 10

    def answer_length(self, length):
        return 1

    def groups(self, length, longest):
        """All digits with the answer, and separator and end by themselves."""
        return jnp.zeros(longest, int), jnp.array([1, 0, 1])

    def sample(self, key, length, longest):
        values = jax.random.randint(key, (longest,), 1, 10)
        total = jnp.sum(jnp.where(jnp.arange(longest) < length, values, 0))
        return Example(values, (total % 10)[None])

    def chance(self, length):
        """Of the discrete Fourier coefficients of a digit, all but the first are -1/9: the sum's are their powers."""
        return 0.1 * (1 + (9.0 if length % 2 == 0 else 1.0) * 9.0**-length)


@dataclasses.dataclass(frozen=True)
class Polynomial(Task):
    """x in -2 .. 2, then `length` terms: coefficient in -3 .. 3, degree in 0 .. 3. The value at x, mod 10.

    All are drawn uniformly; degrees come in any order and may repeat. 0^0 is 1.
    """

    @property
    def symbols(self):
        return 12

    def input_length(self, length):
        return 2 + 3 * length

    def answer_length(self, length):
        return 1

    def sample(self, key, length, longest):
        first, second, third = jax.random.split(key, 3)
        x = jax.random.randint(first, (), -2, 3)
        factors = jax.random.randint(second, (longest,), -3, 4)
        degrees = jax.random.randint(third, (longest,), 0, 4)
        total = jnp.sum(jnp.where(jnp.arange(longest) < length, factors * x**degrees, 0))
        terms = jnp.stack([sign(factors), jnp.abs(factors), degrees], -1)
        return Example(jnp.concatenate([jnp.stack([sign(x), jnp.abs(x)]), terms.ravel()]), (total % 10)[None])

    def chance(self, length):
        return float(polynomial_values(length).max())


def sign(number):
    """The symbol before a number's digit."""
    return jnp.where(number < 0, MINUS, PLUS)


@functools.cache
def polynomial_values(length: int) -> np.ndarray:
    """How likely each of the ten answers is: of each x, the sum of as many independent terms, mod 10."""
    answers = np.zeros(10)
    for x in range(-2, 3):
        terms = [factor * x**degree % 10 for factor in range(-3, 4) for degree in range(4)]
        one = np.bincount(terms, minlength=10) / len(terms)
        answers += np.fft.ifft(np.fft.fft(one) ** length).real / 5
    return answers


@dataclasses.dataclass(frozen=True)
class Lego(Task):
    """A chain of `length` variables, each + or - the one before it and the first + or - 1; the sign of one of them.

    The task is of Zhang et al. 2022 (arXiv:2206.04301); its clauses stand in order, as in the data of the later paper.
    Names are drawn without repeats, signs uniformly. One variable of the second half is asked for, each as often; the
    middle of an odd chain is not of that half, but the one variable of a chain of one is asked for. Where a chain is
    longer than there are names, they come round again in the same order, and a name means what it was last given.

    Args:
        variables: how many names there are.
    """

    variables: int = 26

    def __post_init__(self):
        if self.variables < 2:
            raise ValueError(f"variables is {self.variables}; expected 2 or more, or a chain would have but one name.")

    @property
    def symbols(self):
        """The variables, then plus, minus and one."""
        return self.variables + 3

    def input_length(self, length):
        return 3 * length + 1

    def answer_length(self, length):
        return 1

    def sample(self, key, length, longest):
        names_key, values_key, query_key = jax.random.split(key, 3)
        place = jnp.arange(longest)
        names = jax.random.permutation(names_key, self.variables)[place % self.variables]
        negative = jax.random.randint(values_key, (longest,), 0, 2)
        flipped = negative ^ jnp.where(place == 0, 0, jnp.roll(negative, 1))
        sources = jnp.where(place == 0, self.variables + 2, jnp.roll(names, 1))
        clauses = jnp.append(jnp.stack([names, self.variables + flipped, sources], -1).ravel(), 0)
        asked = jax.random.randint(query_key, (), jnp.minimum((length + 1) // 2, length - 1), length)
        latest = asked + (length - 1 - asked) // self.variables * self.variables
        question = jnp.where(jnp.arange(len(clauses)) == 3 * length, names[asked], clauses)
        return Example(question, (self.variables + negative[latest])[None])

    def chance(self, length):
        return 0.5


@dataclasses.dataclass(frozen=True)
class SortSingle(Sort):
    """`strings.Sort` with the authors' alphabet, repeats and all: an item is a single symbol."""

    alphabet: int = 50


@dataclasses.dataclass(frozen=True)
class SortNumbers(Task):
    """`length` numbers, each drawn uniformly from a range, in ascending order. Digits as symbols, commas in between.

    An encoder is not asked: it could not tell which of its blanks are of one number, since that is the answer.

    Args:
        smallest: number.
        largest: number.
    """

    digits = range(10)
    alike = False
    architectures = ("decoder", "encoder_decoder")

    smallest: int = 10
    largest: int = 9999

    def __post_init__(self):
        if not 0 <= self.smallest < self.largest < 10**9:
            raise ValueError(
                f"smallest is {self.smallest} and largest {self.largest}; expected 0 <= smallest < largest < 10^9."
            )

    @property
    def symbols(self):
        return 11

    def input_length(self, length):
        return length * (self.longest_number(length) + 1) - 1

    def answer_length(self, length):
        return self.input_length(length)

    def longest_number(self, length):
        return len(str(self.largest))

    def sample(self, key, length, longest):
        numbers = jax.random.randint(key, (longest,), self.smallest, self.largest + 1)
        ascending = jnp.sort(jnp.where(jnp.arange(longest) < length, numbers, self.largest + 1))
        question, size = self.written(numbers, length)
        return Example(question, self.written(ascending, length)[0], size, size)

    def written(self, numbers, length):
        """The first `length` of the numbers as digits and commas, and how many symbols these are."""
        weights = jnp.array(10 ** np.arange(self.longest_number(length)))
        sizes = jnp.maximum(jnp.searchsorted(weights, numbers, side="right"), 1)  # zero has a digit, too
        ends = jnp.cumsum(sizes + 1)
        slot = jnp.arange(self.input_length(len(numbers)))
        which = jnp.minimum(jnp.searchsorted(ends, slot, side="right"), len(numbers) - 1)
        left = ends[which] - 2 - slot  # digits of this number yet to come
        return jnp.where(left < 0, COMMA, numbers[which] // 10 ** jnp.maximum(left, 0) % 10), ends[length - 1] - 1

    def chance(self, length):
        """The likeliest list holds all numbers equally often, as nearly as it goes: as when symbols are sorted."""
        return Sort(self.largest - self.smallest + 1).chance(length)


@dataclasses.dataclass(frozen=True)
class AdditionAny(Task):
    """The sum of two numbers without leading zeros, of which the longer one has `length` digits, or both have.

    All pairs of sizes are equally likely, and all numbers of a size; 0 is a number of one digit. Most significant digit
    first. The sum has no leading zeros either, so that its size tells of the carry.
    """

    digits = range(10)
    alike = False

    @property
    def symbols(self):
        return 11

    def input_length(self, length):
        return 2 * length + 1

    def answer_length(self, length):
        return length + 1

    def longest_number(self, length):
        return length + 1

    def sample(self, key, length, longest):
        sizes_key, *keys = jax.random.split(key, 3)
        which = jax.random.randint(sizes_key, (), 0, 2 * length - 1)
        sizes = jnp.where(which < length, which + 1, length), jnp.where(which < length, length, which + 1 - length)
        first, second = (number(one, size, longest) for one, size in zip(keys, sizes, strict=True))
        total = add(first, second)
        answered = length + at(total, length)
        first, second = turned(first, sizes[0]), turned(second, sizes[1])
        slot = jnp.arange(self.input_length(longest)) - sizes[0]
        question = jnp.where(slot < 0, at(first, slot + sizes[0]), jnp.where(slot == 0, PLUS, at(second, slot - 1)))
        return Example(question, turned(total, answered), sizes[0] + 1 + sizes[1], answered)

    def chance(self, length):
        """The likeliest sum is all nines: every shorter number is part of it, and 8 of 9 that are as long.

        The other part is one of the 9 10^(length-1) numbers of `length` digits. Of a smaller sum, fewer as long are
        part; of a greater one, fewer shorter ones, and their share falls faster than the other grows.
        """
        return (2 * (length - 1) + 8 / 9) / (2 * length - 1) / 9 * 10.0 ** (1 - length) if length > 1 else 0.1


def number(key, size, longest):
    """Digits of a number of this size, each such number equally likely; least significant first, zeros behind."""
    rest_key, first_key = jax.random.split(key)
    place = jnp.arange(longest)
    digits = jnp.where(place < size, jax.random.randint(rest_key, (longest,), 0, 10), 0)
    first = jax.random.randint(first_key, (), 1, 10)
    return jnp.where((place == size - 1) & (size > 1), first, digits)
