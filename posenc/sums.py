"""Sums that a CPU takes as matrix products; elsewhere they are what JAX has.

XLA on a CPU is several times slower at a reduction, and ten times at a running sum, of arrays of four or five axes than
at a product with ones. Both are what attention with positions consists of besides its products.
"""

import jax
import jax.numpy as jnp

from posenc.shapes import Array, Float

CHUNK = 16  # keys that one product sums up


def for_each(bias: Float[Array, "1 h q k"], examples: int) -> Float[Array, "b h q k"]:
    """The same for each example. What it is for is the gradient: a sum over the examples."""

    def by_product(bias: Array) -> Array:
        ones = jnp.ones((examples, 1), bias.dtype)
        return (ones @ bias.reshape(1, -1)).reshape(examples, *bias.shape[1:])

    def plain(bias: Array) -> Array:
        return jnp.broadcast_to(bias, (examples, *bias.shape[1:]))

    return jax.lax.platform_dependent(bias, cpu=by_product, default=plain)


def from_here_on(x: Float[Array, "... k"]) -> Float[Array, "... k"]:
    """The sum of each number and those behind it, along the last axis."""
    return jax.lax.platform_dependent(x, cpu=in_chunks, default=one_by_one)


def one_by_one(x: Float[Array, "... k"]) -> Float[Array, "... k"]:
    """As JAX has it."""
    return jax.lax.cumsum(x, axis=x.ndim - 1, reverse=True)


def in_chunks(x: Float[Array, "... k"]) -> Float[Array, "... k"]:
    """Within chunks by a product with a triangle of ones, and the sums of the chunks behind by another."""
    *lead, keys = x.shape
    chunks = -(-keys // CHUNK)
    parts = jnp.pad(x, [(0, 0)] * len(lead) + [(0, chunks * CHUNK - keys)]).reshape(-1, CHUNK)
    within = parts @ jnp.tril(jnp.ones((CHUNK, CHUNK), x.dtype))
    totals = (parts @ jnp.ones((CHUNK, 1), x.dtype)).reshape(-1, chunks)
    behind = (totals @ jnp.tril(jnp.ones((chunks, chunks), x.dtype), -1)).reshape(-1, 1)
    whole = within + behind @ jnp.ones((1, CHUNK), x.dtype)
    return whole.reshape(*lead, chunks * CHUNK)[..., :keys]


def computed_once(x: Float[Array, "... c"]) -> Float[Array, "... c"]:
    """The same numbers, kept. XLA on a CPU computes what seems cheap anew for each element that it goes into.

    A sine of a position, say, for each example, head and layer. What a product gives is kept: here, with an identity.
    A NaN takes the other channels of its row along.
    """

    def by_identity(x: Array) -> Array:
        return jnp.einsum("...c,ce->...e", x, jnp.eye(x.shape[-1], dtype=x.dtype))

    return jax.lax.platform_dependent(x, cpu=by_identity, default=lambda x: x)
