"""An encoder that reads one text and a decoder that writes another: two stacks, each with encodings of its own."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from flax import nnx

from posenc.blocks import Form, Memory, Stack
from posenc.cache import Cache
from posenc.encodings.base import Encoding
from posenc.encodings.none import NoPE
from posenc.positions import Positions, PositionsLike
from posenc.shapes import Array, Float, Int
from posenc.vocabulary import embedded, logits, make_embed, make_head


class EncoderDecoder(nnx.Module):
    """The transformer of Vaswani et al. 2017 (arXiv:1706.03762): a decoder that also sees what an encoder has read.

    Both share the embeddings of tokens. Encodings act within each text; what the decoder asks of the encoder's text is
    encoded by `cross`, as a rule by nothing.

    Args:
        vocabulary: number of different tokens.
        width: channels between the layers.
        depth: number of layers of each stack.
        heads: heads of each layer.
        encoder_encodings: of the encoder, built with `bidirectional=True`: one for all layers, or one for each.
        decoder_encodings: of the decoder, other objects.
        cross: of the attention of the decoder to the encoder's text, built with `bidirectional=True`; NoPE where it is
            None. Its distances are those between a place in one text and a place in the other.
        **form: what else `posenc.Form` says of layers, embeddings and types.

    Raises:
        ValueError: sizes that do not fit each other, an encoding built for the other direction, or one object in both
            stacks.
        TypeError: something that `posenc.Form` does not know.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int,
        heads: int,
        encoder_encodings: Encoding | Sequence[Encoding],
        decoder_encodings: Encoding | Sequence[Encoding],
        *,
        cross: Encoding | None = None,
        rngs: nnx.Rngs,
        **form: Any,
    ):
        self.form = Form(width=width, heads=heads, **form)
        self.embed = make_embed(vocabulary, self.form, rngs)
        self.encoder = Stack(depth, encoder_encodings, self.form, causal=False, rngs=rngs)
        cross = NoPE() if cross is None else cross
        self.decoder = Stack(depth, decoder_encodings, self.form, causal=True, cross=cross, rngs=rngs)
        self.head = make_head(vocabulary, self.form, rngs)
        check_apart(self.encoder.encodings, [*self.decoder.encodings, cross])

    @property
    def encodings(self) -> list[Encoding]:
        """All of them, each object once: the encoder's, the decoder's, and that between them."""
        return [*self.encoder.encodings, *self.decoder.encodings, self.decoder.cross_encoding]

    def __call__(
        self,
        source: Int[Array, "b s"],
        source_positions: PositionsLike,
        tokens: Int[Array, "b t"],
        positions: PositionsLike,
        *,
        source_lengths: Int[Array, "#b"] | None = None,
        lengths: Int[Array, "#b"] | None = None,
        slots: Int[Array, "#b q"] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b q v"]:
        """Logits over the vocabulary for what the decoder reads.

        Args:
            source: what the encoder reads, padded behind.
            source_positions: of these tokens, ``[s]`` or ``[1|b, s]``.
            tokens: what the decoder reads, padded behind.
            positions: of these tokens, ``[t]`` or ``[1|b, t]``.
            source_lengths: how many tokens of each source are real; all where it is None.
            lengths: how many tokens of each text are real; all where it is None.
            slots: the tokens whose logits are wanted; every token's where it is None.
            rngs: for dropout, in training; none in evaluation.
        """
        memory = self.read(source, source_positions, lengths=source_lengths, rngs=rngs)
        x = embedded(self.embed, tokens, self.form)
        x = self.decoder.layers(x, positions, lengths=lengths, slots=slots, memory=memory, rngs=rngs)
        return logits(self.embed, self.head, x, self.form)

    def read(
        self,
        source: Int[Array, "b s"],
        positions: PositionsLike,
        *,
        lengths: Int[Array, "#b"] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> list[Memory]:
        """What each layer of the decoder may ask of a text; arguments as in the call."""
        x = embedded(self.embed, source, self.form)
        x = self.encoder.layers(x, positions, lengths=lengths, slots=None, rngs=rngs)
        return self.decoder.memories(x, positions, lengths)

    def extend(
        self,
        tokens: Int[Array, "b t"],
        positions: PositionsLike,
        cache: Cache,
        memory: Sequence[Memory],
        *,
        lengths: Int[Array, "b"] | None = None,
    ) -> tuple[Float[Array, "b t v"], Cache]:
        """Logits for more tokens behind those in a cache, and the cache with them in it, as `Transformer.extend`.

        Args:
            memory: what `read` gave.
        """
        cache, slots = cache.more(tokens.shape, lengths)
        x = embedded(self.embed, tokens, self.form)
        x, cache = self.decoder.extend_layers(x, Positions.led(positions), cache, slots, memory)
        said = logits(self.embed, self.head, x, self.form)
        return jnp.where(cache.lost(slots)[:, :, None], jnp.nan, said), cache


def check_apart(encoder: Sequence[Encoding], decoder: Sequence[Encoding]) -> None:
    """Raises ValueError where an object is in both stacks: parameters reached by two paths are untied by a gradient."""
    if {id(one) for one in encoder} & {id(one) for one in decoder} or len({id(one) for one in decoder}) < len(decoder):
        raise ValueError(
            "an encoding is in both stacks, or within the decoder and between the texts. Build one for each: they do "
            "not share parameters."
        )
