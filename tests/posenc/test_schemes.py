"""Position schemes against their laws, written again as plain loops over everything that may come out."""

import collections
import dataclasses
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from posenc import SCHEMES, Positions

KEYS = jax.random.split(jax.random.key(0), 4000)
LENGTHS = (1, 4, 7)
SIZE = 9
NUMBERS = np.array([[0, 1, 1, 0, 2, 2, 2, 3, 3], [1, 1, 1, 1, 0, 0, 2, 2, 2], [1, 1, 0, 0, 0, 2, 0, 3, 3]])
GROUPS = np.array([[5, 6, 7, 6, 5, 8, 9, 1, 9], [2, 2, 2, 2, 7, 7, 7, 7, 7], [3, 2, 1, 0, 1, 2, 3, 9, 9]])
SMALL = {
    "in_order": {},
    "offset": {"max_offset": 5},
    "augmented": {},
    "randomized": {"max_position": 12},
    "skipped": {"target": 12, "chunks": 3},
    "digits": {"max_start": 4},
    "coupled": {"max_position": 12},
    "grid": {"columns": 3},
}
every_scheme = pytest.mark.parametrize("name", SCHEMES)
every_case = pytest.mark.parametrize(
    ("name", "options"), [*SMALL.items(), ("randomized", {"max_position": 12, "draw": "example"}),
                          ("coupled", {"max_position": 12, "start": "first"}), ("digits", {"max_start": 0})]
)  # fmt: skip


def told(name, batch=3, size=SIZE):
    """What a scheme needs to know, if anything."""
    arrays = {"numbers": NUMBERS, "groups": GROUPS}
    needs = SCHEMES[name].needs
    padded = {} if needs is None else {needs: np.pad(arrays[needs], ((0, 0), (0, max(0, size - SIZE))))}
    return {key: jnp.asarray(value[:batch, :size]) for key, value in padded.items()}


def draw(name, key, lengths=LENGTHS, size=SIZE, **options):
    scheme, lengths = SCHEMES[name](**options), jnp.asarray(lengths)
    return scheme(key, lengths, size, len(lengths), **told(name, len(lengths), size))


@functools.cache
def many(name, length, size=SIZE, **options):
    """Thousands of draws for one example, its real tokens: ``[draws, length]``."""

    @jax.jit
    def one(key, length):
        scheme = SCHEMES[name](**options)
        return scheme(key, length[None], size, 1, **told(name, 1, size)).values[0]

    return np.asarray(jax.vmap(one, (0, None))(KEYS, jnp.array(length)))[:, :length]


def same_law(draws, law):
    """Whether draws follow a law, given as {outcome: probability}: nothing else comes, and all of it as often."""
    seen = collections.Counter(map(tuple, draws.tolist()))
    assert set(seen) <= set(law), "an outcome that may not be"
    expected = np.array([law[outcome] for outcome in law]) * len(draws)
    assert expected.min() > 4, "too few draws for the test"
    assert len(law) == 1 or scipy.stats.chisquare([seen[outcome] for outcome in law], expected).pvalue > 1e-4


# ------------------------------------------------------------------------------------------------ what holds for all


@every_case
def test_padding_has_the_position_of_the_last_real_token(name, options):
    values = np.asarray(draw(name, KEYS[0], **options).values)
    lengths = LENGTHS if len(values) > 1 else (max(LENGTHS),)  # one row serves all lengths
    for row, length in zip(values, lengths, strict=True):
        assert (row[length:] == row[length - 1]).all()


@every_case
def test_neither_the_size_nor_jit_changes_what_is_drawn(name, options):
    small, large = (np.asarray(draw(name, KEYS[1], size=size, **options).values) for size in (7, SIZE + 40))
    np.testing.assert_array_equal(small, large[:, :7])
    compiled = jax.jit(lambda key, lengths: draw(name, key, lengths, **options).values)(KEYS[1], jnp.array(LENGTHS))
    np.testing.assert_allclose(compiled, draw(name, KEYS[1], **options).values, rtol=1e-6)


@every_case
def test_positions_stay_within_the_bounds_and_come_near_them(name, options):
    scheme = SCHEMES[name](**options)
    extents = {"numbers": 4, "groups": 10}  # the longest number; ids 0 to 9
    lowest, highest = scheme.bounds(extents.get(scheme.needs, SIZE))
    draws = jax.vmap(lambda key: draw(name, key, (SIZE, SIZE, SIZE), **options).values)(KEYS[:500])
    assert draws.min() >= lowest
    assert draws.max() <= highest
    if scheme.axes == 1:
        assert draws.min() <= lowest + 1
        assert draws.max() >= highest - (1 if name != "augmented" else 2)


@every_case
def test_the_draw_follows_the_key(name, options):
    one, again, other = (np.asarray(draw(name, key, **options).values) for key in (KEYS[0], KEYS[0], KEYS[1]))
    np.testing.assert_array_equal(one, again)
    fixed = name in ("in_order", "grid") or options.get("start") == "first" or options.get("max_start") == 0
    assert np.array_equal(one, other) == fixed


@every_case
def test_promised_consecutive_positions_are(name, options):
    positions = draw(name, KEYS[0], (SIZE, SIZE, SIZE), **options)
    assert isinstance(positions, Positions)
    if positions.consecutive:
        assert (np.diff(positions.values, axis=1) == 1).all()


@every_scheme
def test_a_scheme_in_testing_draws_nothing_unless_its_paper_does(name):
    tested = SCHEMES[name](**SMALL[name]).tested()
    kind = next(known for known, cls in SCHEMES.items() if cls is type(tested))
    expected = {"offset": "in_order", "augmented": "in_order", "skipped": "in_order"}.get(name, name)
    assert kind == expected
    options = dataclasses.asdict(tested)
    one, other = (np.asarray(draw(kind, key, **options).values) for key in KEYS[:2])
    assert np.array_equal(one, other) == (name != "randomized")


# --------------------------------------------------------------------------------------------------- each by its law


def test_in_order_counts():
    positions = draw("in_order", KEYS[0], (3, 5), 8)
    assert positions.consecutive
    assert positions.values.tolist() == [[0, 1, 2, 3, 4, 4, 4, 4]]


def test_offset_is_uniform_from_none_to_the_last_one():
    same_law(many("offset", 3, max_offset=5), {(k, k + 1, k + 2): 1 / 6 for k in range(6)})


def test_each_example_of_a_batch_has_a_draw_of_its_own_where_the_paper_says_so():
    for name in ("offset", "augmented", "skipped", "coupled"):
        rows = np.asarray(
            draw(name, KEYS[0], (7,) * 3, **(SMALL[name] | {"max_offset": 500} if name == "offset" else {})).values
        )
        assert rows.shape == (3, SIZE)
        starts = rows - (GROUPS - GROUPS[:, :7].min(1, keepdims=True)) if name == "coupled" else rows
        assert len({tuple(row) for row in starts[:, :7].tolist()}) == 3, name
    starts = np.asarray(draw("digits", KEYS[0], (SIZE,) * 3, max_start=50).values)[NUMBERS > 0].min()
    counted = np.asarray(draw("digits", KEYS[0], (SIZE,) * 3, max_start=0).values)
    np.testing.assert_array_equal(  # one k for all numbers of a batch
        draw("digits", KEYS[0], (SIZE,) * 3, max_start=50).values, np.where(NUMBERS > 0, counted + starts - 1, 0)
    )


def test_augmented_is_what_the_paper_says_part_by_part():
    def ks(values, low, high):
        assert values.min() >= low - 1e-5
        assert values.max() <= high + 1e-5
        assert scipy.stats.kstest(values, "uniform", (low, high - low)).pvalue > 1e-4

    alone = dict(global_shift=0.0, local_shift=0.0, scale=1.0)
    count = np.arange(6)
    np.testing.assert_array_equal(many("augmented", 6, **alone), np.tile(count, (len(KEYS), 1)))
    shifted = many("augmented", 6, **alone | {"global_shift": 3.0}) - count
    np.testing.assert_allclose(shifted, shifted[:, :1].repeat(6, 1), atol=1e-5)
    ks(shifted[:, 0], -3, 3)
    local = many("augmented", 6, **alone | {"local_shift": 0.5}) - count
    for column in local.T:
        ks(column, -0.5, 0.5)
    assert np.abs(np.corrcoef(local.T) - np.eye(6)).max() < 0.1  # each for itself
    scaled = many("augmented", 6, **alone | {"scale": 1.5})
    np.testing.assert_allclose(scaled, scaled[:, 1:2] * count, rtol=1e-5)
    ks(np.log(scaled[:, 1]), -math.log(1.5), math.log(1.5))
    both = many("augmented", 6, global_shift=3.0, local_shift=0.0, scale=1.5)  # shifted first, then scaled
    stretch = both[:, 1] - both[:, 0]
    ks(both[:, 0] / stretch, -3, 3)


@pytest.mark.parametrize("size", [3, 5, 12])
def test_randomized_is_uniform_over_subsets_whatever_the_size(size):
    subsets = list(itertools.combinations(range(6), 3))
    same_law(many("randomized", 3, size, max_position=6), {subset: 1 / 20 for subset in subsets})


def test_one_draw_serves_a_batch_of_randomized_unless_each_example_is_to_have_its_own():
    assert draw("randomized", KEYS[0], (5,), 8).values.shape == (1, 8)
    scheme = SCHEMES["randomized"]()
    assert scheme(KEYS[0], jnp.array([5]), 8, 16).values.shape == (1, 8)
    each = SCHEMES["randomized"](draw="example")(KEYS[0], jnp.array([5]), 8, 16).values
    assert len(np.unique(each, axis=0)) == 16
    mixed = np.asarray(draw("randomized", KEYS[0], (5, 2), 8).values)
    assert set(mixed[1]) <= set(mixed[0])  # one draw: the shorter example has some of the longer one's positions


@pytest.mark.parametrize(
    ("length", "target", "chunks"), [(4, 7, 2), (5, 8, 2), (1, 4, 2), (4, 6, 3), (6, 6, 2), (3, 5, 1)]
)
def test_skipped_follows_the_papers_equations(length, target, chunks):
    """Equations 3 and 4 over all lengths of chunks and all skips, each with its probability."""
    law = collections.Counter()
    longest = math.ceil(length / chunks)

    def go_on(positions, skip, left, probability):
        """Chunk by chunk: `left` chunks are to come, behind tokens that have their positions."""
        done = len(positions)
        if left == 1:
            law[tuple(positions + [t + skip for t in range(done, length)])] += probability
            return
        for size in range(1, longest + 1):
            chunk = [t + skip for t in range(done, min(done + size, length))]
            further = range(skip, target - length + 1)
            for other in further:
                go_on(positions + chunk, other, left - 1, probability / longest / len(further))

    go_on([], 0, chunks, 1.0)
    assert math.isclose(sum(law.values()), 1)
    same_law(many("skipped", length, target=target, chunks=chunks), law)


def test_digits_count_within_numbers_from_a_start_for_all():
    def counted(numbers, start):
        """One token after the other, as one counts by hand."""
        places, last, place = [], 0, 0
        for number in numbers:
            place = 0 if number == 0 else place + 1 if number == last else 1
            last = number
            places.append(place and place + start)
        return tuple(places)

    law = {counted(NUMBERS[0], start): 1 / 5 for start in range(5)}
    assert counted(NUMBERS[0], 2) == (0, 3, 4, 0, 3, 4, 5, 3, 4)
    same_law(many("digits", SIZE, max_start=4), law)
    for row, numbers in zip(draw("digits", KEYS[0], (SIZE,) * 3, max_start=0).values.tolist(), NUMBERS, strict=True):
        assert tuple(row) == counted(numbers, 0)


def test_coupled_gives_a_group_one_position_and_uses_all_the_room():
    ids = np.array([0, 1, 2, 1, 0, 3, 4])  # of the first example, from 0 on
    same_law(many("coupled", 7, max_position=8), {tuple((ids + k).tolist()): 1 / 4 for k in range(4)})
    assert draw("coupled", KEYS[0], (7,), start="first").values[0, :7].tolist() == ids.tolist()


def test_grid_reads_line_by_line():
    positions = draw("grid", KEYS[0], (7,), 9, columns=3).values
    assert positions[0].tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2], [2, 0], [2, 0], [2, 0]]
    assert SCHEMES["grid"](columns=3).bounds(7) == (0, 2)
