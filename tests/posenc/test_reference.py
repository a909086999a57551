"""Each encoding against its formula, written again from the paper as slow loops over float64 numbers (tests/formulas).

Nothing there is shared with `posenc`: a mistake would have to be made twice. Trained parameters are drawn for both
sides; options are passed to both, and the defaults there are the papers'.
"""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from posenc import ENCODINGS, options_of
from tests.formulas import driver
from tests.formulas.deberta import row_of
from tests.formulas.irpe import piece
from tests.formulas.t5 import bucket

WIDTH, HEAD_DIM = 12, 8


def settings():
    """Each case of each encoding in each of its position sets and directions."""
    return [
        (name, number, places, causal, dtype)
        for name in driver.NAMES
        for number in range(len(driver.module(name).CASES))
        for dtype in driver.TOLERANCE  # outside, as encoding and reference of a case are built for each
        for places, causal in driver.combinations(name, number)
    ]


def embeddings_settings():
    """The same without directions; of encodings that do not act on embeddings the first case alone."""
    acting = [setting for setting in settings() if setting[1] == 0 or driver.acts_on_embeddings(setting[0])]
    return list(dict.fromkeys((name, number, places, dtype) for name, number, places, _, dtype in acting))


def shown(name, number, places, *rest):
    """A setting as the name of a test."""
    case = str(driver.module(name).CASES[number]).replace(" ", "").replace("'", "")
    causal, dtype = rest if len(rest) > 1 else (None, *rest)
    direction = {True: "causal", False: "bidirectional", None: ""}[causal]
    return "-".join(filter(None, (name, case, places, direction, dtype)))


@pytest.mark.parametrize("name, number, places, causal, dtype", [pytest.param(*s, id=shown(*s)) for s in settings()])
def test_attention_is_the_formula_of_the_paper(name, number, places, causal, dtype):
    assert driver.attention_error(name, number, places, causal, dtype) <= driver.TOLERANCE[dtype]


@pytest.mark.parametrize("name, number, places, dtype", [pytest.param(*s, id=shown(*s)) for s in embeddings_settings()])
def test_embeddings_are_the_formula_of_the_paper(name, number, places, dtype):
    assert driver.embeddings_error(name, number, places, dtype) <= driver.TOLERANCE[dtype]


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_option_is_under_test(name):
    """With another value than its default, in some case."""
    defaults = options_of(ENCODINGS[name])
    tried = {o for case in driver.module(name).CASES for o in case if o in defaults and case[o] != defaults[o]}
    assert tried == set(defaults)


def count(key, shape, dtype):
    """The number of its row as the initial value of each, so that what is read tells where from."""
    return jnp.asarray(np.broadcast_to(np.arange(shape[0]).reshape(-1, *(1,) * (len(shape) - 1)), shape), dtype)


def first(key, shape, dtype):
    """A projection that hands on the first channel and nothing else."""
    return jnp.zeros(shape, dtype).at[0, :, 0].set(1)


def term(encoding, distances, *, by):
    """What `logits` adds for each distance, times sqrt(d): with queries or keys that are one in the first channel."""
    one, nothing = jnp.zeros((1, 1, 1, HEAD_DIM)).at[..., 0].set(1), jnp.zeros((1, 1, 1, HEAD_DIM))
    q, k = (one, nothing) if by == "query" else (nothing, one)
    q, k = jnp.broadcast_to(q, (1, len(distances), 1, HEAD_DIM)), jnp.broadcast_to(k, (1, 1, 1, HEAD_DIM))
    at = jnp.asarray(distances), jnp.asarray([0])
    q, k = encoding.queries_keys(q, k, *at)
    shape = (1, 1, len(distances), 1)
    found = encoding.logits(jnp.zeros(shape), q, k, *at, jnp.ones(shape, bool))
    return np.asarray(found).ravel() * math.sqrt(HEAD_DIM)


def whole(found):
    """As whole numbers, which they must be but for rounding."""
    np.testing.assert_allclose(found, np.round(found), atol=1e-3)
    return np.round(found).astype(int).tolist()


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("buckets, max_distance", [(32, 128), (32, 20), (10, 160), (16, 18), (8, 9), (4, 3)])
def test_t5_buckets_are_the_published_rule_exactly(buckets, max_distance, bidirectional):
    # At (10, 160) a float64 logarithm puts an edge on the wrong side, at (16, 18) and (8, 9) a float32 one.
    t5 = ENCODINGS["t5"](
        1, buckets=buckets, max_distance=max_distance, bidirectional=bidirectional, init=count, rngs=nnx.Rngs(0)
    )
    distances = np.arange(-640, 641)  # four times the greatest max_distance
    found = np.asarray(t5.bias(distances, np.asarray([0]))).ravel()
    assert found.tolist() == [bucket(int(r), buckets, max_distance, bidirectional) for r in distances]
    ahead, behind = found[distances <= 0][::-1], found[distances >= 0]
    last_behind, last_ahead = (buckets // 2 - 1, buckets - 1) if bidirectional else (buckets - 1, 0)
    assert (np.diff(behind) >= 0).all() and (np.diff(ahead) >= 0).all() and behind[0] == 0
    assert (behind[max_distance:] == last_behind).all() and (ahead[max_distance:] == last_ahead).all()


@pytest.mark.parametrize("p2c", ["key_to_query", "query_to_key"])
@pytest.mark.parametrize("buckets, max_distance", [(256, 512), (16, 40), (12, 100), (4, 9), (8, 6), (4, 4), (32, 64)])
def test_deberta_rows_are_the_published_rule_exactly(buckets, max_distance, p2c):
    deberta = ENCODINGS["deberta"](
        WIDTH, 1, HEAD_DIM, buckets=buckets, max_distance=max_distance, p2c=p2c, init=count, rngs=nnx.Rngs(0)
    )
    for projection in (deberta.query, deberta.key):
        projection.set_value(first(None, projection[...].shape, jnp.float32))
    distances = np.arange(-4 * max_distance, 4 * max_distance + 1)
    rows = [row_of(int(r), buckets, max_distance) for r in distances]
    assert rows[0] == 0 and rows[-1] == 2 * buckets - 1 and (np.diff(rows) >= 0).all()
    assert whole(term(deberta, distances, by="query") * math.sqrt(3)) == rows
    other_way = rows[::-1] if p2c == "key_to_query" else rows
    assert whole(term(deberta, distances, by="key") * math.sqrt(3)) == other_way


@pytest.mark.parametrize("mode", ["contextual", "bias"])
@pytest.mark.parametrize(
    "alpha, beta, gamma", [(8, 16, 64), (2, 5, 9), (1, 4, 20), (2, 3, 8), (1, 2, 4), (3, 4, 5), (4, 10, 25)]
)
def test_irpe_rows_are_equation_18_exactly(alpha, beta, gamma, mode):
    # At (2, 3, 8) a distance of 4 is half way between 2 and 3, at (1, 2, 4) one of 2 is half way between 1 and 2: the
    # code's round() goes to the even one.
    distances = np.arange(-4 * gamma, 4 * gamma + 1)
    rows = [piece(int(r), alpha, beta, gamma) + beta for r in distances]
    assert rows[0] == 0 and rows[-1] == 2 * beta and (np.diff(rows) >= 0).all()
    for on, by, expected in (("k", "query", rows), ("q", "key", rows[::-1])):
        irpe = ENCODINGS["irpe"](
            1, HEAD_DIM, alpha=alpha, beta=beta, gamma=gamma, mode=mode, on=(on,), init=count, rngs=nnx.Rngs(0)
        )
        if mode == "bias":
            found = np.asarray(irpe.bias(jnp.asarray(distances), jnp.asarray([0]))).ravel()
        else:
            found = term(irpe, distances, by=by)
        assert whole(found) == expected


def test_learned_is_nan_past_its_table_and_right_at_its_last_row():
    learned = ENCODINGS["learned"](WIDTH, max_position=5, init=count, rngs=nnx.Rngs(0))
    out = learned.embeddings(jnp.zeros((1, 4, WIDTH)), jnp.asarray([4, 5, -1, 0]))[0]
    np.testing.assert_array_equal(out[np.asarray([0, 3])], learned.rows[...][np.asarray([4, 0])])
    assert np.isnan(out[1:3]).all()
