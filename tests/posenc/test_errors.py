"""Every refusal says what came and what was expected, before anything is computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from posenc import ENCODINGS, SCHEMES, Attention, Positions, Transformer, make, make_layers
from posenc.encodings.scaling import Scaling

SIZES = dict(width=16, heads=2, head_dim=8)


def refused(build, *fragments):
    """The error holds each fragment and is a sentence or more."""
    with pytest.raises(ValueError) as error:
        build()
    message = str(error.value)
    for fragment in fragments:
        assert fragment in message, message
    assert message.endswith("."), message


LONG = dict(scaling="longrope", factor=2.0)
BY_NAME = [  # name, options, what the message holds
    ("rop", {}, ["Unknown encoding 'rop'", "Did you mean 'rope'?", "Known: alibi, axial_rope, "]),
    ("rope", dict(bas=3.0), ["rope has no option 'bas'", "Did you mean 'base'?", "Known: base, layout, "]),
    ("none", dict(base=3.0), ["none has no option 'base'", "takes no options"]),
    ("rope", dict(rngs=1, head_dims=1), ["rope has no option 'head_dims'"]),
    ("rope", dict(base="10"), ["rope.base is '10'", "expected a finite number", "default 10000.0"]),
    ("rope", dict(base=True), ["rope.base is True", "expected a finite number"]),
    ("rope", dict(base=float("nan")), ["rope.base is nan", "expected a finite number"]),
    ("rope", dict(base=float("inf")), ["rope.base is inf", "expected a finite number"]),
    ("rope", dict(layout="half"), ["rope.layout is 'half'", "expected 'halves' or 'interleaved'"]),
    ("rope", dict(original=2**31), ["rope.original is 2147483648", "expected a whole number below 2^31"]),
    ("rope", dict(original=8.0), ["rope.original is 8.0", "expected a whole number"]),
    ("rope", dict(rescale=[1.0]), ["rope.rescale is [1.0]", "expected a tuple, each item a finite number"]),
    ("rope", dict(scaling="ntk_aware"), ["rope.scaling is 'ntk_aware'", "None or 'linear' or 'ntk'"]),
    ("shaw", dict(values=1), ["shaw.values is 1", "expected True or False"]),
    ("irpe", dict(on=("k", "w")), ["irpe.on is ('k', 'w')", "each item 'q' or 'k' or 'v'"]),
    ("dape", dict(of=3), ["dape.of is 3", "expected a string or a built Encoding", "default 'kerple'"]),
    ("rope", dict(base=1.0), ["rope.base is 1.0", "expected a number above 1 (default 10000)"]),
    ("rope", dict(fraction=0.0), ["rope.fraction is 0.0", "keep 1.0", "expected shares, fraction above 0"]),
    ("rope", dict(fraction=1.5), ["rope.fraction is 1.5", "expected shares"]),
    ("rope", dict(keep=-0.1), ["rope.keep -0.1", "expected shares"]),
    ("rope", dict(keep=1.1), ["rope.keep 1.1", "expected shares"]),
    (
        "rope",
        dict(fraction=0.4),
        ["rope turns 3 of 8 channels", "an even number, 2 or more", "Change the head's width"],
    ),
    ("rope", dict(fraction=0.01), ["rope turns 0 of 8 channels", "an even number, 2 or more", "rope.fraction"]),
    ("rope", dict(start=-1), ["rope.start is -1", "scaling None", "longrope alone"]),
    ("rope", dict(start=4), ["rope.start is 4", "scaling None", "longrope alone"]),
    ("rope", dict(start=4, scaling="yarn"), ["rope.start is 4", "scaling 'yarn'", "longrope alone"]),
    ("rope", dict(factor=2.0), ["rope.factor is 2.0", "expected 1, or a kind of scaling in rope.scaling"]),
    ("rope", dict(factor=0.5, scaling="ntk"), ["rope.factor is 0.5", "expected 1 or more"]),
    ("rope", dict(original=1), ["rope.original is 1", "rope.length 0", "the trained one, 2 or more"]),
    ("rope", dict(length=-1), ["rope.original is 512", "rope.length -1", "expected lengths"]),
    ("rope", dict(length=9), ["rope.length is 9", "dynamic_ntk alone", "scaling is None"]),
    ("rope", dict(length=9, scaling="ntk"), ["rope.length is 9", "dynamic_ntk alone", "scaling is 'ntk'"]),
    ("rope", LONG, ["rope.rescale is ()", "'longrope'", "a positive number for each pair"]),
    ("rope", LONG | dict(rescale=(1.0, 1.0, 1.0, 0.0)), ["(1.0, 1.0, 1.0, 0.0)", "a positive number for each pair"]),
    ("rope", dict(rescale=(1.0,)), ["rope.rescale is (1.0,)", "None", "longrope, and no other kind"]),
    (
        "rope",
        LONG | dict(rescale=(1.0, 2.0, 3.0)),
        ["rope.rescale has 3 numbers for 4 pairs of channels", "Give one for each"],
    ),
    ("rope", dict(scaling="ntk", fraction=0.25), ["rope.scaling='ntk'", "two pairs of channels or more; there is one"]),
    ("rope", dict(scaling="dynamic_ntk", fraction=0.25), ["rope.scaling='dynamic_ntk'", "two pairs of channels"]),
    ("axial_rope", dict(base=0.5), ["axial_rope.base is 0.5", "expected a number above 1 (default 10000)"]),
    ("xpos", dict(base=1.0), ["xpos has base 1.0", "scale_base 512.0", "gamma 0.4", "expected base > 1, others > 0"]),
    ("xpos", dict(scale_base=0.0), ["scale_base 0.0", "expected base > 1, others > 0"]),
    ("xpos", dict(gamma=-1.0), ["gamma -1.0", "expected base > 1, others > 0"]),
    ("sinusoidal", dict(base=0.0), ["sinusoidal.base is 0.0", "expected a positive number (default 10000)"]),
    ("transformer_xl", dict(base=1.0), ["transformer_xl.base is 1.0", "expected a number above 1 (default 10000)"]),
    ("sandwich", dict(base=1.0), ["sandwich.base is 1.0", "expected a number above 1 (default 10000)"]),
    ("sandwich", dict(channels=3), ["sandwich.channels is 3", "expected an even number, 2 or more"]),
    ("sandwich", dict(channels=0), ["sandwich.channels is 0", "expected an even number, 2 or more"]),
    ("learned", dict(max_position=0), ["learned.max_position is 0", "expected 1 or more rows"]),
    ("tupe", dict(max_position=0), ["tupe.max_position is 0", "expected 1 or more rows"]),
    ("one_hot", dict(max_position=0), ["one_hot.max_position is 0", "expected 1 or more"]),
    (
        "one_hot",
        dict(combine="add"),
        ["one_hot.max_position is 512", "16 channels only", "Set it to the width or less"],
    ),
    ("index", dict(scale=0.0), ["index.scale is 0", "expected another number (default 1)"]),
    ("fourier", dict(features=3), ["fourier has features 3", "expected an even number, 2 or more"]),
    ("fourier", dict(features=0), ["fourier has features 0", "expected an even number, 2 or more"]),
    ("fourier", dict(hidden=0), ["hidden 0", "1 or more"]),
    ("fourier", dict(gamma=0.0), ["fourier.gamma is 0.0", "expected a number above 0 (default 10)"]),
    ("shaw", dict(r_min=1), ["shaw clips to [1, 16]", "expected r_min <= 0 <= r_max"]),
    ("shaw", dict(r_max=-1), ["shaw clips to [-16, -1]", "expected r_min <= 0 <= r_max"]),
    ("shaw", dict(r_min=0, r_max=0), ["shaw clips to [0, 0]", "not both 0"]),
    ("music_transformer", dict(max_distance=0), ["music_transformer.max_distance is 0", "expected 1 or more"]),
    ("scalar_bias", dict(max_distance=0), ["scalar_bias.max_distance is 0", "expected 1 or more"]),
    (
        "deberta",
        dict(buckets=2),
        ["deberta.buckets is 2", "max_distance 512", "expected an even number of buckets, 4 or more"],
    ),
    ("deberta", dict(buckets=7), ["deberta.buckets is 7", "expected an even number of buckets"]),
    ("deberta", dict(max_distance=129), ["max_distance 129", "less than 2 (max_distance - 1)"]),
    ("irpe", dict(alpha=0), ["irpe has alpha 0, beta 16, gamma 64", "expected 1 <= alpha < beta, gamma"]),
    ("irpe", dict(alpha=16), ["irpe has alpha 16, beta 16, gamma 64", "expected 1 <= alpha < beta, gamma"]),
    ("irpe", dict(gamma=8), ["gamma 8", "expected 1 <= alpha < beta, gamma"]),
    ("irpe", dict(on=()), ["irpe.on is ()", "expected some of q, k and (contextual only) v, once"]),
    ("irpe", dict(on=("k", "k")), ["irpe.on is ('k', 'k')", "once"]),
    ("irpe", dict(on=("v",), mode="bias"), ["irpe.on is ('v',)", "mode 'bias'", "(contextual only) v"]),
    ("t5", dict(buckets=1), ["t5.buckets is 1", "expected 2 or more"]),
    ("t5", dict(max_distance=16), ["t5.max_distance is 16", "expected more than the 16 distances", "buckets is 32"]),
    ("fire", dict(hidden=0), ["fire has hidden 0", "expected numbers above 0"]),
    ("fire", dict(c=0.0), ["c 0.0", "expected numbers above 0"]),
    ("fire", dict(threshold=-1.0), ["threshold -1.0", "expected numbers above 0"]),
    ("cope", dict(max_position=1), ["cope.max_position is 1", "expected 2 or more rows"]),
    ("mlp_bias", dict(hidden=0), ["mlp_bias.hidden is 0", "expected 1 or more"]),
    ("dape", dict(hidden=0), ["dape.hidden is 0", "expected 1 or more"]),
    ("dape", dict(of="rope"), ["dape.of is RoPE", "expected one that adds a bias", "kerple"]),
    ("dape", dict(of="irpe"), ["dape.of is IRPE", "expected one that adds a bias", "kerple"]),
    ("dape", dict(of="keprle"), ["Unknown encoding 'keprle'", "Did you mean 'kerple'?"]),
    ("dape", dict(of="dape"), ["dape.of leads back to dape", "cannot be part of itself"]),
    ("chain", dict(of=("rope",)), ["chain.of names 1 encodings", "expected two or more"]),
    ("chain", dict(of=()), ["chain.of names 0 encodings", "expected two or more"]),
    ("chain", dict(of=("rope", "chain")), ["chain.of leads back to chain"]),
    ("chain", dict(of=("rope", 3)), ["chain.of is ", "3", "expected a tuple, each item a string or a built Encoding"]),
    ("chain", dict(of=("rope", "shwa")), ["Unknown encoding 'shwa'"]),
]


@pytest.mark.parametrize(("name", "options", "fragments"), BY_NAME, ids=lambda value: str(value)[:60])
def test_an_encoding_that_cannot_be_built_says_why(name, options, fragments):
    options = {"rngs": nnx.Rngs(0)} | {key: value for key, value in options.items() if key != "rngs"}
    refused(lambda: make(name, **SIZES, **options), *fragments)


CAUSAL = sorted(name for name, cls in ENCODINGS.items() if cls.causal_only)


def test_there_are_encodings_for_causal_models_only():
    assert CAUSAL == ["cable", "cope", "fox", "stick_breaking", "xpos"]


@pytest.mark.parametrize("name", CAUSAL)
def test_an_encoding_for_causal_models_is_not_built_for_others(name):
    refused(
        lambda: make(name, bidirectional=True, rngs=nnx.Rngs(0), **SIZES),
        f"{name} is for causal models only", "the model is bidirectional", "Use a decoder",
    )  # fmt: skip


def test_a_part_for_causal_models_is_not_built_for_others():
    refused(lambda: make("chain", of=("rope", "xpos"), bidirectional=True, **SIZES), "xpos is for causal models only")


def test_parts_that_contain_each_other_are_refused():
    parts = {"dape": {"of": "chain"}, "chain": {"of": ("rope", "dape")}}
    for name in parts:
        refused(lambda name=name: make(name, parts=parts, rngs=nnx.Rngs(0), **SIZES, **parts[name]), f"{name}.of leads")


@pytest.mark.parametrize("buckets", [2, 3, 7, 9])
def test_t5_in_two_directions_needs_an_even_number_of_buckets(buckets):
    fragments = f"t5.buckets is {buckets}", "expected an even number from 4 on"
    refused(lambda: make("t5", buckets=buckets, bidirectional=True, rngs=nnx.Rngs(0), **SIZES), *fragments)


@pytest.mark.parametrize("name", ["sinusoidal", "transformer_xl"])
def test_an_odd_width_has_no_pairs(name):
    odd = dict(SIZES, width=15)
    refused(
        lambda: make(name, rngs=nnx.Rngs(0), **odd), f"{name} needs an even width", "it is 15" if "xl" in name else "15"
    )


@pytest.mark.parametrize("name", ["rope", "xpos"])
def test_an_odd_head_has_no_pairs(name):
    refused(lambda: make(name, **dict(SIZES, head_dim=7)), name, "7", "pairs", "Change the")


@pytest.mark.parametrize("name", sorted(ENCODINGS))
def test_trained_numbers_need_a_seed_and_others_none(name):
    trained = make(name, rngs=nnx.Rngs(0), **SIZES)
    if jax.tree.leaves(nnx.state(trained, nnx.Param)):
        refused(lambda: make(name, **SIZES), "trained parameters", "pass rngs=nnx.Rngs(seed)")
    else:
        make(name, **SIZES)


@pytest.mark.parametrize(
    ("build", "fragments"),
    [
        (lambda: ENCODINGS["dape"](2), ["dape.of is 'kerple'", "posenc.make builds encodings from names"]),
        (lambda: ENCODINGS["chain"](), ["chain.of is ('learned', 'fire')", "posenc.make builds encodings from names"]),
        (lambda: ENCODINGS["chain"]((ENCODINGS["rope"](), "t5")), ["'t5'", "Chain takes built ones"]),
        (lambda: ENCODINGS["chain"]((ENCODINGS["rope"](),) * 2), ["names 2 encodings", "two or more, each once"]),
        (lambda: ENCODINGS["chain"]((ENCODINGS["rope"](),) * 3), ["names 3 encodings", "two or more, each once"]),
        (
            lambda: ENCODINGS["chain"]((ENCODINGS["stick_breaking"](), ENCODINGS["stick_breaking"]())),
            ["chain.of is ", "StickBreaking", "more than one of them replaces the softmax", "Keep one of these"],
        ),
        (
            lambda: ENCODINGS["dape"](2, of=ENCODINGS["stick_breaking"](), rngs=nnx.Rngs(0)),
            ["dape.of is StickBreaking", "expected one that adds a bias"],
        ),
        (lambda: ENCODINGS["alibi"](0), ["built for 0 heads", "expected 1 or more"]),
        (lambda: Scaling("linear", 0.5, 512, 0, (), "turns"), ["rope.factor is 0.5", "expected 1 or more"]),
        (lambda: make_layers((), 2, **SIZES), ["pattern of encodings is empty", "name at least one"]),
        (lambda: make_layers(("rope", "rpoe"), 2, **SIZES), ["Unknown encoding 'rpoe'", "Did you mean 'rope'?"]),
        (
            lambda: make_layers("learned", 2, share=False, rngs=nnx.Rngs(0), **SIZES),
            ["learned acts on the embeddings, once", "layers cannot have one each", "Leave share unset"],
        ),
        (
            lambda: make_layers("chain", 1, share=False, rngs=nnx.Rngs(0), **SIZES),
            ["chain acts on the embeddings, once", "Leave share unset"],
        ),
        (
            lambda: make_layers("rope", 2, options={"rope": {"base": 0.0}}, **SIZES),
            ["rope.base is 0.0", "expected a number above 1"],
        ),
        (
            lambda: Transformer(5, 16, 2, 2, [make("none", **SIZES)] * 3, rngs=nnx.Rngs(0)),
            ["3 encodings for 2 layers", "expected one for all, or one for each layer"],
        ),
        (
            lambda: Transformer(5, 16, 1, 2, make("xpos", **SIZES), causal=False, rngs=nnx.Rngs(0)),
            ["XPos is for causal models only", "the model is bidirectional"],
        ),
        (
            lambda: Transformer(5, 16, 1, 2, make("t5", rngs=nnx.Rngs(0), **SIZES), causal=False, rngs=nnx.Rngs(0)),
            ["T5 was built with bidirectional=False", "the model is bidirectional"],
        ),
        (lambda: Attention(16, 3, rngs=nnx.Rngs(0)), ["3 heads cannot share a width of 16", "Change the width"]),
        (lambda: Attention(16, 0, rngs=nnx.Rngs(0)), ["0 heads cannot share a width of 16", "Change the width"]),
        (
            lambda: SCHEMES["randomized"](8).bounds(9),
            ["randomized.max_position is 8", "9 tokens", "Set max_position to 9"],
        ),
        (lambda: SCHEMES["skipped"](target=8).bounds(9), ["skipped.target is 8", "9 tokens", "Set target to 9"]),
        (
            lambda: SCHEMES["coupled"](max_position=8).bounds(9),
            ["max_position is 8", "9 different ids", "Set max_posi"],
        ),
        (lambda: SCHEMES["skipped"](chunks=0), ["skipped has chunks 0", "1 or more"]),
        (lambda: SCHEMES["offset"](-1), ["offset.max_offset is -1", "0 or more"]),
        (lambda: SCHEMES["digits"](-1), ["digits.max_start is -1", "0 or more"]),
        (lambda: SCHEMES["grid"](0), ["grid.columns is 0", "1 or more"]),
        (lambda: SCHEMES["augmented"](scale=0.5), ["augmented has", "scale 0.5", "a scale of 1 or more"]),
        (lambda: SCHEMES["augmented"](local_shift=-1.0), ["local_shift -1.0", "shifts of 0 or more"]),
    ],
)
def test_what_does_not_fit_together_says_so(build, fragments):
    refused(build, *fragments)


@pytest.mark.parametrize(
    ("read", "shape", "fragments"),
    [
        (Positions.of, (), ["shape ()", "expected [tokens] or [1 or batch, tokens]"]),
        (Positions.of, (1, 3, 2), ["shape (1, 3, 2)", "expected [tokens] or [1 or batch, tokens]", "axial_rope alone"]),
        (Positions.of, (1, 1, 3, 2), ["shape (1, 1, 3, 2)", "expected [tokens] or [1 or batch, tokens]"]),
        (Positions.grid, (), ["shape ()", "expected [tokens] or [1 or batch, tokens]"]),
        (Positions.grid, (1, 1, 3, 2), ["shape (1, 1, 3, 2)", "expected [tokens] or [1 or batch, tokens]"]),
    ],
)
def test_positions_of_another_shape_are_refused(read, shape, fragments):
    for positions in (jnp.zeros(shape, int), np.zeros(shape, int), Positions(jnp.zeros(shape, int))):
        refused(lambda positions=positions: read(positions), *fragments)


@pytest.mark.parametrize("read", [Positions.of, Positions.grid])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "complex64"])
def test_positions_of_another_kind_are_refused(read, dtype):
    with pytest.raises(TypeError, match=f"positions are {dtype}; expected whole numbers or float32. Convert them"):
        read(jnp.zeros(3, dtype))


@pytest.mark.parametrize(("shape", "axes"), [((1, 4, 1, 7), 1), ((1, 4, 1, 6), 2), ((1, 4, 1, 8), 3)])
def test_axial_rope_needs_pairs_for_each_axis(shape, axes):
    x, grid = jnp.ones(shape), jnp.zeros((1, 4, axes), int)
    fragments = f"{axes} axes", f"a head has {shape[-1]}", f"Expected a multiple of {2 * axes}"
    refused(lambda: ENCODINGS["axial_rope"]().queries_keys(x, x, grid, grid), *fragments)


@pytest.mark.parametrize("name", ["rope", "xpos"])
def test_an_odd_head_met_only_in_use_is_refused_too(name):
    x, positions = jnp.ones((1, 4, 1, 7)), jnp.arange(4)
    refused(lambda: ENCODINGS[name]().queries_keys(x, x, positions, positions), name, "7", "pairs")


@pytest.mark.parametrize("name", sorted(set(ENCODINGS) - {"axial_rope", "none", "stick_breaking"}))
def test_grids_are_refused_by_all_that_read_lines(name):
    encoding = make(name, rngs=nnx.Rngs(0), **SIZES)
    x, q, grid = jnp.ones((1, 4, 16)), jnp.ones((1, 4, 2, 8)), jnp.zeros((1, 4, 2), int)

    def use():
        encoding.embeddings(x, grid)
        encoding.queries_keys(q, q, grid, grid)
        encoding.bias(grid, grid)
        encoding.logits(jnp.zeros((1, 2, 4, 4)), q, q, grid, grid, jnp.ones((1, 1, 4, 4), bool))

    if encoding.kind == "blind":
        use()
    else:
        refused(use, "shape (1, 4, 2)", "axial_rope alone reads grids")
