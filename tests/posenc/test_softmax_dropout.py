"""The softmax by products against JAX's, and dropout against its law."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from posenc.dropout import Dropout, words
from posenc.softmax import by_products, plain

LOGITS = 30 * jax.random.normal(jax.random.key(0), (2, 3, 4, 5))
VISIBLE = jax.random.bernoulli(jax.random.key(1), 0.7, (2, 1, 4, 5)).at[0, 0, 1].set(False)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e30])
def test_softmax_and_its_gradient_are_those_of_jax(size):
    ways = [(way, jax.grad(lambda x, way=way: jnp.sin(way(x, VISIBLE)).sum())) for way in (by_products, plain)]
    (found, slope), (expected, true_slope) = [(way(LOGITS * size, VISIBLE), g(LOGITS * size)) for way, g in ways]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(slope, true_slope, atol=1e-6)
    assert (np.asarray(found[0, :, 1]) == 0).all()
    assert (np.asarray(slope[0, :, 1]) == 0).all()


def test_a_logit_that_is_not_a_number_is_heard_where_it_is_visible():
    broken = LOGITS.at[1, 2, 3].set(jnp.nan)
    seen = jnp.ones((1, 1, 4, 5), bool)
    assert jnp.isnan(by_products(broken, seen)[1, 2, 3]).all()
    assert jnp.isfinite(by_products(broken, seen.at[0, 0, 3].set(False))).all()


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.5, 0.9])
def test_the_rate_is_met_and_the_mean_is_kept(rate):
    out = np.asarray(Dropout(rate, jax.random.key(3))(jnp.ones((400, 500))))
    dropped = int((out == 0).sum())
    assert stats.binomtest(dropped, out.size, rate).pvalue > 1e-3
    np.testing.assert_allclose(out[out > 0], 1 / (1 - rate), rtol=1e-6)


def test_words_are_as_good_as_random_in_every_bit_and_at_every_distance():
    many = np.concatenate([np.asarray(words(jax.random.key(seed), (1 << 16,))) for seed in range(8)])
    bits = (many[:, None] >> np.arange(32, dtype=np.uint32) & 1).astype(np.float64)
    n = len(many)
    assert np.abs(bits.mean(0) - 0.5).max() < 4.5 / (2 * n**0.5)
    for shift in (1, 2, 64, 4096):  # neighbours, channels, and the same place in another key
        same = (bits[shift:] == bits[:-shift]).mean(0)
        assert np.abs(same - 0.5).max() < 4.5 / (2 * (n - shift) ** 0.5)
    pairs = bits.T @ bits / n - 0.25 - np.eye(32) * 0.25
    assert np.abs(pairs).max() < 5.5 / (4 * n**0.5) * 4
    counts = np.bincount(many >> np.uint32(22), minlength=1024)
    assert stats.chisquare(counts).pvalue > 1e-3
    assert len(np.unique(np.asarray(words(jax.random.key(0), (1 << 16,))))) == 1 << 16  # rounds are bijections


def test_each_key_and_each_part_drops_other_numbers_and_the_same_each_time():
    one = Dropout(0.5, jax.random.key(0))
    x = jnp.ones(4096)
    np.testing.assert_array_equal(one(x), one(x))
    others = [Dropout(0.5, jax.random.key(1)), one.of(0), one.of(1), Dropout(0.5, jax.random.key(2**31))]
    masks = np.stack([np.asarray(other(x)) > 0 for other in [one, *others]])
    agreement = (masks[:, None] == masks[None]).mean(-1)[~np.eye(5, dtype=bool)]
    assert np.abs(agreement - 0.5).max() < 4.5 / (2 * 4096**0.5)


def test_a_gradient_passes_where_a_number_is_kept():
    dropout = Dropout(0.5, jax.random.key(0))
    np.testing.assert_array_equal(jax.grad(lambda x: dropout(x).sum())(jnp.ones(64)), dropout(jnp.ones(64)))
    assert dropout(jnp.ones(4, jnp.bfloat16)).dtype == jnp.bfloat16
