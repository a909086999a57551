"""Deterministic context-free languages, the middle level of the Chomsky hierarchy: it takes a stack to answer.

The four tasks of this level from Delétang et al. 2022, "Neural Networks and the Chomsky Hierarchy"
(arXiv:2207.02098), on which Ruoss et al. 2023 (arXiv:2305.16843) compare position encodings.

stack_manipulation           0 1 1 0 PUSH1 POP POP -> 1 1 0      (0 1 1 from its bottom, 1 1 0 from its top)
                             1 1 0 POP POP POP     ->            (an empty stack)
reverse_string               0 1 1 0 1 0           -> 0 1 0 1 1 0
                             1 0 0                 -> 0 0 1
modular_arithmetic_brackets  ( 4 - ( - 3 ) )       -> 2          (7 modulo 5)
                             ( ( 2 * 3 ) + 4 )     -> 0          (10 modulo 5)
solve_equation               ( x - 2 ) = 4         -> 1          (1 - 2 is 4 modulo 5)
                             ( 3 + ( - x ) ) = 0   -> 3
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks.base import Example, Task
from experiments.tasks.expressions import TIMES, expression, likeliest_value
from experiments.tasks.strings import Reverse

POP, PUSH = 2, 3  # PUSH + bit puts that bit on the stack
UNKNOWN, EQUALS = 4, 5  # behind the numbers, plus, minus and the brackets


@dataclasses.dataclass(frozen=True)
class StackManipulation(Task):
    """The stack after some actions, from its top: bits from its bottom come first, then what is done with them.

    The stack has 1 to length-1 bits at first, each number as likely; then each of pop, push 0 and push 1 is as likely
    as the others. Nothing happens where there is nothing to pop. A single symbol is a bit without any action.

    The terminator of the paper, and zeros behind it, are the end token here.
    """

    alike = False

    @property
    def symbols(self):
        return 5

    def sample(self, key, length, longest):
        place = jnp.arange(longest)
        size_key, bits_key, actions_key = jax.random.split(key, 3)
        size = jax.random.randint(size_key, (), 1, jnp.maximum(length, 2))
        bits = jax.random.randint(bits_key, (longest,), 0, 2)
        actions = jax.random.randint(actions_key, (longest,), POP, PUSH + 2)
        question = jnp.where(place < size, bits, actions)

        def act(state, there):
            stack, height = state
            symbol, real = there
            pushed = stack.at[height].set(jnp.where(symbol < POP, symbol, symbol - PUSH))  # above the top after a pop
            moved = jnp.where(symbol == POP, jnp.maximum(height - 1, 0), height + 1)
            return (pushed, jnp.where(real, moved, height)), None

        empty = jnp.zeros(longest, int), jnp.zeros((), int)
        (stack, height), _ = jax.lax.scan(act, empty, (question, place < length))
        return Example(question, stack[jnp.maximum(height - 1 - place, 0)], answered=height)

    def chance(self, length):
        """Whatever its height, all stacks of that height are equally likely."""
        heights = np.zeros(length + 1)
        heights[1] = length == 1
        for size in range(1, length):  # stacks of this height from now on, with as many actions as are left
            heights[size] += 1 / (length - 1)
            popped = np.append(heights[1:], 0)
            popped[0] += heights[0]
            heights = popped / 3 + np.append(0, heights[:-1]) * 2 / 3
        return float((heights * 0.5 ** np.arange(length + 1)).max())


@dataclasses.dataclass(frozen=True)
class ReverseString(Reverse):
    """The string from its end to its beginning: the task `reverse` on bits."""

    alphabet: int = 2


@dataclasses.dataclass(frozen=True)
class Bracketed(Task):
    """What has one expression with brackets in it, modulo `modulus`. Its answer is a number below that."""

    modulus: int = 5

    def __post_init__(self):
        if self.modulus < 2:
            raise ValueError(f"modulus is {self.modulus}; expected 2 or more, or there is nothing to compute.")

    def answer_length(self, length):
        return 1


@dataclasses.dataclass(frozen=True)
class ModularArithmeticBrackets(Bracketed):
    """The value of an expression of `length` symbols. `expressions` says how it is drawn.

    Symbols are the numbers, plus, minus, both brackets, and times where it is drawn.

    Args:
        modulus: how many numbers there are.
        multiplication: each operator is plus, minus or times, instead of plus or minus.
    """

    multiplication: bool = True

    @property
    def symbols(self):
        return self.modulus + TIMES + self.multiplication

    def sample(self, key, length, longest):
        drawn = expression(key, length, longest, self.modulus, self.multiplication)
        return Example(drawn.written, drawn.value[None])

    def chance(self, length):
        return likeliest_value(self.modulus, self.multiplication, length)


@dataclasses.dataclass(frozen=True)
class SolveEquation(Bracketed):
    """The number that belongs where x is, in an expression of `length`-2 symbols and the value it must have.

    There is no multiplication, so there is one solution. To place x, each symbol is as likely as the others to be
    chosen, and x replaces the first number from there on, or from the start where none comes.
    Below length 3 there is no room for an equation, and the paper's code has zeros with the solution 0.

    Symbols are the numbers, plus, minus, both brackets, x and the equals sign.

    Args:
        modulus: how many numbers there are.
    """

    @property
    def symbols(self):
        return self.modulus + EQUALS + 1

    def sample(self, key, length, longest):
        expression_key, unknown_key = jax.random.split(key)
        size, place = jnp.maximum(length - 2, 1), jnp.arange(longest)
        drawn = expression(expression_key, size, longest, self.modulus, multiplication=False)
        chosen = jax.random.randint(unknown_key, (), 0, size)
        unknown = jnp.argmin(jnp.where(drawn.numbers, (place - chosen) % size, longest))
        written = drawn.written.at[unknown].set(self.modulus + UNKNOWN)
        question = jnp.select([place < size, place == size], [written, self.modulus + EQUALS], drawn.value)
        room = length > 2
        return Example(jnp.where(room, question, 0), jnp.where(room, drawn.written[unknown], 0)[None])

    def chance(self, length):
        return 1 / self.modulus if length > 2 else 1.0
