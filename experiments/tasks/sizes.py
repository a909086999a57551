"""Sizes of examples, from lengths that are whole numbers, where they size an array, or traced."""

import jax.numpy as jnp


def larger(size, other):
    """The larger of two sizes; a whole number if both are."""
    return max(size, other) if whole(size, other) else jnp.maximum(size, other)


def smaller(size, other):
    """The smaller of two sizes; a whole number if both are."""
    return min(size, other) if whole(size, other) else jnp.minimum(size, other)


def whole(*sizes):
    return all(isinstance(size, int) for size in sizes)
