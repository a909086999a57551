"""Positions, and how they are read."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from posenc import Positions, distance
from posenc.positions import interpolated


def test_distance_is_query_minus_key_and_stays_whole():
    r = distance(jnp.array([3, 4]), jnp.array([[0, 4, 5]]))
    assert r.dtype == jnp.int32
    assert r.tolist() == [[[3, -1, -2], [4, 0, -1]]]
    assert distance(np.array([1], np.uint32), np.array([2], np.uint32)).tolist() == [[[-1]]]


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_positions_are_whole_or_wide(dtype):
    with pytest.raises(TypeError, match=f"positions are {jnp.dtype(dtype).name}"):
        Positions.of(jnp.zeros(3, dtype))


def test_positions_have_one_or_two_axes():
    with pytest.raises(ValueError, match=r"shape \(1, 2, 3\)"):
        Positions.of(jnp.zeros((1, 2, 3), int))


def test_positions_pass_through_jit_with_their_promise():
    given = Positions(jnp.arange(3), consecutive=True)
    assert jax.jit(lambda positions: positions)(given).consecutive
    assert not Positions.of(jnp.arange(3)).consecutive


def test_interpolation_is_exact_on_whole_numbers_and_linear_between():
    table = jnp.array([[1.0, 0.0], [3.0, 10.0], [7.0, 0.0]])
    whole = interpolated(lambda i: table[i], jnp.array([0, 2]))
    np.testing.assert_array_equal(whole, [[1, 0], [7, 0]])
    real = interpolated(lambda i: table[i], jnp.array([0.0, 0.25, 1.5, 2.0]))
    np.testing.assert_allclose(real, [[1, 0], [1.5, 2.5], [5, 5], [7, 0]])
