"""The one transformer, with every encoding in it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import posenc
from posenc import ENCODINGS, Positions, Transformer, make, make_layers

SIZES = dict(width=16, heads=2, head_dim=8)
TOKENS = jnp.array([[1, 4, 2, 0, 3, 3, 1], [2, 2, 0, 1, 4, 1, 0]])
every_encoding = pytest.mark.parametrize("name", ENCODINGS)
both_directions = pytest.mark.parametrize("causal", [True, False], ids=["decoder", "encoder"])
directions = [
    (name, causal) for name in ENCODINGS for causal in (True, False) if causal or not ENCODINGS[name].causal_only
]


def model(name="rope", causal=True, depth=2, seed=0, options=None, **settings):
    rngs = nnx.Rngs(seed)
    options = {name: options or {}}
    layers = make_layers(name, depth, options=options, bidirectional=not causal, rngs=rngs, **SIZES)
    return Transformer(5, 16, depth, 2, layers, causal=causal, rngs=rngs, **settings)


@functools.cache
def usual(name, causal=True):
    """The same without anything special, made once for all tests that only ask it."""
    return model(name, causal)


@every_encoding
def test_a_decoder_does_not_see_the_future_by_gradient(name):
    graph, state = nnx.split(usual(name), nnx.Param)
    outputs = jax.jacobian(lambda state: nnx.merge(graph, state)(jnp.arange(5)[None], jnp.arange(5))[0])(state)
    jacobian = nnx.to_pure_dict(outputs)["embed"]["embedding"]  # t v rows m; token i is row i of the table
    reach = jnp.abs(jacobian).sum((1, 3))
    assert jnp.all(jnp.triu(reach, 1) == 0.0)
    assert jnp.all(jnp.diag(reach) > 0)
    assert jnp.all(reach[-1] > 0)


@pytest.mark.parametrize(("name", "causal"), directions)
def test_padding_and_bucket_change_nothing(name, causal):
    transformer = usual(name, causal)
    alone = transformer(TOKENS[:, :4], jnp.arange(4))
    for bucket in (5, 7):
        padded = posenc.SCHEMES["in_order"]()(jax.random.key(0), jnp.array([4]), bucket)
        together = transformer(TOKENS[:, :bucket], padded, lengths=jnp.array([4]))
        np.testing.assert_allclose(together[:, :4], alone, atol=2e-6, rtol=1e-5)


@both_directions
def test_a_learned_table_of_exactly_the_longest_length_works_inside_a_larger_bucket(causal):
    transformer = model("learned", causal, options=dict(max_position=4))
    positions = posenc.SCHEMES["in_order"]()(jax.random.key(0), jnp.array([4]), 7)
    out = transformer(TOKENS, positions, lengths=jnp.array([4]))
    np.testing.assert_allclose(out[:, :4], transformer(TOKENS[:, :4], jnp.arange(4)), atol=2e-6, rtol=1e-5)
    assert jnp.all(jnp.isnan(transformer(TOKENS[:, :5], jnp.arange(5))[:, 4]))


@every_encoding
def test_examples_of_different_lengths_share_a_batch(name):
    transformer, lengths = usual(name), jnp.array([7, 3])
    together = transformer(TOKENS, jnp.minimum(jnp.arange(7)[None], lengths[:, None] - 1), lengths=lengths)
    for example, length in enumerate([7, 3]):
        alone = transformer(TOKENS[example : example + 1, :length], jnp.arange(length))
        np.testing.assert_allclose(together[example, :length], alone[0], atol=2e-6, rtol=1e-5)


@every_encoding
def test_lengths_and_positions_share_one_compilation(name):
    graph, state = nnx.split(usual(name))
    traces = []

    @jax.jit
    def run(state, positions, lengths):
        traces.append(positions.shape)
        return nnx.merge(graph, state)(TOKENS, positions, lengths=lengths)

    for length in (1, 4, 7):
        run(state, jnp.minimum(jnp.arange(7) * length, 6 * length), jnp.array([length]))
    assert len(traces) == 1


@every_encoding
def test_every_parameter_of_the_model_gets_a_gradient(name):
    graph, state = nnx.split(usual(name), nnx.Param)
    gradients = jax.grad(lambda s: jnp.sum(nnx.merge(graph, s)(TOKENS, jnp.arange(7)) ** 2))(state)
    for path, gradient in jax.tree_util.tree_leaves_with_path(gradients):
        assert jnp.all(jnp.isfinite(gradient)), path
        assert jnp.any(gradient != 0), path


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_a_block_is_the_published_composition(norm, placement):
    transformer = model("none", depth=1, norm=norm, placement=placement)
    (block,), positions = transformer.blocks, jnp.arange(7)
    x, visible = transformer.embed(TOKENS), posenc.visibility(7, causal=True)

    def attention(x):
        return block.attention(x, positions, transformer.encodings[0], visible)

    if placement == "pre":
        x = x + attention(block.attention_norm(x))
        x = transformer.final_norm(x + block.mlp(block.mlp_norm(x)))
    else:
        x = block.attention_norm(x + attention(x))
        x = block.mlp_norm(x + block.mlp(x))
        spread = jnp.mean(x**2, -1) if norm == "rms" else jnp.var(x, -1)
        np.testing.assert_allclose(spread, 1, rtol=1e-3)
    np.testing.assert_allclose(transformer(TOKENS, positions), transformer.head(x), atol=1e-5)


def test_dropout_needs_keys_and_follows_them():
    transformer = model(dropout=0.5)
    plain, again = transformer(TOKENS, jnp.arange(7)), transformer(TOKENS, jnp.arange(7))
    np.testing.assert_array_equal(plain, again)
    one, same, other = (transformer(TOKENS, jnp.arange(7), rngs=nnx.Rngs(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert jnp.abs(one - other).max() > 1e-3
    assert jnp.abs(one - plain).max() > 1e-3


def test_the_same_object_twice_is_one_set_of_parameters_and_two_objects_are_two():
    def tables(encodings):
        transformer = Transformer(5, 16, 3, 2, encodings, rngs=nnx.Rngs(0))
        state = nnx.to_pure_dict(nnx.state(transformer.encodings, nnx.Param))
        return len(jax.tree.leaves(state)), transformer.encoding_of_layer

    t5, other = (make("t5", rngs=nnx.Rngs(seed), **SIZES) for seed in (0, 1))
    assert tables(t5) == (1, (0, 0, 0))
    assert tables([t5, other, t5]) == (2, (0, 1, 0))
    assert tables(make_layers(("rope", "t5"), 3, rngs=nnx.Rngs(0), **SIZES)) == (1, (0, 1, 0))
    assert tables(make_layers(("t5", "none"), 3, share=False, rngs=nnx.Rngs(0), **SIZES)) == (2, (0, 1, 2))


def test_a_shared_encoding_gets_the_gradient_of_all_its_layers():
    transformer = model("t5", depth=2)
    graph, state = nnx.split(transformer, nnx.Param)

    def loss(state):
        return jnp.sum(nnx.merge(graph, state)(TOKENS, jnp.arange(7)) ** 2)

    table = ("encodings", 0, "table")
    gradient = nnx.to_pure_dict(jax.grad(loss)(state))
    for part in table:
        gradient = gradient[part]

    def moved(step):
        copy = nnx.merge(graph, state, copy=True)
        copy.encodings[0].table[0, 0] += step
        return loss(nnx.state(copy, nnx.Param))

    slope = (moved(1e-2) - moved(-1e-2)) / 2e-2
    np.testing.assert_allclose(gradient[0, 0], slope, rtol=2e-2)


def test_embeddings_are_encoded_once_however_many_layers_share_the_encoding(monkeypatch):
    calls, original = [], ENCODINGS["sinusoidal"].embeddings
    monkeypatch.setattr(ENCODINGS["sinusoidal"], "embeddings", lambda *a: calls.append(1) or original(*a))
    sinusoidal = make("sinusoidal", **SIZES)
    Transformer(5, 16, 3, 2, sinusoidal, rngs=nnx.Rngs(0))(TOKENS, jnp.arange(7))
    assert len(calls) == 1
    with pytest.raises(ValueError, match="acts on the embeddings, once"):
        make_layers("sinusoidal", 2, share=False, **SIZES)


def test_bfloat16_activations_leave_positions_and_logits_wide():
    exact, coarse = (model("rope", dtype=dtype) for dtype in (jnp.float32, jnp.bfloat16))
    far = 4096 + jnp.arange(7)
    assert coarse(TOKENS, far).dtype == jnp.float32
    near_difference = jnp.abs(exact(TOKENS, jnp.arange(7)) - coarse(TOKENS, jnp.arange(7))).max()
    far_difference = jnp.abs(exact(TOKENS, far) - coarse(TOKENS, far)).max()
    assert far_difference < 2 * near_difference
    with pytest.raises(TypeError, match="positions are bfloat16"):
        coarse(TOKENS, far.astype(jnp.bfloat16))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: make("t5", bidirectional=True, rngs=nnx.Rngs(0), **SIZES), "built with bidirectional=True"),
        (lambda: [make("none", **SIZES)] * 3, "3 encodings for 2 layers"),
    ],
)
def test_encodings_that_do_not_fit_the_model_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        Transformer(5, 16, 2, 2, build(), rngs=nnx.Rngs(0))


def test_an_encoding_for_causal_models_is_refused_by_an_encoder(monkeypatch):
    class Counting(posenc.Encoding):
        kind, causal_only = "blind", True

    with pytest.raises(ValueError, match="Counting is for causal models only"):
        Transformer(5, 16, 2, 2, Counting(), causal=False, rngs=nnx.Rngs(0))
    monkeypatch.setitem(ENCODINGS, "counting", Counting)
    with pytest.raises(ValueError, match="counting is for causal models only"):
        make("counting", bidirectional=True, **SIZES)


def test_heads_that_cannot_share_the_width_are_refused():
    with pytest.raises(ValueError, match="3 heads cannot share a width of 16"):
        Transformer(5, 16, 1, 3, make("none", **SIZES), rngs=nnx.Rngs(0))


def test_keys_and_values_may_differ_in_width():
    layers = make_layers("shaw", 1, value_dim=3, rngs=nnx.Rngs(0), **SIZES)
    transformer = Transformer(5, 16, 1, 2, layers, value_dim=3, rngs=nnx.Rngs(0))
    assert transformer(TOKENS, Positions(jnp.arange(7))).shape == (2, 7, 5)
    assert transformer.encodings[0].value_rows.shape == (33, 3)


@pytest.mark.parametrize(("name", "causal"), directions)
def test_logits_of_some_tokens_are_those_of_all_at_these_tokens(name, causal):
    transformer, lengths = usual(name, causal), jnp.array([7, 5])
    everything = transformer(TOKENS, jnp.arange(7), lengths=lengths)
    for slots in (jnp.array([[3, 4]]), jnp.array([[5, 6, 1], [0, 4, 4]])):
        some = transformer(TOKENS, jnp.arange(7), lengths=lengths, slots=slots)
        expected = jnp.take_along_axis(everything, jnp.broadcast_to(slots, (2, slots.shape[1]))[:, :, None], axis=1)
        np.testing.assert_allclose(some, expected, atol=2e-6, rtol=1e-5)
