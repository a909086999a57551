"""The contract of an encoding, as functions: hold your own encoding to what ours are held to.

    from posenc.testing import check_encoding
    check_encoding(MyEncoding)                       # raises ContractError with all that is wrong
    check_encoding(MyEncoding, bidirectional=True, slope=0.5)

Each rule is a function of a `Case`; RULES lists them by name. Every rule looks at hooks through `posenc.attend` or
calls them directly, in float32, on a few tokens.
"""

import dataclasses
import functools
import itertools
import math
import typing
from collections.abc import Callable, Iterator
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from posenc.attention import Attention, attend
from posenc.building import assemble
from posenc.encodings.base import Encoding
from posenc.options import options_of
from posenc.positions import Positions
from posenc.shapes import Array
from posenc.visibility import visibility

BATCH, TOKENS, WIDTH, HEADS, HEAD_DIM, VALUE_DIM = 2, 6, 12, 2, 8, 6
CLOSE = 2e-5  # float32, on numbers of size 1
KINDS = ("relative", "absolute", "blind")


class ContractError(AssertionError):
    """An encoding breaks rules of the contract; the message lists them."""


@dataclasses.dataclass(frozen=True)
class Case:
    """An encoding class with options and a direction, and the data that rules try it on.

    Args:
        cls: the class.
        options: for its constructor.
        bidirectional: whether queries see keys after them.
        others: for an option, another value to try; where it is missing one is made up from the default.
    """

    cls: type[Encoding]
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    bidirectional: bool = False
    others: dict[str, Any] = dataclasses.field(default_factory=dict)

    def build(self, **options: Any) -> Encoding:
        """The encoding, with parameters far enough from zero that each of them matters."""
        encoding = assemble(
            self.cls, self.cls.__name__, self.options | options, width=WIDTH, heads=HEADS, head_dim=HEAD_DIM,
            value_dim=VALUE_DIM, bidirectional=self.bidirectional, rngs=nnx.Rngs(0),
        )  # fmt: skip
        graph, parameters, rest = _parts(encoding)
        return nnx.merge(graph, jax.tree.map(_away_from_zero, parameters), rest)

    @property
    def visible(self) -> Array:
        return visibility(TOKENS, causal=not self.bidirectional)

    def reach(self, encoding: Encoding) -> int:
        """How far positions are tried: to the end of what the encoding can read."""
        return encoding.limit or 1000

    def position_sets(self, encoding: Encoding) -> dict[str, Array]:
        """Positions of every manner: in order, skipping, from afar, repeated, real, different in each example."""
        end = self.reach(encoding) - 1
        spread = jnp.expm1(jnp.linspace(0, math.log1p(end), TOKENS))  # distances of every size
        return {
            "in order": jnp.arange(TOKENS),
            "skipping": spread.astype(jnp.int32),
            "from afar": end - jnp.arange(TOKENS)[::-1],
            "repeated": jnp.minimum(jnp.arange(TOKENS) // 2 * 3, end),
            "real": jnp.minimum(spread + 0.25, end),
            "of each example": jnp.stack([jnp.arange(TOKENS), spread.astype(jnp.int32)]),
        }


def check_encoding(
    cls: type[Encoding],
    *,
    bidirectional: bool = False,
    others: dict[str, Any] | None = None,
    **options: Any,
) -> list[str]:
    """Holds an encoding to the contract.

    Args:
        cls: the class of the encoding. Its constructor may ask for width, heads, head_dim, value_dim, bidirectional
            and rngs; whatever else it takes is an option, and needs a default.
        bidirectional: whether queries see keys after them.
        others: for an option, another value that must change what comes out.
        **options: to build it with.

    Returns:
        The names of the rules, all of which hold.

    Raises:
        ContractError: with every rule that is broken, and how.
        ValueError: an unknown option, or a bidirectional check of an encoding for causal models.
    """
    if bidirectional and cls.causal_only:
        raise ValueError(f"{cls.__name__} says that it is for causal models only: check it with bidirectional=False.")
    case, broken = Case(cls, options, bidirectional, others or {}), []
    for name, rule in RULES.items():
        try:
            rule(case)
        except AssertionError as error:
            broken.append(f"{name}: {error}")
        except Exception as error:  # a hook that fails breaks the rule too
            broken.append(f"{name}: {type(error).__name__}: {error}")
    if broken:
        raise ContractError(f"{cls.__name__} breaks {len(broken)} of {len(RULES)} rules\n" + "\n".join(broken))
    return list(RULES)


def hooks_keep_shape_and_dtype(case: Case) -> None:
    """Every hook gives back the shape and dtype that it was given, in float32 and in bfloat16; logits are float32."""
    encoding = case.build()
    for dtype in (jnp.float32, jnp.bfloat16):
        for manner, positions in case.position_sets(encoding).items():
            x, q, k, v = _data(dtype)
            logits, weights = _logits(), _weights(case)
            pairs = {
                "embeddings": (encoding.embeddings(x, positions), x),
                "queries_keys q": (encoding.queries_keys(q, k, positions, positions)[0], q),
                "queries_keys k": (encoding.queries_keys(q, k, positions, positions)[1], k),
                "logits": (encoding.logits(logits, q, k, positions, positions, case.visible), logits),
                "weights": (encoding.weights(logits, case.visible), logits),
                "values": (encoding.values(v, weights.astype(dtype), v, positions, positions), v),
            }
            for hook, (got, given) in pairs.items():
                _require(
                    got.shape == given.shape and got.dtype == given.dtype,
                    f"{hook}, positions {manner}: gave {got.dtype}{got.shape} for {given.dtype}{given.shape}",
                )
            _check_bias_and_steps(encoding, x, positions, manner)


def _check_bias_and_steps(encoding: Encoding, x: Array, positions: Array, manner: str) -> None:
    bias, steps = encoding.bias(positions, positions), encoding.steps(x, positions)
    lead = 1 if positions.ndim == 1 else BATCH
    for hook, got, shape in (("bias", bias, (lead, HEADS, TOKENS, TOKENS)), ("steps", steps, (BATCH, TOKENS, HEADS))):
        _require(
            got is None or (got.shape == shape and got.dtype == jnp.float32),
            f"{hook}, positions {manner}: expected float32{shape}, got {got}",
        )


def kind_is_as_declared(case: Case) -> None:
    """A blind encoding ignores positions, a relative one a common shift of them, an absolute one neither."""
    encoding = case.build()
    _require(encoding.kind in KINDS, f"kind is {encoding.kind!r}; expected one of {', '.join(KINDS)}")
    base = jnp.arange(TOKENS)
    original = _output(case, encoding, base)
    shifts = [shift for shift in (1, 17, 500) if shift + TOKENS <= case.reach(encoding)]
    shifted = max(_difference(_output(case, encoding, base + shift), original) for shift in shifts)
    moved = max(_difference(_output(case, encoding, other), original) for other in (base * 2, base[::-1]))
    if encoding.kind == "blind":
        _require(
            max(shifted, moved) == 0, f"blind, but other positions changed the output by {max(shifted, moved):.1e}"
        )
    else:
        _require(moved > 1e-3, f"{encoding.kind}, but other distances changed the output by {moved:.1e} only")
    if encoding.kind == "relative":
        _require(shifted < 1e-3, f"relative, but a common shift changed the output by {shifted:.1e}")
    if encoding.kind == "absolute":
        _require(shifted > 1e-3, f"absolute, but a common shift changed the output by {shifted:.1e} only")


def nothing_ahead_is_seen(case: Case) -> None:
    """In a causal model the gradient of an output with respect to a later token is exactly zero."""
    if case.bidirectional:
        return
    encoding, attention = case.build(), _attention()

    def output(x: Array) -> Array:
        return _layer(case, encoding, attention, x, jnp.arange(TOKENS))

    jacobian = jax.jacobian(output)(_data()[0])[0, :, :, 0]  # of example 0: t m t m
    size = jnp.abs(jacobian).sum((1, 3))
    _require(jnp.all(jnp.isfinite(size)), "a gradient is not finite")
    _require(
        jnp.all(jnp.triu(size, 1) == 0), f"tokens ahead reach an output: {np.asarray(jnp.triu(size, 1)).max():.1e}"
    )
    _require(jnp.any(jnp.tril(size, -1) != 0), "no token behind reaches any output")


def padding_changes_nothing(case: Case) -> None:
    """Tokens behind the true length, even NaN, change neither outputs nor gradients of the real ones."""
    encoding, attention, real = case.build(), _attention(), TOKENS - 2
    x = _data()[0]
    short, positions = x[:, :real], jnp.arange(real)
    dirty = x.at[:, real:].set(jnp.nan)
    padded = jnp.minimum(jnp.arange(TOKENS), real - 1)
    visible = visibility(TOKENS, causal=not case.bidirectional, lengths=jnp.array([real]))

    def clean_output(x: Array) -> Array:
        seen = visibility(real, causal=not case.bidirectional)
        return attention(encoding.embeddings(x, positions), positions, encoding, seen)

    def padded_output(x: Array) -> Array:
        return attention(encoding.embeddings(x, padded), padded, encoding, visible)[:, :real]

    for name, of in (("output", lambda f: f), ("gradient", lambda f: jax.grad(lambda x: jnp.sum(f(x) ** 2)))):
        clean, got = of(clean_output)(short), of(padded_output)(dirty)[:, :real]
        _require(_difference(clean, got) < CLOSE, f"the {name} of real tokens changed by {_difference(clean, got):.1e}")


def one_query_gives_its_row(case: Case) -> None:
    """Called with some of the queries and all keys, attention gives those rows of the whole result."""
    encoding = case.build()
    for manner, positions in case.position_sets(encoding).items():
        values = Positions.of(positions).values
        whole = _attend(case, encoding, values, values, case.visible)
        part = _attend(case, encoding, values[:, -2:], values, case.visible[:, :, -2:], queries=2)
        bias = encoding.bias(values, values)
        size = 1 if bias is None else max(1.0, float(jnp.nanmax(jnp.abs(bias))) / 100)  # and so is its rounding
        _require(
            _difference(whole[:, -2:], part) < CLOSE * size,
            f"positions {manner}: the last two queries alone differ by {_difference(whole[:, -2:], part):.1e}",
        )


def consecutive_is_only_a_promise(case: Case) -> None:
    """Positions marked as consecutive give what the same positions give unmarked."""
    encoding = case.build()
    for start in (0, min(7, case.reach(encoding) - TOKENS)):
        values = start + jnp.arange(TOKENS)
        plain, marked = (_output(case, encoding, p) for p in (values, Positions(values[None], consecutive=True)))
        _require(_difference(plain, marked) < CLOSE, f"from {start} on: differ by {_difference(plain, marked):.1e}")


def every_parameter_gets_a_gradient(case: Case) -> None:
    """No parameter is without effect, and all gradients are finite."""
    encoding = case.build()
    graph, parameters, rest = _parts(encoding)
    near_and_far = [case.position_sets(encoding)[manner] for manner in ("in order", "skipping")]

    def loss(parameters: Any) -> Array:
        built = nnx.merge(graph, parameters, rest, copy=True)
        return jnp.stack([jnp.sum(_output(case, built, positions) ** 2) for positions in near_and_far]).sum()

    for path, gradient in jax.tree_util.tree_leaves_with_path(jax.grad(loss)(parameters)):
        name = jax.tree_util.keystr(path)
        _require(jnp.all(jnp.isfinite(gradient)), f"the gradient of {name} is not finite")
        _require(jnp.any(gradient != 0), f"the gradient of {name} is zero everywhere")


def every_option_changes_the_output(case: Case) -> None:
    """Another value of any option gives another output, if need be beside other values of one or two more options.

    An option may depend on others (a factor on a kind of scaling) or on the direction, and values may be refused. What
    may not be is an option that is taken and never changes anything. Where the case sets some options, it is these.
    """
    for option in case.options or options_of(case.cls):
        compared: Encoding | None = None
        for tried, encoding, changed in _pairs(case, option):
            if encoding is not compared:  # one after the other is held against the same encoding
                compared, outputs = encoding, _outputs(tried, encoding)
            if any(not _same(output(), _output(tried, changed, positions)) for positions, output in outputs):
                break
        else:
            _require(compared is None, f"{option} changes nothing")


def past_its_limit_is_nan(case: Case) -> None:
    """What lies past the last position an encoding can read, or before 0, is NaN; up to there all is finite."""
    encoding = case.build()
    for manner, positions in case.position_sets(encoding).items():
        _require(jnp.all(jnp.isfinite(_output(case, encoding, positions))), f"positions {manner}: not finite")
    if encoding.limit is None:
        return
    for outside in (encoding.limit, -1, encoding.limit + 0.5):
        positions = jnp.arange(TOKENS).at[-1].set(0) + jnp.where(jnp.arange(TOKENS) == TOKENS - 1, outside, 0)
        out = _output(case, encoding, positions)
        _require(jnp.all(jnp.isnan(out[:, -1])), f"position {outside} is past the limit, {encoding.limit}, and not NaN")


def compiled_is_the_same(case: Case) -> None:
    """jit changes nothing, and other positions of the same shape need no other program."""
    encoding = case.build()
    traces = []

    @jax.jit
    def compiled(positions: Array) -> Array:
        traces.append(positions.shape)
        return _output(case, encoding, positions)

    for positions in (jnp.arange(TOKENS), jnp.arange(TOKENS) * 2):
        difference = _difference(_output(case, encoding, positions), compiled(positions))
        _require(difference < CLOSE, f"compiled differs by {difference:.1e}")
    _require(len(traces) == 1, f"{len(traces)} programs for one shape of positions")


def calls_leave_no_trace(case: Case) -> None:
    """There is no state but parameters, and a call changes none of them: twice the same call, twice the same bits."""
    encoding = case.build()
    _, parameters, rest = _parts(encoding)
    _require(not jax.tree.leaves(rest), f"it holds more than parameters: {rest}")
    before = jax.tree.leaves(parameters)
    first, second = (_output(case, encoding, jnp.arange(TOKENS)) for _ in range(2))
    _require(_same(first, second), "the same call twice gives different bits")
    after = jax.tree.leaves(_parts(encoding)[1])
    _require(len(before) == len(after) and all(map(_same, before, after)), "a call changed the module's state")


RULES: dict[str, Callable[[Case], None]] = {
    rule.__name__: rule
    for rule in (
        hooks_keep_shape_and_dtype,
        kind_is_as_declared,
        nothing_ahead_is_seen,
        padding_changes_nothing,
        one_query_gives_its_row,
        consecutive_is_only_a_promise,
        every_parameter_gets_a_gradient,
        every_option_changes_the_output,
        past_its_limit_is_nan,
        compiled_is_the_same,
        calls_leave_no_trace,
    )
}


def _require(holds: Any, message: str) -> None:
    if not bool(holds):
        raise ContractError(message)


def _parts(encoding: Encoding) -> tuple[Any, Any, Any]:
    """Structure, parameters, and whatever else it holds."""
    graph, *states = nnx.split(encoding, nnx.Param, ...)
    return graph, states[0], states[1]


def _away_from_zero(parameter: Array) -> Array:
    """The same shape, numbers of size 1, no two alike."""
    noise = jax.random.normal(jax.random.key(parameter.size), parameter.shape, parameter.dtype)
    return parameter + noise


@functools.cache
def _data(dtype: Any = jnp.float32) -> tuple[Array, Array, Array, Array]:
    """x, q, k, v of size 1."""
    shapes = ((WIDTH,), (HEADS, HEAD_DIM), (HEADS, HEAD_DIM), (HEADS, VALUE_DIM))
    with jax.ensure_compile_time_eval():  # numbers to keep, also where a program is being traced
        keys = jax.random.split(jax.random.key(1), len(shapes))
        x, q, k, v = (
            jax.random.normal(key, (BATCH, TOKENS, *shape)).astype(dtype)
            for key, shape in zip(keys, shapes, strict=True)
        )
    return x, q, k, v


def _logits() -> Array:
    return jax.random.normal(jax.random.key(2), (BATCH, HEADS, TOKENS, TOKENS))


def _weights(case: Case) -> Array:
    return jax.nn.softmax(_logits(), where=case.visible)


@functools.cache
def _attention() -> Attention:
    with jax.ensure_compile_time_eval():
        return Attention(WIDTH, HEADS, head_dim=HEAD_DIM, value_dim=VALUE_DIM, rngs=nnx.Rngs(3))


def _layer(case: Case, encoding: Encoding, attention: Attention, x: Array, positions: Any) -> Array:
    return attention(encoding.embeddings(x, positions), positions, encoding, case.visible)


def _output(case: Case, encoding: Encoding, positions: Any) -> Array:
    """Embeddings and one layer of attention: every hook has its say."""
    return _layer(case, encoding, _attention(), _data()[0], positions)


def _outputs(case: Case, encoding: Encoding) -> list[tuple[Array, Callable[[], Array]]]:
    """Positions of some manners, and for each the output, which is computed when it is first asked for."""
    places = case.position_sets(encoding)
    asked = (places[manner] for manner in ("real", "in order", "from afar"))
    return [(at, functools.cache(functools.partial(_output, case, encoding, at))) for at in asked]


def _attend(case: Case, encoding: Encoding, q_positions, k_positions, visible, queries: int = TOKENS) -> Array:
    """Attention without projections, for the last `queries` queries."""
    x, q, k, v = _data()
    steps = encoding.steps(x, k_positions)
    totals = None if steps is None else jnp.cumsum(steps, axis=1)
    return attend(
        encoding, q[:, -queries:], k, v, q_positions, k_positions, visible,
        q_totals=None if totals is None else totals[:, -queries:], k_totals=totals,
    )  # fmt: skip


def _difference(a: Array, b: Array) -> float:
    return math.inf if not bool(jnp.all(jnp.isfinite(a - b))) else float(jnp.abs(a - b).max())


def _same(a: Array, b: Array) -> bool:
    return a.shape == b.shape and np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)


def _pairs(case: Case, option: str) -> Iterator[tuple[Case, Encoding, Encoding]]:
    """Encodings that differ in one option, and the case they are tried in; the simplest first."""
    values = _others(case, option)
    if not values:
        raise ContractError(f"name another value of {option} in others={{{option!r}: ...}}")
    choices = {name: _others(case, name) for name in options_of(case.cls) if name != option}
    words = {name: all(isinstance(value, str | None) for value in values) for name, values in choices.items()}
    singles = [{name: value} for name in choices for value in choices[name][: None if words[name] else 1]]
    singles.sort(key=lambda beside: not words[next(iter(beside))])  # kinds first: other options depend on these
    doubles = [a | b for a, b in itertools.combinations(singles, 2) if a.keys() != b.keys()]
    for beside in ({}, *singles, *doubles):
        # The other direction is tried once: what depends on it depends on nothing else besides.
        other = () if beside or case.cls.causal_only else (not case.bidirectional,)
        for direction in (case.bidirectional, *other):
            tried = dataclasses.replace(case, bidirectional=direction, options=case.options | beside)
            built = [_accepted(tried, {option: value}) for value in (_value(tried, option), *values)]
            kept = [encoding for encoding in built if encoding is not None]
            yield from ((tried, kept[0], other) for other in kept[1:])


def _accepted(case: Case, options: dict[str, Any]) -> Encoding | None:
    """The encoding with these options, or None where they are refused."""
    try:
        return case.build(**options)
    except ValueError:
        return None


def _value(case: Case, option: str) -> Any:
    return (options_of(case.cls) | case.options)[option]


def _others(case: Case, option: str) -> list[Any]:
    """Other values of the kind that the signature declares; none where they cannot be guessed."""
    if option in case.others:
        return [case.others[option]]
    value = _value(case, option)
    kind = typing.get_type_hints(case.cls.__init__)[option]
    if typing.get_origin(kind) is Literal:
        return [choice for choice in typing.get_args(kind) if choice != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [
            new for new in (value * 2, value // 2 if isinstance(value, int) else value / 2, 1, 1000) if new != value
        ]
    return []
