"""What the textbooks state about positional encodings, one test for each statement."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from posenc import ENCODINGS, Attention, Positions, Transformer, attend, make, make_layers, visibility
from posenc.options import signature_of
from tests.posenc.test_far_out import logits_of

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


# The statements below are read off the logits before the softmax, as attention has them in its hands.
Q, K = (np.random.default_rng(seed).normal(size=(1, 10, 2, 8)).astype(np.float32) for seed in (1, 2))
DISTANCE = TEN[:, None] - TEN


def built(name, **options):
    """The encoding for two heads of eight channels, trained numbers of size 1."""
    asked = signature_of(ENCODINGS[name])
    given = {size: value for size, value in SIZES.items() if size in asked}
    given |= {"init": different} if "init" in asked else {}
    return ENCODINGS[name](**given, **options, rngs=nnx.Rngs(0))


def fixed(encoding, **parameters):
    """The encoding with these numbers in place of its own, one for a whole array or one for each place."""
    for name, value in parameters.items():
        parameter = getattr(encoding, name)
        parameter[...] = jnp.broadcast_to(jnp.asarray(value, parameter.dtype), parameter.shape)
    return encoding


def read(encoding, q=Q, k=K, positions=TEN, **how):
    """The logits ``[h, q, k]`` of one example, all pairs visible unless it is said."""
    return logits_of(encoding, q, k, positions, positions, **{"causal": False} | how)[0]


def product(q=Q, k=K):
    """q . k of one example, ``[h, q, k]``."""
    return np.einsum("bqhd,bkhd->hqk", np.float64(q), np.float64(k))


@pytest.mark.parametrize("consecutive", [True, False])
@pytest.mark.parametrize("start", [0, 1000])
def test_transformer_xl_terms_each_alone(consecutive, start):
    positions = Positions(jnp.asarray(start + TEN), consecutive=consecutive)
    theta = 1e4 ** (-np.arange(8) / 8)
    waves = np.concatenate([np.sin(DISTANCE[..., None] * theta), np.cos(DISTANCE[..., None] * theta)], -1)
    xl = built("transformer_xl")
    w, u, v = (np.asarray(each[...], np.float64) for each in (xl.projection, xl.u, xl.v))
    rows = np.einsum("qkm,mhd->qkhd", waves, w)
    nothing = np.zeros_like(Q)
    content = read(fixed(built("transformer_xl"), u=0, v=0, projection=0), positions=positions)
    close(content, product() / 8**0.5)
    of_key = read(fixed(built("transformer_xl"), v=0, projection=0), nothing, positions=positions)
    close(of_key, np.einsum("hd,bkhd->hk", u, K)[:, None].repeat(10, 1) / 8**0.5)
    of_position = read(fixed(built("transformer_xl"), u=0, v=0), k=nothing, positions=positions)
    close(of_position, np.einsum("bqhd,qkhd->hqk", Q, rows) / 8**0.5)
    of_distance = read(fixed(built("transformer_xl"), u=0), nothing, nothing, positions=positions)
    close(of_distance, np.einsum("hd,qkhd->hqk", v, rows) / 8**0.5)
    close(read(xl, positions=positions), content + of_key + of_position + of_distance)


@pytest.mark.parametrize(
    ("name", "bidirectional"), [("transformer_xl", False), ("music_transformer", False), ("music_transformer", True)]
)
@pytest.mark.parametrize(("queries", "keys", "first"), [(10, 10, 0), (3, 10, 7), (1, 10, 9), (1, 1, 0)])
def test_both_roads_to_the_distances_lead_to_the_same(name, bidirectional, queries, keys, first):
    how = {"max_distance": 6, "bidirectional": bidirectional} if name == "music_transformer" else {}
    encoding = built(name, **how)
    q, at, of = Q[:, :queries], 50 + first + np.arange(queries), 50 + np.arange(keys)
    apart = logits_of(encoding, q, K[:, :keys], at, of, causal=False)
    skewed = logits_of(
        encoding, q, K[:, :keys], *(Positions(jnp.asarray(each), consecutive=True) for each in (at, of)), causal=False
    )
    close(apart, skewed)


def slopes(heads, kind="published"):
    """What a key one position behind loses in each head."""
    return -np.asarray(ENCODINGS["alibi"](heads, slopes=kind).bias(np.asarray([1]), np.asarray([0])))[0, :, 0, 0]


@pytest.mark.parametrize("heads", [1, 2, 4, 8, 16, 32])
def test_alibi_slopes_of_a_power_of_two_are_geometric_and_begin_with_their_ratio(heads):
    for kind in ("published", "geometric"):
        np.testing.assert_allclose(slopes(heads, kind), (2 ** (-8 / heads)) ** np.arange(1, heads + 1), rtol=1e-6)
    assert slopes(heads)[-1] == 2.0**-8


def test_alibi_slopes_of_six_and_twelve_heads_are_the_published_ones_and_not_geometric():
    np.testing.assert_allclose(slopes(6), [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3])
    np.testing.assert_allclose(slopes(12), 2.0 ** -np.asarray([1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]), rtol=1e-6)
    for heads in (3, 5, 6, 7, 12):
        np.testing.assert_allclose(slopes(heads, "geometric"), 2.0 ** (-8 * np.arange(1, heads + 1) / heads), rtol=1e-6)
        assert np.abs(np.sort(slopes(heads)) - np.sort(slopes(heads, "geometric"))).max() > 1e-2


@pytest.mark.parametrize("heads", range(3, 41))
def test_alibi_slopes_are_every_other_of_the_next_power_of_two_then_the_rest(heads):
    above = 2 ** int(np.ceil(np.log2(heads)))  # another published rule, said the other way round
    all_of_them = 2.0 ** (-8 * np.arange(1, above + 1) / above)
    ordered = all_of_them if above == heads else np.concatenate([all_of_them[1::2], all_of_them[0::2]])
    np.testing.assert_allclose(slopes(heads), ordered[:heads], rtol=1e-6)


def test_alibi_is_the_same_to_a_softmax_as_a_bonus_for_late_keys():
    bias = np.asarray(ENCODINGS["alibi"](2).bias(TEN, TEN))[0]
    close(bias, -slopes(2)[:, None, None] * np.abs(DISTANCE))
    late = np.broadcast_to(slopes(2)[:, None, None] * TEN, bias.shape)  # differs by s m, the same along a row
    seen = np.tri(10, dtype=bool)
    close(jax.nn.softmax(jnp.asarray(bias), where=seen[None]), jax.nn.softmax(jnp.asarray(late), where=seen[None]))
    assert np.abs(late - bias)[:, seen].max() > 0.5


def test_alibi_tells_the_sides_apart_where_it_is_asymmetric_and_only_there():
    for encoder, nearer in (("symmetric", 0), ("asymmetric", 0.5)):
        bias = ENCODINGS["alibi"](2, encoder=encoder, bidirectional=True).bias(TEN, TEN)
        close(bias[0], -slopes(2)[:, None, None] * (np.abs(DISTANCE) - nearer * (DISTANCE > 0)))


@pytest.mark.parametrize("kernel", ["log", "power"])
def test_kerple_is_negative_and_falls_with_the_distance_whatever_is_stored(kernel):
    for r1, r2 in ((0.5, 0.7), (-3.0, 0.7), (0.5, -2.0), (-1.0, -1.0), (0.0, 0.0), (2.0, 9.0)):
        bias = np.asarray(fixed(built("kerple", kernel=kernel), r1=r1, r2=r2).bias(TEN, TEN), np.float64)[0, 0]
        assert (np.diag(bias) == 0).all()
        assert (bias[DISTANCE != 0] < 0).all()
        assert (np.diff(bias[-1]) > 0).all() and (np.diff(bias[0]) < 0).all()
        used1, used2 = max(r1, 0.01), max(r2, 0.01) if kernel == "log" else min(max(r2, 0.01), 2)
        r = np.abs(DISTANCE)
        np.testing.assert_allclose(bias, -used1 * (np.log1p(used2 * r) if kernel == "log" else r**used2), rtol=2e-6)


@pytest.mark.parametrize("kernel", ["log", "power"])
def test_kerple_numbers_past_their_edge_can_come_back(kernel):
    kerple = fixed(built("kerple", kernel=kernel), r1=-1, r2=-1)
    graph, state = nnx.split(kerple, nnx.Param)
    gradients = jax.tree.leaves(jax.grad(lambda state: nnx.merge(graph, state).bias(TEN, TEN).sum())(state))
    assert len(gradients) == 2 and all((np.abs(each) > 1e-3).all() for each in gradients)


def shares(positions, threshold=16.0, c=0.3):
    """What FIRE asks its network, told by a network that gives it back, ``[q, k]``."""
    fire = fixed(built("fire", hidden=1, threshold=threshold), c=c, multiplier=1, up=1, up_bias=0, down=1)
    return np.asarray(fire.bias(positions, positions))[0, 0]


def test_fire_asks_for_a_share_of_the_way_to_the_first_token():
    p = np.asarray([0, 1, 5, 15, 16, 17, 100, 5000])
    r, end = np.abs(p[:, None] - p), np.maximum(p, 16)[:, None]
    close(shares(p), np.log1p(0.3 * r) / np.log1p(0.3 * end), atol=1e-5)
    for far in (10, 1000, 100_000):
        found = shares(np.linspace(0, far, 30).astype(int))
        assert found.min() >= 0 and found[np.tri(30, dtype=bool)].max() <= 1 + 1e-6
    close(shares(p)[4:, 0], 1, atol=1e-5)


def test_fire_is_relative_up_to_its_threshold_and_not_beyond():
    close(shares(TEN), shares(TEN + 6), atol=1e-6)
    assert np.abs(shares(TEN) - shares(TEN + 100)).max() > 0.05
    close(shares(TEN + 100, threshold=200.0), shares(TEN + 190, threshold=200.0), atol=1e-6)
    wider = fixed(built("fire", hidden=1, threshold=16.0), c=0.3, multiplier=2, up=1, up_bias=0, down=1)
    close(wider.bias(TEN, TEN)[0, 0], shares(TEN, threshold=32.0), atol=1e-6)


def counted(logits, seen=None, max_position=64, asked=8**0.5, **options):
    """The positions that CoPE gives each key, told by rows that hold their own number, ``[q, k]``."""
    cope = fixed(
        built("cope", max_position=max_position, **options), rows=np.arange(max_position)[:, None] * np.eye(8)[0]
    )
    asks = jnp.zeros((1, 10, 1, 8)).at[..., 0].set(asked)
    seen = jnp.asarray(np.tri(10, dtype=bool) if seen is None else seen)[None, None]
    logits = jnp.asarray(logits, jnp.float32)[None, None]
    return np.asarray(cope.logits(logits, asks, asks, TEN, TEN, seen) - logits)[0, 0]


def test_cope_counts_gates_from_the_query_back():
    logits = np.random.default_rng(0).normal(size=(10, 10)) * 2
    gates, found = 1 / (1 + np.exp(-logits)), counted(logits)
    close(np.diag(found), np.diag(gates))  # a token counts itself
    steps = found[:, :-1] - found[:, 1:]
    assert (steps[np.tri(10, 9, -1, bool)] > 0).all() and (steps[np.tri(10, 9, -1, bool)] < 1).all()
    for m in range(10):
        for n in range(m + 1):
            assert abs(found[m, n] - gates[m, n : m + 1].sum()) < 2e-5


def test_cope_positions_are_whole_where_every_gate_is_open_and_end_with_the_last_row():
    behind = np.tri(10, dtype=bool)
    close(counted(np.full((10, 10), 60.0))[behind], (DISTANCE + 1)[behind], atol=1e-5)
    close(counted(np.full((10, 10), -60.0))[behind], 0)
    close(counted(np.full((10, 10), 60.0), max_position=4)[behind], np.minimum(DISTANCE + 1, 3)[behind], atol=1e-5)
    odd = behind & (TEN % 2 == 1)  # what is not visible does not count
    found = counted(np.full((10, 10), 60.0), odd)[9]
    close(found[1::2], [5, 4, 3, 2, 1], atol=1e-5)


def test_cope_products_are_divided_by_the_root_of_the_width_or_not():
    logits = np.random.default_rng(0).normal(size=(10, 10))
    close(counted(logits), counted(logits, asked=1, scaled=False))


def test_deberta_terms_each_alone():
    scale = 1 / (3 * 8) ** 0.5
    full = built("deberta")
    rows, of_query, of_key = (np.asarray(each[...], np.float64) for each in (full.rows, full.query, full.key))
    assert rows.shape == (512, 16)
    alone = read(fixed(built("deberta"), query=0, key=0))
    close(alone, product() * scale)
    to_position = read(fixed(built("deberta"), query=0), k=0 * K)
    close(to_position, np.einsum("bqhd,qkm,mhd->hqk", Q, rows[DISTANCE + 256], of_key) * scale, atol=1e-4)
    from_position = read(fixed(built("deberta"), key=0), 0 * Q)
    close(from_position, np.einsum("bkhd,qkm,mhd->hqk", K, rows[-DISTANCE + 256], of_query) * scale, atol=1e-4)
    published = read(fixed(built("deberta", p2c="query_to_key"), key=0), 0 * Q)
    close(published, np.einsum("bkhd,qkm,mhd->hqk", K, rows[DISTANCE + 256], of_query) * scale, atol=1e-4)
    close(read(full), alone + to_position + from_position, atol=1e-4)


def test_tupe_scales_words_and_positions_alike():
    tupe = built("tupe", relative=False)
    rows, of_query, of_key = (np.asarray(each[...], np.float64) for each in (tupe.rows, tupe.query, tupe.key))
    q, k = (np.einsum("tm,mhd->thd", rows[:10], each) for each in (of_query, of_key))
    close(read(fixed(built("tupe", relative=False), rows=0)), product() / 16**0.5)
    close(read(tupe, 0 * Q, 0 * K), np.einsum("qhd,khd->hqk", q, k) / 16**0.5, atol=1e-4)
    t5 = fixed(built("tupe"), rows=0)
    close(read(t5), product() / 16**0.5 + np.asarray(t5.distance_bias.bias(TEN, TEN))[0])
    assert tupe.distance_bias is None
    sizes = [sum(leaf.size for leaf in jax.tree.leaves(nnx.state(each, nnx.Param))) for each in (t5, tupe)]
    assert sizes[0] - sizes[1] == 32 * 2


@pytest.mark.parametrize(("alpha", "beta", "gamma"), [(8, 16, 64), (1, 4, 9), (3, 4, 100), (2, 20, 50)])
def test_irpe_index_is_odd_exact_near_by_and_saturates(alpha, beta, gamma):
    irpe = built("irpe", alpha=alpha, beta=beta, gamma=gamma)
    assert irpe.k_rows.shape == (2 * beta + 1, 8)
    r = np.arange(-2 * gamma, 2 * gamma + 1)
    index = np.asarray(irpe.row(jnp.asarray(r))) - beta
    np.testing.assert_array_equal(index, -index[::-1])
    assert (np.diff(index) >= 0).all()
    np.testing.assert_array_equal(index[np.abs(r) <= alpha], r[np.abs(r) <= alpha])
    assert (index[r >= gamma] == beta).all()
    far = r[(r > alpha) & (r < gamma)]
    said = np.minimum(beta, alpha + np.log(far / alpha) / np.log(gamma / alpha) * (beta - alpha))
    assert (np.abs(index[(r > alpha) & (r < gamma)] - said) <= 0.5 + 1e-9).all()  # rounded


def test_irpe_rows_meet_queries_keys_and_values_each_alone():
    rows = {on: np.asarray(getattr(built("irpe", on=(on,)), f"{on}_rows")[...], np.float64) for on in "qkv"}
    near = np.abs(DISTANCE) <= 8
    with_queries = read(built("irpe", on=("k",)), k=0 * K)
    said = np.einsum("bqhd,qkd->hqk", Q, rows["k"][np.clip(DISTANCE, -8, 8) + 16]) / 8**0.5
    close(with_queries[:, near], said[:, near])
    with_keys = read(built("irpe", on=("q",)), 0 * Q)
    said = np.einsum("bkhd,qkd->hqk", K, rows["q"][np.clip(-DISTANCE, -8, 8) + 16]) / 8**0.5
    close(with_keys[:, near], said[:, near])
    close(read(built("irpe", on=("v",))), product() / 8**0.5)


def test_irpe_numbers_of_queries_and_of_keys_are_read_in_opposite_directions():
    near = np.abs(DISTANCE) <= 8
    for on, row in (("k", DISTANCE), ("q", -DISTANCE)):
        irpe = built("irpe", mode="bias", on=(on,))
        numbers = np.asarray(getattr(irpe, f"{on}_rows")[...])
        assert numbers.shape == (33,)
        found = read(irpe, 0 * Q)
        close(found[:, near], np.broadcast_to(numbers[np.clip(row, -8, 8) + 16], (2, 10, 10))[:, near])
    both = built("irpe", mode="bias", on=("q", "k"))
    said = [
        np.asarray(rows[...])[np.clip(r, -8, 8) + 16] for rows, r in ((both.k_rows, DISTANCE), (both.q_rows, -DISTANCE))
    ]
    close(read(both, 0 * Q)[:, near], np.broadcast_to(sum(said), (2, 10, 10))[:, near])


def test_t5_has_half_of_its_buckets_for_keys_ahead_where_they_are_seen():
    for bidirectional, ahead in ((True, [16, 17, 18, 19]), (False, [0, 0, 0, 0])):
        t5 = built("t5", bidirectional=bidirectional)
        bias = np.asarray(t5.bias(np.asarray([0, 1, 2, 3, -1, -2, -3]), np.asarray([0])))[0, :, :, 0]
        np.testing.assert_array_equal(bias, np.asarray(t5.table[...])[[0, 1, 2, 3, *ahead[1:]]].T)


def test_t5_without_its_scale_is_the_plain_product():
    for scaled, scale in ((True, 8**-0.5), (False, 1)):
        close(read(fixed(built("t5", scaled=scaled), table=0)), product() * scale)


def totals_of(encoding, x):
    totals = jnp.cumsum(encoding.steps(jnp.asarray(x, jnp.float32), TEN), axis=1)
    return {"q_totals": totals, "k_totals": totals}


def test_fox_forgets_by_the_gates_behind_the_key_up_to_the_query():
    x, fox = np.random.default_rng(3).normal(size=(2, 10, 16)), built("fox")
    gates = 1 / (1 + np.exp(-(x @ np.asarray(fox.gate[...], np.float64))))
    close(np.exp(fox.steps(jnp.asarray(x, jnp.float32), TEN)), gates)
    assert (gates > 0).all() and (gates < 1).all()
    nothing = np.zeros((2, 10, 2, 8), np.float32)
    found = logits_of(fox, nothing, nothing, TEN, TEN, **totals_of(fox, x))
    for example, head, m, n in np.ndindex(2, 2, 10, 10):
        said = np.log(gates[example, n + 1 : m + 1, head]).sum() if n <= m else 0
        assert abs(found[example, head, m, n] - said) < 5e-5


def test_fox_with_open_gates_is_attention_without_positions():
    attention, x = Attention(16, 2, rngs=nnx.Rngs(1)), jnp.asarray(np.random.default_rng(3).normal(size=(1, 10, 16)))
    x, visible = x.astype(jnp.float32), visibility(10, causal=True)
    bare = attention(x, TEN, make("none", **SIZES), visible)
    close(attention(x, TEN, fixed(built("fox"), gate_bias=60), visible), bare)
    assert np.abs(attention(x, TEN, built("fox"), visible) - bare).max() > 1e-2


def test_cable_distances_are_positive_and_add_up():
    x, cable = np.random.default_rng(3).normal(size=(1, 10, 16)), built("cable")
    far = -read(cable, 0 * Q, **totals_of(cable, x))
    assert (far[:, DISTANCE > 0] > 0).all() and (far[:, DISTANCE == 0] == 0).all()
    close(far[:, 9, 0], far[:, 9, 4] + far[:, 4, 0])
    close(far[:, 1:, :-1].diagonal(axis1=1, axis2=2).T, np.log1p(np.exp(x[0] @ np.asarray(cable.step[...])))[1:])


def test_stick_breaking_is_the_product_of_what_is_left():
    logits, stick = np.random.default_rng(0).normal(size=(1, 1, 10, 10)) * 3, ENCODINGS["stick_breaking"]()
    weights = np.asarray(stick.weights(jnp.asarray(logits, jnp.float32), visibility(10, causal=True)))[0, 0]
    said, taken = np.zeros((10, 10)), 1 / (1 + np.exp(-logits[0, 0]))
    for m in range(10):
        left = 1.0
        for n in reversed(range(m)):
            said[m, n] = taken[m, n] * left
            left *= 1 - taken[m, n]
    close(weights, said, atol=1e-6)
    assert (weights[0] == 0).all() and (weights >= 0).all() and (weights.sum(-1) <= 1 + 1e-6).all()
    assert weights.sum(-1)[1:].min() < 0.99  # and no softmax


def test_stick_breaking_neither_vanishes_nor_overflows():
    stick = ENCODINGS["stick_breaking"]()
    for size in (-1e4, 1e4):
        weights = np.asarray(stick.weights(jnp.full((1, 1, 10, 10), size), visibility(10, causal=True)))[0, 0]
        close(weights, np.eye(10, k=-1) if size > 0 else np.zeros((10, 10)))


def test_xpos_fades_in_every_pair():
    xpos, zeta = ENCODINGS["xpos"](8, scale_base=64.0), (np.arange(4) / 4 + 0.4) / 1.4
    assert (zeta < 1).all()
    places = np.asarray([0, 1, 7, 40, 200])
    for i, fading in enumerate(zeta):
        q, k = np.zeros((2, 1, 5, 2, 8))
        q[..., 2 * i], k[:, :, 0, 2 * i], k[:, :, 1, 2 * i + 1] = 1, 1, 1  # a key along the query, another across
        along = read(xpos, *(jnp.asarray(x, jnp.float32) for x in (q, k)), positions=places, causal=True) * 8**0.5
        size = np.hypot(*along)
        said = np.where(np.tri(5, dtype=bool), fading ** ((places[:, None] - places) / 64.0), 0)
        close(size, said)
        assert (np.diff(size[-1]) > 0).all()


@pytest.mark.parametrize(("spread", "finite"), [(30_000, True), (40_000, False)])
def test_xpos_is_nan_where_keys_are_too_far_apart(spread, finite):
    x, places = jnp.ones((1, 3, 1, 8)), np.asarray([0, spread // 3, spread])
    for start in (0, 1_000_000):
        q, k = ENCODINGS["xpos"](8).queries_keys(x, x, start + places, start + places)
        assert np.isfinite(q).all() == np.isfinite(k).all() == finite
        assert finite or np.isnan(k[0, -1]).any()


PLAIN = 1e4 ** (-np.arange(16) / 16)


def stretched(scaling, **options):
    return ENCODINGS["rope"](32, scaling=scaling, **options).scaling.frequencies(PLAIN)


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_linear_scaling_divides_positions(layout):
    x = np.random.default_rng(0).normal(size=(10, 8))
    scaled = ENCODINGS["rope"](8, layout=layout, scaling="linear", factor=4.0)
    close(turned(scaled, x, TEN), turned(ENCODINGS["rope"](8, layout=layout), x, TEN.astype(np.float32) / 4))


def test_ntk_leaves_the_fastest_pair_divides_the_slowest_and_is_another_base():
    found = stretched("ntk", factor=4.0)
    np.testing.assert_allclose(found[[0, -1]], PLAIN[[0, -1]] / [1, 4], rtol=1e-12)
    np.testing.assert_allclose(found, (1e4 * 4 ** (32 / 30)) ** (-np.arange(16) / 16), rtol=1e-12)


def test_dynamic_ntk_is_plain_up_to_the_trained_length_and_ntk_beyond():
    for length in (0, 100, 512):
        np.testing.assert_array_equal(stretched("dynamic_ntk", factor=4.0, original=512, length=length), PLAIN)
    found = stretched("dynamic_ntk", factor=4.0, original=512, length=1024)
    np.testing.assert_allclose(found, stretched("ntk", factor=4 * 1024 / 512 - 3.0), rtol=1e-12)
    assert found[-1] < PLAIN[-1] / 4


@pytest.mark.parametrize("ramp", ["turns", "pairs"])
def test_yarn_lies_between_plain_and_divided_and_sharpens(ramp):
    found, turns = stretched("yarn", factor=4.0, original=1024, ramp=ramp), 1024 * PLAIN / (2 * np.pi)
    assert (found <= PLAIN).all() and (found >= PLAIN / 4 * (1 - 1e-12)).all()
    ratio = found / PLAIN
    assert (np.diff(ratio) <= 1e-12).all() and 0 < ((ratio < 1) & (ratio > 0.26)).sum() < 16
    np.testing.assert_allclose(ratio[turns >= 32], 1)
    np.testing.assert_allclose(ratio[turns < 0.5], 0.25)
    if ramp == "turns":
        share = np.clip((turns - 1) / 31, 0, 1)
        np.testing.assert_allclose(ratio, share + (1 - share) / 4)
    yarn = ENCODINGS["rope"](32, scaling="yarn", factor=4.0, ramp=ramp)
    assert yarn.scaling.attention == pytest.approx(0.1 * np.log(4) + 1)
    x = np.random.default_rng(0).normal(size=(10, 32))
    norms = np.linalg.norm(turned(yarn, x, TEN * 100), axis=-1) / np.linalg.norm(x, axis=-1)
    np.testing.assert_allclose(norms, 0.1 * np.log(4) + 1, rtol=1e-6)


def test_llama3_leaves_fast_pairs_and_divides_slow_ones():
    found, turns = stretched("llama3", factor=8.0, original=512), 512 * PLAIN / (2 * np.pi)
    fast, slow = turns >= 4, turns <= 1
    assert fast.any() and slow.any() and not (fast | slow).all()
    np.testing.assert_array_equal(found[fast], PLAIN[fast])
    np.testing.assert_allclose(found[slow], PLAIN[slow] / 8)
    between = (found / PLAIN)[~fast & ~slow]
    assert ((between > 1 / 8) & (between < 1)).all()
    assert ENCODINGS["rope"](32, scaling="llama3", factor=8.0).scaling.attention == 1


def test_longrope_divides_by_what_was_found_but_spares_first_positions():
    rescale, x = (1.0, 1.5, 3.0, 8.0), np.random.default_rng(0).normal(size=(10, 8))
    how = dict(scaling="longrope", factor=8.0, original=64, rescale=rescale)
    whole, spared, plain = (ENCODINGS["rope"](8, **each) for each in (how, how | {"start": 4}, {}))
    sharper = np.sqrt(1 + np.log(8) / np.log(64))
    close(turned(spared, x, TEN)[4:], turned(whole, x, TEN)[4:])
    close(turned(spared, x, TEN)[:4], turned(plain, x, TEN)[:4] * sharper)
    assert np.abs(turned(whole, x, TEN)[1:4] - turned(spared, x, TEN)[1:4]).max() > 0.1
    np.testing.assert_allclose(whole.scaling.frequencies(PLAIN[:4]), PLAIN[:4] / np.asarray(rescale))
    assert (whole.kind, spared.kind) == ("relative", "absolute")


@pytest.mark.parametrize("bidirectional", [False, True])
def test_music_transformer_has_a_row_for_each_distance_and_none_beyond(bidirectional):
    music = built("music_transformer", max_distance=4, bidirectional=bidirectional)
    rows, known = np.asarray(music.rows[...], np.float64), (DISTANCE < 4) & ((-4 if bidirectional else -1) < DISTANCE)
    assert rows.shape == (2, 7 if bidirectional else 4, 8)
    for consecutive in (False, True):
        found = read(music, k=0 * K, positions=Positions(jnp.asarray(TEN), consecutive=consecutive))
        picked = rows[:, np.where(known, DISTANCE + (3 if bidirectional else 0), 0)]
        said = np.where(known, np.einsum("bqhd,hqkd->hqk", Q, picked) / 8**0.5, 0)
        close(found, said)
        assert (found[:, ~known] == 0).all()


def test_sandwich_is_symmetric_greatest_at_home_and_flatter_in_later_heads():
    bias = np.asarray(ENCODINGS["sandwich"](4).bias(FORTY, FORTY))[0]
    close(bias, bias.swapaxes(1, 2), atol=1e-5)
    for head, of_head in enumerate(bias):
        close(np.diag(of_head), 64 / (8 * (head + 1) / 4), atol=1e-5)
        assert of_head[~np.eye(40, dtype=bool)].max() < of_head.max() - 0.1
        assert (np.diff(of_head[0, :8]) < 0).all()


def test_axial_rope_feels_the_difference_along_each_axis_alone():
    axial, rng = ENCODINGS["axial_rope"](), np.random.default_rng(0)
    grid = np.stack(np.meshgrid(np.arange(5), np.arange(2), indexing="ij"), -1).reshape(1, 10, 2)
    q, k = (jnp.asarray(x) for x in (Q, K))
    here = logits_of(axial, q, k, grid, grid, causal=False)
    close(logits_of(axial, q, k, grid + np.asarray([30, -7]), grid + np.asarray([30, -7]), causal=False), here)
    for axis in (0, 1):
        half = np.where((np.arange(8) // 4 == axis), Q, 0).astype(np.float32)  # asks with this axis' channels
        other = grid.copy()
        other[..., 1 - axis] = rng.integers(100, size=(1, 10))
        close(
            logits_of(axial, half, k, grid, grid, causal=False), logits_of(axial, half, k, other, other, causal=False)
        )
        other = grid.copy()
        other[..., axis] *= 3
        moved = logits_of(axial, half, k, other, other, causal=False)
        assert np.abs(moved - logits_of(axial, half, k, grid, grid, causal=False)).max() > 0.1


def test_axial_rope_on_a_line_is_rope_of_neighbouring_channels():
    x = np.random.default_rng(0).normal(size=(10, 8))
    for positions in (TEN, TEN[None, :, None]):
        close(
            turned(ENCODINGS["axial_rope"](), x, positions.ravel()),
            turned(ENCODINGS["rope"](8, layout="interleaved"), x, TEN),
        )
    q = jnp.asarray(Q)
    line, grid = (ENCODINGS["axial_rope"]().queries_keys(q, q, at, at)[0] for at in (TEN, TEN[None, :, None]))
    np.testing.assert_array_equal(line, grid)


def test_chain_is_each_hook_of_each_part_in_turn():
    parts = built("learned"), built("rope"), built("t5"), built("fox"), built("shaw")
    chain, (learned, rope, t5, fox, shaw) = ENCODINGS["chain"](parts), parts
    rng = np.random.default_rng(0)
    x, weights = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((1, 10, 16), (1, 2, 10, 10)))
    q, k, visible = jnp.asarray(Q), jnp.asarray(K), visibility(10, causal=True)
    close(chain.embeddings(x, TEN), learned.embeddings(x, TEN))
    for found, said in zip(chain.queries_keys(q, k, TEN, TEN), rope.queries_keys(q, k, TEN, TEN), strict=True):
        close(found, said)
    close(chain.bias(TEN, TEN), t5.bias(TEN, TEN))
    close(chain.steps(x, TEN), fox.steps(x, TEN))
    given = weights, q, k, TEN, TEN, visible
    close(chain.logits(*given), shaw.logits(*given))
    close(chain.values(q, weights, k, TEN, TEN), shaw.values(q, weights, k, TEN, TEN))
    close(chain.weights(weights, visible), jax.nn.softmax(weights, where=visible))


def test_chain_adds_what_two_parts_add_and_lets_one_part_weigh():
    t5, alibi, fox, cable, stick = (built(name) for name in ("t5", "alibi", "fox", "cable", "stick_breaking"))
    chain = ENCODINGS["chain"]((t5, fox, alibi, cable, stick))
    x, visible = (
        jnp.asarray(np.random.default_rng(0).normal(size=(1, 10, 16)), jnp.float32),
        visibility(10, causal=True),
    )
    close(chain.bias(TEN, TEN), t5.bias(TEN, TEN) + alibi.bias(TEN, TEN))
    close(chain.steps(x, TEN), fox.steps(x, TEN) + cable.steps(x, TEN))
    logits = jnp.asarray(product()[None], jnp.float32)
    close(chain.weights(logits, visible), stick.weights(logits, visible))
    first, second = built("learned"), built("index")
    close(ENCODINGS["chain"]((first, second)).embeddings(x, TEN), second.embeddings(first.embeddings(x, TEN), TEN))


@pytest.mark.parametrize("of", ["kerple", "alibi", "fire", "t5"])
def test_dape_is_the_bias_within_where_its_network_is_silent(of):
    within = built(of)
    dape = ENCODINGS["dape"](2, of=within, init=different, rngs=nnx.Rngs(0))
    assert np.abs(read(dape) - read(within)).max() > 0.1
    close(read(fixed(dape, down=0)), read(within))


def test_dape_corrects_each_pair_by_the_logits_and_biases_of_all_heads():
    within = built("alibi")
    dape = fixed(ENCODINGS["dape"](2, of=within, init=different, rngs=nnx.Rngs(0)), up_bias=np.linspace(-1, 1, 32))
    bias, logits = np.asarray(within.bias(TEN, TEN))[0].astype(float), product() / 8**0.5
    up, up_bias, down = (np.asarray(each[...], np.float64) for each in (dape.up, dape.up_bias, dape.down))
    hidden = np.einsum("hqk,hf->qkf", np.concatenate([logits, bias]), up) + up_bias
    change = np.einsum("qkf,fh->hqk", np.where(hidden > 0, hidden, 0.01 * hidden), down)
    close(read(dape), logits + bias + change, atol=1e-4)


def test_one_hot_appended_is_a_learned_table_beside_a_projection():
    one_hot = built("one_hot", max_position=40)
    projection = np.asarray(one_hot.projection[...])
    learned = fixed(built("learned", max_position=40), rows=projection[16:])
    x = np.random.default_rng(0).normal(size=(1, 10, 16)).astype(np.float32)
    for positions in (TEN, TEN * 4 + 3, TEN / 2 + 0.25):
        positions = positions.astype(np.float32) if positions.dtype.kind == "f" else positions
        said = learned.embeddings(jnp.asarray(x @ projection[:16]), positions)
        close(one_hot.embeddings(jnp.asarray(x), positions), said)


def test_one_hot_added_is_a_single_one():
    x = jnp.zeros((1, 10, 16))
    found = built("one_hot", max_position=12, combine="add").embeddings(x, TEN)[0]
    np.testing.assert_array_equal(found, np.eye(10, 16))


def test_index_is_one_channel_that_grows_with_the_position():
    index = built("index", scale=0.5)
    projection, x = np.asarray(index.projection[...]), np.random.default_rng(0).normal(size=(1, 10, 16))
    found = index.embeddings(jnp.asarray(x, jnp.float32), TEN * 3)[0]
    close(found, np.concatenate([x[0], 0.5 * 3 * TEN[:, None]], -1) @ projection, atol=1e-4)


def test_fourier_frequencies_deviate_by_one_over_gamma():
    fourier = ENCODINGS["fourier"](16, features=20_000, hidden=1, gamma=8.0, rngs=nnx.Rngs(0))
    assert float(fourier.frequencies[...].std()) == pytest.approx(1 / 8, rel=0.05)


def test_fourier_waves_have_half_the_squared_length_of_their_number_of_features():
    # The network is asked cos and sin over sqrt(F): a hidden channel that adds up one pair's cosine reads it alone.
    fourier = fixed(
        built("fourier", features=2, hidden=1), frequencies=0.3, up=[[1], [0]], up_bias=5, down=1, down_bias=0
    )
    found = np.asarray(fourier.embeddings(jnp.zeros((1, 10, 16)), TEN)[0, :, 0], np.float64)
    close(found, np.cos(0.3 * TEN) / 2**0.5 + 5, atol=1e-4)  # far to the right GeLU changes nothing


def test_mlp_bias_with_the_logarithm_is_the_same_network_asked_for_another_distance():
    plain, log = built("mlp_bias"), built("mlp_bias", log=True)
    places, zero = np.asarray([-90, -7, -1, 0, 1, 7, 90]), np.asarray([0])
    bent = (np.sign(places) * np.log1p(np.abs(places))).astype(np.float32)
    close(log.bias(places, zero), plain.bias(bent, zero.astype(np.float32)), atol=1e-4)


def test_mlp_bias_goes_on_in_a_straight_line():
    far = np.asarray([10_000, 20_000, 30_000])
    bias = np.asarray(built("mlp_bias").bias(far, np.asarray([0])), np.float64)[0, :, :, 0]
    assert np.abs(bias[:, 2] - bias[:, 1]).min() > 1
    np.testing.assert_allclose(bias[:, 2] - bias[:, 1], bias[:, 1] - bias[:, 0], rtol=1e-3)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_scalar_bias_has_a_number_for_each_distance_and_one_for_all_beyond(bidirectional):
    scalar = built("scalar_bias", max_distance=4, bidirectional=bidirectional)
    assert scalar.table.shape == (9 if bidirectional else 5, 2)
    r = np.asarray([-900, -5, -4, -3, -1, 0, 1, 3, 4, 5, 900])
    bias = np.asarray(scalar.bias(r, np.asarray([0])))[0, :, :, 0]
    least = -4 if bidirectional else 0
    np.testing.assert_array_equal(bias, np.asarray(scalar.table[...])[np.clip(r, least, 4) - least].T)
    assert len(np.unique(bias[0])) == (7 if bidirectional else 4)
