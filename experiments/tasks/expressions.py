"""Arithmetic expressions with brackets modulo some number, written symbol by symbol on the device.

The grammar and the probabilities are those of Delétang et al. 2022 (arXiv:2207.02098). An expression of n symbols is

    n = 1    d              n = 3    ( d )
    n = 2    - d            n = 4    ( - d )
    n > 4    ( left operator right )        left has 1 to n - 4 symbols, each as likely; right has the others

with uniform numbers d and operators. Symbols are the numbers, then the constants below.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from posenc.shapes import Array, Bool, Int

PLUS, MINUS, OPENING, CLOSING, TIMES = range(5)  # behind the numbers

# What belongs in a place, while an expression is written: n > 0, an expression of n symbols that begins there; or
NOTHING, OPERATOR, BRACKET = 0, -1, -2  # a bracket that closes


class Expression(NamedTuple):
    """An expression of which what lies past its length is never looked at.

    Attributes:
        written: its symbols.
        value: modulo the modulus.
        numbers: which of its symbols are numbers.
    """

    written: Int[Array, "n"]
    value: Int[Array, ""]
    numbers: Bool[Array, "n"]


def expression(key, length, longest, modulus, multiplication):
    """An expression of `length` symbols in an array of `longest`."""
    numbers_key, operators_key, splits_key = jax.random.split(key, 3)
    numbers = jax.random.randint(numbers_key, (longest,), 0, modulus)
    operators = jnp.array([PLUS, MINUS, TIMES])[jax.random.randint(operators_key, (longest,), 0, 2 + multiplication)]
    plan, lefts = planned(splits_key, length, longest)
    sign = jnp.select(
        [plan == 2, plan > 2, plan == OPERATOR, plan == BRACKET], [MINUS, OPENING, operators, CLOSING], NOTHING
    )
    written = jnp.where(plan == 1, numbers, modulus + sign)
    return Expression(written, evaluated(plan, lefts, numbers, operators, modulus), plan == 1)


def planned(key, length, longest):
    """What belongs in each place, and the symbols of the left operand where a bracketed operation begins.

    The size of an expression says which place each of its parts has. So parts wait for their turn not on a stack but
    in their places, and one pass from left to right splits them all.
    """

    def split(plan, place):
        size = plan[place]
        left = jax.random.randint(jax.random.fold_in(key, place), (), 1, jnp.maximum(size - 3, 2))
        inner = jnp.where(size > 4, left, jnp.where(size == 2, 1, size - 2))  # that which begins in the next place
        parts = jnp.array([place + 1, place + 1 + left, place + 2 + left, place + size - 1])
        there = jnp.array([size > 1, size > 4, size > 4, size > 2])
        contents = jnp.stack([inner, jnp.full_like(size, OPERATOR), size - left - 3, jnp.full_like(size, BRACKET)])
        return plan.at[jnp.where(there, parts, longest)].set(contents, mode="drop"), left

    whole = jnp.zeros(longest, int).at[0].set(length)
    return jax.lax.scan(split, whole, jnp.arange(longest))


def evaluated(plan, lefts, numbers, operators, modulus):
    """The value of the expression that begins in the first place: from right to left, so that parts come first."""

    def value(values, place):
        size, inner = plan[place], values[place + 1]
        right = values[place + 2 + lefts[place]]
        operator = operators[place + 1 + lefts[place]]
        together = jnp.select([operator == PLUS, operator == MINUS], [inner + right, inner - right], inner * right)
        here = jnp.select([size == 1, size == 2, size > 4], [numbers[place], -inner, together], inner)
        return values.at[place].set(here % modulus), None

    places = jnp.arange(len(plan))
    return jax.lax.scan(value, jnp.zeros_like(plan), places, reverse=True)[0][0]


@functools.cache
def likeliest_value(modulus, multiplication, length):
    """The probability of the likeliest value of an expression of this length."""
    return float(distributions(modulus, multiplication, length)[length].max())


def distributions(modulus, multiplication, longest):
    """The probability of each value of expressions of every length up to `longest`."""
    value = np.arange(modulus)
    results = [value[:, None] + value, value[:, None] - value, np.outer(value, value)][: 2 + multiplication]
    results = np.stack(results) % modulus
    values = np.full((longest + 1, modulus), 1 / modulus)
    for length in range(5, longest + 1):
        operands = values[1 : length - 3]
        pairs = np.broadcast_to(operands.T @ operands[::-1], results.shape)  # of left and right value, at any split
        values[length] = np.bincount(results.ravel(), pairs.ravel(), modulus) / pairs.sum()
    return values
