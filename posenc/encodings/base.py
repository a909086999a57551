"""The one interface: an encoding says only what it changes in attention.

    q_m = f_q(x_m, m),   k_n = f_k(x_n, n),   v_n = f_v(x_n, n),   o_m = sum_n softmax_n(q_m . k_n / sqrt(d)) v_n

Hooks stand in the order in which data meets them. Each is named after what it returns, and changes nothing unless it
is overridden. `posenc.attention` calls all of them but the first, which belongs to the model.

The contract, which `posenc.testing.check_encoding` holds an encoding to: positions are data (they may skip, repeat,
start anywhere, be real, differ for queries and keys), and no hook looks at a length; no mask is built here; there is no
state, no cache and no random number; positions, angles and logits are float32 or wider; what lies past an encoding's
reach is NaN, never a clamped value; called with some of the queries, a hook gives those rows of the whole result.
"""

from collections.abc import Callable
from typing import Literal

from flax import nnx

from posenc.positions import PositionsLike
from posenc.shapes import Array, Bool, Float
from posenc.softmax import softmax

Kind = Literal["relative", "absolute", "blind"]


class Encoding(nnx.Module):
    """What is done with positions. Subclasses override the hooks they need, and no others.

    Attributes:
        kind: "relative" sees only distances, "absolute" sees positions, "blind" sees neither: order, if it is felt at
            all, comes from content and from what is visible. May be decided by the constructor.
        shared: the paper's habit. True, one object serves all layers; False, each layer has one of its own.
        turns: queries and keys depend on positions once `queries_keys` is done with them.
        causal_only: the encoding makes no sense where a query sees keys after it.
        bidirectional: which direction it was built for, where that matters to it; None where it does not.
        limit: it can read positions 0 .. limit-1; None where there is no end.
    """

    kind: Kind
    shared: bool = True
    turns: bool = False
    causal_only: bool = False
    bidirectional: bool | None = None
    limit: int | None = None

    def embeddings(self, x: Float[Array, "b t m"], positions: PositionsLike) -> Float[Array, "b t m"]:
        """The tokens' embeddings, with something added; or appended, and projected back to the same width."""
        return x

    def queries_keys(
        self,
        q: Float[Array, "b q h d"],
        k: Float[Array, "b k h d"],
        q_positions: PositionsLike,
        k_positions: PositionsLike,
    ) -> tuple[Float[Array, "b q h d"], Float[Array, "b k h d"]]:
        """Queries and keys, turned or scaled, before their product."""
        return q, k

    def bias(self, q_positions: PositionsLike, k_positions: PositionsLike) -> Float[Array, "#b h q k"] | None:
        """What is added to the scaled logits whatever the tokens are: all that ignores content."""
        return None

    def steps(self, x: Float[Array, "b t m"], positions: PositionsLike) -> Float[Array, "b t h"] | None:
        """What each token adds to a running total; attention adds the query's total minus the key's to the logits."""
        return None

    def logits(
        self,
        logits: Float[Array, "b h q k"],
        q: Float[Array, "b q h d"],
        k: Float[Array, "b k h d"],
        q_positions: PositionsLike,
        k_positions: PositionsLike,
        visible: Bool[Array, "#b #h q k"],
    ) -> Float[Array, "b h q k"]:
        """The logits, scaled, with bias and totals added, before what is not visible is taken out."""
        return logits

    def weights(self, logits: Float[Array, "b h q k"], visible: Bool[Array, "#b #h q k"]) -> Float[Array, "b h q k"]:
        """How much each query takes from each key; zero where a key is not visible, also where none is."""
        return softmax(logits, visible)

    def values(
        self,
        out: Float[Array, "b q h v"],
        weights: Float[Array, "b h q k"],
        v: Float[Array, "b k h v"],
        q_positions: PositionsLike,
        k_positions: PositionsLike,
    ) -> Float[Array, "b q h v"]:
        """The weighted sum of values, with what positions add to the values."""
        return out

    def overrides(self, hook: str) -> bool:
        """Whether this encoding says anything of its own in a hook; one that is made of others asks them."""
        return getattr(type(self), hook) is not getattr(Encoding, hook)


def parameter(rngs: nnx.Rngs | None, init: Callable[..., Array], shape: tuple[int, ...], dtype) -> nnx.Param:
    """A trained array, drawn from `rngs`.

    Raises:
        ValueError: `rngs` is None.
    """
    if rngs is None:
        raise ValueError("this encoding has trained parameters: pass rngs=nnx.Rngs(seed) to its constructor.")
    return nnx.Param(init(rngs.params(), shape, dtype))
