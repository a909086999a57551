"""One transformer for the whole ablation: encodings are handed in, everything else stays as it is."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx

from posenc.attention import Attention, Keys, Road, head_width
from posenc.cache import Cache
from posenc.dropout import dropped
from posenc.encodings.base import Encoding
from posenc.positions import Positions, PositionsLike, taken
from posenc.shapes import Array, Float, Int
from posenc.visibility import Visibility

Norm = Literal["rms", "layer"]
Placement = Literal["pre", "post"]
Activation = Literal["gelu", "relu"]
Site = Literal["embeddings", "weights", "hidden", "branches"]
SITES: tuple[Site, ...] = ("embeddings", "weights", "hidden", "branches")  # where dropout acts


ACTIVATIONS: dict[Activation, Callable[[Array], Array]] = {"gelu": jax.nn.gelu, "relu": jax.nn.relu}


class MLP(nnx.Module):
    """Two linear maps with a nonlinearity between."""

    def __init__(
        self, width: int, hidden: int, *, activation: Activation, dropout: float, dtype, param_dtype, rngs: nnx.Rngs
    ):
        self.up = nnx.Linear(width, hidden, dtype=dtype, param_dtype=param_dtype, rngs=rngs)
        self.down = nnx.Linear(hidden, width, dtype=dtype, param_dtype=param_dtype, rngs=rngs)
        self.activation, self.dropout = activation, dropout

    def __call__(self, x: Float[Array, "b t m"], *, rngs: nnx.Rngs | None = None) -> Float[Array, "b t m"]:
        hidden = ACTIVATIONS[self.activation](self.up(x))
        return self.down(dropped(hidden, self.dropout, rngs))


class Block(nnx.Module):
    """Attention, then an MLP, each with a residual and a norm before it ("pre") or after the sum ("post")."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        head_dim: int | None,
        value_dim: int | None,
        mlp_width: int,
        activation: Activation,
        norm: Norm,
        placement: Placement,
        attention: Road,
        dropout: Mapping[Site, float],
        dtype,
        param_dtype,
        rngs: nnx.Rngs,
    ):
        kinds = dict(dtype=dtype, param_dtype=param_dtype, rngs=rngs)
        self.attention = Attention(
            width, heads, head_dim=head_dim, value_dim=value_dim, road=attention, dropout=dropout["weights"], **kinds
        )
        self.mlp = MLP(width, mlp_width, activation=activation, dropout=dropout["hidden"], **kinds)
        self.attention_norm = make_norm(norm, width, dtype, param_dtype, rngs)
        self.mlp_norm = make_norm(norm, width, dtype, param_dtype, rngs)
        self.placement, self.dropout = placement, dropout["branches"]

    def __call__(
        self,
        x: Float[Array, "b t m"],
        positions: PositionsLike,
        encoding: Encoding,
        visible: Visibility,
        *,
        slots: Int[Array, "#b q"] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b q m"]:
        """The tokens in these slots, all where it is None, after the layer."""

        def drop(y: Array) -> Array:
            return dropped(y, self.dropout, rngs)

        asking = x if slots is None else taken(x, slots)
        if self.placement == "pre":
            normed = self.attention_norm(x)
            x = asking + drop(self.attention(normed, positions, encoding, visible, slots=slots, rngs=rngs))
            return x + drop(self.mlp(self.mlp_norm(x), rngs=rngs))
        attended = self.attention(x, positions, encoding, visible, slots=slots, rngs=rngs)
        x = self.attention_norm(asking + drop(attended))
        return self.mlp_norm(x + drop(self.mlp(x, rngs=rngs)))

    def extend(self, x, positions, encoding, cache, slots, lengths, room):
        """More tokens after the layer, and the layer's cache with them in it."""
        asking = self.attention_norm(x) if self.placement == "pre" else x
        if cache is None:
            cache = Keys.room(self.attention.keys(asking, positions, encoding), room)
        attended, cache = self.attention.extend(asking, positions, encoding, cache, slots, lengths)
        if self.placement == "pre":
            x = x + attended
            return x + self.mlp(self.mlp_norm(x)), cache
        x = self.attention_norm(x + attended)
        return self.mlp_norm(x + self.mlp(x)), cache


class Transformer(nnx.Module):
    """A decoder (`causal`) or an encoder, from tokens and positions to logits over the vocabulary.

    Args:
        vocabulary: number of different tokens.
        width: channels between the layers.
        depth: number of layers.
        heads: heads of each layer.
        encodings: one for all layers, or one for each; the same object twice means the same parameters. The model
            owns each object once. `posenc.make_layers` gives such a list.
        head_dim: channels of a query or key of one head; width / heads where it is None.
        value_dim: channels of a value of one head; `head_dim` where it is None.
        mlp_width: hidden channels of the MLPs; four times the width where it is None.
        activation: of the MLPs, "gelu" or "relu".
        causal: whether a token sees only itself and what stands before it.
        norm: "rms" or "layer".
        placement: of the norms: "pre", before attention and MLP, or "post", after the residual sum.
        attention: the road of `attend`: "dense", "blocks", "fused", or "auto".
        dropout: rate in training.
        dropout_on: what it acts on: the "embeddings", the attention "weights", the "hidden" channels of the MLPs, and
            what the residual "branches" add.
        dtype: of activations. Parameters are kept in `param_dtype`; logits are float32.

    Raises:
        ValueError: sizes that do not fit each other, or an encoding built for the other direction.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int,
        heads: int,
        encodings: Encoding | Sequence[Encoding],
        *,
        head_dim: int | None = None,
        value_dim: int | None = None,
        mlp_width: int | None = None,
        activation: Activation = "gelu",
        causal: bool = True,
        norm: Norm = "rms",
        placement: Placement = "pre",
        attention: Road = "auto",
        dropout: float = 0.0,
        dropout_on: tuple[Site, ...] = SITES,
        dtype=jnp.float32,
        param_dtype=jnp.float32,
        rngs: nnx.Rngs,
    ):
        rates = {site: dropout if site in dropout_on else 0.0 for site in SITES}
        layers = [encodings] * depth if isinstance(encodings, Encoding) else list(encodings)
        check_layers(layers, depth, causal)
        distinct = list({id(encoding): encoding for encoding in layers}.values())
        self.encodings = nnx.List(distinct)
        self.encoding_of_layer = tuple(next(i for i, e in enumerate(distinct) if e is layer) for layer in layers)
        self.causal, self.dtype = causal, dtype
        self.embed = nnx.Embed(
            vocabulary, width, embedding_init=nnx.initializers.normal(1.0), param_dtype=param_dtype, rngs=rngs
        )
        self.blocks = nnx.List(
            Block(
                width, heads, head_dim=head_dim or head_width(width, heads), value_dim=value_dim,
                mlp_width=mlp_width or 4 * width, activation=activation, norm=norm, placement=placement,
                attention=attention, dropout=rates, dtype=dtype, param_dtype=param_dtype, rngs=rngs,
            )
            for _ in range(depth)
        )  # fmt: skip
        self.final_norm = make_norm(norm, width, dtype, param_dtype, rngs) if placement == "pre" else None
        self.head = nnx.Linear(width, vocabulary, use_bias=False, dtype=dtype, param_dtype=param_dtype, rngs=rngs)
        self.dropout = rates["embeddings"]

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
        visible = Visibility(self.causal, lengths)
        x = self.embed(tokens).astype(self.dtype)
        for encoding in self.encodings:
            x = encoding.embeddings(x, positions)
        x = dropped(x, self.dropout, rngs)
        wanted = [None] * (len(self.blocks) - 1) + [slots]
        for block, index, of_layer in zip(self.blocks, self.encoding_of_layer, wanted, strict=True):
            x = block(x, positions, self.encodings[index], visible, slots=of_layer, rngs=rngs)
        if self.final_norm is not None:
            x = self.final_norm(x)
        return self.head(x).astype(jnp.promote_types(self.dtype, jnp.float32))

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
            cache: see `posenc.decoding.Cache`; without keys, it is made here.
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
        where = Positions.led(positions)
        x = self.embed(tokens).astype(self.dtype)
        for encoding in self.encodings:
            x = encoding.embeddings(x, where)
        kept = []
        for number, (block, index) in enumerate(zip(self.blocks, self.encoding_of_layer, strict=True)):
            encoding, layer = self.encodings[index], cache.layers[number] if cache.layers else None
            x, keys = block.extend(x, where, encoding, layer, slots, cache.lengths, cache.room)
            kept.append(keys)
        if self.final_norm is not None:
            x = self.final_norm(x)
        logits = self.head(x).astype(jnp.promote_types(self.dtype, jnp.float32))
        lost = (slots >= cache.room) & (slots < cache.lengths[:, None])
        return jnp.where(lost[:, :, None], jnp.nan, logits), dataclasses.replace(cache, layers=kept)


def make_norm(norm: Norm, width: int, dtype, param_dtype, rngs: nnx.Rngs) -> nnx.Module:
    """A norm over channels, by name."""
    cls = {"rms": nnx.RMSNorm, "layer": nnx.LayerNorm}[norm]
    return cls(width, dtype=dtype, param_dtype=param_dtype, rngs=rngs)


def check_layers(layers: Sequence[Encoding], depth: int, causal: bool) -> None:
    """Raises ValueError unless there is an encoding for each layer, and each fits the model's direction."""
    if len(layers) != depth:
        raise ValueError(f"{len(layers)} encodings for {depth} layers; expected one for all, or one for each layer.")
    direction = "causal" if causal else "bidirectional"
    for encoding in layers:
        name = type(encoding).__name__
        if encoding.bidirectional is not None and encoding.bidirectional == causal:
            raise ValueError(f"{name} was built with bidirectional={encoding.bidirectional}; the model is {direction}.")
        if encoding.causal_only and not causal:
            raise ValueError(f"{name} is for causal models only; the model is bidirectional.")
