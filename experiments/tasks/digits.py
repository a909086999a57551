"""Numbers as arrays of decimal digits, least significant first, on the device; and how likely a result is, on the host.

Arrays of digits have no size at which they overflow. The host counts with whole numbers as long as they get.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np


def number(key, count, width, least):
    """A number of `count` digits, each such number equally likely; of one digit, from `least` on. Then zeros."""
    leading, rest = jax.random.split(key)
    place = jnp.arange(width)
    highest = jax.random.randint(leading, (), jnp.where(count == 1, least, 1), 10)
    lower = jax.random.randint(rest, (width,), 0, 10)
    return jnp.where(place < count - 1, lower, jnp.where(place == count - 1, highest, 0))


def size(digits):
    """How many digits there are without leading zeros: one for zero."""
    return jnp.max(jnp.where(digits > 0, 1 + jnp.arange(len(digits)), 1))


def carried(columns):
    """Digits from the sums of columns, which may be ten or more; what is carried past the last one is lost."""

    def place(carry, column):
        total = column + carry
        return total // 10, total % 10

    return jax.lax.scan(place, jnp.zeros((), columns.dtype), columns)[1]


def multiply(first, second):
    """The digits of the product, as many as both numbers have."""
    first = jnp.pad(first, (0, len(second)))

    def row(columns, digit):
        return jnp.roll(columns, 1) + digit * first, None  # ten times what there is, of which the last column is zero

    return carried(jax.lax.scan(row, jnp.zeros_like(first), second[::-1])[0])


def numbers(count, least):
    """The first and the number of those that `number` draws."""
    start = least if count == 1 else 10 ** (count - 1)
    return start, 10**count - start


@functools.cache
def likeliest_sum(first, seconds, least):
    """The largest of all sums' probabilities, each added up over `seconds`: sizes of the second operand.

    For two sizes, the number of pairs with a sum rises by one a step, stays, and falls: its slope changes at four sums.
    Added up over the sizes it is largest just before one of them. Whole numbers stand for probabilities times `whole`.
    """
    start, there = numbers(first, least)
    whole = 90 * 10 ** seconds[-1]  # so that it divides by how many numbers there are of each size
    slopes = {}
    for second in seconds:
        other, count = numbers(second, least)
        corner, weight = start + other, whole // count
        for turn, change in ((0, weight), (count, -weight), (there, -weight), (there + count, weight)):
            slopes[corner + turn] = slopes.get(corner + turn, 0) + change
    value = slope = before = best = 0
    for turn, change in sorted(slopes.items()):
        value += slope * (turn - before)
        best, slope, before = max(best, value), slope + change, turn
    return best / (there * whole)


@functools.cache
def likeliest_product(first, seconds, least):
    """The same for products: exact up to six digits in both operands, and beyond them the smallest bound that is cheap.

    A product other than zero comes from one second operand for each first one, at most, and the other way round.
    """
    sizes = [(numbers(first, least), numbers(second, least)) for second in seconds]
    if first + seconds[-1] <= 6:
        shares = np.zeros(10**6)
        for pair in sizes:
            one, other = (start + np.arange(count) for start, count in pair)
            products = np.multiply.outer(one, other).ravel()
            shares += np.bincount(products, minlength=10**6) / len(products)
        return float(shares.max())
    zero = sum(
        1 - (1 - (start == 0) / count) * (1 - (other == 0) / others) for (start, count), (other, others) in sizes
    )
    return float(max(zero, sum(1 / max(count, others) for (_, count), (_, others) in sizes)))
