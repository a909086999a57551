"""PCFG SET: functions of strings, one applied to what others make. The length is the number of functions.

pcfg    echo append copy a b , shift c d e   -> a b d e c c
        remove_first a b , swap c d e        -> e d c
        prepend a , repeat b c               -> b c b c a

Hupkes et al. 2020, https://arxiv.org/abs/1908.08351; the length split is that of Kazemnejad et al. 2023
(arXiv:2305.19466): up to 8 functions, and 9 to 35. A function stands before its one or two arguments, without brackets.
A comma comes behind every string but the last. Arguments are strings or further functions:

    of one:    copy (as it is), reverse, shift (its first symbol goes to the end), swap (first and last symbol change
               places), repeat (twice), echo (its last symbol once more)
    of two:    append (first, then second), prepend (second, then first), remove_first, remove_second

The paper draws from a grammar whose probabilities are fitted to the sizes of English sentences. Here each of the
functions is any of the ten, equally likely; they and the strings then stand in an order drawn from all those in which
each function has its arguments, equally likely too. A string has 1 to 5 symbols of an alphabet of 520; its size and
its symbols are drawn uniformly. So that no answer outgrows its question, no value may have more than 5 (length + 1)
symbols, which is what all strings of a question can have together: a repeat or an echo whose value would be longer is
replaced by copy, such an append by remove_second, such a prepend by remove_first.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from experiments.tasks.base import Example, Task
from posenc.shapes import Array, Bool, Int

FUNCTIONS = (
    "copy", "reverse", "shift", "swap", "repeat", "echo",
    "append", "prepend", "remove_first", "remove_second",
)  # fmt: skip
UNARY = FUNCTIONS.index("append")  # those before it have one argument
SHORTER = {"repeat": "copy", "echo": "copy", "append": "remove_second", "prepend": "remove_first"}


class Nodes(NamedTuple):
    """Functions and strings in the order in which they are written, padded with anything.

    Attributes:
        functions: which one; anything where there is a string.
        strings: whether it is a string.
        symbols: of a string.
        sizes: of a string, how many symbols.
        count: of nodes.
    """

    functions: Int[Array, "n"]
    strings: Bool[Array, "n"]
    symbols: Int[Array, "n s"]
    sizes: Int[Array, "n"]
    count: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class Pcfg(Task):
    """A composition of `length` functions and the string that it makes.

    Args:
        alphabet: how many symbols strings are made of.
        longest_string: symbols of the longest string in the input.
    """

    alike = False

    alphabet: int = 520
    longest_string: int = 5

    def __post_init__(self):
        if self.alphabet < 2:
            raise ValueError(f"alphabet is {self.alphabet}; expected 2 or more symbols, or there is nothing to learn.")
        if self.longest_string < 1:
            raise ValueError(f"longest_string is {self.longest_string}; expected 1 or more symbols.")

    @property
    def symbols(self):
        """The alphabet, the functions, the comma."""
        return self.alphabet + len(FUNCTIONS) + 1

    def input_length(self, length):
        """The functions, one string more than there are of them, and as many commas, where all have two arguments."""
        return length + self.longest_string * (length + 1) + length

    def answer_length(self, length):
        return self.longest_string * (length + 1)

    def sample(self, key, length, longest):
        nodes = self.draw(key, length, longest)
        functions, answer, answered = evaluated(nodes, self.answer_length(length), self.answer_length(longest))
        question, asked = self.written(nodes._replace(functions=functions), self.input_length(longest))
        return Example(question, answer, asked, answered)

    def draw(self, key, length, longest):
        """The composition, before values that are too long are made shorter."""
        function_key, order_key, size_key, symbol_key = jax.random.split(key, 4)
        functions = jax.random.randint(function_key, (longest,), 0, len(FUNCTIONS))
        binary = jnp.sum((functions >= UNARY) & (jnp.arange(longest) < length))
        count = length + binary + 1
        node = jnp.arange(2 * longest + 1)
        order = jnp.argsort(jnp.where(node < count, jax.random.uniform(order_key, node.shape), jnp.inf))
        functions = functions[jnp.minimum(order, longest - 1)]
        strings = order >= length
        # Of all rotations of an order one is a composition (the cycle lemma): it begins behind the place where most
        # arguments are given that nobody has asked for yet.
        missing = jnp.cumsum(jnp.where(node >= count, 0, jnp.where(strings, -1, functions >= UNARY)))
        turned = (node + 1 + jnp.argmin(missing)) % count
        sizes = jax.random.randint(size_key, (longest + 1,), 1, self.longest_string + 1)
        symbols = jax.random.randint(symbol_key, (longest + 1, self.longest_string), 0, self.alphabet)
        which = jnp.clip(order[turned] - length, 0, longest)
        return Nodes(functions[turned], strings[turned], symbols[which], sizes[which], count)

    def written(self, nodes, longest):
        """The composition as symbols, and how many these are."""
        node = jnp.arange(len(nodes.functions))
        widths = jnp.where(nodes.strings, nodes.sizes + (node < nodes.count - 1), 1)
        ends = jnp.cumsum(widths)
        slot = jnp.arange(longest)
        which = jnp.minimum(jnp.searchsorted(ends, slot, side="right"), len(node) - 1)
        place = slot - (ends - widths)[which]
        letter = nodes.symbols[which, jnp.minimum(place, self.longest_string - 1)]
        comma = self.alphabet + len(FUNCTIONS)
        string = jnp.where(place < nodes.sizes[which], letter, comma)
        return jnp.where(nodes.strings[which], string, self.alphabet + nodes.functions[which]), ends[nodes.count - 1]

    def chance(self, length):
        """An upper bound: the first symbol of an answer is any of the alphabet, equally likely."""
        return 1 / self.alphabet


def evaluated(nodes, most, longest):
    """The functions, those replaced whose values would be longer than `most`; the value, and its size.

    Read from the end, each function finds its arguments, the first on top, on a stack of values.
    """
    shorter = jnp.array([FUNCTIONS.index(SHORTER.get(name, name)) for name in FUNCTIONS])

    def step(i, state):
        functions, values, sizes, height = state
        node = nodes.count - 1 - i
        string, function = nodes.strings[node], functions[node]
        first, second = jnp.maximum(height - 1, 0), jnp.maximum(height - 2, 0)
        function = jnp.where(new_size(function, sizes[first], sizes[second]) > most, shorter[function], function)
        of_function = applied(function, values[first], sizes[first], values[second], sizes[second])
        of_string = jnp.resize(nodes.symbols[node], longest)
        height = jnp.where(string, height + 1, jnp.where(function < UNARY, height, height - 1))
        size = jnp.where(string, nodes.sizes[node], new_size(function, sizes[first], sizes[second]))
        values = values.at[height - 1].set(jnp.where(string, of_string, of_function))
        return functions.at[node].set(function), values, sizes.at[height - 1].set(size), height

    depth = len(nodes.functions) // 2 + 1  # as many as there can be strings
    empty = jnp.zeros((depth, longest), jnp.int32), jnp.zeros(depth, jnp.int32), jnp.zeros((), jnp.int32)
    functions, values, sizes, _ = jax.lax.fori_loop(0, nodes.count, step, (nodes.functions, *empty))
    return functions, values[0], sizes[0]


def new_size(function, one, other):
    """How many symbols a function makes of arguments of these sizes; one that has one argument ignores the other."""
    both = one + other
    return jnp.stack([one, one, one, one, 2 * one, one + 1, both, both, other, one])[function]


def applied(function, first, one, second, other):
    """What a function makes of its arguments, of `one` and `other` symbols; padded with anything."""
    slot = jnp.arange(len(first))
    behind = len(first)  # where the second argument begins, when it is put behind the padded first
    swapped = jnp.where(slot == 0, one - 1, jnp.where(slot == one - 1, 0, slot))
    sources = {
        "copy": slot,
        "reverse": one - 1 - slot,
        "shift": (slot + 1) % jnp.maximum(one, 1),
        "swap": swapped,
        "repeat": slot % jnp.maximum(one, 1),
        "echo": jnp.minimum(slot, one - 1),
        "append": jnp.where(slot < one, slot, behind + slot - one),
        "prepend": jnp.where(slot < other, behind + slot, slot - other),
        "remove_first": behind + slot,
        "remove_second": slot,
    }
    source = jnp.stack([sources[name] for name in FUNCTIONS])[function]
    return jnp.concatenate([first, second])[jnp.clip(source, 0, 2 * behind - 1)]
