"""Texts in which some tokens are asked for where they stand.

    mqar        tokens   A a B b . . B . A .  keys and values, then each key again: what is its value?
                asked                b   a
                tokens   A a A
                asked        a

    flip_flop   tokens   w 1 i 0 r 1 w 0 r 0  write 1, ignore 0, read 1, write 0, read 0: what was written last?
                asked            1       0
                tokens   w 0 r
                asked        0

    dyck        tokens   ( [ ] ( ) )          where a bracket closes next, which one?
                asked      ]   ) )
                tokens   ( ) [
                asked    )   ]

mqar: Arora et al. 2023, "Zoology", arXiv:2312.04927, as its code draws it.
flip_flop: Liu et al. 2023, arXiv:2306.00946.
dyck: Hewitt et al. 2020, arXiv:2010.07515.

`length` counts the tokens. What is asked for is written under the token behind which it belongs. In `mqar` the text
goes on with something else there, so that an encoder may be asked as well.
"""

import dataclasses
import math
from typing import Literal

import jax
import jax.numpy as jnp

from experiments.tasks.base import Asked, Stream
from experiments.tasks.recall import distinct
from experiments.tasks.sizes import larger, smaller
from posenc.options import check_options


@dataclasses.dataclass(frozen=True)
class MQAR(Stream):
    """Multi-query associative recall.

    Key and value by turns, all keys different, all values different. Then each key once more, at random places an even
    number of tokens behind the pairs: the n-th such place weighs n^(power-1), and the first pair draws first. A pair
    takes four tokens with its question, the last of which may be missing: where `pairs` do not fit, there are fewer.
    Three tokens at least: a pair and its key.

    Args:
        vocabulary: how many tokens there are: the first half without 0 are keys, the second half values.
        pairs: how many pairs there are, where there is room for as many.
        power: of the law by which a key is rarer the farther it is from the pairs; 1 makes all places equally likely.
        filler: what else there is behind the pairs: "random", any tokens, keys and values among them; "zero", 0, as in
            the paper's figure 2.
    """

    architectures = ("decoder", "encoder")

    vocabulary: int = 8192
    pairs: int = 8
    power: float = 0.01
    filler: Literal["random", "zero"] = "random"

    def __post_init__(self):
        check_options(MQAR, "MQAR", dataclasses.asdict(self))
        if not 1 <= self.pairs < self.vocabulary // 2:
            raise ValueError(
                f"pairs is {self.pairs}; expected 1 .. {self.vocabulary // 2 - 1}, as many keys as half the "
                f"vocabulary of {self.vocabulary} has without 0. Raise the vocabulary or ask for fewer."
            )

    @property
    def symbols(self):
        return self.vocabulary

    def input_length(self, length):
        return larger(length, 3)

    def answer_length(self, length):
        return smaller(self.pairs, (self.input_length(length) + 1) // 4)

    def sample(self, key, length, longest):
        keying, valuing, filling, placing = jax.random.split(key, 4)
        most, pairs = self.answer_length(longest), self.answer_length(length)
        size, pair, half = self.input_length(longest), jnp.arange(self.answer_length(longest)), self.vocabulary // 2
        keys = 1 + distinct(keying, half - 1, most)
        values = half + distinct(valuing, self.vocabulary - half, most)
        tokens = jax.random.randint(filling, (size,), 0, self.vocabulary if self.filler == "random" else 1)
        start = jnp.where(pair < pairs, 2 * pair, size)
        query = jnp.where(pair < pairs, 2 * pairs + 2 * self.gaps(placing, length, pairs, longest)[:most], size)
        for place, token in ((start, keys), (start + 1, values), (query, keys)):
            tokens = tokens.at[place].set(token, mode="drop")
        targets = jnp.zeros_like(tokens).at[query].set(values, mode="drop")
        return Asked(tokens, targets, jnp.zeros(size, bool).at[query].set(True, mode="drop"))

    def gaps(self, key, length, pairs, longest):
        """Places behind the pairs, in pairs of tokens, the first ones as drawn by weight without replacement.

        Noise of Gumbel's distribution on the logarithms of the weights, and then the largest ones: the same draw.
        """
        place = jnp.arange((self.input_length(longest) + 1) // 2)
        there = place < (self.input_length(length) - 2 * pairs + 1) // 2
        noisy = (self.power - 1) * jnp.log1p(place) + jax.random.gumbel(key, place.shape)
        return jnp.argsort(jnp.where(there, noisy, -jnp.inf), descending=True)

    def chance(self, length):
        """Exact: all rows of different values are equally likely."""
        return 1 / math.perm(self.vocabulary - self.vocabulary // 2, self.answer_length(length))


@dataclasses.dataclass(frozen=True)
class FlipFlop(Stream):
    """One bit of memory: instructions, each with a bit behind it; `read` is followed by the bit last written.

    The first instruction is `write`, the last is `read`, those between are drawn. Bits written and ignored are uniform.
    Of an odd length, the last bit is asked for but not in the text. Three tokens at least: write, a bit, read.

    Args:
        ignore: how often an instruction is `ignore`; `write` and `read` share the rest equally.
    """

    ignore: float = 0.8

    def __post_init__(self):
        if not 0 <= self.ignore <= 1:
            raise ValueError(f"ignore is {self.ignore}; expected a probability, 0 .. 1.")

    @property
    def symbols(self):
        """The bits, write, read, ignore."""
        return 5

    def input_length(self, length):
        return larger(length, 3)

    def answer_length(self, length):
        return (self.input_length(length) - 1) // 2

    def sample(self, key, length, longest):
        telling, flipping = jax.random.split(key)
        place = jnp.arange((self.input_length(longest) + 1) // 2)
        last = (self.input_length(length) - 1) // 2
        drawn = jax.random.uniform(telling, place.shape)
        told = jnp.where(drawn < self.ignore, 4, jnp.where(drawn < (1 + self.ignore) / 2, 2, 3))
        told = jnp.where(place == 0, 2, jnp.where(place == last, 3, told))
        written = jax.lax.cummax(jnp.where(told == 2, place, 0))  # where the bit in memory comes from
        bits = jax.random.randint(flipping, place.shape, 0, 2)
        bits = jnp.where(told == 3, bits[written], bits)
        tokens = jnp.stack([told, bits], axis=1).ravel()[: self.input_length(longest)]
        return Asked(tokens, jnp.repeat(bits, 2)[: len(tokens)], tokens == 3)

    def chance(self, length):
        """Exact: always the same bit. Between two writes all bits are the same, and then either, so none is better.

        Followed through the text: how likely it is that all has been right so far and memory holds that bit, or not.
        """
        change = (1 - self.ignore) / 4  # written, and the other bit
        held, other = 0.5, 0.5
        for _ in range(self.answer_length(length) - 1):
            held, other = (
                held * (1 - change) + other * change,
                other * (self.ignore + change) + held * change,
            )
        return held


@dataclasses.dataclass(frozen=True)
class Dyck(Stream):
    """Balanced brackets of several kinds, nested no deeper than a bound.

    A bracket opens where none is open, one closes at the bound, and elsewhere both are equally likely, as Hewitt et al.
    have it; here all that are open close in time for the text to end, and opening ones are uniform in kind. Of an odd
    length, the last bracket is asked for but not in the text.

    Args:
        kinds: of brackets: k of Dyck-(k, m).
        depth: how many may be open: m.
    """

    kinds: int = 8
    depth: int = 5

    def __post_init__(self):
        if self.kinds < 2:
            raise ValueError(f"kinds is {self.kinds}; expected 2 or more, or there is nothing to tell apart.")
        if self.depth < 1:
            raise ValueError(f"depth is {self.depth}; expected 1 or more.")

    @property
    def symbols(self):
        """The opening brackets, then the closing ones in the same order."""
        return 2 * self.kinds

    def answer_length(self, length):
        return (length + 1) // 2

    def sample(self, key, length, longest):
        coining, naming = jax.random.split(key)
        end, size = 2 * self.answer_length(length), 2 * self.answer_length(longest)
        coins = jax.random.bernoulli(coining, shape=(size,))
        kinds = jax.random.randint(naming, (size,), 0, self.kinds)

        def step(state, drawn):
            stack, depth = state
            place, coin, kind = drawn
            opens = (depth == 0) | (coin & (depth < self.depth) & (depth < end - place))
            symbol = jnp.where(opens, kind, self.kinds + stack[depth - 1])
            return (jnp.where(opens, stack.at[depth].set(kind), stack), depth + jnp.where(opens, 1, -1)), symbol

        empty = jnp.zeros(self.depth, int), jnp.zeros((), int)
        symbols = jax.lax.scan(step, empty, (jnp.arange(size), coins, kinds))[1]
        behind = jnp.append(symbols[1:], 0)[:longest]
        return Asked(
            symbols[:longest], behind, behind >= self.kinds
        )  # one opens behind the whole, if anything is there

    def chance(self, length):
        """Exact: every bracket is of any kind, whatever the others are."""
        return float(self.kinds) ** -self.answer_length(length)
