"""What an encoding adds to a model, counted by hand."""

import functools

import pytest

from experiments.config import default_config, expand
from experiments.cost import cost
from posenc import ENCODINGS

WIDTH, DEPTH, HEADS = 8, 2, 2


def cell(name, **fields):
    """A small model with an encoding."""
    config = default_config()
    config.encoding.name = name
    config.model.update(width=WIDTH, depth=DEPTH, heads=HEADS)
    config.train.update(steps=4, warmup=1, max_length=6)
    config.evaluate.lengths = (6,)
    config.encoding.update(fields)
    return expand(config)[0]


@functools.cache
def cost_of(name):
    """With the encoding's defaults."""
    return cost(cell(name))


@pytest.mark.parametrize(
    ("name", "fields", "parameters"),
    [
        ("none", {}, 0),
        ("rope", {}, 0),
        ("learned", {}, 512 * WIDTH),
        ("t5", {}, 32 * HEADS),  # one table for all layers
        ("t5", {"share": False}, DEPTH * 32 * HEADS),
        ("shaw", {}, DEPTH * 2 * 33 * (WIDTH // HEADS)),  # keys and values, in each layer
        ("shaw", {"share": True}, 2 * 33 * (WIDTH // HEADS)),
        ("fox", {"pattern": ("none", "fox")}, WIDTH * HEADS + HEADS),  # one of the two layers
    ],
)
def test_parameters_are_those_of_the_encoding(name, fields, parameters):
    found = cost(cell(name, **fields))
    assert found.added_parameters == parameters
    assert found.parameters - parameters == cost_of("none").parameters


def test_arithmetic_is_counted_against_the_same_model_without_an_encoding():
    plain = cost_of("none")
    tokens = cell("none").layout.tokens(6)
    least = DEPTH * (2 * tokens * 12 * WIDTH**2 + 2 * 2 * tokens**2 * WIDTH)  # projections, and products of attention
    assert least < plain.flops < 2 * least
    assert plain.added_flops == 0
    learned = cost_of("learned")
    assert tokens * WIDTH <= learned.flops - plain.flops < 4 * tokens * WIDTH  # a sum for each number, and indices
    shaw = cost_of("shaw")
    terms = DEPTH * 2 * 2 * tokens**2 * WIDTH  # a product with each row, and a sum of them
    assert terms < shaw.flops - plain.flops < 2.5 * terms


@pytest.mark.parametrize("name", [name for name in ENCODINGS if name != "none"])
def test_no_encoding_is_free(name):
    assert cost_of(name).added_flops > 0
