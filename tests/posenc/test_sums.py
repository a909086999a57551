"""Sums by products against those of JAX, and their gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from posenc.encodings import RoPE
from posenc.sums import computed_once, for_each, from_here_on, in_chunks, one_by_one


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


def test_what_is_computed_once_is_what_it_was_and_so_is_its_gradient():
    x = jax.random.normal(jax.random.key(0), (2, 5, 1, 7)).at[1, 3, 0, 2].set(jnp.nan)
    kept = np.asarray(computed_once(x))
    lost = np.zeros((2, 5, 1), bool)
    lost[1, 3] = True  # one row, and no other
    np.testing.assert_array_equal(kept[~lost], np.asarray(x)[~lost])
    assert np.isnan(kept[lost]).all()
    slope = jax.grad(lambda x: jnp.sum(computed_once(x) ** 2))(x)
    np.testing.assert_array_equal(slope[~lost], 2 * x[~lost])


def test_a_sine_of_positions_is_computed_once_for_all_examples_and_heads():
    """On a CPU: what is fused with the products that read it would be computed for each of their elements."""
    rope, q = RoPE(), jnp.ones((4, 6, 2, 8))
    program = jax.jit(lambda q, positions: rope.rotated(q, positions)).lower(q, jnp.arange(6)).compile().as_text()
    turning = [part for part in program.split("\n\n") if "f32[4,6,2,8]" in part and not part.startswith("ENTRY")]
    assert "cosine(" in program
    assert turning and not any("cosine(" in part for part in turning)
