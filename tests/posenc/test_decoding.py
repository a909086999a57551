"""A decoder that reads token by token, with a cache, is the decoder that reads the whole text at once."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import posenc
from posenc import ENCODINGS, Cache, Positions, Transformer, generate, make_layers

TEXT = jnp.array([[1, 4, 2, 0, 3, 3, 1], [2, 2, 0, 1, 4, 1, 0]])
every_encoding = pytest.mark.parametrize("name", ENCODINGS)


def model(name="rope", causal=True, seed=0, **settings):
    rngs = nnx.Rngs(seed)
    sizes = dict(width=16, heads=2, head_dim=8, bidirectional=not causal)
    return Transformer(5, 16, 2, 2, make_layers(name, 2, rngs=rngs, **sizes), causal=causal, rngs=rngs, **settings)


def loud(transformer):
    """The same with parameters of size 1, so that every hook has its say."""
    graph, parameters = nnx.split(transformer, nnx.Param)
    keys = iter(jax.random.split(jax.random.key(7), len(jax.tree.leaves(parameters))))
    return nnx.merge(graph, jax.tree.map(lambda x: x + 0.3 * jax.random.normal(next(keys), x.shape), parameters))


def compiled(transformer, function):
    """A function of the model and other things, compiled, the model given."""
    graph, parameters = nnx.split(transformer, nnx.Param)
    program = jax.jit(lambda parameters, *rest: function(nnx.merge(graph, parameters), *rest))
    return lambda *rest: program(parameters, *rest)


@functools.cache
def decoder(name, placement="pre"):
    """A loud model and two programs of it: that reads on behind a cache, and that reads a whole text."""
    transformer = loud(model(name, placement=placement))

    def read(transformer, tokens, positions, cache, lengths=None):
        return transformer.extend(tokens, positions, cache, lengths=lengths)

    return compiled(transformer, read), compiled(transformer, Transformer.__call__)


def close(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-5)


@every_encoding
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_token_by_token_gives_the_logits_of_the_whole_text(name, placement):
    read, whole = decoder(name, placement)
    places = jnp.array([3, 4, 5, 9, 10, 12, 20])
    expected = whole(TEXT, places)

    logits, cache = read(TEXT[:, :3], places[:3], Cache.empty(2, 8))
    close(logits, expected[:, :3])
    for t in range(3, 7):
        logits, cache = read(TEXT[:, t : t + 1], places[t : t + 1], cache)
        close(logits[:, 0], expected[:, t])
    assert cache.lengths.tolist() == [7, 7]


@every_encoding
def test_prompts_of_unlike_lengths_share_a_cache(name):
    (read, whole), lengths = decoder(name), jnp.array([4, 2])
    logits, cache = read(TEXT[:, :4], jnp.arange(4), Cache.empty(2, 6), lengths)
    following = jnp.array([[3], [1]])
    logits, cache = read(following, lengths[:, None], cache)
    for example, length in enumerate(lengths.tolist()):
        alone = jnp.concatenate([TEXT[example, :length], following[example]])[None]
        close(logits[example, 0], whole(alone, jnp.arange(length + 1))[0, -1])


def test_keys_are_kept_as_they_are_before_they_are_turned():
    transformer = model("rope")
    caches = [transformer.extend(TEXT, jnp.arange(7) + start, Cache.empty(2, 7))[1] for start in (0, 1000)]
    np.testing.assert_array_equal(caches[0].layers[0].k, caches[1].layers[0].k)
    assert caches[1].layers[0].positions.values[0].tolist() == list(range(1000, 1007))


def test_past_its_end_a_cache_is_an_error_and_never_overwritten():
    transformer = model("none")
    with pytest.raises(ValueError, match=r"room for 6 tokens is to take 7 of them. Make a larger one"):
        transformer.extend(TEXT, jnp.arange(7), Cache.empty(2, 6))
    _, full = transformer.extend(TEXT[:, :6], jnp.arange(6), Cache.empty(2, 6))
    with pytest.raises(ValueError, match=r"room for 6 tokens is to take 7"):
        transformer.extend(TEXT[:, 6:], jnp.arange(1), full)
    further = compiled(transformer, lambda model, cache: model.extend(TEXT[:, 6:], jnp.array([6]), cache))
    logits, after = further(full)
    assert jnp.isnan(logits).all()
    np.testing.assert_array_equal(after.layers[0].k, full.layers[0].k)
    logits, after = further(after)
    assert jnp.isnan(logits).all()


def test_what_has_no_cache_says_why():
    with pytest.raises(ValueError, match=r"bidirectional model has no cache: each further token changes"):
        model(causal=False).extend(TEXT, jnp.arange(7), Cache.empty(2, 7))
    with pytest.raises(ValueError, match=r"2 texts for a cache of 3. Make one with Cache.empty\(2, room\)"):
        model().extend(TEXT, jnp.arange(7), Cache.empty(3, 7))
    with pytest.raises(ValueError, match=r"room for 0 tokens; expected 1 or more"):
        Cache.empty(2, 0)


def greedy(transformer, prompt, steps, end=None):
    """The plain way: the whole text again for every token."""
    text = list(prompt)
    for _ in range(steps):
        over = end is not None and text[len(prompt) :].count(end) > 0
        logits = transformer(jnp.array([text]), jnp.arange(len(text)))[0, -1]
        text.append(end if over else int(logits.argmax()))
    return text[len(prompt) :]


@pytest.mark.parametrize("name", ["rope", "fox"])
def test_greedy_text_is_that_of_reading_everything_again(name):
    transformer, lengths = loud(model(name, seed=1)), jnp.array([4, 2])
    written = compiled(transformer, lambda model: generate(model, TEXT[:, :4], 6, lengths=lengths))()
    for example, length in enumerate(lengths.tolist()):
        assert written[example].tolist() == greedy(transformer, TEXT[example, :length].tolist(), 6)


def test_a_text_is_over_at_its_end():
    transformer = loud(model("rope", seed=1))
    free = generate(transformer, TEXT[:, :4], 6)[0].tolist()
    end = free[2]
    over = generate(transformer, TEXT[:, :4], 6, end=end)[0].tolist()
    assert over == free[: free.index(end) + 1] + [end] * (5 - free.index(end))
    assert over == greedy(transformer, TEXT[0, :4].tolist(), 6, end)


def test_drawn_text_follows_the_softmax_and_its_key():
    transformer = loud(model("none"))
    prompts = jnp.tile(TEXT[:1, :3], (4000, 1))
    expected = jax.nn.softmax(transformer(TEXT[:1, :3], jnp.arange(3))[0, -1] / 0.7)
    drawn = generate(transformer, prompts, 1, key=jax.random.key(0), temperature=0.7)[:, 0]
    share = np.bincount(np.asarray(drawn), minlength=5) / len(drawn)
    np.testing.assert_allclose(share, expected, atol=4.5 * 0.5 / 4000**0.5)
    few = prompts[:50]
    one, again, other = (generate(transformer, few, 4, key=jax.random.key(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


def test_positions_of_what_is_written_may_be_any():
    transformer = loud(model("rope", seed=2))
    places = jnp.array([0, 3, 4, 9, 10, 30, 31])
    text = TEXT[:, :4]
    for _ in range(3):
        count = text.shape[1]
        text = jnp.append(text, transformer(text, places[:count])[:, -1:].argmax(-1), axis=1)
    assert generate(transformer, TEXT[:, :4], 3, positions=Positions(places)).tolist() == text[:, 4:].tolist()
    counted = generate(transformer, TEXT[:, :4], 3, positions=places.at[4:].set(jnp.arange(4, 7)))
    assert counted.tolist() != text[:, 4:].tolist()  # it says something: other positions, another text


def test_what_cannot_be_written_is_refused():
    transformer = model()
    for wrong, message in (
        (dict(steps=0), "steps is 0"),
        (dict(steps=1, temperature=0.0), "temperature 0.0; expected 1 or more, and a number above 0"),
        (dict(steps=2, positions=jnp.arange(8)), r"8 positions for 7 tokens and 2 steps. Pass 9"),
    ):
        with pytest.raises(ValueError, match=message):
            generate(transformer, TEXT, **wrong)


def test_the_names_are_public():
    assert {"Cache", "generate", "Visibility"} <= set(posenc.__all__)
