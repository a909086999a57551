"""The pieces that several encodings are made of, each against whole numbers that Python keeps exactly."""

import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from posenc import Positions, distance
from posenc.encodings.buckets import log_starts
from posenc.encodings.deberta import DeBERTa
from posenc.encodings.phase import geometric, high_word, turned
from posenc.encodings.skew import diagonals, dots, on_diagonals, skewed, sums, unskewed

EXTREME = [0, 1, 2, 3, 2**15, 2**16 - 1, 2**16, 2**16 + 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2**16, 2**32 - 1]


@pytest.mark.parametrize("compiled", [False, True])
def test_the_high_word_of_a_product_is_exact(compiled):
    random = np.random.default_rng(0).integers(0, 2**32, 500).tolist()
    a, b = EXTREME + random, EXTREME + random[::-1]
    words = np.asarray(b, np.uint32)[None]
    run = jax.jit(lambda a: high_word(a, words)) if compiled else lambda a: high_word(a, words)
    found = run(jnp.asarray(np.asarray(a, np.uint32))[:, None])
    assert found.dtype == jnp.uint32
    expected = [[x * y >> 32 for y in b] for x in a]
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected, np.uint32))


@pytest.mark.parametrize(("channels", "base"), [(2, 10.0), (8, 1e4), (64, 5e5), (5, 3.0)])
def test_geometric_frequencies_are_powers_of_the_base(channels, base):
    found = geometric(channels, base)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, [base ** (-2 * i / channels) for i in range((channels + 1) // 2)], rtol=1e-14)


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_turning_is_a_product_of_complex_numbers(layout):
    rng = np.random.default_rng(0)
    x, at, size = rng.normal(size=(2, 5, 3, 8)), rng.normal(size=(1, 5, 1, 4)), rng.uniform(0.5, 2, size=(1, 5, 1, 4))
    first, second = (x[..., :4], x[..., 4:]) if layout == "halves" else (x[..., 0::2], x[..., 1::2])
    pairs = (first + 1j * second) * np.exp(1j * at) * size
    parts = pairs.real, pairs.imag
    expected = np.concatenate(parts, -1) if layout == "halves" else np.stack(parts, -1).reshape(x.shape)
    found = turned(*(jnp.asarray(each, jnp.float32) for each in (x, at)), layout, jnp.asarray(size, jnp.float32))
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)
    assert turned(jnp.asarray(x, jnp.bfloat16), jnp.asarray(at, jnp.float32), layout).dtype == jnp.bfloat16


SHAPES = [(1, 1), (1, 7), (7, 1), (2, 3), (5, 5), (6, 4), (3, 8)]
OFFSETS = [(0, 0), (4, 0), (0, 9), (-3, 2), (1_000_000, 999_990), (2**24 + 1, 2**24 - 3)]


@pytest.mark.parametrize(("queries", "keys"), SHAPES)
def test_skewed_diagonals_are_the_distances(queries, keys):
    for q_start, k_start in OFFSETS:
        q, k = (
            Positions(start + jnp.arange(n), consecutive=True) for start, n in ((q_start, queries), (k_start, keys))
        )
        each = diagonals(q, k)
        assert each.shape == (queries + keys - 1,)
        rows = jnp.broadcast_to(each[None, None, None], (2, 3, queries, queries + keys - 1)).astype(jnp.float32)
        found = skewed(rows, keys)
        expected = np.broadcast_to(np.asarray(distance(q, k))[:, None], (2, 3, queries, keys))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("queries", "keys"), SHAPES)
def test_skewing_keeps_what_belongs_to_each_example_head_and_query(queries, keys):
    x = np.random.default_rng(0).normal(size=(2, 3, queries, queries + keys - 1)).astype(np.float32)
    found = np.asarray(skewed(jnp.asarray(x), keys))
    for m, n in np.ndindex(queries, keys):
        np.testing.assert_array_equal(found[:, :, m, n], x[:, :, m, queries - 1 - m + n])


@pytest.mark.parametrize(("queries", "keys"), SHAPES)
def test_what_is_behind_the_distances_that_occur_is_not_read(queries, keys):
    x = np.random.default_rng(0).normal(size=(3, queries, queries + keys)).astype(np.float32)
    x[..., -1] = np.nan
    np.testing.assert_array_equal(skewed(jnp.asarray(x), keys), skewed(jnp.asarray(x[..., :-1]), keys))


@pytest.mark.parametrize(("queries", "keys"), SHAPES)
def test_unskewing_is_the_way_back(queries, keys):
    x = np.random.default_rng(0).normal(size=(2, 3, queries, keys)).astype(np.float32)
    found, expected = np.asarray(unskewed(jnp.asarray(x))), np.zeros((2, 3, queries, queries + keys - 1), np.float32)
    for m, n in np.ndindex(queries, keys):
        expected[:, :, m, queries - 1 - m + n] = x[:, :, m, n]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(skewed(jnp.asarray(found), keys), x)


@pytest.mark.parametrize(("queries", "keys"), [*SHAPES, (9, 2), (8, 3)])  # also more rows than columns: in tiles
@pytest.mark.parametrize("heads", [1, 3])
def test_rows_of_distances_are_multiplied_and_summed_as_in_loops(queries, keys, heads):
    draw = np.random.default_rng(0).normal
    x, table, weights = draw(size=(2, queries, 3, 4)), draw(size=(40, heads, 4)), draw(size=(2, 3, queries, keys))
    q, k = (Positions(start + jnp.arange(n), consecutive=True) for start, n in ((5, queries), (2, keys)))
    products, total = np.zeros((2, 3, queries, keys)), np.zeros((2, queries, 3, 4))
    for m, n in np.ndindex(queries, keys):
        row = table[20 + 5 + m - 2 - n]
        products[:, :, m, n] = np.sum(x[:, m] * row[None], axis=-1)
        total[:, m] += weights[:, :, m, n, None] * row[None, :1]

    def read(r):
        return jnp.asarray(table, jnp.float32)[20 + r]

    found = dots(jnp.asarray(x, jnp.float32), read, q, k)
    np.testing.assert_allclose(found, products, atol=1e-5)
    for at in ((q, k), (q.values, k.values)):  # on diagonals, and pair by pair
        found = sums(jnp.asarray(weights, jnp.float32), lambda r: read(r)[..., 0, :], *at)
        np.testing.assert_allclose(found, total, atol=1e-5)


def test_diagonals_of_real_positions_are_real_distances():
    q, k = (Positions(start + jnp.arange(3.0), consecutive=True) for start in (0.5, 0.25))
    np.testing.assert_array_equal(diagonals(q, k), [2.25, 1.25, 0.25, -0.75, -1.75])


def test_diagonals_are_taken_only_where_both_promise_and_all_examples_share():
    line, row = jnp.arange(3), jnp.zeros((2, 3), int) + jnp.arange(3)[None]
    promised, plain = Positions(line, consecutive=True), Positions(line)
    assert on_diagonals(promised, promised)
    assert on_diagonals(promised, Positions(line[None] + 5, consecutive=True))
    assert not on_diagonals(promised, plain) and not on_diagonals(plain, promised) and not on_diagonals(line, line)
    each = Positions(row, consecutive=True)
    assert not on_diagonals(each, promised) and not on_diagonals(promised, each) and not on_diagonals(each, each)


def least(exact, reach, share, past):
    """The least whole r with log(r / exact) / log(reach / exact) at or past the share, by looking at each."""
    for r in itertools.count(exact):
        side = Fraction(r, exact) ** share.denominator - Fraction(reach, exact) ** share.numerator
        if side > 0 or (side == 0 and not past):
            return r


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize(
    ("exact", "reach"), [(1, 2), (1, 64), (2, 3), (4, 64), (5, 80), (8, 64), (8, 9), (16, 128), (16, 20), (7, 50)]
)
def test_logarithmic_buckets_start_where_fractions_say(exact, reach, past):
    for parts in (1, 2, 3, 4, 7, 8, 12):
        for shares in (
            [Fraction(j, parts) for j in range(parts + 1)],
            [Fraction(2 * j - 1, 2 * parts) for j in range(1, parts + 1)],
        ):
            found = log_starts(exact, reach, shares, past=past)
            assert found == [least(exact, reach, share, past) for share in shares]
            assert found == sorted(found) and found[0] >= exact and found[-1] <= reach + past


def test_logarithmic_buckets_of_no_share_are_none():
    assert log_starts(4, 64, []) == []


def test_a_start_that_is_hit_exactly_is_where_a_logarithm_may_miss():
    shares = [Fraction(j, 2) for j in range(3)]
    assert log_starts(5, 80, shares) == [5, 20, 80]  # 20 = 5 x 16^(1/2)
    assert log_starts(5, 80, shares, past=True) == [6, 21, 81]


@pytest.mark.parametrize(("buckets", "max_distance"), [(4, 5), (16, 20), (32, 128), (256, 512)])
def test_deberta_rows_are_the_published_rule_in_fractions(buckets, max_distance):
    deberta = DeBERTa(2, 1, 2, buckets=buckets, max_distance=max_distance, rngs=nnx.Rngs(0))
    r = np.arange(-2 * max_distance, 2 * max_distance + 1)
    middle = buckets // 2

    def bucket(distance):
        far = abs(distance)
        if far <= middle:
            return distance
        steps = math.log(far / middle) / math.log((max_distance - 1) / middle) * (middle - 1)
        whole = round(steps)  # the logarithm may be a hair off a whole number that is hit exactly
        hit = Fraction(far, middle) ** (middle - 1) == Fraction(max_distance - 1, middle) ** whole
        return (1 if distance > 0 else -1) * (middle + (whole if hit else math.ceil(steps)))

    expected = [min(max(bucket(int(each)) + buckets, 0), 2 * buckets - 1) for each in r]
    assert deberta.row(jnp.asarray(r)).tolist() == expected
