"""Two or more encodings at once: each hook of each of them, in turn.

    Chain(a, b):   x -> b(a(x)),   bias_a + bias_b,   steps_a + steps_b,   and so with every other hook

McLeish et al. 2024, arXiv:2405.17399, combine embeddings (Abacus) with FIRE in this way; ("learned", "fire") is theirs
but for the positions, which are a scheme here. The order matters where two parts touch the same thing. Rows that are
multiplied with queries see them as another part has turned them: rope with shaw is not relative any more. The weights
can be made by one part only. Where a part acts on the embeddings, or is shared by layers, the whole chain is shared.
"""

import functools
from typing import Any

import jax
from flax import nnx

from posenc.encodings.base import Encoding


class Chain(Encoding):
    """Encodings applied one after the other.

    Args:
        of: two or more encodings; names, where `posenc.make` builds them, with their own options.
    """

    def __init__(self, of: tuple[str | Encoding, ...] = ("learned", "fire"), *, rngs: nnx.Rngs | None = None):
        del rngs
        built = [one for one in of if isinstance(one, Encoding)]
        if len(built) < len(of):
            raise ValueError(f"chain.of is {of!r}; posenc.make builds encodings from names, Chain takes built ones.")
        if len(built) < 2 or len({id(one) for one in built}) < len(built):
            raise ValueError(f"chain.of names {len(built)} encodings; expected two or more, each once.")
        if sum(one.overrides("weights") for one in built) > 1:
            raise ValueError(f"chain.of is {of!r}: more than one of them replaces the softmax. Keep one of these.")
        self.parts = nnx.List(built)
        kinds = {one.kind for one in built} | ({"absolute"} if turned_and_read(built) else set())
        self.kind = next(kind for kind in ("absolute", "relative", "blind") if kind in kinds)
        self.turns = any(one.turns for one in built)
        trained = [one for one in built if jax.tree.leaves(nnx.state(one, nnx.Param))]
        self.shared = any(one.overrides("embeddings") for one in built) or any(one.shared for one in trained)
        self.causal_only = any(one.causal_only for one in built)
        self.bidirectional = next((one.bidirectional for one in built if one.bidirectional is not None), None)
        self.limit = min((one.limit for one in built if one.limit is not None), default=None)

    def overrides(self, hook):
        return any(part.overrides(hook) for part in self.parts)

    def embeddings(self, x, positions):
        return functools.reduce(lambda x, part: part.embeddings(x, positions), self.parts, x)

    def queries_keys(self, q, k, q_positions, k_positions):
        for part in self.parts:
            q, k = part.queries_keys(q, k, q_positions, k_positions)
        return q, k

    def bias(self, q_positions, k_positions):
        return total(part.bias(q_positions, k_positions) for part in self.parts)

    def steps(self, x, positions):
        return total(part.steps(x, positions) for part in self.parts)

    def logits(self, logits, q, k, q_positions, k_positions, visible):
        for part in self.parts:
            logits = part.logits(logits, q, k, q_positions, k_positions, visible)
        return logits

    def weights(self, logits, visible):
        own = [part for part in self.parts if part.overrides("weights")]
        return (own or self.parts)[0].weights(logits, visible)

    def values(self, out, weights, v, q_positions, k_positions):
        for part in self.parts:
            out = part.values(out, weights, v, q_positions, k_positions)
        return out


def turned_and_read(parts: list[Encoding]) -> bool:
    """Whether one part turns the queries and keys that another one reads."""
    return any(a.turns and b.overrides("logits") for a in parts for b in parts if a is not b)


def total(terms) -> Any:
    """The sum of those that are not None, or None."""
    given = [term for term in terms if term is not None]
    return functools.reduce(lambda a, b: a + b, given) if given else None
