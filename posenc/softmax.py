"""The softmax over keys, with its sums taken as products with a column of ones.

The sum of a row, and the spreading of one number over a row, are what a softmax and its gradient consist of besides the
exponential. XLA on a CPU is several times slower at them, in arrays of four or five axes, than at a matrix product.
"""

import jax
import jax.numpy as jnp

from posenc.shapes import Array, Bool, Float


def softmax(logits: Float[Array, "b h q k"], visible: Bool[Array, "#b #h #q k"]) -> Float[Array, "b h q k"]:
    """How much of each key; zero where it is not visible, also where none is."""
    return jax.lax.platform_dependent(logits, visible, cpu=by_products, default=plain)


def plain(logits, visible):
    """As JAX has it."""
    return jax.nn.softmax(logits, axis=-1, where=visible)


def by_products(logits, visible):
    """With products in place of sums."""
    seen = jnp.where(visible, logits, -jnp.inf)
    greatest = jax.lax.stop_gradient(seen.max(axis=-1, keepdims=True))
    powers = jnp.exp(seen - jnp.where(greatest == -jnp.inf, 0, greatest))
    ones = jnp.ones((powers.shape[-1], 1), powers.dtype)
    total = jnp.einsum("bhqk,ko->bhqo", powers, ones)
    return powers * jnp.einsum("bhqo,ko->bhqk", 1 / jnp.where(total == 0, 1, total), ones)
