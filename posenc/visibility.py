"""What a query may see, said in a few words instead of a matrix of queries times keys.

Attention makes the matrix where it needs it, and only for the queries it is at: at 32,768 tokens the whole of it would
be a gigabyte.
"""

import dataclasses

import jax
import jax.numpy as jnp

from posenc.shapes import Array, Bool, Int


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Visibility:
    """No padding, and in a causal model nothing after the query itself.

    Attributes:
        causal: whether keys in later slots are hidden.
        lengths: how many of the keys are real, the first ones; all where it is None.
        slots: in which slot of the row of keys each query stands; query i in slot i where it is None.
        window: keys less than so many slots away are seen; all where it is None.
        stride: keys a multiple of so many slots away are seen, beside those of the window; those of the window alone
            where it is None, and without a window these alone.

    Raises:
        ValueError: a window or a stride below 1.
    """

    causal: bool = dataclasses.field(metadata={"static": True})
    lengths: Int[Array, "#b"] | None = None
    slots: Int[Array, "#b q"] | None = None
    window: int | None = dataclasses.field(default=None, metadata={"static": True})
    stride: int | None = dataclasses.field(default=None, metadata={"static": True})

    def __post_init__(self):
        for name in ("window", "stride"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected 1 or more, or None for all keys.")

    @property
    def simple(self) -> bool:
        """Whether causality and lengths say it all, and query i stands in slot i."""
        return self.slots is None and self.window is None and self.stride is None

    def mask(self, queries: int, keys: int) -> Bool[Array, "#b 1 q k"]:
        """True where one of so many queries may see one of the first so many keys."""
        slot = jnp.arange(keys)[None, None]
        seen = jnp.ones((1, queries, keys), bool)
        if self.causal:
            seen = self.query_slots(queries)[:, :, None] >= slot
        if self.lengths is not None:
            seen = seen & (slot < self.lengths[:, None, None])
        if self.window is not None or self.stride is not None:
            seen = seen & self.near(jnp.abs(self.query_slots(queries)[:, :, None] - slot))
        return seen[:, None]

    def near(self, away: Int[Array, "#b q k"]) -> Bool[Array, "#b q k"]:
        """Whether keys so many slots away are seen by window or stride."""
        close = away < (1 if self.window is None else self.window)  # a token always sees itself
        return close if self.stride is None else close | (away % self.stride == 0)

    def query_slots(self, queries: int) -> Int[Array, "#b q"]:
        """The slot of each query."""
        return jnp.arange(queries)[None] if self.slots is None else self.slots

    def rows(self, start: Int[Array, ""] | int, size: int, queries: int) -> "Visibility":
        """The same for `size` of the queries, from number `start` on."""
        slots = jax.lax.dynamic_slice_in_dim(self.query_slots(queries), start, size, axis=1)
        return dataclasses.replace(self, slots=slots)

    def real(self, keys: int) -> Bool[Array, "#b k"]:
        """Which keys are no padding."""
        if self.lengths is None:
            return jnp.ones((1, keys), bool)
        return jnp.arange(keys)[None] < self.lengths[:, None]

    def reach(self, queries: int, keys: int) -> Int[Array, ""] | int:
        """How many keys, counted from the first, it takes to hold all that these queries see; 0 where they are padding.

        Lengths count where all examples share one.
        """
        slots = self.query_slots(queries)
        reach = slots.max() + 1 if self.causal else keys
        if self.lengths is None or len(self.lengths) > 1:
            return reach
        return jnp.where(slots.min() < self.lengths[0], jnp.minimum(reach, self.lengths[0]), 0)


def visibility(tokens: int, *, causal: bool, lengths: Int[Array, "#b"] | None = None) -> Bool[Array, "#b 1 q k"]:
    """What each of `tokens` queries may see, as a matrix.

    Args:
        causal: whether a query sees nothing after itself.
        lengths: how many of the tokens are real, the first ones; all where it is None.
    """
    return Visibility(causal, lengths).mask(tokens, tokens)
