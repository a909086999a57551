"""The roads of attention lead to one result: dense, in blocks, fused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import posenc.attention
from posenc import ENCODINGS, Attention, Positions, Visibility, attend, make
from posenc.dropout import Dropout
from posenc.testing import HEAD_DIM, HEADS, VALUE_DIM, WIDTH, Case

TOKENS = 13
X = jax.random.normal(jax.random.key(0), (2, TOKENS, WIDTH))
LENGTHS = {"all real": None, "one length": jnp.array([9]), "a length each": jnp.array([5, 13])}
every_direction = pytest.mark.parametrize(
    ("name", "causal"),
    [(name, causal) for name in ENCODINGS for causal in (True, False) if causal or not ENCODINGS[name].causal_only],
)


@pytest.fixture
def small_blocks(monkeypatch):
    """Four queries in a block: 13 of them take four blocks, of which the last is a ragged one."""
    monkeypatch.setattr(posenc.attention, "BLOCK", 0)
    monkeypatch.setattr(posenc.attention, "LEAST", 4)


def layer(name, causal, value_dim=VALUE_DIM):
    """An encoding and a layer, as a graph and parameters of size 1."""
    options = {"max_position": 16} if name in ("learned", "one_hot", "tupe") else {}
    encoding = Case(ENCODINGS[name], options, not causal).build() if value_dim == VALUE_DIM else None
    encoding = encoding or make(name, width=WIDTH, heads=HEADS, head_dim=HEAD_DIM, bidirectional=not causal,
                                rngs=nnx.Rngs(0), **options)  # fmt: skip
    attention = Attention(WIDTH, HEADS, head_dim=HEAD_DIM, value_dim=value_dim, rngs=nnx.Rngs(1))
    return nnx.split((encoding, attention), nnx.Param)


def out(graph, parameters, visible, road, x=X):
    """What the real tokens are given; nothing for the others."""
    encoding, attention = nnx.merge(graph, parameters)
    attention.road = road
    positions = Positions(jnp.arange(TOKENS), consecutive=True)
    given = attention(encoding.embeddings(x, positions), positions, encoding, visible)
    return jnp.where(visible.real(TOKENS)[:, :, None], given, 0)


def both(graph, road, visible):
    """Result and gradients, compiled."""

    @jax.jit
    def run(parameters, x):
        def total(parameters, x):
            given = out(graph, parameters, visible, road, x)
            return jnp.sin(given).sum(), given

        return jax.grad(total, argnums=(0, 1), has_aux=True)(parameters, x)

    return run


def close(found, expected, atol=2e-6, rtol=1e-5):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=atol, rtol=rtol), found, expected)


@every_direction
def test_blocks_give_what_dense_gives_and_its_gradients(name, causal, small_blocks, monkeypatch):
    graph, parameters = layer(name, causal)
    if name != "rope":  # each extent is one more copy of attention to compile
        monkeypatch.setattr(posenc.attention, "EXTENTS", 2)
    for lengths in LENGTHS.values() if name in ("rope", "shaw", "cope") else [LENGTHS["one length"]]:
        visible = Visibility(causal, lengths)
        expected, dense = both(graph, "dense", visible)(parameters, X)
        found, blocks = both(graph, "blocks", visible)(parameters, X)
        close(blocks, dense)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5 * max(1, jnp.abs(b).max()))


@every_direction
def test_a_kernel_gives_what_dense_gives_or_is_refused(name, causal):
    graph, parameters = layer(name, causal, value_dim=HEAD_DIM)
    encoding = nnx.merge(graph, parameters)[0]
    own = [hook for hook in ("steps", "logits", "weights", "values") if encoding.overrides(hook)]
    for lengths in LENGTHS.values():
        visible = Visibility(causal, lengths)
        if own:
            with pytest.raises(ValueError, match=f'"fused": .* has {own[0]}.*Use "auto" or "dense"'):
                out(graph, parameters, visible, "fused")
        else:
            close(out(graph, parameters, visible, "fused"), out(graph, parameters, visible, "dense"))


@pytest.mark.parametrize("road", ["dense", "blocks", "fused"])
def test_a_query_that_sees_nothing_takes_nothing(road, small_blocks):
    graph, parameters = layer("none", True, value_dim=HEAD_DIM)
    encoding, attention = nnx.merge(graph, parameters)
    q, k, v = (attention.split(f(X)) for f in (attention.query, attention.key, attention.value))
    mask = jnp.ones((1, 1, TOKENS, TOKENS), bool).at[:, :, 3].set(False)
    given = attend(encoding, q, k, v, jnp.arange(TOKENS), jnp.arange(TOKENS), mask, road=road)
    assert jnp.all(given[:, 3] == 0)
    assert jnp.all(jnp.abs(given[:, 2]).max(-1) > 0)


def test_a_matrix_does_on_every_road_what_the_words_do(small_blocks):
    graph, parameters = layer("t5", True, value_dim=HEAD_DIM)
    encoding, attention = nnx.merge(graph, parameters)
    q, k, v = (attention.split(f(X)) for f in (attention.query, attention.key, attention.value))
    words = Visibility(True, jnp.array([7]))
    for road in ("dense", "blocks", "fused"):
        a, b = (
            attend(encoding, q, k, v, jnp.arange(TOKENS), jnp.arange(TOKENS), visible, road=road)
            for visible in (words, words.mask(TOKENS, TOKENS))
        )
        close(a[:, :7], b[:, :7])


def test_blocks_drop_the_share_that_is_asked_for_and_not_the_same_in_each(small_blocks):
    ones = jnp.ones((1, 256, 1, 1))
    dropout = Dropout(0.25, jax.random.key(0))
    none, places = ENCODINGS["none"](), jnp.arange(256)
    given = {
        road: attend(none, ones, ones, jnp.eye(256)[None, :, None], places, places, Visibility(False), dropout=dropout,
                     road=road)[0, :, 0]
        for road in ("dense", "blocks")
    }  # fmt: skip
    for weights in given.values():
        assert abs(float((weights == 0).mean()) - 0.25) < 0.01
        np.testing.assert_allclose(weights[weights > 0], 1 / 256 / 0.75, rtol=1e-6)
        assert len(np.unique(np.asarray(weights), axis=0)) == 256


@pytest.mark.parametrize("name", ["none", "shaw", "deberta", "fire", "cope", "fox"])
def test_memory_grows_with_the_length_and_not_with_its_square(name, monkeypatch):
    monkeypatch.setattr(posenc.attention, "BLOCK", 2**16)
    encoding = make(name, width=16, heads=2, head_dim=8, rngs=nnx.Rngs(0))
    graph, parameters = nnx.split((encoding, Attention(16, 2, rngs=nnx.Rngs(1))), nnx.Param)

    def temporary(tokens, road):
        def loss(parameters, x):
            encoding, attention = nnx.merge(graph, parameters)
            attention.road = road
            positions = Positions(jnp.arange(tokens), consecutive=True)
            return attention(encoding.embeddings(x, positions), positions, encoding, Visibility(True)).sum()

        x = jax.ShapeDtypeStruct((1, tokens, 16), jnp.float32)
        compiled = jax.jit(jax.grad(loss)).lower(parameters, x).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    short, long = temporary(2048, "blocks"), temporary(8192, "blocks")
    assert long < 5 * short, (short, long)
    assert long < 2 * 8192**2 * 4 / 4  # a quarter of the logits, which dense attention keeps several times


def test_the_road_is_chosen_by_the_number_of_logits():
    none, few, many = ENCODINGS["none"](), *(Visible(tokens) for tokens in (64, 8192))
    assert [posenc.attention.chosen("auto", none, *visible, None) for visible in (few, many)] == ["dense", "blocks"]
    assert posenc.attention.chosen("auto", none, *many, lambda weights: weights) == "dense"


def Visible(tokens):
    """Queries and keys of so many tokens, as shapes."""
    x, positions = jax.ShapeDtypeStruct((1, tokens, 2, 8), jnp.float32), Positions.led(jnp.arange(tokens))
    return posenc.attention.Queries(x, positions), posenc.attention.Keys(x, x, positions)


def test_a_road_that_cannot_be_taken_is_refused():
    x, places, none = jnp.ones((1, 4, 2, 8)), jnp.arange(4), ENCODINGS["none"]()
    with pytest.raises(ValueError, match=r'"blocks": a function that is no Dropout.*Use "auto" or "dense"'):
        attend(none, x, x, x, places, places, Visibility(True), dropout=lambda w: w, road="blocks")
    with pytest.raises(ValueError, match=r'"fused": a fused kernel does not show the weights'):
        attend(none, x, x, x, places, places, Visibility(True), dropout=Dropout(0.1, jax.random.key(0)), road="fused")
    with pytest.raises(ValueError, match=r"values have 6 channels, and queries 8"):
        attend(none, x, x, x[..., :6], places, places, Visibility(True), road="fused")
    attention = Attention(16, 2, rngs=nnx.Rngs(0))
    with pytest.raises(ValueError, match=r"slots say which tokens ask"):
        attention(jnp.ones((1, 4, 16)), places, none, jnp.ones((1, 1, 4, 4), bool), slots=jnp.array([[1]]))


@pytest.mark.parametrize(("backend", "dtype", "kernel"), [
    ("gpu", "bfloat16", "cudnn"), ("gpu", "float32", "xla"), ("cpu", "bfloat16", "xla"), ("tpu", "bfloat16", "xla"),
])  # fmt: skip
def test_a_gpu_is_given_its_own_kernel_for_what_it_can_multiply(backend, dtype, kernel, monkeypatch):
    asked = {}
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(jax.nn, "dot_product_attention", lambda q, *_, **given: asked.update(given) or q)
    x, places = jnp.ones((2, 4, 2, 8), dtype), jnp.arange(4)
    encoding = make("t5", width=16, heads=2, head_dim=8, rngs=nnx.Rngs(0))
    attend(encoding, x, x, x, places, places, Visibility(True, jnp.array([3])), road="fused")
    assert asked["implementation"] == kernel
    assert asked["bias"].dtype == x.dtype
    assert asked["is_causal"]
    assert asked["key_value_seq_lengths"].tolist() == [3, 3]
    assert "mask" not in asked
