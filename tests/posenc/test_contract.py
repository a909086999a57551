"""The contract over the whole table; and for each of its rules an encoding that breaks it, to see the rule catch it."""

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from posenc import ENCODINGS, Encoding, options_of
from posenc.encodings.base import parameter
from posenc.positions import Positions, distance
from posenc.testing import RULES, Case, ContractError, check_encoding

OPTIONS = {  # besides the defaults
    "sinusoidal": [dict(layout="halves", learned_scale=True)],
    "shaw": [dict(r_min=-2, r_max=3), dict(values=False)],
    "t5": [dict(buckets=8, max_distance=20)],
    "rope": [
        dict(layout="interleaved", fraction=0.5, keep=0.5),
        dict(scaling="yarn", factor=4.0, original=64, ramp="pairs"),
        dict(scaling="longrope", factor=4.0, rescale=(1.0, 1.5, 2.0, 4.0), start=4),
    ],
    "one_hot": [dict(max_position=12, combine="add")],
    "deberta": [dict(max_distance=20, buckets=16)],
    "tupe": [dict(relative=False)],
    "irpe": [dict(on=("q", "k", "v")), dict(mode="bias", on=("q", "k"))],
    "alibi": [dict(slopes="learned", encoder="asymmetric")],
    "kerple": [dict(kernel="power")],
    "mlp_bias": [dict(log=True)],
    "dape": [dict(of=ENCODINGS["alibi"](2))],
    "chain": [dict(of=("rope", "t5")), dict(of=("rope", "shaw")), dict(of=("sinusoidal", "t5", "fourier"))],
}
OTHERS = {  # values that cannot be guessed
    "rope": dict(rescale=(1.0, 2.0, 3.0, 4.0)),
    "irpe": dict(on=("q",)),
    "dape": dict(of="fire"),
    "chain": dict(of=("index", "rope")),
}
CASES = [(name, options, False) for name in ENCODINGS for options in ({}, *OPTIONS.get(name, []))]
CASES += [(name, {}, True) for name in ENCODINGS if not ENCODINGS[name].causal_only]


@pytest.mark.parametrize(("name", "options", "bidirectional"), CASES, ids=str)
def test_every_encoding_keeps_the_contract(name, options, bidirectional):
    assert check_encoding(ENCODINGS[name], bidirectional=bidirectional, others=OTHERS.get(name), **options) == list(
        RULES
    )


@pytest.mark.parametrize("name", ENCODINGS)
def test_options_are_annotated_so_that_they_can_be_checked(name):
    annotated = ENCODINGS[name].__init__.__annotations__
    assert set(options_of(ENCODINGS[name])) <= set(annotated)


class Leaky(Encoding):
    """Each query also sees the key after it, whatever is visible."""

    kind = "relative"

    def weights(self, logits, visible):
        return jax.nn.softmax(logits, where=visible | jnp.roll(visible, 1, axis=-1))

    def bias(self, q_positions, k_positions):
        r = distance(q_positions, k_positions)[:, None]
        return jnp.broadcast_to(-jnp.abs(r).astype(jnp.float32), (r.shape[0], 2, *r.shape[2:]))


class Wide(Encoding):
    """Turns bfloat16 into float32."""

    kind = "absolute"

    def embeddings(self, x, positions):
        return x + jnp.sin(Positions.of(positions).values.astype(jnp.float32))[..., None]


class Mislabelled(Encoding):
    """Says relative, and is absolute."""

    kind = "relative"

    def embeddings(self, x, positions):
        return x + jnp.sin(Positions.of(positions).values.astype(x.dtype))[..., None]


class Poisoned(Encoding):
    """Sums over all keys, padding too."""

    kind = "blind"

    def values(self, out, weights, v, q_positions, k_positions):
        return out + jnp.mean(v, axis=1, keepdims=True)[..., : out.shape[-1]]


class Rowwise(Encoding):
    """Counts query rows instead of reading positions."""

    kind = "blind"

    def queries_keys(self, q, k, q_positions, k_positions):
        return q * jnp.arange(q.shape[1], dtype=q.dtype)[None, :, None, None], k


class Promised(Encoding):
    """Takes another road where positions are consecutive, and ends up elsewhere."""

    kind = "relative"

    def bias(self, q_positions, k_positions):
        r = distance(q_positions, k_positions)[:, None].astype(jnp.float32)
        r = r * (2 if isinstance(q_positions, Positions) and q_positions.consecutive else 1)
        return jnp.broadcast_to(-r, (r.shape[0], 2, *r.shape[2:]))


class Dead(Encoding):
    """Has a parameter that nothing reads, and an option that changes nothing."""

    kind = "blind"

    def __init__(self, width, *, strength: float = 1.0, rngs=None):
        self.unused = parameter(rngs, nnx.initializers.normal(), (width,), jnp.float32)


class Clamped(Encoding):
    """A table that is read past its end as JAX reads it: the last row again."""

    kind = "absolute"
    limit = 50

    def __init__(self, width, *, rngs=None):
        self.rows = parameter(rngs, nnx.initializers.normal(), (50, width), jnp.float32)

    def embeddings(self, x, positions):
        return x + self.rows[...][Positions.of(positions).values.astype(jnp.int32)].astype(x.dtype)


class Impatient(Encoding):
    """Looks at the numbers, which a compiled program does not have."""

    kind = "relative"

    def bias(self, q_positions, k_positions):
        r = distance(q_positions, k_positions)[:, None].astype(jnp.float32)
        return jnp.broadcast_to(-r if float(r.max()) < 1e9 else r, (r.shape[0], 2, *r.shape[2:]))


class Noisy(Encoding):
    """Counts its calls, and draws from them."""

    kind = "blind"

    def __init__(self, *, rngs=None):
        self.calls = nnx.BatchStat(jnp.zeros(()))

    def logits(self, logits, q, k, q_positions, k_positions, visible):
        self.calls[...] += 1
        return logits * (1 + 0.1 * self.calls[...])


FAULTS = {
    "hooks_keep_shape_and_dtype": Wide,
    "kind_is_as_declared": Mislabelled,
    "nothing_ahead_is_seen": Leaky,
    "padding_changes_nothing": Poisoned,
    "one_query_gives_its_row": Rowwise,
    "consecutive_is_only_a_promise": Promised,
    "every_parameter_gets_a_gradient": Dead,
    "every_option_changes_the_output": Dead,
    "past_its_limit_is_nan": Clamped,
    "compiled_is_the_same": Impatient,
    "calls_leave_no_trace": Noisy,
}


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_catches_an_encoding_that_breaks_it(rule):
    with pytest.raises((ContractError, jax.errors.JAXTypeError)):
        RULES[rule](Case(FAULTS[rule]))


def test_the_verdict_lists_every_broken_rule():
    with pytest.raises(ContractError) as error:
        check_encoding(Dead)
    for rule in ("every_parameter_gets_a_gradient: ", "every_option_changes_the_output: strength changes nothing"):
        assert rule in str(error.value)
    assert "Dead breaks 2 of 11 rules" in str(error.value)


def test_an_option_whose_other_value_cannot_be_guessed_is_asked_for():
    class Named(Encoding):
        kind = "blind"

        def __init__(self, *, of: str = "kerple", rngs=None):
            self.of = of

    with pytest.raises(ContractError, match="name another value of of"):
        RULES["every_option_changes_the_output"](Case(Named))
