"""Pictures of encodings: what is drawn is what the formula says, for any encoding, a user's own included."""

import builtins

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import posenc
from posenc import ENCODINGS, Encoding, distance, make
from posenc.drawing import END, draw, panels

SIZES = dict(heads=2, head_dim=8)
TOKENS = 12


def built(name, **options):
    return make(name, width=16, rngs=nnx.Rngs(0), **SIZES, **options)


def seen(encoding, tokens=TOKENS):
    """The panels of an encoding by their titles."""
    return {panel.title: panel for panel in panels(encoding, tokens=tokens, **SIZES)}


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_encoding_shows_what_its_hooks_do(name):
    encoding = built(name)
    shown = seen(encoding)
    assert ("added to the embeddings" in shown) == encoding.overrides("embeddings")
    assert ("a query of ones, turned" in shown) == encoding.turns
    assert ("change of logits, one random text" in shown) == encoding.overrides("logits")
    assert ("size of what is added to a value" in shown) == encoding.overrides("values")
    assert ("bias by distance" in shown) == (encoding.bias(jnp.arange(3), jnp.arange(3)) is not None)
    assert len(shown) >= 2
    for panel in shown.values():
        assert panel.values.shape[1] == len(panel.at)
        assert np.isfinite(panel.values).any()
        assert panel.lines is None or len(panel.lines) == len(panel.values)
    figure = draw(encoding, tokens=TOKENS, trained=6, **SIZES)
    titles = [axis.get_title() for axis in figure.axes if axis.get_title()]
    assert titles == list(shown)
    assert figure.get_suptitle() == f"{type(encoding).__name__}, {encoding.kind}"


def test_a_bias_is_drawn_as_the_formula_has_it():
    shown = seen(built("alibi"))
    away = np.arange(TOKENS)
    for head, line in enumerate(shown["bias by distance"].values):
        np.testing.assert_allclose(line, -(2.0 ** (-8 * (head + 1) / 2)) * away, rtol=1e-6)
    first = shown["bias, first head"].values
    for query in range(TOKENS):
        for key in range(TOKENS):
            if key > query:
                assert np.isnan(first[query, key])
            else:
                np.testing.assert_allclose(first[query, key], -(2.0**-4) * (query - key), rtol=1e-6)


def test_a_rotation_is_drawn_as_the_formula_has_it():
    line = seen(built("rope"))["its product with a key of ones"].values[0]
    expected = [sum(2 * np.cos(away * 1e4 ** (-i / 4)) for i in range(4)) / np.sqrt(8) for away in range(TOKENS)]
    np.testing.assert_allclose(line, expected, atol=1e-5)


def test_the_sinusoids_product_falls_off_alike_from_everywhere():
    lines = seen(built("sinusoidal"))["dot product of two positions"].values
    expected = [sum(np.cos(away * 1e4 ** (-i / 8)) for i in range(8)) for away in range(TOKENS)]
    for line in lines:
        there = np.isfinite(line)
        np.testing.assert_allclose(line[there], np.array(expected)[there], atol=1e-4)


def test_the_end_of_a_table_is_empty():
    added = seen(built("learned", max_position=8))["added to the embeddings"].values
    assert np.isfinite(added[:, :8]).all()
    assert np.isnan(added[:, 8:]).all()


def test_the_last_query_is_one_that_the_table_reaches():
    shown = seen(built("tupe", max_position=8))
    for title in ("bias by distance", "what the last query sees, log2"):
        assert shown[title].values.shape == (2, 8)
        assert np.isfinite(shown[title].values).all()


def test_without_an_encoding_every_key_gets_an_even_share():
    shown = seen(built("none"), tokens=6)
    assert np.nanmax(np.abs(shown["attention of the first head, log2"].values)) < 0.5
    steep = seen(built("alibi"), tokens=64)["what the last query sees, log2"].values[0]
    assert steep[0] > 1 > steep[-1]
    assert np.abs(steep).max() <= END


def test_the_key_that_a_value_belongs_to_is_the_one_drawn():
    class Marked(Encoding):
        kind = "relative"

        def values(self, out, weights, v, q_positions, k_positions):
            r = distance(q_positions, k_positions)
            return out + jnp.einsum("bhqk,zqk->bqh", weights, 1.0 * r)[..., None]

    line = seen(Marked())["size of what is added to a value"].values[0]
    np.testing.assert_allclose(line, np.sqrt(8) * np.arange(TOKENS), rtol=1e-5)


def test_a_name_is_enough_and_a_wrong_one_is_told():
    assert posenc.draw("t5", tokens=8).axes
    with pytest.raises(ValueError, match=r"Unknown encoding 'ropee'.* Did you mean 'rope'"):
        posenc.draw("ropee")


def test_what_to_do_without_matplotlib_is_told(monkeypatch):
    original = builtins.__import__

    def without(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"needs matplotlib: pip install"):
        posenc.draw("rope")
