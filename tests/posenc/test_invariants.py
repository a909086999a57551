"""What holds for every encoding whatever its formula: compiled, in a batch, in a longer text, in other precisions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from posenc import ENCODINGS, Attention, Encoding, Positions, Transformer, attend, make, make_layers, visibility
from posenc.testing import BATCH, HEAD_DIM, HEADS, TOKENS, VALUE_DIM, WIDTH, Case

SIZES = dict(width=WIDTH, heads=HEADS, head_dim=HEAD_DIM, value_dim=VALUE_DIM)
OPTIONS = {  # besides the defaults, where another road is taken
    "sinusoidal": dict(layout="halves", learned_scale=True),
    "one_hot": dict(max_position=12, combine="add"),
    "tupe": dict(relative=False),
    "irpe": dict(mode="bias", on=("q", "k")),
    "t5": dict(buckets=8, max_distance=20),
    "alibi": dict(slopes="learned"),
    "kerple": dict(kernel="power"),
    "mlp_bias": dict(log=True),
    "dape": dict(of="fire"),
    "rope": dict(scaling="yarn", factor=4.0, original=16, fraction=0.5),
    "chain": dict(of=("rope", "t5")),
}
CASES = [(name, options) for name in ENCODINGS for options in ({}, *([OPTIONS[name]] if name in OPTIONS else []))]
every_encoding = pytest.mark.parametrize("name", ENCODINGS)
every_case = pytest.mark.parametrize(("name", "options"), CASES, ids=str)
X = jax.random.normal(jax.random.key(0), (BATCH, TOKENS, WIDTH))
STEP = 1e-5  # whose square, and one over which, a difference in float64 is wrong by


def built(name, options, bidirectional=False):
    """The encoding with parameters of size 1."""
    return Case(ENCODINGS[name], options, bidirectional).build()


def attention(dtype):
    return Attention(WIDTH, HEADS, head_dim=HEAD_DIM, value_dim=VALUE_DIM, dtype=dtype, rngs=nnx.Rngs(3))


ATTENTION = {dtype: attention(dtype) for dtype in (jnp.float32, jnp.bfloat16)}


def layer(encoding, x, positions, dtype=jnp.float32):
    """Embeddings and one causal layer of attention: every hook has its say."""
    visible = visibility(x.shape[1], causal=True)
    return ATTENTION[dtype](encoding.embeddings(x, positions), positions, encoding, visible)


def close(found, expected, atol=2e-6, rtol=1e-5):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def numbers(tree):
    """How many numbers are trained."""
    return sum(leaf.size for leaf in jax.tree.leaves(nnx.state(tree, nnx.Param)))


class Listening(Encoding):
    """Another encoding; keeps the logits that it is asked to weigh."""

    kind = "blind"

    def __init__(self, inner, heard):
        self.inner, self.hear = inner, heard.append

    def overrides(self, hook):
        return hook == "weights" or self.inner.overrides(hook)

    def embeddings(self, *given):
        return self.inner.embeddings(*given)

    def queries_keys(self, *given):
        return self.inner.queries_keys(*given)

    def bias(self, *given):
        return self.inner.bias(*given)

    def steps(self, *given):
        return self.inner.steps(*given)

    def logits(self, *given):
        return self.inner.logits(*given)

    def weights(self, logits, visible):
        self.hear(logits)
        return self.inner.weights(logits, visible)

    def values(self, *given):
        return self.inner.values(*given)


@every_encoding
def test_a_program_that_takes_parameters_inputs_and_positions_gives_what_single_steps_give(name):
    encoding = built(name, {})
    graph, state = nnx.split(encoding)
    compiled = jax.jit(lambda state, x, positions: layer(nnx.merge(graph, state), x, positions))
    positions = Positions(3 + jnp.arange(TOKENS), consecutive=True)
    expected = layer(encoding, X, positions)
    close(compiled(state, X, positions), expected, atol=2e-6 * max(1, float(jnp.abs(expected).max())))


@every_encoding
def test_the_first_tokens_of_a_longer_text_get_what_they_get_alone(name):
    encoding = built(name, {})
    x = jax.random.normal(jax.random.key(5), (1, 4 * TOKENS, WIDTH))
    short, long = (layer(encoding, x[:, :n], jnp.arange(n)) for n in (TOKENS, 4 * TOKENS))
    close(long[:, :TOKENS], short, atol=2e-6 * max(1, float(jnp.abs(short).max())))
    assert jnp.abs(long[:, TOKENS:]).max() > 0.1


@every_case
def test_an_example_alone_gets_what_it_gets_in_a_batch(name, options):
    encoding = built(name, options)
    of_each = jnp.stack([jnp.arange(TOKENS), 2 * jnp.arange(TOKENS)])
    together = layer(encoding, X, of_each)
    for i in range(BATCH):
        size = max(1, float(jnp.abs(together).max()))
        close(layer(encoding, X[i : i + 1], of_each[i]), together[i : i + 1], atol=2e-6 * size)
        close(layer(encoding, X[::-1], of_each[::-1])[BATCH - 1 - i], together[i], atol=2e-6 * size)


@pytest.mark.parametrize(
    ("name", "consecutive"),
    [*((name, False) for name in ENCODINGS), ("transformer_xl", True), ("music_transformer", True)],
)
def test_logits_and_output_are_finite_at_64_times_a_length_of_8(name, consecutive):
    encoding, heard = make(name, rngs=nnx.Rngs(0), **SIZES), []
    assert encoding.limit is None or encoding.limit >= 512
    x = jax.random.normal(jax.random.key(6), (1, 512, WIDTH))
    out = layer(Listening(encoding, heard), x, Positions(jnp.arange(512), consecutive=consecutive))
    (logits,) = heard
    assert logits.dtype == jnp.float32
    assert np.isfinite(np.asarray(logits)).all()
    assert np.isfinite(np.asarray(out)).all()


def permuted(parameter, order):
    """A parameter with its heads in another order; in the network that sees all heads twice, both times."""
    heads, parameter = len(order), jnp.asarray(parameter)
    for axis, size in enumerate(parameter.shape):
        if size == heads:
            parameter = jnp.take(parameter, order, axis)
        if size == 2 * heads:
            parameter = jnp.take(parameter, jnp.concatenate([order, heads + order]), axis)
    return parameter


ALIKE = [case for case in CASES if case not in (("alibi", {}), ("sandwich", {}))]  # their heads differ by design


@pytest.mark.parametrize(("name", "options"), ALIKE, ids=str)
def test_heads_are_alike_but_for_their_parameters(name, options):
    heads, order = 3, jnp.asarray([2, 0, 1])  # no other size is 3 or 6
    encoding = make(name, width=14, heads=heads, head_dim=8, value_dim=5, rngs=nnx.Rngs(0), **options)
    graph, state = nnx.split(encoding)
    state = jax.tree.map(lambda p: p + jax.random.normal(jax.random.key(p.size), p.shape), state)
    x = jax.random.normal(jax.random.key(1), (2, TOKENS, 14))
    q, k, v = (jax.random.normal(jax.random.key(i), (2, TOKENS, heads, n)) for i, n in ((2, 8), (3, 8), (4, 5)))

    def output(state, q, k, v):
        encoding, positions = nnx.merge(graph, state), jnp.arange(TOKENS) * 2
        steps = encoding.steps(x, positions)
        totals = None if steps is None else jnp.cumsum(steps, axis=1)
        visible = visibility(TOKENS, causal=True)
        return attend(encoding, q, k, v, positions, positions, visible, q_totals=totals, k_totals=totals)

    expected = output(state, q, k, v)
    others = jax.tree.map(lambda p: permuted(p, order), state)
    close(output(others, *(each[:, :, order] for each in (q, k, v))), expected[:, :, order], atol=1e-5)
    assert jnp.abs(expected[:, :, order] - expected).max() > 0.1


def smooth(path, parameter):
    """Away from the edges where a number is clipped, whose gradient passes through on purpose."""
    if jax.tree_util.keystr(path).rpartition("r")[2][:1] in ("1", "2"):
        return 0.2 + jnp.abs(parameter) % 1.5
    return parameter


@every_case
def test_gradients_are_finite_differences_in_float64(name, options):
    with jax.enable_x64(True):
        graph, state = nnx.split(built(name, options))
        state = jax.tree_util.tree_map_with_path(lambda path, p: smooth(path, p.astype(jnp.float64)), state)
        attention = Attention(
            WIDTH, HEADS, head_dim=HEAD_DIM, value_dim=VALUE_DIM, dtype=jnp.float64, param_dtype=jnp.float64,
            rngs=nnx.Rngs(3),
        )  # fmt: skip
        x = jnp.asarray(X[:1], jnp.float64)
        positions, visible = jnp.asarray([0, 1, 2, 4, 7, 11]), visibility(TOKENS, causal=True)

        @jax.jit
        @jax.value_and_grad
        def loss(given):
            state, x = given
            encoding = nnx.merge(graph, state)
            out = attention(encoding.embeddings(x, positions), positions, encoding, visible)
            return jnp.mean(jnp.sin(out + jnp.arange(WIDTH)[None, None]))

        leaves, tree = jax.tree.flatten((state, x))
        gradients = jax.tree.leaves(loss((state, x))[1])
        for i, (leaf, gradient) in enumerate(zip(leaves, gradients, strict=True)):
            assert gradient.dtype == jnp.float64
            way = np.random.default_rng(i).normal(size=leaf.shape)

            def moved(by, i=i, way=way):
                there = [np.asarray(one) + by * way if i == j else one for j, one in enumerate(leaves)]
                return float(loss(jax.tree.unflatten(tree, there))[0])

            slope = (moved(STEP) - moved(-STEP)) / (2 * STEP)
            np.testing.assert_allclose(np.vdot(gradient, way), slope, rtol=1e-6, atol=1e-9)


@every_encoding
def test_two_seeds_at_once_are_two_encodings(name):
    keys = jax.random.split(jax.random.key(7), 2)

    def output(key):
        encoding = make(name, rngs=nnx.Rngs(key), **SIZES)
        return layer(encoding, X, jnp.arange(TOKENS)), nnx.to_pure_dict(nnx.state(encoding, nnx.Param))

    together, parameters = jax.vmap(output)(keys)
    for i, key in enumerate(keys):
        alone, own = output(key)
        close(together[i], alone)
        assert jax.tree.structure(own) == jax.tree.structure(parameters)
        for one, both in zip(jax.tree.leaves(own), jax.tree.leaves(parameters), strict=True):
            close(both[i], one, atol=1e-6)


@every_case
def test_bfloat16_activations_change_little_and_logits_are_float32(name, options):
    encoding, heard = make(name, rngs=nnx.Rngs(0), **SIZES, **options), []
    wide = layer(encoding, X, jnp.arange(TOKENS))
    narrow = layer(Listening(encoding, heard), X.astype(jnp.bfloat16), jnp.arange(TOKENS), jnp.bfloat16)
    assert narrow.dtype == jnp.bfloat16
    assert heard[0].dtype == jnp.float32
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(nnx.state(encoding, nnx.Param)))
    assert jnp.abs(narrow.astype(jnp.float32) - wide).max() < 2e-2 * max(1, float(jnp.abs(wide).max()))


@every_case
@pytest.mark.parametrize("whole", [jnp.int32, jnp.int64])
def test_no_float64_comes_in_by_the_back_door(name, options, whole):
    encoding = built(name, options)
    with jax.enable_x64(True):
        positions = jnp.arange(TOKENS, dtype=whole)
        q = jnp.ones((BATCH, TOKENS, HEADS, HEAD_DIM), jnp.float32)
        v = jnp.ones((BATCH, TOKENS, HEADS, VALUE_DIM), jnp.float32)
        logits = jnp.zeros((BATCH, HEADS, TOKENS, TOKENS), jnp.float32)
        visible = visibility(TOKENS, causal=True)
        given = [
            encoding.embeddings(X, positions),
            *encoding.queries_keys(q, q, positions, positions),
            *([] if name in ("alibi", "sandwich") else [encoding.bias(positions, positions)]),  # of whole numbers alone
            encoding.steps(X, positions),
            encoding.logits(logits, q, q, positions, positions, visible),
            encoding.weights(logits, visible),
            encoding.values(v, logits, v, positions, positions),
            layer(encoding, X, positions),
        ]
    assert {str(one.dtype) for one in given if one is not None} == {"float32"}


@every_encoding
def test_numbers_of_layers_follow_the_habit_of_the_paper_or_what_is_asked(name):
    one = numbers(make(name, rngs=nnx.Rngs(0), **SIZES))

    def of_three(share):
        layers = make_layers(name, 3, share=share, rngs=nnx.Rngs(0), **SIZES)
        assert len(layers) == 3
        model = Transformer(5, WIDTH, 3, HEADS, layers, head_dim=HEAD_DIM, mlp_width=4, rngs=nnx.Rngs(0))
        return len({id(each) for each in layers}), numbers(model.encodings)

    shared = make(name, rngs=nnx.Rngs(0), **SIZES).shared
    assert of_three(None) == ((1, one) if shared else (3, 3 * one))
    assert of_three(True) == (1, one)
    if make(name, rngs=nnx.Rngs(0), **SIZES).overrides("embeddings"):
        with pytest.raises(ValueError, match=f"{name} acts on the embeddings, once"):
            of_three(False)
    else:
        assert of_three(False) == (3, 3 * one)


OWN = {
    "shaw", "music_transformer", "transformer_xl", "deberta", "irpe", "scalar_bias", "mlp_bias",
    "fire", "cope", "dape", "fox", "cable",
}  # fmt: skip


@every_encoding
def test_which_encodings_give_each_layer_its_own(name):
    assert make(name, rngs=nnx.Rngs(0), **SIZES).shared == (name not in OWN)


@every_encoding
def test_which_encodings_see_positions_distances_or_neither(name):
    kinds = {
        "blind": {"none", "cope", "fox", "cable", "stick_breaking"},
        "absolute": {"index", "one_hot", "sinusoidal", "learned", "fourier", "tupe", "fire", "chain"},
    }
    kind = next((kind for kind, names in kinds.items() if name in names), "relative")
    assert make(name, rngs=nnx.Rngs(0), **SIZES).kind == kind


def test_layers_of_one_name_have_different_initial_parameters():
    a, b = make_layers("t5", 2, share=False, rngs=nnx.Rngs(0), **SIZES)
    assert jnp.abs(a.table[...] - b.table[...]).max() > 1e-3


def test_a_pattern_repeats_over_the_layers():
    layers = make_layers(("rope", "none"), 5, **SIZES)
    assert [type(each).__name__ for each in layers] == ["RoPE", "NoPE", "RoPE", "NoPE", "RoPE"]
    assert layers[0] is layers[2] is layers[4]
    assert layers[1] is layers[3]
    own = make_layers(("rope", "none"), 4, share=False, **SIZES)
    assert len({id(each) for each in own}) == 4
    shaw = make_layers(("shaw", "rope", "t5"), 7, rngs=nnx.Rngs(0), **SIZES)
    assert len({id(each) for each in shaw}) == 3 + 1 + 1
    assert [type(each).__name__ for each in shaw] == ["Shaw", "RoPE", "T5", "Shaw", "RoPE", "T5", "Shaw"]


def test_the_options_of_a_pattern_reach_their_names_and_those_within():
    options = {"rope": {"base": 50.0}, "chain": {"of": ("t5", "rope")}, "t5": {"buckets": 6, "max_distance": 9}}
    rope, chain = make_layers(("rope", "chain"), 2, options=options, rngs=nnx.Rngs(0), **SIZES)
    assert rope.base == chain.parts[1].base == 50
    assert chain.parts[0].table.shape == (6, HEADS)


@pytest.mark.parametrize(
    ("of", "objects"),
    [
        (("learned", "fire"), 1),  # acts on the embeddings
        (("sinusoidal", "fire"), 1),  # the same, and trains nothing
        (("rope", "t5"), 1),  # T5 has one table for all layers
        (("rope", "fire"), 3),
        (("rope", "none"), 1),  # nothing is trained, nothing acts on embeddings
    ],
)
def test_a_chain_is_one_object_where_a_part_has_to_be(of, objects):
    layers = make_layers("chain", 3, options={"chain": {"of": of}}, rngs=nnx.Rngs(0), **SIZES)
    trained = numbers(layers[0])
    found = len({id(each) for each in layers})
    assert found == objects or trained == 0
    model = Transformer(5, WIDTH, 3, HEADS, layers, head_dim=HEAD_DIM, mlp_width=4, rngs=nnx.Rngs(0))
    assert numbers(model.encodings) == objects * trained
