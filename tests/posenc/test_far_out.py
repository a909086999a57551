"""Numbers that hold far out: at a million, and wherever a model that was never there may be asked to look."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from posenc import ENCODINGS, Encoding, Positions, attend, make
from posenc.encodings.phase import angles, geometric
from posenc.testing import HEAD_DIM, HEADS, WIDTH, Case

MILLION = 1_000_000
FREQUENCIES = np.concatenate([geometric(64, 1e4), [0.0, np.pi, 7.5, 100.0]])  # also more than a turn a position
SIZE = np.maximum(1, FREQUENCIES)  # float64 has no more digits of such an angle
# As users compile, unlike the other tests: an optimiser that reorders such sums would be seen here.
OPTIMISED = {"xla_backend_optimization_level": 3, "xla_llvm_disable_expensive_passes": False,
             "xla_cpu_use_fusion_emitters": True}  # fmt: skip
RANDOM = np.random.default_rng(0).integers(-(2**31), 2**31, 200)
WHOLE = np.concatenate(
    [
        MILLION + np.arange(-20, 21),
        -MILLION + np.arange(-20, 21),
        [0, 1, -1, 511, 2**16, 2**16 - 1, -(2**16), 2**24 - 1, 2**24 + 1, -(2**24) - 1, 2**31 - 1, 1 - 2**31, -(2**31)],
        RANDOM,
        RANDOM % 4_000_000,
    ]
)
FRACTIONAL = np.concatenate(
    [
        [0.1, -0.1, 0.5, 511.7, -3.2, 2.0**23 + 0.5, -(2.0**23) - 0.5],
        MILLION + np.arange(-10, 10) / 16,
        -MILLION + np.arange(-10, 10) / 16,
        np.random.default_rng(1).uniform(-3e6, 3e6, 200),
    ]
)
REAL = np.float32(np.concatenate([FRACTIONAL, [MILLION, -MILLION, 2**24, 2**31 - 128, 128 - 2**31]]))


def exact(positions, frequencies=FREQUENCIES):
    """Cosine and sine of each position and frequency, with all the digits there are."""
    at = np.asarray(positions, np.longdouble)[..., None] * np.asarray(frequencies, np.longdouble)
    return np.cos(at), np.sin(at)


def close(found, expected, atol):
    np.testing.assert_allclose(np.asarray(found, np.float64), np.asarray(expected, np.float64), rtol=0, atol=atol)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


class Open(Encoding):
    """Another encoding, seen through: its logits are the weights, and nothing is done to the values."""

    kind = "blind"

    def __init__(self, inner):
        self.inner = inner

    def queries_keys(self, *given):
        return self.inner.queries_keys(*given)

    def bias(self, *given):
        return self.inner.bias(*given)

    def logits(self, *given):
        return self.inner.logits(*given)

    def weights(self, logits, visible):
        return logits


def logits_of(encoding, q, k, q_positions, k_positions, causal=True, **totals):
    """The logits that attention has in its hands before the softmax, ``[b, h, q, k]``; those of visible pairs."""
    q, k = jnp.asarray(q), jnp.asarray(k)
    tokens, heads = k.shape[1:3]
    seen = np.tri(q.shape[1], tokens, tokens - q.shape[1], bool) if causal else np.ones((q.shape[1], tokens), bool)
    axes = jnp.broadcast_to(jnp.eye(tokens)[None, :, None], (len(k), tokens, heads, tokens))
    out = attend(Open(encoding), q, k, axes, q_positions, k_positions, jnp.asarray(seen)[None, None], **totals)
    return np.where(seen, np.moveaxis(np.asarray(out), 2, 1), 0)


@pytest.mark.parametrize("how", ["eager", "compiled", "vectorised"])
@pytest.mark.parametrize("positions", [WHOLE.astype(np.int32), REAL], ids=["whole", "real"])
def test_angles_are_exact_wherever_a_position_lies(positions, how):
    def waves(positions):
        at = angles(positions, FREQUENCIES)
        return jnp.cos(at), jnp.sin(at)

    compiled = functools.partial(jax.jit, compiler_options=OPTIMISED)
    run = {"eager": waves, "compiled": compiled(waves), "vectorised": compiled(jax.vmap(waves))}[how]
    for found, expected in zip(run(jnp.asarray(positions)), exact(positions), strict=True):
        assert found.dtype == jnp.float32
        assert (np.abs(np.asarray(found) - expected) <= SIZE * 1e-6).all()


def test_angles_of_constant_positions_inside_a_program_are_exact_too():
    def waves():
        return jnp.cos(angles(jnp.arange(MILLION, MILLION + 64), FREQUENCIES[:-2]))

    found = jax.jit(waves, compiler_options=OPTIMISED)()
    close(found, exact(MILLION + np.arange(64), FREQUENCIES[:-2])[0], 1e-6)


@pytest.mark.parametrize("real", [False, True], ids=["whole", "real"])
def test_angles_in_float64_are_exact_to_nine_digits_at_a_million(real):
    positions = FRACTIONAL if real else WHOLE
    positions = positions[np.abs(positions) <= MILLION + 20]
    with jax.enable_x64(True):
        at = angles(jnp.asarray(positions), FREQUENCIES[:-2], jnp.float64)
        assert at.dtype == jnp.float64
        for found, expected in zip((jnp.cos(at), jnp.sin(at)), exact(positions, FREQUENCIES[:-2]), strict=True):
            close(found, expected, 5e-10)


def test_angles_of_plain_float32_would_not_pass():
    plain = np.float32(MILLION + np.arange(64))[:, None] * FREQUENCIES.astype(np.float32)
    assert np.abs(np.cos(plain.astype(np.float64)) - exact(MILLION + np.arange(64))[0]).max() > 1e-3


@pytest.mark.parametrize("far", [2.0**31, -(2.0**31), 3e9, -1e20, np.inf, -np.inf, np.nan])
def test_angles_of_real_positions_beyond_all_whole_numbers_are_nan(far):
    assert np.isnan(angles(jnp.asarray([far], jnp.float32), FREQUENCIES)).all()
    assert np.isfinite(angles(jnp.asarray([2.0**31 - 128, 128 - 2.0**31], jnp.float32), FREQUENCIES)).all()


@pytest.mark.parametrize("far", [2**32 + 5, -(2**32) - 5, 2**40])
def test_angles_of_whole_positions_of_64_bits_are_right_or_nan(far):
    with jax.enable_x64(True):
        found = np.asarray(jnp.cos(angles(jnp.asarray([far]), FREQUENCIES[:32], jnp.float64)))
    expected = exact([far], FREQUENCIES[:32])[0]
    assert (np.isnan(found) | (np.abs(found - expected) < 1e-3)).all()


@pytest.mark.parametrize("name", ["learned", "one_hot", "tupe"])
def test_what_lies_past_a_table_is_nan_however_far(name):
    encoding = make(name, width=WIDTH, heads=HEADS, head_dim=HEAD_DIM, rngs=nnx.Rngs(0))
    at = np.asarray([0, 511, 512, MILLION, 2**31 - 1, -1, -512, -MILLION], np.int32)
    for positions in (at, np.float32(np.where(np.abs(at) > 2**30, 1e9, at))):
        embedded = encoding.embeddings(jnp.ones((1, len(at), WIDTH)), positions)[0]
        rows = encoding.bias(positions, at[:1])[0, 0] if name == "tupe" else embedded
        assert np.isfinite(rows[:2]).all() and np.isnan(rows[2:]).all()


@pytest.mark.parametrize("position", [0.0, 3.25, -7.5, MILLION + 0.5, -MILLION - 0.25, float(MILLION)])
def test_angles_grow_with_a_real_position_by_their_frequency(position):
    slopes = jax.jacobian(lambda p: angles(p, FREQUENCIES))(jnp.float32(position))
    np.testing.assert_allclose(slopes, FREQUENCIES, rtol=1e-6)
    cosines = jax.jacobian(lambda p: jnp.cos(angles(p, FREQUENCIES)))(jnp.float32(position))
    np.testing.assert_allclose(cosines, -FREQUENCIES * exact(position)[1].astype(float), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("positions", [WHOLE[:90].astype(np.int32), REAL], ids=["whole", "real"])
def test_sinusoidal_is_exact_far_out(positions, layout):
    sinusoidal = ENCODINGS["sinusoidal"](64, layout=layout)
    cos, sin = exact(positions, 1e4 ** (-np.arange(32) / 32))
    expected = np.concatenate([sin, cos], -1) if layout == "halves" else np.stack([sin, cos], -1).reshape(-1, 64)
    close(sinusoidal.table(positions)[0], expected, 1e-6)
    close(sinusoidal.embeddings(jnp.zeros((1, len(positions), 64)), positions)[0], expected, 1e-6)


SCALINGS = {
    "plain": {},
    "base": dict(base=500_000.0),
    "part": dict(fraction=0.5),
    "keep": dict(keep=0.75),
    "linear": dict(scaling="linear", factor=7.0),
    "ntk": dict(scaling="ntk", factor=7.0),
    "dynamic_ntk": dict(scaling="dynamic_ntk", factor=7.0, original=128, length=2048),
    "yarn": dict(scaling="yarn", factor=7.0),
    "yarn by pairs": dict(scaling="yarn", factor=7.0, ramp="pairs"),
    "llama3": dict(scaling="llama3", factor=7.0),
    "longrope": dict(scaling="longrope", factor=7.0, rescale=tuple(1 + np.arange(32) / 8)),
    "longrope from 8 on": dict(scaling="longrope", factor=7.0, rescale=tuple(1 + np.arange(32) / 8), start=8),
}


def pairs_of(x, layout):
    """Pairs of channels as complex numbers, in float64."""
    x = np.asarray(x, np.float64)
    half = x.shape[-1] // 2
    return x[..., :half] + 1j * x[..., half:] if layout == "halves" else x[..., 0::2] + 1j * x[..., 1::2]


def channels_of(pairs, layout):
    parts = [pairs.real, pairs.imag]
    return np.concatenate(parts, -1) if layout == "halves" else np.stack(parts, -1).reshape(*pairs.shape[:-1], -1)


def frequencies_of(rope, head_dim):
    """Radians a position of each pair that is turned, in float64."""
    plain = geometric(rope.turned_channels(head_dim), rope.base)
    return rope.scaling.frequencies(plain) * (np.arange(len(plain)) < int(rope.keep * len(plain)))


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
@pytest.mark.parametrize("scaling", SCALINGS)
def test_rope_turns_exactly_far_out(scaling, layout):
    rope = ENCODINGS["rope"](64, layout=layout, **SCALINGS[scaling])
    positions = np.asarray([0, 5, 9, MILLION, MILLION + 1, -MILLION, 2**24 + 1, 2**31 - 1], np.int32)
    x = normal(1, len(positions), 2, 64).astype(np.float32)
    frequencies, turned = frequencies_of(rope, 64), rope.turned_channels(64)
    at = np.tile(frequencies, (len(positions), 1))
    if rope.start:
        at[positions < rope.start] = geometric(turned, rope.base)
    at = at * positions[:, None]
    pairs = pairs_of(x[..., :turned], layout) * np.exp(1j * at)[None, :, None] * rope.scaling.attention
    expected = np.concatenate([channels_of(pairs, layout), x[..., turned:]], -1)
    for found in rope.queries_keys(jnp.asarray(x), jnp.asarray(x), positions, positions):
        close(found, expected, 5e-6)  # numbers up to 4


FAR = MILLION + np.asarray([0, 1, 2, 3, 5, 8, 40, 170], np.int32)
Q, K = (jnp.asarray(normal(2, len(FAR), 2, 64, seed=seed), jnp.float32) for seed in (1, 2))
NEAR = (FAR[:, None] - FAR).astype(np.float64)


def products(q, k, turns, layout):
    """sum of Re(q k* e^(j at)) over pairs over the root of 64; `turns` of shape ``[q, k, i]``."""
    return np.einsum("bqhi,bkhi,qki->bhqk", pairs_of(q, layout), pairs_of(k, layout).conj(), turns).real / 8


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
@pytest.mark.parametrize("scaling", [name for name in SCALINGS if "on" not in name.split()])
def test_rope_logits_at_a_million_are_those_of_the_distance(scaling, layout):
    rope = ENCODINGS["rope"](64, layout=layout, **SCALINGS[scaling])
    turned = rope.turned_channels(64)
    turns = np.exp(1j * NEAR[..., None] * frequencies_of(rope, 64)) * rope.scaling.attention**2
    expected = products(Q[..., :turned], K[..., :turned], turns, layout)
    rest = (np.asarray(x[..., turned:], np.float64) for x in (Q, K))
    expected += np.einsum("bqhd,bkhd->bhqk", *rest) / 8
    assert 1 < expected.std() * np.sqrt(2) < 3
    close(logits_of(rope, Q, K, FAR, FAR, causal=False), expected, 1e-5)


@pytest.mark.parametrize("options", [{}, dict(base=100.0, scale_base=64.0, gamma=1.0)], ids=str)
def test_xpos_logits_at_a_million_are_those_of_the_distance(options):
    said = dict(base=1e4, scale_base=512.0, gamma=0.4) | options
    zeta = (np.arange(32) / 32 + said["gamma"]) / (1 + said["gamma"])
    r = NEAR[..., None]
    turns = zeta ** (r / said["scale_base"]) * np.exp(1j * r * said["base"] ** (-np.arange(32) / 32))
    expected = products(Q, K, turns, "interleaved")
    for at in (FAR, FAR - 2 * MILLION):
        found = logits_of(ENCODINGS["xpos"](64, **options), Q, K, at, at)
        close(found, np.where(NEAR >= 0, expected, 0), 1e-5)


def test_axial_rope_logits_at_a_million_are_those_of_the_distances_on_each_axis():
    grid = np.stack([FAR, -MILLION - 3 * FAR % 17], axis=-1).astype(np.int32)
    r = (grid[:, None] - grid).astype(np.float64)  # q k axes
    turns = np.exp(1j * r[..., None] * 1e4 ** (-np.arange(16) / 16)).reshape(*r.shape[:2], 32)
    found = logits_of(ENCODINGS["axial_rope"](), Q, K, grid[None], grid[None], causal=False)
    close(found, products(Q, K, turns, "interleaved"), 1e-5)
    turns = np.exp(1j * NEAR[..., None] * 1e4 ** (-np.arange(32) / 32))
    found = logits_of(ENCODINGS["axial_rope"](), Q, K, FAR, FAR, causal=False)
    close(found, products(Q, K, turns, "interleaved"), 1e-5)


@pytest.mark.parametrize("consecutive", [False, True])
@pytest.mark.parametrize("start", [0, MILLION, -MILLION, 2**24 + 1])
def test_transformer_xl_logits_far_out_are_those_of_the_distance(start, consecutive):
    xl = ENCODINGS["transformer_xl"](64, 2, 64, init=nnx.initializers.normal(0.1), rngs=nnx.Rngs(0))
    at = start + np.arange(len(FAR))
    r = (at[:, None] - at).astype(np.float64)[..., None] * 1e4 ** (-np.arange(32) / 32)
    waves = np.concatenate([np.sin(r), np.cos(r)], axis=-1)
    w, u, v = (np.asarray(each[...], np.float64) for each in (xl.projection, xl.u, xl.v))
    q, k = (np.asarray(x, np.float64) for x in (Q, K))
    expected = np.einsum("bqhd,bkhd->bhqk", q + u, k) + np.einsum(
        "bqhm,qkm->bhqk", np.einsum("bqhd,mhd->bqhm", q + v, w), waves
    )
    positions = Positions(jnp.asarray(at, jnp.int32), consecutive=consecutive)
    close(logits_of(xl, Q, K, positions, positions, causal=False), expected / 8, 1e-5)


def test_sandwich_is_exact_at_any_distance():
    r = np.asarray([0, 1, -1, 170, 131072, MILLION, -MILLION, 2**24 + 1], np.int32)
    bias = ENCODINGS["sandwich"](4).bias(r, np.zeros(1, np.int32))[0, :, :, 0]
    waves = exact(r, 1e4 ** (-np.arange(64) / 64))[0].sum(-1)
    close(bias, waves / (8 * np.arange(1, 5) / 4)[:, None], 1e-5)


RELATIVE = [
    *((name, {}) for name, cls in ENCODINGS.items() if getattr(cls, "kind", None) == "relative"),
    ("dape", {}),
    ("dape", dict(of="alibi")),
    ("rope", dict(layout="interleaved", fraction=0.5, keep=0.5)),
    ("rope", dict(scaling="yarn", factor=4.0, original=16)),
    ("rope", dict(scaling="dynamic_ntk", factor=4.0, original=16, length=64)),
    ("rope", dict(scaling="longrope", factor=4.0, rescale=(1.0, 1.5, 2.0, 4.0))),
    ("shaw", dict(r_min=-2, r_max=3)),
    ("t5", dict(buckets=8, max_distance=20)),
    ("deberta", dict(max_distance=20, buckets=16, p2c="query_to_key")),
    ("irpe", dict(on=("q", "k", "v"))),
    ("irpe", dict(mode="bias", on=("q", "k"))),
    ("alibi", dict(slopes="learned", encoder="asymmetric")),
    ("kerple", dict(kernel="power")),
    ("mlp_bias", dict(log=True)),
    ("music_transformer", dict(max_distance=5)),
    ("chain", dict(of=("rope", "kerple"))),
    ("chain", dict(of=("xpos", "t5"))),
]


def test_every_encoding_that_is_always_relative_is_held_to_it():
    assert {"rope", "xpos", "transformer_xl", "sandwich", "t5", "shaw", "alibi"} <= {name for name, _ in RELATIVE}
    assert {"chain", "dape"} == {name for name, cls in ENCODINGS.items() if not hasattr(cls, "kind")}


BASES = {
    "in order": Positions(jnp.arange(6), consecutive=True),
    "spread": Positions(jnp.asarray([0, 1, 3, 8, 40, 300])),
    "real": Positions(jnp.asarray([0.25, 1.0, 3.5, 8.75, 40.0, 300.5])),
}


@pytest.mark.parametrize("bidirectional", [False, True], ids=["causal", "bidirectional"])
@pytest.mark.parametrize(("name", "options"), RELATIVE, ids=str)
def test_a_common_shift_changes_no_logit_of_a_relative_encoding(name, options, bidirectional):
    encoding = Case(ENCODINGS[name], options).build()
    assert encoding.kind == "relative"
    if bidirectional and encoding.causal_only:
        pytest.skip("for causal models only")
    encoding = Case(ENCODINGS[name], options, bidirectional).build()
    q, k = (jnp.asarray(normal(2, 6, HEADS, HEAD_DIM, seed=seed), jnp.float32) for seed in (3, 4))
    for manner, base in BASES.items():
        here = logits_of(encoding, q, k, base, base, not bidirectional)
        size = max(1, np.abs(here).max())
        for shift in (1, 17, 512, 8192, 131072):
            moved = Positions(base.values + shift, base.consecutive)
            there = logits_of(encoding, q, k, moved, moved, not bidirectional)
            assert np.abs(there - here).max() < 1e-5 * size, f"{manner}, by {shift}"
        other = Positions(base.values * 2)
        assert np.abs(logits_of(encoding, q, k, other, other, not bidirectional) - here).max() > 1e-3, manner


@pytest.mark.parametrize("name", ["rope", "xpos", "axial_rope"])
@pytest.mark.parametrize("start", [0, 512, 131072, MILLION])
def test_bfloat16_inputs_are_turned_by_exact_angles_and_rounded_once(name, start):
    encoding = ENCODINGS[name]()
    positions = start + np.arange(40, dtype=np.int32)
    x = jnp.asarray(normal(1, 40, 2, 64), jnp.bfloat16)
    layout = "halves" if name == "rope" else "interleaved"
    found = encoding.queries_keys(x, x, positions, positions)[0]
    assert found.dtype == jnp.bfloat16
    turns = np.exp(1j * positions[:, None] * 1e4 ** (-np.arange(32) / 32))
    if name == "xpos":
        zeta = (np.arange(32) / 32 + 0.4) / 1.4
        turns = turns * zeta ** ((positions - positions[19])[:, None] / 512)
    expected = channels_of(pairs_of(x, layout) * turns[None, :, None], layout)
    error = np.abs(np.asarray(found, np.float64) - expected)
    assert (error <= 2.0**-8 * np.abs(expected) + 2e-6).all()  # half the step between neighbours: one rounding


@pytest.mark.parametrize("name", ["sinusoidal", "transformer_xl", "sandwich", "rope"])
def test_positions_of_a_million_are_told_apart_in_bfloat16(name):
    encoding = make(name, width=WIDTH, heads=HEADS, head_dim=HEAD_DIM, rngs=nnx.Rngs(0))
    x, q = jnp.ones((1, 4, WIDTH), jnp.bfloat16), jnp.ones((1, 4, HEADS, HEAD_DIM), jnp.bfloat16)

    def seen(start):
        at = start + np.asarray([0, 1, 2, 4], np.int32)
        return [encoding.embeddings(x, at), logits_of(encoding, q, q, at, at)]

    here, there = (np.concatenate([np.asarray(part, np.float64).ravel() for part in seen(s)]) for s in (0, MILLION))
    if encoding.kind == "relative":
        close(here, there, 2e-2)
    else:
        rows = seen(MILLION)[0][0].astype(jnp.float32)
        assert all(np.abs(rows[i] - rows[j]).max() > 0.05 for i in range(4) for j in range(i))
