"""Strings of symbols, drawn uniformly: say them again, backwards, in order, or say how many there are of one kind.

copy      3 1 4 1 -> 3 1 4 1        sort      3 1 4 1 -> 1 1 3 4
          0 2     -> 0 2                      2 0     -> 0 2
reverse   3 1 4 1 -> 1 4 1 3        parity    1 0 1 1 -> 1      (three ones: odd)
          0 2     -> 2 0                      1 1     -> 0      (two ones: even)
"""

import dataclasses
import math

import jax
import jax.numpy as jnp

from experiments.tasks.base import Example, Task


@dataclasses.dataclass(frozen=True)
class String(Task):
    """`length` symbols of an alphabet of `alphabet`, each drawn uniformly, with repeats."""

    alphabet: int = 10

    def __post_init__(self):
        if self.alphabet < 2:
            raise ValueError(f"alphabet is {self.alphabet}; expected 2 or more symbols, or there is nothing to learn.")

    @property
    def symbols(self):
        return self.alphabet

    def draw(self, key, longest):
        """The string; a shorter one is its beginning, so that padding changes nothing."""
        return jax.random.randint(key, (longest,), 0, self.alphabet)

    def chance(self, length):
        return float(self.alphabet) ** -length


@dataclasses.dataclass(frozen=True)
class Copy(String):
    """The string itself."""

    def sample(self, key, length, longest):
        string = self.draw(key, longest)
        return Example(string, string)

    def groups(self, length, longest):
        """A symbol of the answer with that of the input which it repeats."""
        return 1 + jnp.arange(longest), jnp.arange(longest + 2)


@dataclasses.dataclass(frozen=True)
class Reverse(String):
    """The string from its end to its beginning."""

    def sample(self, key, length, longest):
        string = self.draw(key, longest)
        return Example(string, string[jnp.maximum(length - 1 - jnp.arange(longest), 0)])

    def groups(self, length, longest):
        """A symbol of the answer with that of the input which it repeats."""
        return 1 + jnp.arange(longest), length + 1 - jnp.arange(longest + 2)


@dataclasses.dataclass(frozen=True)
class Sort(String):
    """The string's symbols in ascending order, repeats kept."""

    def sample(self, key, length, longest):
        string = self.draw(key, longest)
        return Example(string, jnp.sort(jnp.where(jnp.arange(longest) < length, string, self.alphabet)))

    def chance(self, length):
        """The likeliest sorted string holds each symbol equally often, as nearly as it goes."""
        most, extra = divmod(length, self.alphabet)
        orders = math.factorial(length) // (
            math.factorial(most) ** (self.alphabet - extra) * math.factorial(most + 1) ** extra
        )
        return float(orders / self.alphabet**length)


@dataclasses.dataclass(frozen=True)
class Parity(Task):
    """Whether the number of ones among `length` bits is odd: one symbol, 1 or 0."""

    @property
    def symbols(self):
        return 2

    def answer_length(self, length):
        return 1

    def groups(self, length, longest):
        """All bits with the answer, and separator and end by themselves."""
        return jnp.zeros(longest, int), jnp.array([1, 0, 1])

    def sample(self, key, length, longest):
        bits = jax.random.randint(key, (longest,), 0, 2)
        ones = jnp.sum(jnp.where(jnp.arange(longest) < length, bits, 0))
        return Example(bits, (ones % 2)[None])

    def chance(self, length):
        return 0.5
