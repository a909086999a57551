"""Encodings in Flax's own attention layers: exactly the formula of the paper there, or refused with the reason."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import posenc
from posenc import ENCODINGS, Encoding, Positions
from posenc.adapter import attention_fn
from tests.formulas import driver

EXAMPLES, TOKENS, WIDTH, HEADS, HEAD_DIM = 2, 6, 16, 2, 8
SIZES = dict(width=WIDTH, heads=HEADS, head_dim=HEAD_DIM)
X = jax.random.normal(jax.random.key(0), (EXAMPLES, TOKENS, WIDTH))
Q, K, V = jax.random.normal(jax.random.key(1), (3, EXAMPLES, TOKENS, HEADS, HEAD_DIM))
CAUSAL = linen.make_causal_mask(jnp.ones((EXAMPLES, TOKENS)))  # as Flax makes it: float32
REAL = jnp.arange(TOKENS)[None, None, None] < jnp.asarray([TOKENS, 4])[:, None, None, None]  # b 1 1 k
BEHIND = posenc.visibility(TOKENS, causal=True)
PLACES = [None, jnp.asarray([3, 5, 6, 7, 11, 40]), jnp.asarray([[0, 1, 2, 3, 4, 5], [2.5, 3, 7, 0, 1, 9.25]])]
EMBEDDINGS, STEPS = "acts on the embeddings, .* encoding.embeddings", "takes steps .* Use posenc.Attention, or"
REFUSED = {
    **dict.fromkeys(("index", "one_hot", "sinusoidal", "learned", "fourier", "chain"), EMBEDDINGS),
    **dict.fromkeys(("fox", "cable"), STEPS),
    "shaw": r"Shaw has trained parameters \(key_rows, value_rows\)\. .* exactly 0\. Use posenc\.Attention",
    "music_transformer": r"\(rows\)",
    "transformer_xl": r"\(projection, u, v\)",
    "deberta": r"\(key, query, rows\)",
    "tupe": r"\(distance_bias\.table, key, query, rows\)",
    "irpe": r"\(k_rows\)",
    "t5": r"\(table\)",
    "scalar_bias": r"\(table\)",
    "mlp_bias": r"\(first, first_bias, last, second, second_bias\)",
    "kerple": r"\(r1, r2\)",
    "fire": r"\(c, down, multiplier, up, up_bias\)",
    "cope": r"\(rows\)",
    "dape": r"\(down, of\.r1, of\.r2, up, up_bias\)",
}
EXACT = [(name, {}) for name in ENCODINGS if name not in REFUSED] + [
    ("rope", dict(layout="interleaved", fraction=0.5, scaling="yarn", factor=4.0, original=64, base=50.0)),
    ("rope", dict(scaling="longrope", factor=4.0, rescale=(1.0, 1.7, 2.5, 4.0), start=4)),  # feels where 0 is
    ("alibi", dict(encoder="asymmetric", bidirectional=True)),
    ("chain", dict(of=("xpos", "alibi"))),
    ("chain", dict(of=("rope", "stick_breaking"))),
]
every_exact = pytest.mark.parametrize(("name", "options"), EXACT, ids=str)
every_layer = pytest.mark.parametrize("layer", ["nnx", "linen"])


def parameters(seed=2):
    """Of a layer, biases too, as both frameworks name and shape them."""
    shapes = {part: ((WIDTH, HEADS, HEAD_DIM), (HEADS, HEAD_DIM)) for part in ("query", "key", "value")}
    shapes["out"] = ((HEADS, HEAD_DIM, WIDTH), (WIDTH,))
    rng = np.random.default_rng(seed)
    return {
        part: {
            "kernel": jnp.asarray(rng.normal(size=kernel) / 4, jnp.float32),
            "bias": jnp.asarray(rng.normal(size=bias) / 4, jnp.float32),
        }
        for part, (kernel, bias) in shapes.items()
    }


def stock(layer, values, x, function=None, *, rng=None, **call):
    """The layer of a framework with these parameters; `function` is its attention_fn, Flax's own where it is None."""
    made = {key: call.pop(key) for key in ("dropout_rate", "broadcast_dropout", "precision", "dtype") if key in call}
    made |= {} if function is None else {"attention_fn": function}
    if layer == "linen":
        return linen.MultiHeadDotProductAttention(HEADS, **made).apply({"params": values}, x, dropout_rng=rng, **call)
    module = nnx.MultiHeadAttention(HEADS, WIDTH, **made, decode=False, rngs=nnx.Rngs(0))
    nnx.update(module, values)
    return module(x, rngs=None if rng is None else Stream(rng), **call)


class Stream(nnx.RngStream):
    """A stream of random numbers that gives one key and no other, so that both frameworks draw the same."""

    def __init__(self, key):
        super().__init__(key, tag="dropout")
        self.only = key

    def __call__(self):
        return self.only


def by_formula(name, options, values, x, visible, positions):
    """The whole layer in float64: the projections, and the paper's formula one logit at a time."""
    wide = jax.tree.map(lambda array: np.asarray(array, np.float64), values)
    q, k, v = (
        np.einsum("btm,mhd->bthd", np.asarray(x, np.float64), wide[part]["kernel"]) + wide[part]["bias"]
        for part in ("query", "key", "value")
    )
    sizes = driver.SIZES | SIZES | {"bidirectional": options.get("bidirectional", False)}
    own = {option: value for option, value in options.items() if option != "bidirectional"}
    formula = driver.module(name).Formula({}, sizes, **own)
    at = np.broadcast_to(np.arange(TOKENS) if positions is None else positions, (EXAMPLES, TOKENS)).tolist()
    seen = np.broadcast_to(visible, (EXAMPLES, 1, TOKENS, TOKENS))[:, 0]
    out = [formula.attention(driver.Scene(*one)) for one in zip(q, k, v, np.asarray(x), at, at, seen, strict=True)]
    return np.einsum("bthd,hdm->btm", out, wide["out"]["kernel"]) + wide["out"]["bias"]


def masks(layer, encoding):
    """Each way to say what a query may see: the layer's keywords, and what that is."""
    ways = [(dict(mask=CAUSAL), BEHIND), (dict(mask=linen.combine_masks(CAUSAL, REAL)), BEHIND & REAL)]
    if layer == "nnx":
        ways += [(dict(is_causal=True), BEHIND), (dict(is_causal=True, mask=REAL), BEHIND & REAL)]
    if not encoding.causal_only:
        everything = jnp.ones((1, 1, TOKENS, TOKENS), bool)
        ways += [({}, everything), (dict(mask=REAL), everything & REAL), (dict(mask=BEHIND[0, 0]), BEHIND)]
    return ways


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exact_is_refused_with_the_reason(name):
    with pytest.raises(ValueError, match=REFUSED[name]):
        attention_fn(posenc.make(name, rngs=nnx.Rngs(0), **SIZES))


@every_layer
@every_exact
def test_a_stock_layer_is_the_formula_of_the_paper(name, options, layer):
    encoding = posenc.make(name, rngs=nnx.Rngs(0), **SIZES, **options)
    for number, (call, visible) in enumerate(masks(layer, encoding)):
        positions = PLACES[number % len(PLACES)]
        found = stock(layer, parameters(), X, attention_fn(encoding, positions), **call)
        expected = by_formula(name, options, parameters(), X, visible, positions)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5, err_msg=f"{call} {positions}")


@every_layer
@every_exact
def test_gradients_and_compiled_programs_are_those_of_attend(name, options, layer):
    encoding, positions = posenc.make(name, rngs=nnx.Rngs(0), **SIZES, **options), PLACES[2]
    function = attention_fn(encoding, positions)

    def with_layer(values, x):
        return stock(layer, values, x, function, mask=BEHIND & REAL)

    def with_attend(values, x):
        q, k, v = (
            jnp.einsum("btm,mhd->bthd", x, values[part]["kernel"]) + values[part]["bias"][None, None]
            for part in ("query", "key", "value")
        )
        out = posenc.attend(encoding, q, k, v, positions, positions, BEHIND & REAL)
        return jnp.einsum("bthd,hdm->btm", out, values["out"]["kernel"]) + values["out"]["bias"][None, None]

    def value_and_gradients(forward):
        def loss(values, x):
            out = forward(values, x)
            return jnp.sum(jnp.sin(3 * out)), out

        return jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))(parameters(), X)

    ((_, out), found), (_, expected) = value_and_gradients(with_layer), value_and_gradients(with_attend)
    np.testing.assert_allclose(out, with_layer(parameters(), X), rtol=0, atol=1e-5)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for (path, one), other in zip(jax.tree_util.tree_leaves_with_path(found), jax.tree.leaves(expected), strict=True):
        where = jax.tree_util.keystr(path)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-4, err_msg=where)
        assert jnp.all(jnp.isfinite(one)), where
        # Where keys are not turned, a softmax does not feel what is added to all of them.
        assert "['key']['bias']" in where or jnp.abs(one).max() > 1e-3, where


@every_layer
@pytest.mark.parametrize("broadcast", [True, False])
@pytest.mark.parametrize("rate, deterministic", [(0.0, False), (0.4, False), (0.4, True)])
def test_dropout_is_that_of_the_stock_layer(layer, broadcast, rate, deterministic):
    call = dict(mask=BEHIND, dropout_rate=rate, broadcast_dropout=broadcast, deterministic=deterministic)
    function = attention_fn(ENCODINGS["none"]())
    for seed in range(3):
        call["rng"] = jax.random.key(seed)
        found = stock(layer, parameters(), X, function, **call)
        np.testing.assert_allclose(found, stock(layer, parameters(), X, **call), rtol=0, atol=1e-5)
    plain = stock(layer, parameters(), X, function, mask=BEHIND)
    assert (jnp.abs(found - plain).max() < 1e-6) == (rate == 0 or deterministic)


@pytest.mark.parametrize("broadcast", [True, False])
def test_dropout_with_an_encoding_takes_weights_out_and_keeps_their_mean(broadcast):
    alibi, key, at = ENCODINGS["alibi"](HEADS), jax.random.key(5), jnp.arange(TOKENS)
    call = dict(dropout_rate=0.3, broadcast_dropout=broadcast, deterministic=False)
    expected = nnx.dot_product_attention(Q, K, V, bias=alibi.bias(at, at), mask=BEHIND, dropout_rng=key, **call)
    np.testing.assert_allclose(attention_fn(alibi)(Q, K, V, mask=BEHIND, dropout_rng=key, **call), expected, atol=1e-5)
    # With 4096 draws the mean is off by 5 deviations once in a million numbers.
    drawn = jax.vmap(lambda key: attention_fn(alibi)(Q, K, V, is_causal=True, dropout_rng=key, **call))(
        jax.random.split(key, 4096)
    )
    plain = attention_fn(alibi)(Q, K, V, is_causal=True)
    assert jnp.all(jnp.abs(drawn.mean(0) - plain) <= 5 * drawn.std(0) / 64 + 1e-5)


@every_layer
def test_weights_are_kept_where_the_layer_is_asked_for_them(layer):
    def kept(**made):
        if layer == "linen":
            module = linen.MultiHeadDotProductAttention(HEADS, **made)
            call = dict(mask=CAUSAL, sow_weights=True, mutable=["intermediates"])
            return module.apply({"params": parameters()}, X, **call)[1]["intermediates"]["attention_weights"][0]
        module = nnx.MultiHeadAttention(HEADS, WIDTH, **made, decode=False, rngs=nnx.Rngs(0))
        nnx.update(module, parameters())
        forward = nnx.capture(lambda module: module(X, mask=CAUSAL, sow_weights=True), nnx.Intermediate)
        return forward(module)[1]["attention_weights"][0]

    np.testing.assert_allclose(kept(attention_fn=attention_fn(ENCODINGS["none"]())), kept(), rtol=0, atol=1e-6)
    biased = kept(attention_fn=attention_fn(ENCODINGS["alibi"](HEADS)))
    assert jnp.abs(biased - kept()).max() > 1e-2
    np.testing.assert_allclose(biased.sum(-1), 1, rtol=0, atol=1e-6)


def test_keys_that_are_shared_by_heads_serve_the_same_heads_as_in_the_stock_layer():
    def layer(**made):
        module = nnx.MultiHeadAttention(4, WIDTH, num_kv_heads=2, **made, decode=False, rngs=nnx.Rngs(0))
        return module(X, is_causal=True)

    np.testing.assert_allclose(layer(attention_fn=attention_fn(ENCODINGS["none"]())), layer(), rtol=0, atol=1e-5)
    turned = layer(attention_fn=attention_fn(ENCODINGS["rope"]()))
    assert jnp.abs(turned - layer()).max() > 1e-2


@every_layer
def test_the_dtype_of_the_layer_is_kept(layer):
    out = stock(layer, parameters(), X, attention_fn(ENCODINGS["rope"]()), mask=CAUSAL, dtype=jnp.bfloat16)
    assert out.dtype == jnp.bfloat16
    wide = stock(layer, parameters(), X, attention_fn(ENCODINGS["rope"]()), mask=CAUSAL)
    np.testing.assert_allclose(np.asarray(out, np.float32), wide, rtol=0, atol=0.1)
    half = Q.astype(jnp.bfloat16)
    assert attention_fn(ENCODINGS["rope"]())(half, half, half, dtype=jnp.float32).dtype == jnp.float32


def test_a_mask_may_differ_between_heads_and_a_query_that_sees_nothing_takes_nothing():
    mask = jnp.stack([BEHIND[0, 0], BEHIND[0, 0].T])[None].at[:, :, 2].set(False)
    out = attention_fn(ENCODINGS["alibi"](HEADS))(Q, K, V, mask=mask)
    at = jnp.arange(TOKENS)
    stock = nnx.dot_product_attention(Q, K, V, bias=ENCODINGS["alibi"](HEADS).bias(at, at), mask=mask)
    others = np.asarray([0, 1, 3, 4, 5])
    np.testing.assert_allclose(out[:, others], stock[:, others], rtol=0, atol=1e-5)
    assert jnp.all(out[:, 2] == 0)


def test_positions_of_the_call_come_before_those_of_the_encoding():
    rope, at = ENCODINGS["axial_rope"](), jax.random.uniform(jax.random.key(3), (1, TOKENS, 2))  # on a plane
    found = attention_fn(rope, jnp.arange(TOKENS))(Q, K, V, input_positions=at)
    everything = jnp.ones((1, 1, TOKENS, TOKENS), bool)
    np.testing.assert_array_equal(found, posenc.attend(rope, Q, K, V, at, at, everything))
    np.testing.assert_array_equal(found, attention_fn(rope, Positions(at))(Q, K, V))


def test_linen_finds_all_the_keywords_that_it_passes():
    known = set(inspect.signature(attention_fn(ENCODINGS["none"]())).parameters)
    # The products of `attend` are summed in float32 whatever is asked for; the layer passes no dot_general.
    unneeded = {"force_fp32_for_softmax", "einsum_dot_general"}
    assert set(inspect.signature(linen.dot_product_attention).parameters) - unneeded <= known
    assert set(inspect.signature(nnx.dot_product_attention).parameters) - {"promote_dtype"} <= known


class Remembering(Encoding):
    """Holds what is no parameter and changes all the same."""

    kind = "blind"

    def __init__(self):
        self.seen = nnx.BatchStat(jnp.zeros(()))


@pytest.mark.parametrize(
    "encoding, message",
    [
        (Remembering, r"Remembering has trained parameters \(seen\)"),
        (lambda: posenc.make("sinusoidal", **SIZES), "in the layers no attention_fn is needed"),
        (lambda: posenc.make("chain", of=("sinusoidal", "rope"), **SIZES), "in the layers use posenc.Attention, as it"),
        (lambda: posenc.make("alibi", slopes="learned", rngs=nnx.Rngs(0), **SIZES), r"parameters \(slopes\)"),
        (lambda: posenc.make("chain", of=("rope", "t5"), rngs=nnx.Rngs(0), **SIZES), r"\(parts\.1\.table\)"),
        (lambda: posenc.make("chain", of=("rope", "fox"), rngs=nnx.Rngs(0), **SIZES), "takes steps"),
    ],
)
def test_what_an_encoding_is_made_of_counts(encoding, message):
    with pytest.raises(ValueError, match=message):
        attention_fn(encoding())


@every_layer
def test_another_text_and_a_cache_are_refused(layer):
    function, message = attention_fn(ENCODINGS["rope"]()), "{} queries and {} keys.*q_positions and k_positions"
    with pytest.raises(ValueError, match=message.format(TOKENS, 4)):
        stock(layer, parameters(), X, function, inputs_k=X[:, :4])
    with pytest.raises(ValueError, match=message.format(1, TOKENS)):
        if layer == "linen":
            cached = linen.MultiHeadDotProductAttention(HEADS, decode=True, attention_fn=function)
            variables = cached.init(jax.random.key(0), X)
            cached.apply(variables, X[:, :1], mutable=["cache"])
        else:
            cached = nnx.MultiHeadAttention(HEADS, WIDTH, decode=True, attention_fn=function, rngs=nnx.Rngs(0))
            cached.init_cache(X.shape)
            cached(X[:, :1])


@pytest.mark.parametrize("positions", [jnp.arange(5), jnp.zeros((3, TOKENS), int), jnp.zeros((EXAMPLES, 7))])
def test_positions_of_other_tokens_are_refused(positions):
    with pytest.raises(ValueError, match=r"positions of \d tokens in \d examples; the layer was given 6 tokens in 2"):
        attention_fn(ENCODINGS["rope"](), positions)(Q, K, V)


def test_positions_that_no_encoding_reads_are_refused_before_there_is_a_model():
    with pytest.raises(TypeError, match="bfloat16"):
        attention_fn(ENCODINGS["rope"](), jnp.arange(TOKENS, dtype=jnp.bfloat16))
    with pytest.raises(ValueError, match="expected"):
        attention_fn(ENCODINGS["rope"](), jnp.asarray(3))


class Directed(Encoding):
    """Nothing but the direction that it was built for."""

    kind = "blind"

    def __init__(self, bidirectional):
        self.bidirectional = bidirectional


@pytest.mark.parametrize("encoding", [ENCODINGS["xpos"](), ENCODINGS["stick_breaking"](), Directed(False)], ids=str)
def test_causal_encodings_ask_for_an_order(encoding):
    function = attention_fn(encoding)
    for call in ({}, dict(mask=REAL)):
        with pytest.raises(ValueError, match="neither is_causal nor a mask with a row for each query"):
            function(Q, K, V, **call)
    for call in (dict(is_causal=True), dict(mask=CAUSAL), dict(mask=REAL, is_causal=True)):
        assert jnp.all(jnp.isfinite(function(Q, K, V, **call)))


def test_an_encoding_for_both_directions_is_not_used_in_one():
    function = attention_fn(Directed(True))
    with pytest.raises(ValueError, match="bidirectional=True; the layer is called with is_causal=True"):
        function(Q, K, V, is_causal=True)
    function(Q, K, V)


def test_what_attend_does_not_have_is_refused():
    function = attention_fn(ENCODINGS["none"]())
    for name in ("qk_attn_weights_einsum", "attn_weights_value_einsum"):
        with pytest.raises(ValueError, match=rf"was given {name}, .* Leave it out"):
            function(Q, K, V, **{name: jnp.einsum})
    with pytest.raises(ValueError, match=r"was given bias, .* hook `bias`"):
        function(Q, K, V, bias=jnp.zeros((1, HEADS, TOKENS, TOKENS)))
    for layer in ("nnx", "linen"):
        with pytest.raises(ValueError, match=r"was given precision, .*jax\.default_matmul_precision"):
            stock(layer, parameters(), X, function, precision="highest")


@every_layer
def test_shapes_that_do_not_fit_are_refused(layer):
    function = attention_fn(ENCODINGS["none"]())
    for x in (X[0], X[None]):
        with pytest.raises(ValueError, match=r"queries have shape .* expected \[batch, tokens, heads, channels\]"):
            stock(layer, parameters(), x, function)
    for shape in ((EXAMPLES, 3, TOKENS, TOKENS), (1, 1, TOKENS, 5), (3, 1, 1, TOKENS), (1, 1, 1, 1, TOKENS)):
        with pytest.raises(ValueError, match=r"the mask has shape .* expected \(2, 2, 6, 6\)"):
            stock(layer, parameters(), X, function, mask=jnp.ones(shape))


class ByHand(nnx.Module):
    """What is refused, made by hand: a stock layer that is handed a method of the model, and in it a trained bias."""

    def __init__(self, rngs):
        self.t5 = posenc.make("t5", rngs=rngs, **SIZES)
        self.layer = nnx.MultiHeadAttention(HEADS, WIDTH, attention_fn=self.attend, decode=False, rngs=rngs)

    def attend(self, query, key, value, *, mask, **rest):
        at = jnp.arange(TOKENS)
        return nnx.dot_product_attention(query, key, value, bias=self.t5.bias(at, at), mask=mask)

    def __call__(self, x):
        return self.layer(x, mask=BEHIND)


def test_by_hand_a_trained_bias_gets_no_gradient_and_nothing_tells():
    model = ByHand(nnx.Rngs(0))

    def loss(model):
        return jnp.sum(model(X) ** 2)

    gradients = nnx.grad(loss)(model)
    assert jnp.all(gradients.t5.table[...] == 0)  # the method holds the original, not the copy that is differentiated
    before = loss(model)
    model.t5.table[...] = model.t5.table[...] + jax.random.normal(jax.random.key(1), model.t5.table.shape)
    assert jnp.abs(loss(model) - before) > 1e-2  # and yet the table is used
    with pytest.raises(ValueError, match="gradients would be exactly 0"):
        attention_fn(model.t5)
