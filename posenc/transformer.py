"""One transformer for the whole ablation: encodings are handed in, everything else stays as it is."""

from collections.abc import Sequence
from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx

from posenc.attention import Attention, head_width, visibility
from posenc.encodings.base import Encoding
from posenc.positions import PositionsLike
from posenc.shapes import Array, Bool, Float, Int

Norm = Literal["rms", "layer"]
Placement = Literal["pre", "post"]


class MLP(nnx.Module):
    """Two linear maps with a GELU between."""

    def __init__(self, width: int, hidden: int, *, dropout: float, dtype, param_dtype, rngs: nnx.Rngs):
        self.up = nnx.Linear(width, hidden, dtype=dtype, param_dtype=param_dtype, rngs=rngs)
        self.down = nnx.Linear(hidden, width, dtype=dtype, param_dtype=param_dtype, rngs=rngs)
        self.dropout = nnx.Dropout(dropout)

    def __call__(self, x: Float[Array, "b t m"], *, rngs: nnx.Rngs | None = None) -> Float[Array, "b t m"]:
        hidden = jax.nn.gelu(self.up(x))
        return self.down(self.dropout(hidden, deterministic=rngs is None, rngs=rngs))


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
        norm: Norm,
        placement: Placement,
        dropout: float,
        dtype,
        param_dtype,
        rngs: nnx.Rngs,
    ):
        kinds = dict(dropout=dropout, dtype=dtype, param_dtype=param_dtype, rngs=rngs)
        self.attention = Attention(width, heads, head_dim=head_dim, value_dim=value_dim, **kinds)
        self.mlp = MLP(width, mlp_width, **kinds)
        self.attention_norm = make_norm(norm, width, dtype, param_dtype, rngs)
        self.mlp_norm = make_norm(norm, width, dtype, param_dtype, rngs)
        self.placement = placement
        self.dropout = nnx.Dropout(dropout)

    def __call__(
        self,
        x: Float[Array, "b t m"],
        positions: PositionsLike,
        encoding: Encoding,
        visible: Bool[Array, "#b 1 t t"],
        *,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b t m"]:
        def drop(y: Array) -> Array:
            return self.dropout(y, deterministic=rngs is None, rngs=rngs)

        if self.placement == "pre":
            x = x + drop(self.attention(self.attention_norm(x), positions, encoding, visible, rngs=rngs))
            return x + drop(self.mlp(self.mlp_norm(x), rngs=rngs))
        x = self.attention_norm(x + drop(self.attention(x, positions, encoding, visible, rngs=rngs)))
        return self.mlp_norm(x + drop(self.mlp(x, rngs=rngs)))


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
        causal: whether a token sees only itself and what stands before it.
        norm: "rms" or "layer".
        placement: of the norms: "pre", before attention and MLP, or "post", after the residual sum.
        dropout: rate in training, on embeddings, attention weights, hidden channels and each residual branch.
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
        causal: bool = True,
        norm: Norm = "rms",
        placement: Placement = "pre",
        dropout: float = 0.0,
        dtype=jnp.float32,
        param_dtype=jnp.float32,
        rngs: nnx.Rngs,
    ):
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
                width,
                heads,
                head_dim=head_dim or head_width(width, heads),
                value_dim=value_dim,
                mlp_width=mlp_width or 4 * width,
                norm=norm,
                placement=placement,
                dropout=dropout,
                dtype=dtype,
                param_dtype=param_dtype,
                rngs=rngs,
            )
            for _ in range(depth)
        )
        self.final_norm = make_norm(norm, width, dtype, param_dtype, rngs) if placement == "pre" else None
        self.head = nnx.Linear(width, vocabulary, use_bias=False, dtype=dtype, param_dtype=param_dtype, rngs=rngs)
        self.dropout = nnx.Dropout(dropout)

    def __call__(
        self,
        tokens: Int[Array, "b t"],
        positions: PositionsLike,
        *,
        lengths: Int[Array, "#b"] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b t v"]:
        """Logits for every token.

        Args:
            tokens: padded behind.
            positions: of the tokens, ``[t]`` or ``[1|b, t]``; padding carries the position of a real token.
            lengths: how many tokens of each example are real; all where it is None.
            rngs: for dropout, in training; none in evaluation.
        """
        visible = visibility(tokens.shape[1], causal=self.causal, lengths=lengths)
        x = self.embed(tokens).astype(self.dtype)
        for encoding in self.encodings:
            x = encoding.embeddings(x, positions)
        x = self.dropout(x, deterministic=rngs is None, rngs=rngs)
        for block, index in zip(self.blocks, self.encoding_of_layer, strict=True):
            x = block(x, positions, self.encodings[index], visible, rngs=rngs)
        if self.final_norm is not None:
            x = self.final_norm(x)
        return self.head(x).astype(jnp.promote_types(self.dtype, jnp.float32))


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
