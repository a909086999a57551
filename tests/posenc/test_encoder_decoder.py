"""The encoder-decoder: against its equation put together by hand, and against itself by other roads."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import posenc
from posenc import Cache, EncoderDecoder, Visibility, attention, generate, make, make_layers

SIZES = dict(width=16, heads=2, head_dim=8)
SOURCE = jnp.array([[1, 4, 2, 0, 3], [2, 2, 0, 1, 4]])
TEXT = jnp.array([[5, 1, 4, 2, 0, 3], [5, 0, 3, 3, 1, 2]])
SOURCE_LENGTHS = jnp.array([5, 3])
NAMES = ("none", "sinusoidal", "learned", "shaw", "t5", "rope", "alibi", "deberta", "fire", "tupe")


def model(name="rope", cross=None, depth=2, **settings):
    rngs = nnx.Rngs(0)
    encoder, decoder = (make_layers(name, depth, bidirectional=way, rngs=rngs, **SIZES) for way in (True, False))
    between = None if cross is None else make(cross, bidirectional=True, rngs=rngs, **SIZES)
    return EncoderDecoder(6, 16, depth, 2, encoder, decoder, cross=between, rngs=rngs, **settings)


@functools.cache
def usual(name, cross=None):
    """The same, made once for all tests that only ask it."""
    return model(name, cross)


def said(transformer, source=SOURCE, text=TEXT, **settings):
    """Logits with positions in order."""
    return transformer(source, jnp.arange(source.shape[1]), text, jnp.arange(text.shape[1]), **settings)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_it_is_the_published_composition(placement):
    transformer = model("sinusoidal", depth=1, norm="layer", placement=placement)
    encoder, decoder = transformer.encoder, transformer.decoder
    (read,), (write,) = encoder.blocks, decoder.blocks

    def branch(x, norm, f):
        return x + f(norm(x)) if placement == "pre" else norm(x + f(x))

    def own(block, encoding, causal):
        return lambda x: block.attention(x, jnp.arange(x.shape[1]), encoding, Visibility(causal))

    x = encoder.encodings[0].embeddings(transformer.embed(SOURCE), jnp.arange(5))
    x = branch(x, read.attention_norm, own(read, encoder.encodings[0], causal=False))
    memory = branch(x, read.mlp_norm, read.mlp)
    memory = encoder.final_norm(memory) if placement == "pre" else memory

    def between(x):
        q, k, v = (
            layer(one).reshape(*one.shape[:2], 2, 8)
            for layer, one in ((write.cross.query, x), (write.cross.key, memory), (write.cross.value, memory))
        )
        weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8**0.5, axis=-1)
        return write.cross.out(jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape))

    y = decoder.encodings[0].embeddings(transformer.embed(TEXT), jnp.arange(6))
    y = branch(y, write.attention_norm, own(write, decoder.encodings[0], causal=True))
    y = branch(y, write.cross_norm, between)
    y = branch(y, write.mlp_norm, write.mlp)
    y = decoder.final_norm(y) if placement == "pre" else y
    np.testing.assert_allclose(said(transformer), transformer.head(y), atol=2e-5)


@pytest.mark.parametrize("name", NAMES)
def test_padding_of_either_text_changes_nothing(name):
    transformer, lengths = usual(name), jnp.array([6, 2])
    together = said(transformer, source_lengths=SOURCE_LENGTHS, lengths=lengths)
    for example, (read, written) in enumerate(zip(SOURCE_LENGTHS, lengths, strict=True)):
        alone = said(transformer, SOURCE[example : example + 1, :read], TEXT[example : example + 1, :written])
        np.testing.assert_allclose(together[example, :written], alone[0], atol=5e-6, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_token_sees_the_whole_source_and_nothing_of_the_text_after_it(name):
    transformer = usual(name)
    graph, state = nnx.split(transformer, nnx.Param)

    def embedding_of(state, table):
        return jax.tree_util.tree_map_with_path(lambda path, x: table if path[0].key == "embed" else x, state)

    def of_tables(source_table, text_table):
        """The tokens' embeddings apart for the two texts, so that gradients tell them apart."""
        reader, writer = (nnx.merge(graph, embedding_of(state, table)) for table in (source_table, text_table))
        tokens, memory = jnp.array([[5, 0, 1, 2, 3, 4]]), reader.read(SOURCE[:1], jnp.arange(5))
        logits, _ = writer.extend(tokens, jnp.arange(6), Cache.empty(1, 6), memory)
        return logits[0]

    table = transformer.embed.embedding[...]
    source, text = jax.jacobian(of_tables, argnums=(0, 1))(table, table)  # t v rows m
    assert jnp.all(jnp.abs(source).sum((1, 3))[:, SOURCE[0]] > 0)
    reach = jnp.abs(text).sum((1, 3))[:, jnp.array([5, 0, 1, 2, 3, 4])]
    assert jnp.all(jnp.triu(reach, 1) == 0)
    assert jnp.all(jnp.diag(reach) > 0)


@pytest.mark.parametrize(("name", "cross"), [*((name, None) for name in NAMES), ("rope", "t5"), ("none", "shaw")])
def test_token_by_token_with_a_cache_is_the_whole_text_at_once(name, cross):
    transformer = usual(name, cross)
    whole = said(transformer, source_lengths=SOURCE_LENGTHS)
    memory = transformer.read(SOURCE, jnp.arange(5), lengths=SOURCE_LENGTHS)
    logits, cache = transformer.extend(TEXT[:, :2], jnp.arange(2), Cache.empty(2, 6), memory)
    parts = [logits]
    for place in range(2, 6):
        logits, cache = transformer.extend(TEXT[:, place : place + 1], jnp.array([place]), cache, memory)
        parts.append(logits)
    np.testing.assert_allclose(jnp.concatenate(parts, 1), whole, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("cross", [None, "t5", "rope"])
def test_every_road_of_attention_gives_the_same(cross):
    dense = model("t5", cross, attention="dense")
    expected = said(dense, source_lengths=SOURCE_LENGTHS)
    for road in ("blocks", "auto"):
        other = model("t5", cross, attention=road)
        np.testing.assert_allclose(said(other, source_lengths=SOURCE_LENGTHS), expected, atol=1e-5)


def test_queries_past_the_end_of_the_source_are_not_taken_for_padding(monkeypatch):
    monkeypatch.setattr(attention, "BLOCK", 1)  # blocks of 16 queries
    dense, blocks = (model("none", attention=road) for road in ("dense", "blocks"))
    text, lengths = jnp.tile(TEXT, (1, 7)), jnp.array([3])
    expected = said(dense, text=text, source_lengths=lengths)
    np.testing.assert_allclose(said(blocks, text=text, source_lengths=lengths), expected, atol=1e-5)


def test_an_encoding_between_the_texts_acts_only_when_it_is_asked_for():
    one, other = (usual("none", cross) for cross in (None, "alibi"))
    moved = SOURCE[:, jnp.array([1, 0, 2, 3, 4])]  # without any encoding, a source is a bag of tokens
    np.testing.assert_allclose(said(one, moved), said(one), atol=1e-5)
    assert jnp.abs(said(other, moved) - said(other)).max() > 1e-3


def test_every_parameter_gets_a_gradient():
    graph, state = nnx.split(model("shaw", "t5"), nnx.Param)
    gradients = jax.grad(lambda state: jnp.sum(said(nnx.merge(graph, state)) ** 2))(state)
    for path, gradient in jax.tree_util.tree_leaves_with_path(gradients):
        assert jnp.all(jnp.isfinite(gradient)), path
        assert jnp.any(gradient != 0), path


def test_greedy_text_is_that_of_reading_everything_again():
    transformer = model("rope")
    transformer.head.kernel[...] *= 20.0
    memory = transformer.read(SOURCE, jnp.arange(5), lengths=SOURCE_LENGTHS)
    written = generate(transformer, TEXT[:, :1], 5, memory=memory)
    text = TEXT[:, :1]
    for _ in range(5):
        text = jnp.append(text, said(transformer, text=text, source_lengths=SOURCE_LENGTHS)[:, -1:].argmax(-1), axis=1)
    assert written.tolist() == text[:, 1:].tolist()


def test_what_cannot_be_is_refused():
    rngs = nnx.Rngs(0)
    ways = [make_layers("t5", 2, bidirectional=way, rngs=rngs, **SIZES) for way in (True, False)]
    none = make("none", **SIZES)
    for build, message in (
        (lambda: EncoderDecoder(6, 16, 2, 2, ways[1], ways[1], rngs=rngs), "built with bidirectional=False"),
        (lambda: EncoderDecoder(6, 16, 2, 2, ways[0], ways[0], rngs=rngs), "built with bidirectional=True"),
        (lambda: EncoderDecoder(6, 16, 2, 2, none, none, rngs=rngs), "an encoding is in both stacks"),
        (lambda: EncoderDecoder(6, 16, 2, 2, *ways, cross=ways[1][0], rngs=rngs), "built with bidirectional=False"),
        (lambda: model("rope", "sinusoidal"), "Sinusoidal acts on embeddings: it cannot encode the attention of one"),
        (lambda: EncoderDecoder(6, 16, 3, 2, *ways, rngs=rngs), "2 encodings for 3 layers"),
    ):
        with pytest.raises(ValueError, match=message):
            build()
    assert posenc.EncoderDecoder is EncoderDecoder
