"""Arithmetic on arrays of bits, on the device: exact for numbers that no machine word holds.

Least significant bit first, unless said otherwise.
"""

import jax
import jax.numpy as jnp


def positive(key, bits, longest):
    """`bits` bits, one or more, drawn uniformly but for those that are all zero; zeros behind them."""

    def again(state):
        key, draw = jax.random.split(state[0])
        return key, jnp.where(jnp.arange(longest) < bits, jax.random.randint(draw, (longest,), 0, 2), 0)

    return jax.lax.while_loop(lambda state: ~state[1].any(), again, (key, jnp.zeros(longest, int)))[1]


def carried(columns):
    """The bits of a number, as many as it has digits of any size to the base of two."""

    def place(carry, column):
        return (carry + column) // 2, (carry + column) % 2

    return jax.lax.scan(place, jnp.zeros((), columns.dtype), columns)[1]


def product(first, second):
    """The bits of a product that has no more of them than `second`, with its zeros."""

    def row(state, bit):
        total, shifted = state
        return (total + bit * shifted, jnp.roll(shifted, 1).at[0].set(0)), None

    return carried(jax.lax.scan(row, (jnp.zeros_like(second), second), first)[0][0])


def root(pairs):
    """The bits of a square root's floor, from the number's two by two (lower, higher); most significant first.

    Digit by digit, as on paper: the remainder takes in two bits more, and where 4 root + 1 fits in, it is taken away
    and the root gets a one, else a zero. A difference borrows in a place where, in the nearest place at or below it
    in which the two numbers differ, the one that is taken away has the one.
    """
    place = jnp.arange(len(pairs) + 2)  # least significant first

    def digit(state, pair):
        remainder, found = state
        remainder = jnp.concatenate([pair, remainder[:-2]])
        taken = jnp.concatenate([jnp.array([1, 0], found.dtype), found[:-2]])
        borrows = jax.lax.cummax(jnp.where(remainder != taken, 2 * place + taken, 0)) % 2
        left = remainder ^ taken ^ jnp.roll(borrows, 1).at[0].set(0)
        fits = 1 - borrows[-1]
        return (jnp.where(fits == 1, left, remainder), jnp.append(fits, found[:-1])), fits

    nothing = jnp.zeros_like(place)
    return jax.lax.scan(digit, (nothing, nothing), pairs)[1]
