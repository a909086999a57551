"""Copying and reversing as Kazemnejad et al. 2023 ask for them: one symbol many times over, or many symbols.

copy_one             3 3 3     -> 3 3 3                copy_one_twice       3 3 3 -> 3 3 3 3 3 3
                     0 0       -> 0 0                                       0 0   -> 0 0 0 0
copy_replaced        3 7 3 3 3 -> 7 7 7                copy_unique          3 1 4 -> 3 1 4
                     0 5 0 0   -> 5 5                                       2 2   -> 2 2
copy_unique_twice    3 1 4     -> 3 1 4 N 3 1 4        reverse_unique       3 1 4 -> 4 1 3
                     2 0       -> 2 0 N 2 0                                 2 0   -> 0 2
reverse_unique_twice 3 1 4     -> 4 1 3 N 4 1 3        reverse_then_copy    3 1 4 -> 4 1 3 N 3 1 4
                     2 0       -> 0 2 N 0 2                                 2 0   -> 0 2 N 2 0

https://arxiv.org/abs/2305.19466, the copy and reverse variants. N is the mark that the authors write between two
strings; they write none where one symbol is repeated. The words "Copy:" and "Reverse:" are left out. So are those of
"Replace 3 with 7 in", but its two symbols stay: they come first.

The length is that of the string to copy. A string of many symbols is drawn with repeats: "unique" are the symbols, to
their tokenizer, not the places. The authors take 100 of them there; where one is repeated, as many as make the examples
they want: some 80 in pairs, thousands alone. Here the alphabet is 100 for all.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from experiments.tasks.base import Example
from experiments.tasks.strings import String


@dataclasses.dataclass(frozen=True)
class CopyOne(String):
    """One symbol, drawn uniformly, `length` times; the answer is the same."""

    alphabet: int = 100

    def sample(self, key, length, longest):
        symbol = jax.random.randint(key, (), 0, self.alphabet)
        return Example(jnp.full(self.input_length(longest), symbol), jnp.full(self.answer_length(longest), symbol))

    def groups(self, length, longest):
        """A symbol of the answer with that of the input which it repeats."""
        return 1 + jnp.arange(longest), jnp.arange(longest + 2)

    def chance(self, length):
        return 1 / self.alphabet


@dataclasses.dataclass(frozen=True)
class CopyOneTwice(CopyOne):
    """One symbol `length` times; the answer has it twice as often."""

    def answer_length(self, length):
        return 2 * length

    def groups(self, length, longest):
        """A symbol of the answer with that of the input which it repeats: each in two places."""
        behind = jnp.arange(self.answer_length(longest) + 2)
        again = jnp.where((behind > length) & (behind <= 2 * length), behind - length, behind)
        return 1 + jnp.arange(longest), jnp.where(behind > 2 * length, length + 1, again)


@dataclasses.dataclass(frozen=True)
class CopyReplaced(String):
    """A symbol, another to put in its place, and the first one `length` times; the answer has the other as often."""

    alphabet: int = 100

    def input_length(self, length):
        return length + 2

    def sample(self, key, length, longest):
        which, by_how_much = jax.random.split(key)
        old = jax.random.randint(which, (), 0, self.alphabet)
        new = (old + jax.random.randint(by_how_much, (), 1, self.alphabet)) % self.alphabet
        return Example(jnp.full(self.input_length(longest), old).at[1].set(new), jnp.full(longest, new))

    def groups(self, length, longest):
        """A symbol of the answer with that of the input in whose place it stands; 0 for the two that say what to do."""
        return jnp.maximum(jnp.arange(self.input_length(longest)) - 1, 0), jnp.arange(longest + 2)

    def chance(self, length):
        return 1 / self.alphabet


@dataclasses.dataclass(frozen=True)
class Readings(String):
    """`length` symbols, each drawn uniformly, with repeats. The answer reads them once or more, a mark in between.

    Attributes:
        backwards: of each reading, whether it goes from the end to the beginning.
    """

    backwards: ClassVar[tuple[bool, ...]]

    alphabet: int = 100

    @property
    def symbols(self):
        return self.alphabet + (len(self.backwards) > 1)

    def answer_length(self, length):
        return len(self.backwards) * (length + 1) - 1

    def sample(self, key, length, longest):
        string = self.draw(key, longest)
        reading, place = jnp.divmod(jnp.arange(self.answer_length(longest)), length + 1)
        read = string[jnp.clip(jnp.where(self.turned(reading), length - 1 - place, place), 0, longest - 1)]
        return Example(string, jnp.where(place == length, self.alphabet, read))

    def groups(self, length, longest):
        """A symbol of the answer with that of the input which it repeats; separator and marks stand before it."""
        reading, place = jnp.divmod(jnp.arange(self.answer_length(longest) + 2), length + 1)
        ids = jnp.where(self.turned(reading), length + 1 - place, place)
        end = 0 if self.backwards[-1] else length + 1
        return 1 + jnp.arange(longest), jnp.where(reading == len(self.backwards), end, ids)

    def turned(self, reading):
        """Whether these readings go backwards; anything for those that do not exist."""
        return jnp.array(self.backwards)[jnp.minimum(reading, len(self.backwards) - 1)]


@dataclasses.dataclass(frozen=True)
class CopyUnique(Readings):
    """The string itself: `strings.Copy` with the authors' alphabet."""

    backwards = (False,)


@dataclasses.dataclass(frozen=True)
class CopyUniqueTwice(Readings):
    """The string, the mark, and the string again."""

    backwards = (False, False)


@dataclasses.dataclass(frozen=True)
class ReverseUnique(Readings):
    """The string from its end to its beginning: `strings.Reverse` with the authors' alphabet."""

    backwards = (True,)


@dataclasses.dataclass(frozen=True)
class ReverseUniqueTwice(Readings):
    """The string backwards, the mark, and backwards again."""

    backwards = (True, True)


@dataclasses.dataclass(frozen=True)
class ReverseThenCopy(Readings):
    """The string backwards, the mark, and the string itself."""

    backwards = (True, False)
