"""Positions, and the schemes that hand them out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from posenc import SCHEMES, Positions, distance
from posenc.positions import interpolated

KEYS = jax.random.split(jax.random.key(0), 4000)


def draw(key, length, size, batch=1, **options):
    return SCHEMES["randomized"](**options)(key, jnp.asarray(length).reshape(-1), size, batch).values


def test_in_order_counts_and_gives_padding_the_position_of_a_real_token():
    positions = SCHEMES["in_order"]()(KEYS[0], jnp.array([3, 5]), 8)
    assert positions.consecutive
    assert positions.values.tolist() == [[0, 1, 2, 3, 4, 4, 4, 4]]


def test_randomized_positions_are_a_sorted_subset_of_the_range():
    for length in (1, 4, 10):
        values = np.asarray(jax.vmap(lambda key, n=length: draw(key, n, 10, max_position=10))(KEYS[:200]))[:, 0]
        assert (np.diff(values[:, :length]) > 0).all()
        assert values.min() >= 0
        assert values.max() <= 9
        assert (values[:, length:] == values[:, length - 1 : length]).all()


@pytest.mark.parametrize("size", [3, 5, 12])
def test_the_law_of_randomized_is_uniform_over_subsets_whatever_the_bucket(size):
    values = jax.jit(jax.vmap(lambda key, n: draw(key, n, size, max_position=6), (0, None)))(KEYS, 3)[:, 0, :3]
    subsets, counts = np.unique(np.asarray(values), axis=0, return_counts=True)
    assert len(subsets) == 20  # 6 choose 3
    assert scipy.stats.chisquare(counts).pvalue > 1e-4


def test_the_draw_itself_does_not_depend_on_the_bucket():
    small, large = (draw(KEYS[0], 3, size) for size in (3, 64))
    np.testing.assert_array_equal(small, large[:, :3])


def test_one_draw_serves_a_batch_unless_each_example_is_to_have_its_own():
    assert draw(KEYS[0], 5, 8, batch=16).shape == (1, 8)
    each = draw(KEYS[0], 5, 8, batch=16, draw="example")
    assert each.shape == (16, 8)
    assert len(np.unique(each, axis=0)) == 16
    mixed = np.asarray(draw(KEYS[0], [5, 2], 8, batch=2))
    assert set(mixed[1]) <= set(mixed[0])  # one draw: the shorter example has some of the longer one's positions


def test_the_draw_follows_the_key():
    assert not np.array_equal(draw(KEYS[0], 5, 5), draw(KEYS[1], 5, 5))
    np.testing.assert_array_equal(draw(KEYS[0], 5, 5), draw(KEYS[0], 5, 5))


def test_more_tokens_than_positions_are_refused():
    scheme = SCHEMES["randomized"](max_position=8)
    assert scheme.limit(8) == 8
    with pytest.raises(ValueError, match=r"max_position is 8, but sequences of 9 tokens .* Set max_position to 9"):
        scheme.limit(9)


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
