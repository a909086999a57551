"""Find what was said before, far back, among much else.

    induction   3 1 4 2 0 3 -> 1          passkey   a b c a M 7 2 a b M -> 7 2     (size=2; M: "the pass key is")
                4 1 4       -> 1                    M 0 4 a M           -> 0 4

    needle      . B b , D d A a D -> d    (A, B, D: keys; a, b, d: values; the others: filler)
                , A c A           -> c

induction: Olsson et al. 2022, arXiv:2209.11895: the last symbol has been there before; what came behind it then?
passkey: Mohtashami and Jaggi 2023, arXiv:2305.16300: a number, announced somewhere in a text that repeats itself.
needle: the multi-key needle of Hsieh et al. 2024, arXiv:2404.06654: one of several pairs in a haystack.

`length` counts all symbols of the input, with the question at its end. Where that is too short for the pairs, there are
fewer; a length too short for even one text gives the shortest text.
"""

import dataclasses

import jax
import jax.numpy as jnp

from experiments.tasks.base import Example, Task, at
from experiments.tasks.sizes import larger, smaller


@dataclasses.dataclass(frozen=True)
class Induction(Task):
    """What stands behind the earlier occurrence of the last symbol.

    That symbol is uniform, and so is its earlier place, which is no nearer to the end than two symbols. All others are
    uniform among the other symbols of the alphabet. Three symbols at least: A B A.
    """

    alphabet: int = 16

    def __post_init__(self):
        if self.alphabet < 3:
            raise ValueError(
                f"alphabet is {self.alphabet}; expected 3 or more symbols, or the last one says what is behind it."
            )

    @property
    def symbols(self):
        return self.alphabet

    def input_length(self, length):
        return larger(length, 3)

    def answer_length(self, length):
        return 1

    def sample(self, key, length, longest):
        asking, finding, filling = jax.random.split(key, 3)
        end = self.input_length(length) - 1
        slot = jnp.arange(self.input_length(longest))
        asked = jax.random.randint(asking, (), 0, self.alphabet)
        found = jax.random.randint(finding, (), 0, end - 1)
        others = (asked + jax.random.randint(filling, slot.shape, 1, self.alphabet)) % self.alphabet
        text = jnp.where((slot == found) | (slot == end), asked, others)
        return Example(text, text[found + 1][None])

    def chance(self, length):
        """Exact: all answers are equally likely."""
        return 1 / self.alphabet


@dataclasses.dataclass(frozen=True)
class Passkey(Task):
    """The digits behind a mark, which stands again at the end, as the question.

    The mark and the digits are put anywhere in a text that goes through its symbols in order, over and over, and begins
    with the first of them again behind the digits. In the paper the text is five sentences and the key a number up to
    50000; here every digit is uniform, so that all keys are equally long. `size` + 2 symbols at least: no text at all.

    Args:
        size: how many digits the key has.
        filler: after how many symbols the text repeats itself.
    """

    digits = range(10)

    size: int = 5
    filler: int = 5

    def __post_init__(self):
        for name in ("size", "filler"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected 1 or more.")

    @property
    def symbols(self):
        return 11 + self.filler

    def input_length(self, length):
        return larger(length, self.size + 2)

    def answer_length(self, length):
        return self.size

    def longest_number(self, length):
        return self.size

    def sample(self, key, length, longest):
        keying, hiding = jax.random.split(key)
        end = self.input_length(length) - 1
        slot = jnp.arange(self.input_length(longest))
        passkey = jax.random.randint(keying, (self.size,), 0, 10)
        mark = jax.random.randint(hiding, (), 0, end - self.size)
        place = slot - mark - 1  # in the key
        text = 11 + jnp.where(place < 0, slot, place - self.size) % self.filler
        text = jnp.where((place >= 0) & (place < self.size), at(passkey, place), text)
        return Example(jnp.where((slot == mark) | (slot == end), 10, text), passkey)

    def chance(self, length):
        """Exact: all keys are equally likely."""
        return 10.0**-self.size


@dataclasses.dataclass(frozen=True)
class Needle(Task):
    """The value behind one of several keys, which stands again at the end, as the question.

    Keys differ; values and filler are uniform, each from symbols of their own. Every way to spread the pairs over the
    text is equally likely, and every pair is asked for equally often. Three symbols at least: a pair and its key.

    Args:
        pairs: how many pairs there are, where there is room for as many: the needle, and those that distract.
        alphabet: how many keys there are, how many values, and how many symbols of filler.
    """

    pairs: int = 4
    alphabet: int = 32

    def __post_init__(self):
        if not 1 <= self.pairs <= self.alphabet:
            raise ValueError(f"pairs is {self.pairs}; expected 1 .. {self.alphabet}, as many as `alphabet` has keys.")

    @property
    def symbols(self):
        return 3 * self.alphabet

    def input_length(self, length):
        return larger(length, 3)

    def answer_length(self, length):
        return 1

    def sample(self, key, length, longest):
        keying, valuing, filling, placing = jax.random.split(key, 4)
        end = self.input_length(length) - 1
        size = self.input_length(longest)
        most, pairs = (smaller(self.pairs, room // 2) for room in (size - 1, end))
        pair = jnp.arange(most)
        keys = distinct(keying, self.alphabet, most)
        values = self.alphabet + jax.random.randint(valuing, (most,), 0, self.alphabet)
        text = 2 * self.alphabet + jax.random.randint(filling, (size,), 0, self.alphabet)
        unit = jnp.where(pair < pairs, distinct(placing, end - pairs, most), size)  # a pair or a symbol of filler
        start = unit + jnp.sum(unit[None] < unit[:, None], axis=1)  # each pair before takes one symbol more than a unit
        text = text.at[start].set(keys, mode="drop").at[start + 1].set(values, mode="drop")
        return Example(text.at[end].set(keys[0]), values[:1])  # of pairs in random order, the first is any of them

    def chance(self, length):
        """Exact: all values are equally likely."""
        return 1 / self.alphabet


def distinct(key, below, count):
    """`count` different numbers under `below`, in random order; those past `below` of them are anything."""

    def draw(taken, i):
        free = jax.random.randint(jax.random.fold_in(key, i), (), 0, below - i)  # which of those that are left
        number = free + jnp.sum(taken - jnp.arange(count) <= free)
        return jnp.sort(taken.at[i].set(number)), number

    none = jnp.full((count,), jnp.iinfo(jnp.int32).max)
    return jax.lax.scan(draw, none, jnp.arange(count))[1]
