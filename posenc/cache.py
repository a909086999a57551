"""What a decoder remembers of the tokens it has read, so that the next one costs a row and not a matrix.

For each layer keys and values as they were projected, *before* `queries_keys`: an encoding may turn a key by more than
its own position. With them their positions, and the running totals of encodings that take steps.
"""

import dataclasses

import jax
import jax.numpy as jnp

from posenc.attention import Keys
from posenc.shapes import Array, Bool, Int


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Cache:
    """The memory of a batch of texts.

    Attributes:
        room: slots for tokens; it does not grow.
        lengths: how many of them each text has taken.
        layers: keys of each layer, empty before the first token.
    """

    room: int = dataclasses.field(metadata={"static": True})
    lengths: Int[Array, "b"]
    layers: list[Keys]

    @classmethod
    def empty(cls, examples: int, room: int) -> "Cache":
        """A cache for so many texts of up to `room` tokens.

        Raises:
            ValueError: there is no room at all.
        """
        if room < 1:
            raise ValueError(f"a cache has room for {room} tokens; expected 1 or more.")
        return cls(room, jnp.zeros(examples, jnp.int32), [])

    def more(self, shape: tuple[int, ...], lengths: Int[Array, "b"] | None) -> tuple["Cache", Int[Array, "b t"]]:
        """With the lengths that it has once there are more tokens, and the slots that these take.

        Raises:
            ValueError: another number of texts; or there is no room, where that is known before anything is computed.
        """
        examples, tokens = shape
        if examples != len(self.lengths):
            raise ValueError(
                f"{examples} texts for a cache of {len(self.lengths)}. Make one with Cache.empty({examples}, room)."
            )
        slots = self.lengths[:, None] + jnp.arange(tokens)[None]
        grown = self.lengths + (tokens if lengths is None else lengths)
        if not isinstance(grown, jax.core.Tracer) and int(grown.max()) > self.room:
            raise ValueError(
                f"a cache with room for {self.room} tokens is to take {int(grown.max())} of them. Make a larger one."
            )
        return dataclasses.replace(self, lengths=grown), slots

    def lost(self, slots: Int[Array, "b t"]) -> Bool[Array, "b t"]:
        """Which tokens that took these slots are real and found no room."""
        return (slots >= self.room) & (slots < self.lengths[:, None])
