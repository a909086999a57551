"""Each encoding against its formula, written again from the paper as slow loops over float64 numbers.

Nothing here is shared with `posenc`: a mistake would have to be made twice. Trained parameters are read off the
encoding; options are passed to both sides, and the defaults below are the papers'.
"""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from posenc import ENCODINGS, Positions, attend, visibility

EXAMPLES, QUERIES, KEYS, HEADS, WIDTH, HEAD_DIM, VALUE_DIM = 3, 3, 6, 2, 12, 8, 6
TOLERANCE = {"float32": 2e-5, "float64": 1e-10}


def between(value, where):
    """`value`, given at whole numbers, on the straight line between the two that enclose `where`."""
    low, high = math.floor(where), math.ceil(where)
    return value(low) + (where - low) * (value(high) - value(low))


def none(encoding):
    return {}


def sinusoidal(encoding, base=10000, layout="interleaved", learned_scale=False):
    """Vaswani et al. 2017, section 3.5: PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same."""

    def embed(x, position):
        x, pairs = x.copy(), len(x) // 2
        scale = float(encoding.scale[...]) if learned_scale else 1
        for i in range(pairs):
            sine, cosine = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, pairs + i)
            x[sine] += scale * math.sin(position / base ** (2 * i / len(x)))
            x[cosine] += scale * math.cos(position / base ** (2 * i / len(x)))
        return x

    return {"embed": embed}


def learned(encoding, max_position=512):
    """Gehring et al. 2017, section 3.1: x + W[position]; there is nothing past the table."""
    rows = np.asarray(encoding.rows[...], np.float64)

    def row(position):
        return rows[position] if 0 <= position < max_position else np.nan

    return {"embed": lambda x, position: x + between(row, position)}


def shaw(encoding, r_min=-16, r_max=16, values=True):
    """Shaw et al. 2018, equations 3 and 4: a row for each clipped distance, beside each key and each value."""

    def row_of(table):
        table = np.asarray(table[...], np.float64)
        return lambda r: between(lambda whole: table[max(r_min, min(whole, r_max)) - r_min], r)

    return {"key_row": row_of(encoding.key_rows), "value_row": row_of(encoding.value_rows) if values else None}


def t5(encoding, buckets=32, max_distance=128, bidirectional=False):
    """Raffel et al. 2020, section 2.1: a number for each head and bucket."""
    table = np.asarray(encoding.table[...], np.float64)

    def number(head, whole):
        return table[t5_bucket(whole, buckets, max_distance, bidirectional), head]

    return {"bias": lambda head, r: between(lambda whole: number(head, whole), r)}


def t5_bucket(r, buckets, max_distance, bidirectional):
    """The published rule, in exact fractions. Its sign is the other way round: there, keys ahead are positive."""
    first = 0
    if bidirectional:
        buckets //= 2
        first, r = (buckets if r < 0 else 0), abs(r)
    exact, r = buckets // 2, max(r, 0)
    if r < exact:
        return first + r
    # floor(log(r / exact) / log(max_distance / exact) * slots) is the greatest step whose power is not past r's.
    slots, step = buckets - exact, 0
    while step + 1 < slots and Fraction(r, exact) ** slots >= Fraction(max_distance, exact) ** (step + 1):
        step += 1
    return first + exact + step


def rope(encoding, base=10000, layout="halves", fraction=1, keep=1):
    """Su et al. 2021, equations 14 and 34: pair i is turned by position * base^(-2i/d); Barbero et al. 2024: `keep`."""

    def turn(x, position):
        x, turned = x.copy(), round(fraction * len(x))
        for i in range(int(keep * (turned // 2))):
            a, b = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + turned // 2)
            angle = position * base ** (-2 * i / turned)
            x[a], x[b] = (
                x[a] * math.cos(angle) - x[b] * math.sin(angle),
                x[b] * math.cos(angle) + x[a] * math.sin(angle),
            )
        return x

    return {"turn": turn}


def reference_attention(q, k, v, q_at, k_at, visible, turn=None, bias=None, key_row=None, value_row=None):
    """One example, ``[q, h, d]``: what each query takes from the keys it sees, one logit at a time."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    turn = turn or (lambda x, position: x)
    bias = bias or (lambda head, r: 0)
    key_row, value_row = key_row or (lambda r: 0), value_row or (lambda r: 0)
    out = np.zeros((*q.shape[:2], v.shape[-1]))
    for m, head in np.ndindex(q.shape[:2]):
        query, seen, logits = turn(q[m, head], q_at[m]), np.flatnonzero(visible[m]), []
        for n in seen:
            key = turn(k[n, head], k_at[n]) + key_row(q_at[m] - k_at[n])
            product = sum(a * b for a, b in zip(query, key, strict=True))
            logits.append(product / math.sqrt(len(key)) + bias(head, q_at[m] - k_at[n]))
        total = sum(math.exp(logit - max(logits)) for logit in logits)
        for n, logit in zip(seen, logits, strict=True):
            weight = math.exp(logit - max(logits)) / total
            out[m, head] += weight * (v[n, head] + value_row(q_at[m] - k_at[n]))
    return out


FORMULAS = {f.__name__: f for f in (none, sinusoidal, learned, shaw, t5, rope)}
CASES = [
    ("none", {}),
    ("sinusoidal", {}),
    ("sinusoidal", {"base": 50.0, "layout": "halves"}),
    ("sinusoidal", {"learned_scale": True}),
    ("learned", {}),
    ("learned", {"max_position": 9}),
    ("shaw", {}),
    ("shaw", {"r_min": -2, "r_max": 3}),
    ("shaw", {"r_min": 0, "r_max": 1, "values": False}),
    ("t5", {}),
    ("t5", {"bidirectional": True}),
    ("t5", {"buckets": 10, "max_distance": 9, "bidirectional": True}),
    ("t5", {"buckets": 5, "max_distance": 21}),
    ("rope", {}),
    ("rope", {"layout": "interleaved", "base": 50.0}),
    ("rope", {"fraction": 0.5, "keep": 0.75}),
    ("rope", {"layout": "interleaved", "fraction": 0.5}),
    ("rope", {"keep": 0.0}),
]
PLACES = {  # of the queries, which are the last tokens, and of the keys
    "in_order": ([3, 4, 5], [0, 1, 2, 3, 4, 5]),
    "elsewhere": ([0, 2, 100], [3, 5, 0, 1, 20, 99]),
    "by_example": (
        [[60, 200, 300], [5, 3, 0], [-1, 0, 3]],
        [[40, 41, 47, 60, 200, 300], [8, 8, 3, 5, 3, 0], [-30, -9, -2, -1, 0, 3]],
    ),
    "real": ([0.3, 4.9, 8.0], [-0.5, 0.3, 1.0, 7 / 3, 4.9, 8.0]),
}
everywhere = pytest.mark.parametrize("places", PLACES)
every_case = pytest.mark.parametrize("name, options", CASES, ids=lambda value: str(value).replace(" ", ""))
both_precisions = pytest.mark.parametrize("dtype", TOLERANCE)


def normal(key, shape, dtype):
    """Initial values of size 1, so that no term can be lost unseen, and different ones for each table."""
    return jnp.asarray(np.random.default_rng(np.asarray(jax.random.key_data(key))).normal(size=shape), dtype)


def count(key, shape, dtype):
    """The number of its row as the initial value of each, so that what is read tells where from."""
    return jnp.asarray(np.broadcast_to(np.arange(shape[0])[:, None], shape), dtype)


def build(name, dtype, options):
    """The encoding, with what its constructor takes of the sizes."""
    sizes = {
        "none": {},
        "sinusoidal": {"width": WIDTH, "param_dtype": dtype},
        "learned": {"width": WIDTH, "param_dtype": dtype, "init": normal},
        "shaw": {"head_dim": HEAD_DIM, "value_dim": VALUE_DIM, "param_dtype": dtype, "init": normal},
        "t5": {"heads": HEADS, "param_dtype": dtype, "init": normal},
        "rope": {"head_dim": HEAD_DIM},
    }
    return ENCODINGS[name](**sizes[name], **options, rngs=nnx.Rngs(0))


def place(values, dtype):
    """Positions; real ones in the precision under test, and the reference then takes exactly those."""
    values = np.asarray(values)
    return values.astype(dtype if values.dtype.kind == "f" else np.int32)


def promised(places, values):
    """The same, with the promise that they are consecutive where they are."""
    return Positions(jnp.asarray(values), consecutive=places == "in_order")


def by_example(values):
    """Plain numbers for each example; whole ones stay whole."""
    return np.broadcast_to(values, (EXAMPLES, np.shape(values)[-1])).tolist()


@both_precisions
@everywhere
@every_case
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
def test_attention_is_the_formula_of_the_paper(name, options, places, causal, dtype):
    q_at, k_at = (place(values, dtype) for values in PLACES[places])
    rng = np.random.default_rng(0)
    q = rng.normal(size=(EXAMPLES, QUERIES, HEADS, HEAD_DIM)).astype(dtype)
    k = rng.normal(size=(EXAMPLES, KEYS, HEADS, HEAD_DIM)).astype(dtype)
    v = rng.normal(size=(EXAMPLES, KEYS, HEADS, VALUE_DIM)).astype(dtype)
    visible = visibility(KEYS, causal=causal, lengths=jnp.asarray([6, 5, 4]))[:, :, -QUERIES:]
    with jax.enable_x64(dtype == "float64"):
        encoding = build(name, dtype, options)
        out = attend(encoding, *map(jnp.asarray, (q, k, v)), promised(places, q_at), promised(places, k_at), visible)
    paper = {hook: said for hook, said in FORMULAS[name](encoding, **options).items() if hook != "embed"}
    examples = zip(q, k, v, by_example(q_at), by_example(k_at), np.asarray(visible)[:, 0], strict=True)
    expected = [reference_attention(*example, **paper) for example in examples]
    assert out.dtype == dtype
    np.testing.assert_allclose(out, expected, rtol=0, atol=TOLERANCE[dtype])


@both_precisions
@everywhere
@every_case
def test_embeddings_are_the_formula_of_the_paper(name, options, places, dtype):
    at = place(PLACES[places][1], dtype)
    x = np.random.default_rng(0).normal(size=(EXAMPLES, KEYS, WIDTH)).astype(dtype)
    with jax.enable_x64(dtype == "float64"):
        encoding = build(name, dtype, options)
        out = encoding.embeddings(jnp.asarray(x), promised(places, at))
    embed = FORMULAS[name](encoding, **options).get("embed", lambda x, position: x)
    rows = zip(x.astype(np.float64), by_example(at), strict=True)
    expected = [[embed(*token) for token in zip(*row, strict=True)] for row in rows]
    assert out.dtype == dtype
    np.testing.assert_allclose(out, expected, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("buckets, max_distance", [(32, 128), (32, 20), (10, 160), (16, 18), (8, 9), (4, 3)])
def test_t5_buckets_are_the_published_rule_exactly(buckets, max_distance, bidirectional):
    # At (10, 160) a float64 logarithm puts an edge on the wrong side, at (16, 18) and (8, 9) a float32 one.
    t5 = ENCODINGS["t5"](
        1, buckets=buckets, max_distance=max_distance, bidirectional=bidirectional, init=count, rngs=nnx.Rngs(0)
    )
    distances = np.arange(-640, 641)  # four times the greatest max_distance
    found = np.asarray(t5.bias(distances, np.asarray([0]))).ravel()
    assert found.tolist() == [t5_bucket(int(r), buckets, max_distance, bidirectional) for r in distances]
    ahead, behind = found[distances <= 0][::-1], found[distances >= 0]
    last_behind, last_ahead = (buckets // 2 - 1, buckets - 1) if bidirectional else (buckets - 1, 0)
    assert (np.diff(behind) >= 0).all() and (np.diff(ahead) >= 0).all() and behind[0] == 0
    assert (behind[max_distance:] == last_behind).all() and (ahead[max_distance:] == last_ahead).all()


def test_learned_is_nan_past_its_table_and_right_at_its_last_row():
    learned = ENCODINGS["learned"](WIDTH, max_position=5, init=count, rngs=nnx.Rngs(0))
    out = learned.embeddings(jnp.zeros((1, 4, WIDTH)), jnp.asarray([4, 5, -1, 0]))[0]
    np.testing.assert_array_equal(out[np.asarray([0, 3])], learned.rows[...][np.asarray([4, 0])])
    assert np.isnan(out[1:3]).all()
