"""Sums by products against those of JAX, and their gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from posenc.sums import for_each, from_here_on, in_chunks, one_by_one


@pytest.mark.parametrize("keys", [1, 5, 16, 17, 32, 100])
def test_running_sums_in_chunks_are_running_sums(keys):
    x = jax.random.normal(jax.random.key(0), (2, 3, 4, keys))
    weights = jax.random.normal(jax.random.key(1), x.shape)
    expected = np.flip(np.cumsum(np.flip(np.asarray(x, np.float64), -1), axis=-1), -1)
    for way in (in_chunks, one_by_one, from_here_on):
        np.testing.assert_allclose(way(x), expected, atol=2e-5)
        slope = jax.grad(lambda x, way=way: jnp.sum(way(x) * weights))(x)
        np.testing.assert_allclose(slope, np.cumsum(np.asarray(weights, np.float64), axis=-1), atol=2e-5)


def test_a_bias_for_each_example_is_the_bias_and_its_gradient_the_sum():
    bias = jax.random.normal(jax.random.key(0), (1, 2, 3, 4))
    weights = jax.random.normal(jax.random.key(1), (5, 2, 3, 4))
    np.testing.assert_array_equal(for_each(bias, 5), jnp.broadcast_to(bias, (5, 2, 3, 4)))
    slope = jax.grad(lambda bias: jnp.sum(for_each(bias, 5) * weights))(bias)
    np.testing.assert_allclose(slope, weights.sum(0, keepdims=True), atol=1e-5)
