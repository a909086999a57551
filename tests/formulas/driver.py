"""What all references share: random inputs, the loops of attention, and the comparison. Nothing of any formula."""

import dataclasses
import functools
import importlib
import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from posenc import ENCODINGS, Positions, attend, make

EXAMPLES, QUERIES, KEYS = 3, 3, 6
LENGTHS = [6, 5, 4]
SIZES = {"width": 12, "heads": 2, "head_dim": 8, "value_dim": 6, "bidirectional": False}  # a case may have others
TOLERANCE = {"float32": 2e-5, "float64": 1e-10}
PLACES = {  # of the queries, which are the last tokens, and of the keys
    "in_order": ([3, 4, 5], [0, 1, 2, 3, 4, 5]),
    "elsewhere": ([0, 2, 100], [3, 5, 0, 1, 20, 99]),
    "by_example": (
        [[60, 200, 300], [5, 3, 0], [-1, 0, 3]],
        [[40, 41, 47, 60, 200, 300], [8, 8, 3, 5, 3, 0], [-30, -9, -2, -1, 0, 3]],
    ),
    "real": ([0.3, 4.9, 8.0], [-0.5, 0.3, 1.0, 7 / 3, 4.9, 8.0]),
}
MILLION = 1_000_000
FAR = {"far": ([MILLION + 3, MILLION + 4, MILLION + 5], [MILLION + n for n in range(6)])}  # the proof's; not all can


def between(value, where):
    """`value`, given at whole numbers, on the straight line between the two that enclose `where`."""
    low, high = math.floor(where), math.ceil(where)
    return value(low) if low == high else value(low) + (where - low) * (value(high) - value(low))


def dot(a, b):
    """The product of two vectors."""
    return sum(x * y for x, y in zip(a, b, strict=True))


def through(x, matrix, head=None):
    """A vector times a matrix ``[inputs, outputs]``, or that of one head, ``[inputs, heads, outputs]``."""
    matrix = matrix if head is None else matrix[:, head]
    return [dot(x, [row[j] for row in matrix]) for j in range(matrix.shape[-1])]


@dataclasses.dataclass
class Scene:
    """One example of attention: float64 arrays, and positions as plain numbers, or lists of them on a grid.

    Attributes:
        q, k, v: ``[q, h, d]``, ``[k, h, d]``, ``[k, h, v]``; queries and keys turned, where the formula turns them.
        x: ``[k, m]``, what the tokens are before any projection.
        q_at, k_at: positions.
        visible: ``[q, k]``.
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    x: np.ndarray
    q_at: list
    k_at: list
    visible: np.ndarray

    def slot(self, m):
        """Which of the tokens query `m` is: queries are the last ones."""
        return len(self.k) - len(self.q) + m

    def seen(self, m):
        """The keys that query `m` sees, the first one first."""
        return [n for n in range(len(self.k)) if self.visible[m, n]]

    def product(self, head, m, n):
        """Of query and key, scaled."""
        return dot(self.q[m, head], self.k[n, head]) / math.sqrt(self.q.shape[-1])


class Paper:
    """Attention that is told nothing of positions. A reference overrides what its paper changes, in plain numbers.

    Attributes:
        causal_only: the formula has no meaning where a query sees keys after it.
        shrink: what the scaled product of query and key is multiplied with.
        numbers: the trained parameters by name, float64.
        sizes: width, heads, head_dim, value_dim, and whether the model is bidirectional.
    """

    causal_only = False
    shrink = 1.0

    def __init__(self, numbers, sizes):
        self.numbers, self.sizes = numbers, sizes

    @classmethod
    def one_way(cls, options):
        """`causal_only`, with these options."""
        return cls.causal_only

    @classmethod
    def more_places(cls, options):
        """Position sets that only this encoding is asked about."""
        return {}

    @classmethod
    def draw(cls, name, normal, options):
        """What a parameter of this name is in the tests, made of normal numbers: nothing saturates, no term is lost."""
        return normal

    def embed(self, x, position):
        """An embedding at its position."""
        return x

    def turn_query(self, q, position):
        """A query, before the product."""
        return q

    def turn_key(self, k, position):
        """A key, before the product."""
        return k

    def added(self, scene, head, m, n):
        """What is added to the scaled product of query m and key n."""
        return self.bias(head, scene.q_at[m], scene.k_at[n])

    def bias(self, head, m, n):
        """The same, where it depends on the two positions and on nothing else."""
        return 0.0

    def weights(self, logits):
        """How much is taken from each key that is seen."""
        total = sum(math.exp(logit - max(logits)) for logit in logits)
        return [math.exp(logit - max(logits)) / total for logit in logits]

    def value_row(self, m, n):
        """What is added to the value of a key at n for a query at m."""
        return 0.0

    def attention(self, scene):
        """``[q, h, v]``, one logit at a time."""
        q, k = scene.q.copy(), scene.k.copy()
        for head in range(q.shape[1]):
            for m, position in enumerate(scene.q_at):
                q[m, head] = self.turn_query(scene.q[m, head].copy(), position)
            for n, position in enumerate(scene.k_at):
                k[n, head] = self.turn_key(scene.k[n, head].copy(), position)
        turned = dataclasses.replace(scene, q=q, k=k)
        out = np.zeros((*q.shape[:2], scene.v.shape[-1]))
        for m, head in np.ndindex(q.shape[:2]):
            seen = scene.seen(m)
            logits = [self.shrink * turned.product(head, m, n) + self.added(turned, head, m, n) for n in seen]
            for n, weight in zip(seen, self.weights(logits), strict=True):
                out[m, head] += weight * (scene.v[n, head] + self.value_row(scene.q_at[m], scene.k_at[n]))
        return out


def module(name):
    """The file of an encoding."""
    return importlib.import_module(f"tests.formulas.{name}")


def acts_on_embeddings(name):
    """Whether a paper changes the embeddings; what is made of others may."""
    return module(name).Formula.embed is not Paper.embed


def places_of(name, options):
    """The position sets of a case: those of every encoding, and those that the file adds for these options."""
    return PLACES | FAR | module(name).Formula.more_places(options)


def combinations(name, number):
    """(places, causal) for a case: the first case of an encoding everywhere and both ways, the others where it counts.

    A bidirectional query sees all that a causal one sees, so one direction for each position set is enough for them.
    """
    case = module(name).CASES[number]
    one_way = module(name).Formula.one_way(case)
    everywhere = [places for places in places_of(name, case) if places not in FAR]
    if number == 0:
        pairs = [(places, causal) for places in everywhere for causal in (True, False)]
    else:
        pairs = [(places, False) for places in everywhere if places != "elsewhere"]
    return list(dict.fromkeys((places, causal or one_way) for places, causal in pairs))


def apart(case):
    """The sizes, the parameters that a case sets by hand, and the encoding's own options."""
    sizes = SIZES | {size: case[size] for size in SIZES if size in case}
    return sizes, case.get("numbers", {}), {o: case[o] for o in case if o not in SIZES and o != "numbers"}


@functools.lru_cache(maxsize=8)
def both(name, number, dtype):
    """Our encoding with trained parameters of the tests, in a precision, and the reference with the same ones."""
    sizes, by_hand, options = apart(module(name).CASES[number])
    formula, numbers = module(name).Formula, {}
    with jax.enable_x64(dtype == "float64"):
        # Shapes are enough: initial values would be replaced, and drawing them takes longer than all the rest.
        encoding = nnx.eval_shape(lambda: make(name, **sizes, **options, rngs=nnx.Rngs(0)))
        state = nnx.to_flat_state(nnx.state(encoding, nnx.Param))
        for seed, (path, variable) in enumerate(state):
            parameter = ".".join(map(str, path))
            normal = np.random.default_rng(seed).normal(size=variable.get_value().shape)
            value = by_hand[parameter] if parameter in by_hand else formula.draw(parameter, normal, options)
            value = np.asarray(value, dtype)
            assert value.shape == normal.shape
            numbers[parameter] = value.astype(np.float64)
            variable.set_value(jnp.asarray(value))
        nnx.update(encoding, nnx.from_flat_state(state))
    assert set(by_hand) <= set(numbers)
    assert encoding.causal_only == formula.one_way(options)
    return encoding, formula(numbers, sizes, **options)


def place(values, dtype):
    """Positions; real ones in the precision under test, and the reference then takes exactly those."""
    values = np.asarray(values)
    return values.astype(dtype if values.dtype.kind == "f" else np.int32)


def promised(places, values):
    """The same, with the promise that they are consecutive where they are."""
    return Positions(jnp.asarray(values), consecutive=places == "in_order")


def by_example(values):
    """Plain numbers for each example; whole ones stay whole."""
    return np.broadcast_to(values, (EXAMPLES, *values.shape[min(1, values.ndim - 1) :])).tolist()


def visible_keys(places, causal):
    """``[b, q, k]``: no padding, nothing ahead in a causal model; a hole among what one example sees."""
    slot = np.arange(KEYS)
    seen = np.broadcast_to(slot < np.asarray(LENGTHS)[:, None, None], (EXAMPLES, QUERIES, KEYS)).copy()
    if causal:
        seen &= slot <= slot[-QUERIES:, None]
    if places == "by_example":
        seen[0, :, 1] = False
    return seen


def attention_error(name, number, places, causal, dtype):
    """The largest error of attention's output in one setting."""
    q_at, k_at = (place(values, dtype) for values in places_of(name, module(name).CASES[number])[places])
    sizes, _, _ = apart(module(name).CASES[number])
    rng = np.random.default_rng(0)
    q = rng.normal(size=(EXAMPLES, QUERIES, sizes["heads"], sizes["head_dim"])).astype(dtype)
    k = rng.normal(size=(EXAMPLES, KEYS, sizes["heads"], sizes["head_dim"])).astype(dtype)
    v = rng.normal(size=(EXAMPLES, KEYS, sizes["heads"], sizes["value_dim"])).astype(dtype)
    x = rng.normal(size=(EXAMPLES, KEYS, sizes["width"])).astype(dtype)
    visible = visible_keys(places, causal)
    encoding, formula = both(name, number, dtype)
    with jax.enable_x64(dtype == "float64"):
        q_positions, k_positions = promised(places, q_at), promised(places, k_at)
        steps = encoding.steps(jnp.asarray(x), k_positions)
        totals = None if steps is None else jnp.cumsum(steps, axis=1)
        out = attend(
            encoding,
            *map(jnp.asarray, (q, k, v)),
            q_positions,
            k_positions,
            jnp.asarray(visible[:, None]),
            q_totals=None if totals is None else totals[:, -QUERIES:],
            k_totals=totals,
        )
    wide = (array.astype(np.float64) for array in (q, k, v, x))
    examples = zip(*wide, by_example(q_at), by_example(k_at), visible, strict=True)
    return largest(out, [formula.attention(Scene(*example)) for example in examples], dtype)


def embeddings_error(name, number, places, dtype):
    """The largest error of the embeddings in one setting."""
    at = place(places_of(name, module(name).CASES[number])[places][1], dtype)
    sizes, _, _ = apart(module(name).CASES[number])
    x = np.random.default_rng(0).normal(size=(EXAMPLES, KEYS, sizes["width"])).astype(dtype)
    encoding, formula = both(name, number, dtype)
    with jax.enable_x64(dtype == "float64"):
        out = encoding.embeddings(jnp.asarray(x), promised(places, at))
    rows = zip(x.astype(np.float64), by_example(at), strict=True)
    return largest(
        out, [[formula.embed(token.copy(), p) for token, p in zip(*row, strict=True)] for row in rows], dtype
    )


def largest(found, expected, dtype):
    """The largest difference; infinite where one of the two, and not the other, is NaN."""
    assert found.dtype == dtype, f"{found.dtype} instead of {dtype}"
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape
    undefined = np.isnan(expected)
    if (np.isnan(found) != undefined).any():
        return math.inf
    return float(np.abs(found - expected)[~undefined].max(initial=0.0))


def worst(name: str, dtype: str) -> float:
    """The largest error of an encoding over all its cases, position sets and directions, in ``"float32"`` or 64."""
    errors = []
    for number in range(len(module(name).CASES)):
        pairs = combinations(name, number)
        errors += [attention_error(name, number, places, causal, dtype) for places, causal in pairs]
        errors += [embeddings_error(name, number, places, dtype) for places in dict(pairs)]
    return max(errors)


def far_out(name: str) -> float:
    """The largest error in float32 at a million, with the first options under test."""
    return max(attention_error(name, 0, "far", True, "float32"), embeddings_error(name, 0, "far", "float32"))


NAMES = tuple(ENCODINGS)
