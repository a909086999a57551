"""Regular languages, the lowest level of the Chomsky hierarchy: a machine with finitely many states answers.

The four tasks of this level from Delétang et al. 2022, "Neural Networks and the Chomsky Hierarchy"
(arXiv:2207.02098), on which Ruoss et al. 2023 (arXiv:2305.16843) compare position encodings. Every answer is a single
symbol. Symbols of the input are drawn uniformly.

even_pairs           0 0 1 1 1 0         -> 0    (one 01 and one 10: even)
                     0 1 0 1 0 0 1       -> 1    (three 01, two 10: odd)
modular_arithmetic   1 + 2 * 3           -> 2    (7 modulo 5)
                     1 - 1 - 1           -> 4    (-1 modulo 5)
parity_check         1 0 1 0 1 0 0       -> 1    (three ones: odd)
                     0 1 1 1 1           -> 0    (four ones: even)
cycle_navigation     2 0 1 0 0           -> 3    (right, left, stay, left, left: at -2 on a cycle of five)
                     2 2 2 0             -> 2    (three to the right, one to the left)
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks.base import Example, Task
from experiments.tasks.strings import Parity

OPERATORS = "+-*"


@dataclasses.dataclass(frozen=True)
class EvenPairs(Task):
    """Whether the number of unequal neighbours among `length` bits is odd: 1, or 0 where it is even.

    It is even just where the first bit equals the last one. A single bit has no neighbours: 0.
    """

    @property
    def symbols(self):
        return 2

    def answer_length(self, length):
        return 1

    def sample(self, key, length, longest):
        bits = jax.random.randint(key, (longest,), 0, 2)
        return Example(bits, (bits[0] ^ bits[length - 1])[None])

    def chance(self, length):
        return 1.0 if length == 1 else 0.5


@dataclasses.dataclass(frozen=True)
class ModularArithmetic(Task):
    """The value modulo `modulus` of numbers below it with operators between them; multiplication binds first.

    `length` counts numbers and operators. Where it is even, the expression is one symbol shorter.

    Symbols are the numbers and then the operators, in their order in `operators`. The vocabulary of the paper's code
    has a blank besides, which its sampler never draws.

    Args:
        modulus: how many numbers there are.
        operators: those that are drawn, each as often as the others.
    """

    modulus: int = 5
    operators: str = OPERATORS

    def __post_init__(self):
        if self.modulus < 2:
            raise ValueError(f"modulus is {self.modulus}; expected 2 or more, or there is nothing to compute.")
        if not self.operators or not set(self.operators) <= set(OPERATORS):
            raise ValueError(f"operators is {self.operators!r}; expected some of {OPERATORS!r}, as one string.")
        if len(set(self.operators)) < len(self.operators):
            raise ValueError(f"operators is {self.operators!r}; expected no repeats: all are drawn equally often.")

    @property
    def symbols(self):
        return self.modulus + len(self.operators)

    def input_length(self, length):
        return length - 1 + length % 2

    def answer_length(self, length):
        return 1

    def sample(self, key, length, longest):
        size = self.input_length(longest)
        place, most = jnp.arange(size), (size + 1) // 2
        numbers_key, operators_key = jax.random.split(key)
        numbers = jax.random.randint(numbers_key, (most,), 0, self.modulus)
        between = jax.random.randint(operators_key, (most,), 0, len(self.operators))
        question = jnp.where(place % 2 == 0, numbers[place // 2], self.modulus + between[place // 2])
        values = self.values(numbers, jnp.array([OPERATORS.index(operator) for operator in self.operators])[between])
        return Example(question, values[(self.input_length(length) - 1) // 2][None])

    def values(self, numbers, between):
        """The value of the expression up to each number. `between` says, in OPERATORS, what stands behind it."""

        def read(state, written):
            total, term = state  # of the terms that are complete, and the last one so far
            before, number = written
            multiplies, signed = (
                before == OPERATORS.index("*"),
                jnp.where(before == OPERATORS.index("-"), -number, number),
            )
            total = jnp.where(multiplies, total, total + term) % self.modulus
            term = jnp.where(multiplies, term * number, signed) % self.modulus
            return (total, term), (total + term) % self.modulus

        before = jnp.roll(between, 1).at[0].set(OPERATORS.index("+"))
        nothing = jnp.zeros((), numbers.dtype)
        return jax.lax.scan(read, (nothing, nothing), (before, numbers))[1]

    def chance(self, length):
        """Of zero: a product is zero more often than anything else."""
        multiplied = self.operators.count("*") / len(self.operators)
        return likeliest_value(self.modulus, multiplied, (self.input_length(length) + 1) // 2)


@functools.cache
def likeliest_value(modulus, multiplied, numbers):
    """The probability of the likeliest value of `numbers` numbers, where that share of the operators multiplies."""
    residue = np.arange(modulus)
    product = np.zeros((modulus, modulus))  # from one value of a term to the next, by a uniform factor
    np.add.at(product, (residue[:, None], np.outer(residue, residue) % modulus), 1 / modulus)
    place = (residue[:, None] + residue) % modulus
    both = np.zeros((modulus, modulus))  # the sum of the complete terms, and the last one
    both[0] = 1 / modulus
    for _ in range(numbers - 1):
        total = np.bincount(place.ravel(), both.ravel(), modulus)
        both = multiplied * both @ product + (1 - multiplied) * total[:, None] / modulus
    return float(np.bincount(place.ravel(), both.ravel(), modulus).max())


@dataclasses.dataclass(frozen=True)
class ParityCheck(Parity):
    """Whether the number of ones among `length` bits is odd: the task `parity` by the name it has in this suite."""


@dataclasses.dataclass(frozen=True)
class CycleNavigation(Task):
    """Where `length` steps on a cycle lead from place 0. The symbol 0 is a step to the left, 1 to stay, 2 to the right.

    Args:
        cycle: how many places there are.
    """

    cycle: int = 5

    def __post_init__(self):
        if self.cycle < 2:
            raise ValueError(f"cycle is {self.cycle}; expected 2 or more places, or there is nowhere to go.")

    @property
    def symbols(self):
        return max(3, self.cycle)

    def answer_length(self, length):
        return 1

    def sample(self, key, length, longest):
        steps = jax.random.randint(key, (longest,), 0, 3)
        moved = jnp.sum(jnp.where(jnp.arange(longest) < length, steps - 1, 0))
        return Example(steps, (moved % self.cycle)[None])

    def chance(self, length):
        """Of the walk's last place: each step takes the places' probabilities to their means over three neighbours."""
        place = np.zeros(self.cycle)
        place[0] = 1
        for _ in range(length):
            place = (np.roll(place, -1) + place + np.roll(place, 1)) / 3
        return float(place.max())
