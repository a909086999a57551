"""One transformer for the whole ablation: encodings are handed in, everything else stays as it is."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from flax import nnx

from posenc.blocks import Form, Stack
from posenc.cache import Cache
from posenc.encodings.base import Encoding
from posenc.positions import Positions, PositionsLike
from posenc.shapes import Array, Float, Int
from posenc.vocabulary import embedded, logits, make_embed, make_head


class Transformer(Stack):
    """A decoder (`causal`) or an encoder, from tokens and positions to logits over the vocabulary.

    Args:
        vocabulary: number of different tokens.
        width: channels between the layers.
        depth: number of layers.
        heads: heads of each layer.
        encodings: one for all layers, or one for each; the same object twice means the same parameters. The model
            owns each object once. `posenc.make_layers` gives such a list.
        causal: whether a token sees only itself and what stands before it.
        **form: what else `posenc.Form` says of layers, embeddings and types.

    Raises:
        ValueError: sizes that do not fit each other, or an encoding built for the other direction.
        TypeError: something that `posenc.Form` does not know.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int,
        heads: int,
        encodings: Encoding | Sequence[Encoding],
        *,
        causal: bool = True,
        rngs: nnx.Rngs,
        **form: Any,
    ):
        formed = Form(width=width, heads=heads, **form)
        self.embed = make_embed(vocabulary, formed, rngs)
        super().__init__(depth, encodings, formed, causal=causal, rngs=rngs)
        self.head = make_head(vocabulary, formed, rngs)

    def __call__(
        self,
        tokens: Int[Array, "b t"],
        positions: PositionsLike,
        *,
        lengths: Int[Array, "#b"] | None = None,
        slots: Int[Array, "#b q"] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b q v"]:
        """Logits over the vocabulary.

        Args:
            tokens: padded behind.
            positions: of the tokens, ``[t]`` or ``[1|b, t]``; padding carries the position of a real token.
            lengths: how many tokens of each example are real; all where it is None.
            slots: the tokens whose logits are wanted; every token's where it is None. The last layer and the head
                are computed for these alone.
            rngs: for dropout, in training; none in evaluation.
        """
        x = embedded(self.embed, tokens, self.form)
        x = self.layers(x, positions, lengths=lengths, slots=slots, rngs=rngs)
        return logits(self.embed, self.head, x, self.form)

    def extend(
        self,
        tokens: Int[Array, "b t"],
        positions: PositionsLike,
        cache: Cache,
        *,
        lengths: Int[Array, "b"] | None = None,
    ) -> tuple[Float[Array, "b t v"], Cache]:
        """Logits for more tokens behind those in a cache, and the cache with them in it.

        Args:
            tokens: padded behind, where examples get unlike numbers of them.
            positions: of these tokens, ``[t]`` or ``[1|b, t]``.
            cache: see `posenc.Cache`; without keys, it is made here.
            lengths: how many of the tokens of each example are real; all where it is None.

        Returns:
            What the whole text at once would give. Where the cache has no room for a real token, its example is NaN
            from there on: nothing is ever overwritten.

        Raises:
            ValueError: the model is not causal; or the lengths are known, and there is no room.
        """
        if not self.causal:
            raise ValueError(
                "a bidirectional model has no cache: each further token changes what all earlier ones have seen. "
                "Call the model on the whole text."
            )
        cache, slots = cache.more(tokens.shape, lengths)
        x = embedded(self.embed, tokens, self.form)
        x, cache = self.extend_layers(x, Positions.led(positions), cache, slots)
        said = logits(self.embed, self.head, x, self.form)
        return jnp.where(cache.lost(slots)[:, :, None], jnp.nan, said), cache
