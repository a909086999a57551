"""What `posenc.Form` says of a transformer: each of its words, against the same written out."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import posenc
from posenc import Form, Transformer, Visibility, make_layers
from posenc.blocks import MLP
from posenc.norms import normed

SIZES = dict(width=16, heads=2, head_dim=8)
TOKENS = jnp.array([[1, 4, 2, 0, 3, 3, 1], [2, 2, 0, 1, 4, 1, 0]])
LENGTHS = jnp.array([7, 4])


def model(name="rope", causal=True, depth=2, seed=0, **settings):
    rngs = nnx.Rngs(seed)
    layers = make_layers(name, depth, bidirectional=not causal, rngs=rngs, **SIZES)
    return Transformer(5, 16, depth, 2, layers, causal=causal, rngs=rngs, **settings)


# ---------------------------------------------------------------------- batch norm


def test_batch_norm_takes_mean_and_variance_of_real_tokens_alone():
    norm = posenc.Form(width=3, heads=1, norm="batch").make_norm(nnx.Rngs(0))
    drawn, real = jax.random.normal(jax.random.key(0), (2, 7, 3)) * 3 + 1, Visibility(False, LENGTHS).real(7)
    before, x = normed(norm, drawn, real), np.asarray(drawn)
    np.testing.assert_allclose(before, x / (1 + 1e-5) ** 0.5, rtol=1e-5)  # as it is made: mean 0, variance 1
    norm.train()
    tokens = np.concatenate([x[0, :7], x[1, :4]])
    mean, variance = tokens.mean(0), tokens.var(0)
    np.testing.assert_allclose(normed(norm, drawn, real), (x - mean) / np.sqrt(variance + 1e-5), atol=1e-4)
    np.testing.assert_allclose(norm.mean[...], 0.01 * mean, rtol=1e-4)
    np.testing.assert_allclose(norm.var[...], 0.99 + 0.01 * variance, rtol=1e-4)
    norm.eval()
    expected = (x - np.asarray(norm.mean[...])) / np.sqrt(np.asarray(norm.var[...]) + 1e-5)
    np.testing.assert_allclose(normed(norm, drawn, real), expected, atol=1e-5)


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("causal", [True, False])
def test_with_batch_norm_padding_changes_nothing_in_evaluation_and_no_statistics_in_training(placement, causal):
    transformer = model("t5", causal, norm="batch", placement=placement)
    for tokens, lengths in ((TOKENS, LENGTHS), (TOKENS.at[1, 4:].set(4), LENGTHS)):
        copy = nnx.clone(transformer)
        copy.train()
        copy(tokens, jnp.arange(7), lengths=lengths)
        state = nnx.to_pure_dict(nnx.state(copy, nnx.BatchStat))
        if tokens is TOKENS:
            first = state
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, atol=1e-6), first, state)
    assert all(jnp.abs(x).max() > 1e-4 for x in jax.tree.leaves(first))
    copy.eval()
    together = copy(TOKENS, jnp.arange(7), lengths=LENGTHS)
    np.testing.assert_allclose(together[1, :4], copy(TOKENS[1:, :4], jnp.arange(4))[0], atol=5e-6)


def test_with_batch_norm_a_decoder_sees_the_future_in_training_and_not_in_evaluation():
    transformer, other = model("rope", norm="batch"), TOKENS.at[:, -1].set(4)
    assert (transformer(TOKENS, jnp.arange(7))[:, :6] == transformer(other, jnp.arange(7))[:, :6]).all()
    transformer.train()
    assert jnp.abs(transformer(TOKENS, jnp.arange(7))[:, :6] - transformer(other, jnp.arange(7))[:, :6]).max() > 1e-3


def test_a_cache_and_batch_norm_go_together_in_evaluation():
    transformer = model("rope", norm="batch")
    transformer.train()
    transformer(TOKENS, jnp.arange(7))
    transformer.eval()
    whole = transformer(TOKENS, jnp.arange(7))
    first, cache = transformer.extend(TOKENS[:, :4], jnp.arange(4), posenc.Cache.empty(2, 7))
    rest, _ = transformer.extend(TOKENS[:, 4:], jnp.arange(4, 7), cache)
    np.testing.assert_allclose(jnp.concatenate([first, rest], 1), whole, atol=1e-5)


# ---------------------------------------------------------------------- embeddings, head, MLP


@pytest.mark.parametrize(("scaled", "tied"), [*itertools.product([True, False], repeat=2)])
def test_embeddings_and_head_are_those_of_the_papers(scaled, tied):
    transformer = model("none", depth=1, scale_embeddings=scaled, tie_embeddings=tied)
    table = transformer.embed.embedding[...]
    x = table[TOKENS] * (4.0 if scaled else 1.0)
    y = transformer.layers(x, jnp.arange(7), lengths=None, slots=None, rngs=None)
    if tied:
        assert transformer.head is None
        expected = y @ table.T / (1.0 if scaled else 4.0)
    else:
        expected = transformer.head(y)
    np.testing.assert_allclose(transformer(TOKENS, jnp.arange(7)), expected, atol=1e-5)


@pytest.mark.parametrize(("scaled", "tied"), [*itertools.product([True, False], repeat=2)])
def test_layers_begin_with_variance_one_and_logits_too(scaled, tied):
    rngs = nnx.Rngs(0)
    none = make_layers("none", 1, rngs=rngs, **SIZES)
    wide = Transformer(500, 64, 1, 2, none, scale_embeddings=scaled, tie_embeddings=tied, rngs=rngs)
    table = wide.embed.embedding[...] * (8.0 if scaled else 1.0)
    assert abs(float(table.std()) - 1) < 0.05
    logits = wide(jnp.arange(500)[None], jnp.arange(500))
    assert 0.8 < float(logits.std()) < 1.25


@pytest.mark.parametrize("activation", ["gelu", "relu", "silu", "geglu", "swiglu"])
def test_an_mlp_is_its_formula(activation):
    mlp = MLP(Form(width=4, heads=1, activation=activation), rngs=nnx.Rngs(0))
    x = jax.random.normal(jax.random.key(0), (1, 3, 4))

    def linear(layer, x):
        return np.asarray(x @ layer.kernel[...]) + np.asarray(layer.bias[...])

    curve = {"gelu": jax.nn.gelu, "relu": lambda x: jnp.maximum(x, 0), "silu": lambda x: x / (1 + jnp.exp(-x))}
    curve |= {"geglu": curve["gelu"], "swiglu": curve["silu"]}
    up = linear(mlp.up, x)
    hidden = curve[activation](linear(mlp.gate, x)) * up if activation.endswith("glu") else curve[activation](up)
    np.testing.assert_allclose(mlp(x), linear(mlp.down, hidden), atol=1e-5)


# ---------------------------------------------------------------------- attention: scale, window, stride


def test_a_scale_multiplies_the_products_and_initial_queries_make_up_for_it():
    usual, sharp = (posenc.Attention(64, 2, scale=scale, rngs=nnx.Rngs(0)) for scale in (None, 1.0))
    ratio = usual.query.kernel[...] / sharp.query.kernel[...]
    np.testing.assert_allclose(ratio, 32**0.5, rtol=1e-4)
    x, none = jax.random.normal(jax.random.key(0), (1, 6, 64)), posenc.make("none", width=64, heads=2, head_dim=32)
    visible = Visibility(True)
    np.testing.assert_allclose(
        sharp(x, jnp.arange(6), none, visible), usual(x, jnp.arange(6), none, visible), atol=1e-5
    )
    q, k, v = (layer(x).reshape(1, 6, 2, 32) for layer in (sharp.query, sharp.key, sharp.value))
    logits = jnp.where(jnp.tri(6, dtype=bool), jnp.einsum("bqhd,bkhd->bhqk", q, k), -jnp.inf)
    expected = sharp.out(jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(logits), v).reshape(1, 6, 64))
    np.testing.assert_allclose(sharp(x, jnp.arange(6), none, visible), expected, atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("window", "stride"), [(2, None), (None, 3), (2, 4), (1, None)])
def test_windows_and_strides_show_the_keys_that_loops_show(causal, window, stride):
    visible = Visibility(causal, window=window, stride=stride)
    mask = np.asarray(visible.mask(9, 9))[0, 0]
    for q, k in np.ndindex(9, 9):
        away = abs(q - k)
        near = away < (window or 1) or (stride is not None and away % stride == 0)
        assert mask[q, k] == (near and (k <= q or not causal)), (q, k)


@pytest.mark.parametrize("road", ["dense", "blocks", "fused"])
def test_a_window_holds_on_every_road_and_in_a_cache(road):
    transformer = model("none", window=2, attention=road, depth=1)
    whole = transformer(TOKENS, jnp.arange(7))
    far = transformer(TOKENS.at[:, 0].set(3), jnp.arange(7))
    assert (jnp.abs(far - whole).max((0, 2)) > 1e-6).tolist() == [True, True, *[False] * 5]
    first, cache = transformer.extend(TOKENS[:, :4], jnp.arange(4), posenc.Cache.empty(2, 7))
    rest, _ = transformer.extend(TOKENS[:, 4:], jnp.arange(4, 7), cache)
    np.testing.assert_allclose(jnp.concatenate([first, rest], 1), whole, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (dict(window=0), ValueError, "window is 0; expected 1 or more, or None for all keys"),
        (dict(stride=-1), ValueError, "stride is -1; expected 1 or more"),
        (dict(depht=3), TypeError, "depht"),
    ],
)
def test_a_form_that_makes_no_sense_is_refused(settings, error, message):
    with pytest.raises(error, match=message):
        model("none", **settings)(TOKENS, jnp.arange(7))
