"""What the textbooks state about positional encodings, one test for each statement."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from posenc import ENCODINGS, Attention, Transformer, attend, make, make_layers, visibility

SIZES = {"width": 16, "heads": 2, "head_dim": 8}
TEN, FORTY = np.arange(10), np.arange(40)


def close(a, b, atol=2e-5):
    np.testing.assert_allclose(a, b, rtol=0, atol=atol)


def waves(width, positions):
    """PE(p) for each position, ``[t, m]``."""
    zeros = jnp.zeros((1, len(positions), width))
    return np.asarray(ENCODINGS["sinusoidal"](width).embeddings(zeros, positions)[0])


def turned(rope, x, positions):
    """R_p x for each position, ``[t, d]``; the keys are turned as the queries are."""
    x = jnp.broadcast_to(jnp.asarray(x, jnp.float32), (len(positions), np.shape(x)[-1]))[None, :, None]
    q, k = rope.queries_keys(x, x, positions, positions)
    np.testing.assert_array_equal(q, k)
    return np.asarray(q[0, :, 0])


def different(key, shape, dtype):
    """Initial values of size 1, no two alike, also not in two tables."""
    return jnp.asarray(np.random.default_rng(np.asarray(jax.random.key_data(key))).normal(size=shape), dtype)


def nine_rows():
    """Shaw's tables for distances up to 4 on either side."""
    return ENCODINGS["shaw"](8, r_min=-4, r_max=4, init=different, rngs=nnx.Rngs(0))


def rows_read(shaw, distances):
    """What is added to a key and to a value at each distance, each ``[r, d]``, told from the hooks alone."""
    examples, channels = len(distances), shaw.key_rows.shape[1]
    zeros = jnp.zeros((examples, 1, channels, channels))  # as many heads as channels: each asks for one of them
    axes = jnp.broadcast_to(jnp.eye(channels), zeros.shape)
    visible, places = jnp.ones((1, 1, 1, 1), bool), (distances[:, None], np.zeros((1, 1), int))
    logits = shaw.logits(jnp.zeros((examples, channels, 1, 1)), axes, zeros, *places, visible)
    values = attend(shaw, zeros, zeros, zeros, *places, visible)
    return np.asarray(logits[:, :, 0, 0]) * channels**0.5, np.asarray(values[:, 0, 0])


def test_sinusoidal_product_depends_on_the_distance_alone_and_not_on_its_sign():
    product = waves(16, FORTY) @ waves(16, FORTY).T
    for k in range(40):
        close(np.diagonal(product, k), product[0, k])
        close(np.diagonal(product, -k), product[0, k])
    assert np.ptp(product) > 1


@pytest.mark.parametrize("k", [1, 5, -3])
def test_sinusoidal_shift_is_a_block_rotation_whatever_the_position(k):
    pe, shifted = waves(16, FORTY), waves(16, FORTY + k)
    rotation = np.zeros((16, 16))
    for i, (sine, cosine) in enumerate(shifted[0].reshape(8, 2)):  # PE(0) is (0, 1) in each pair: here is its image
        rotation[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[cosine, sine], [-sine, cosine]]
    close(rotation @ rotation.T, np.eye(16))
    close(shifted, pe @ rotation.T)
    assert np.abs(shifted - pe).max() > 0.5


def test_sinusoidal_squared_norm_is_half_the_width():
    close((waves(16, 7 * FORTY - 50) ** 2).sum(axis=-1), 8)


def test_shaw_has_nine_rows_for_distances_up_to_four():
    shaw = nine_rows()
    assert shaw.key_rows.shape == shaw.value_rows.shape == (9, 8)
    for read, rows in zip(rows_read(shaw, np.arange(-4, 5)), (shaw.key_rows, shaw.value_rows), strict=True):
        close(read, rows[...], atol=1e-6)


def test_shaw_distances_beyond_the_clip_share_one_row():
    for read in rows_read(nine_rows(), np.asarray([-900, -5, -4, -3, 0, 3, 4, 5, 900])):
        close(read[:2], read[[2, 2]], atol=1e-6)
        close(read[-2:], read[[6, 6]], atol=1e-6)
        assert len({row.tobytes() for row in read[2:7]}) == 5


def test_shaw_row_is_added_to_the_key_after_its_projection():
    shaw = ENCODINGS["shaw"](16, r_min=-4, r_max=4, values=False, init=different, rngs=nnx.Rngs(0))
    attention = Attention(16, 1, rngs=nnx.Rngs(1))
    x = np.random.default_rng(0).normal(size=(10, 16)).astype(np.float32)
    rows = np.asarray(shaw.key_rows[...])[np.clip(TEN[:, None] - TEN, -4, 4) + 4]
    wq, wk, wv, wo = (np.asarray(getattr(attention, name).kernel[...]) for name in ("query", "key", "value", "out"))

    def output(keys):
        weights = np.exp(np.einsum("qd,qkd->qk", x @ wq, keys) / 16**0.5)
        return weights / weights.sum(axis=-1, keepdims=True) @ x @ wv @ wo

    found = attention(jnp.asarray(x)[None], TEN, shaw, visibility(10, causal=False))[0]
    close(found, output(x @ wk + rows))
    assert np.abs(found - output((x + rows) @ wk)).max() > 0.1


def test_rope_three_forms_agree():
    x, theta = np.random.default_rng(0).normal(size=8), 1e4 ** (-2 * np.arange(4) / 8)
    rope = ENCODINGS["rope"](8, layout="interleaved")
    for m, found in zip(TEN, turned(rope, x, TEN), strict=True):
        sine, cosine = np.sin(m * theta), np.cos(m * theta)
        pairs = [np.array([[c, -s], [s, c]]) @ pair for s, c, pair in zip(sine, cosine, x.reshape(4, 2), strict=True)]
        blocks = np.zeros((8, 8))
        for i in range(4):
            blocks[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[cosine[i], -sine[i]], [sine[i], cosine[i]]]
        neighbours = np.stack([-x[1::2], x[0::2]], axis=-1).ravel()  # (-x2, x1, -x4, x3, ...)
        elementwise = x * np.repeat(cosine, 2) + neighbours * np.repeat(sine, 2)
        for form in (np.concatenate(pairs), blocks @ x, elementwise):
            close(found, form)


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_rope_keeps_norms(layout):
    x = np.random.default_rng(0).normal(size=(10, 8))
    norms = np.linalg.norm(turned(ENCODINGS["rope"](8, layout=layout), x, TEN * 100), axis=-1)
    np.testing.assert_allclose(norms, np.linalg.norm(x, axis=-1), rtol=5e-7)


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_rope_turning_twice_is_turning_by_the_sum(layout):
    x, a, b = np.random.default_rng(0).normal(size=(10, 8)), TEN, 7 - 3 * TEN
    rope = ENCODINGS["rope"](8, layout=layout)
    close(turned(rope, turned(rope, x, b), a), turned(rope, x, a + b))
    assert np.abs(turned(rope, x, a + b) - x).max() > 1


def test_rope_layouts_are_equal_after_a_permutation_of_channels():
    x, order = np.random.default_rng(0).normal(size=(10, 8)), [0, 2, 4, 6, 1, 3, 5, 7]
    halves, interleaved = (ENCODINGS["rope"](8, layout=layout) for layout in ("halves", "interleaved"))
    close(turned(halves, x[:, order], TEN), turned(interleaved, x, TEN)[:, order])


@pytest.mark.parametrize("shift", [1, 17, 512])
def test_rope_logits_depend_on_the_distance_alone(shift):
    x, y = np.random.default_rng(0).normal(size=(2, 1, 8))
    rope = ENCODINGS["rope"](8)
    here = turned(rope, x, TEN) @ turned(rope, y, TEN).T
    there = turned(rope, x, TEN + shift) @ turned(rope, y, TEN + shift).T
    close(here, there)
    close(here[1:, 1:], here[:-1, :-1])
    assert np.ptp(here[0]) > 1 and np.ptp(here[0] - here[:, 0]) > 1


def transformer(encodings, *, causal):
    """Three layers in which all matrices have one shape."""
    return Transformer(16, 16, 3, 2, encodings, mlp_width=16, causal=causal, rngs=nnx.Rngs(0))


def trained(encodings, *, causal):
    """How many numbers the encodings of a transformer train."""
    model, bare = (transformer(each, causal=causal) for each in (encodings, make("none", **SIZES)))
    sizes = [sum(leaf.size for leaf in jax.tree.leaves(nnx.state(each, nnx.Param))) for each in (model, bare)]
    return sizes[0] - sizes[1]


def test_t5_bias_is_one_number_for_each_head_and_bucket():
    t5 = ENCODINGS["t5"](2, buckets=32, max_distance=128, init=different, rngs=nnx.Rngs(0))
    assert t5.table.shape == (32, 2)
    bias = np.asarray(t5.bias(np.arange(200), np.arange(200)))
    assert bias.shape == (1, 2, 200, 200)
    for head in bias[0]:
        assert len(np.unique(head)) == 32
        for r in (0, 7, 16, 100, 150):
            assert len(np.unique(np.diagonal(head, -r))) == 1


@pytest.mark.parametrize("causal", [True, False])
def test_t5_has_one_table_for_all_layers_and_shaw_a_pair_for_each(causal):
    how = dict(SIZES, bidirectional=not causal, rngs=nnx.Rngs(0))
    assert trained(make("t5", **how), causal=causal) == 32 * 2
    assert trained(make_layers("t5", 3, **how), causal=causal) == 32 * 2
    shaw = make_layers("shaw", 3, options={"shaw": {"r_min": -4, "r_max": 4}}, **how)
    assert trained(shaw, causal=causal) == 3 * 2 * 9 * 8


@pytest.mark.parametrize("causal", [True, False])
def test_nope_encoder_permutes_with_its_tokens_and_causal_decoder_does_not(causal):
    model = transformer(make("none", **SIZES), causal=causal)
    tokens, order = np.random.default_rng(0).integers(16, size=(1, 10)), np.random.default_rng(1).permutation(10)
    straight, permuted = (np.asarray(model(jnp.asarray(t), TEN)) for t in (tokens, tokens[:, order]))
    if causal:
        assert np.abs(permuted - straight[:, order]).max() > 1e-2
    else:
        close(permuted, straight[:, order])
        assert np.abs(permuted - straight).max() > 1e-2
