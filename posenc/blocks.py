"""What transformers are made of: layers of attention and MLP, and stacks of them with their encodings."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx

from posenc.attention import Attention, Keys, Road, head_width
from posenc.cache import Cache
from posenc.dropout import dropped
from posenc.encodings.base import Encoding
from posenc.norms import Norm, make_norm, normed
from posenc.positions import Positions, PositionsLike, taken
from posenc.shapes import Array, Bool, Float, Int
from posenc.visibility import Visibility

Placement = Literal["pre", "post"]
Activation = Literal["gelu", "relu", "silu", "geglu", "swiglu"]
Site = Literal["embeddings", "weights", "hidden", "branches"]
SITES: tuple[Site, ...] = ("embeddings", "weights", "hidden", "branches")  # where dropout acts

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"gelu": jax.nn.gelu, "relu": jax.nn.relu, "silu": jax.nn.silu}
GATES: dict[str, Callable[[Array], Array]] = {"geglu": jax.nn.gelu, "swiglu": jax.nn.silu}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Form:
    """What all layers of a transformer have in common.

    Attributes:
        width: channels between the layers.
        heads: heads of each layer.
        head_dim: channels of a query or key of one head; width / heads where it is None.
        value_dim: channels of a value of one head; `head_dim` where it is None.
        mlp_width: hidden channels of the MLPs; four times the width where it is None.
        activation: of the MLPs: "gelu", "relu", "silu"; or "geglu", "swiglu", where one half of the hidden channels
            gates the other (Shazeer 2020, arXiv:2002.05202).
        norm: "rms", "layer" or "batch".
        placement: of the norms: "pre", before attention and MLP, or "post", after the residual sum.
        attention: the road of `attend`: "dense", "blocks", "fused", or "auto".
        attention_scale: of the logits; 1 / sqrt(head_dim) where it is None. T5 has 1 (Raffel et al. 2020,
            arXiv:1910.10683), and smaller initial queries: those here are such that training begins alike.
        window: a token sees those less than so many tokens away; all where it is None.
        stride: a token sees those a multiple of so many tokens away, beside those of the window (Child et al. 2019,
            arXiv:1904.10509); where it is None, those of the window alone.
        dropout: rate in training.
        dropout_on: what it acts on: the "embeddings", the attention "weights", the "hidden" channels of the MLPs, and
            what the residual "branches" add.
        scale_embeddings: they are drawn small and multiplied by sqrt(width), as by Vaswani et al. 2017
            (arXiv:1706.03762).
        tie_embeddings: the head has the same parameters (Press and Wolf 2017, arXiv:1608.05859); where embeddings are
            not scaled up, logits are divided by sqrt(width), as in T5.
        dtype: of activations. Logits are float32.
        param_dtype: of parameters.

    Raises:
        ValueError: `head_dim` is None and `heads` does not divide `width`.
    """

    width: int
    heads: int
    head_dim: int | None = None
    value_dim: int | None = None
    mlp_width: int | None = None
    activation: Activation = "gelu"
    norm: Norm = "rms"
    placement: Placement = "pre"
    attention: Road = "auto"
    attention_scale: float | None = None
    window: int | None = None
    stride: int | None = None
    dropout: float = 0.0
    dropout_on: tuple[Site, ...] = SITES
    scale_embeddings: bool = False
    tie_embeddings: bool = False
    dtype: Any = jnp.float32
    param_dtype: Any = jnp.float32

    def __post_init__(self):
        if self.head_dim is None:
            head_width(self.width, self.heads)

    def rate(self, site: Site) -> float:
        """Of dropout there."""
        return self.dropout if site in self.dropout_on else 0.0

    @property
    def kinds(self) -> dict[str, Any]:
        """The types that every layer is told."""
        return {"dtype": self.dtype, "param_dtype": self.param_dtype}

    def make_norm(self, rngs: nnx.Rngs) -> nnx.Module:
        """One of the norms."""
        return make_norm(self.norm, self.width, self.dtype, self.param_dtype, rngs)

    def make_attention(self, rngs: nnx.Rngs) -> Attention:
        """One of the attentions."""
        return Attention(
            self.width, self.heads, head_dim=self.head_dim, value_dim=self.value_dim, scale=self.attention_scale,
            road=self.attention, dropout=self.rate("weights"), rngs=rngs, **self.kinds,
        )  # fmt: skip


class MLP(nnx.Module):
    """Two linear maps with a nonlinearity between."""

    def __init__(self, form: Form, *, rngs: nnx.Rngs):
        hidden = form.mlp_width or 4 * form.width
        self.up = nnx.Linear(form.width, hidden, rngs=rngs, **form.kinds)
        self.down = nnx.Linear(hidden, form.width, rngs=rngs, **form.kinds)
        if form.activation in GATES:
            self.gate = nnx.Linear(form.width, hidden, rngs=rngs, **form.kinds)
        self.activation, self.dropout = form.activation, form.rate("hidden")

    def __call__(self, x: Float[Array, "b t m"], *, rngs: nnx.Rngs | None = None) -> Float[Array, "b t m"]:
        if self.activation in GATES:
            hidden = GATES[self.activation](self.gate(x)) * self.up(x)
        else:
            hidden = ACTIVATIONS[self.activation](self.up(x))
        return self.down(dropped(hidden, self.dropout, rngs))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Memory:
    """What a decoder asks of a text that an encoder has read: keys and values of one layer, and which are real."""

    keys: Keys
    lengths: Int[Array, "#b"] | None


class Block(nnx.Module):
    """Attention, then an MLP, each with a residual and a norm before it ("pre") or after the sum ("post").

    Between the two, where `cross` is True, attention to what an encoder has read.
    """

    def __init__(self, form: Form, *, cross: bool = False, rngs: nnx.Rngs):
        self.attention = form.make_attention(rngs)
        self.mlp = MLP(form, rngs=rngs)
        self.attention_norm, self.mlp_norm = form.make_norm(rngs), form.make_norm(rngs)
        if cross:
            self.cross, self.cross_norm = form.make_attention(rngs), form.make_norm(rngs)
        self.placement, self.dropout = form.placement, form.rate("branches")

    def __call__(
        self,
        x: Float[Array, "b t m"],
        positions: PositionsLike,
        encoding: Encoding,
        visible: Visibility,
        *,
        slots: Int[Array, "#b q"] | None = None,
        rngs: nnx.Rngs | None = None,
        ask: Callable[[Attention, Array], Array] | None = None,
    ) -> Float[Array, "b q m"]:
        """The tokens in these slots, all where it is None, after the layer.

        Args:
            ask: what tokens take from what an encoder has read, with the attention for it.
        """
        real = visible.real(x.shape[1])
        asking, asking_real = (x, real) if slots is None else (taken(x, slots), taken(real, slots))

        def attend(x: Array) -> Array:
            return self.attention(x, positions, encoding, visible, slots=slots, rngs=rngs)

        if self.placement == "pre":
            x = asking + dropped(attend(normed(self.attention_norm, x, real)), self.dropout, rngs)
        else:
            x = normed(self.attention_norm, asking + dropped(attend(x), self.dropout, rngs), asking_real)
        return self.rest(x, asking_real, ask, rngs)

    def rest(self, x: Array, real: Bool[Array, "#b q"], ask, rngs: nnx.Rngs | None = None) -> Float[Array, "b q m"]:
        """What comes after the attention to one's own text."""
        if ask is not None:
            x = self.added(x, real, self.cross_norm, lambda x: ask(self.cross, x), rngs)
        return self.added(x, real, self.mlp_norm, lambda x: self.mlp(x, rngs=rngs), rngs)

    def added(self, x: Array, real: Bool[Array, "#b q"], norm: nnx.Module, branch, rngs) -> Float[Array, "b q m"]:
        """A residual branch, with its norm."""
        if self.placement == "pre":
            return x + dropped(branch(normed(norm, x, real)), self.dropout, rngs)
        return normed(norm, x + dropped(branch(x), self.dropout, rngs), real)

    def extend(self, x, positions, encoding, cache, slots, real, visible, room, ask):
        """More tokens after the layer, and the layer's cache with them in it."""
        asking = normed(self.attention_norm, x, real) if self.placement == "pre" else x
        if cache is None:
            cache = Keys.room(self.attention.keys(asking, positions, encoding), room)
        attended, cache = self.attention.extend(asking, positions, encoding, cache, slots, visible)
        x = x + attended
        x = x if self.placement == "pre" else normed(self.attention_norm, x, real)
        return self.rest(x, real, ask), cache


class Stack(nnx.Module):
    """Layers one after the other, with the encodings that they are handed: each object is owned once.

    Args:
        depth: number of layers.
        encodings: one for all layers, or one for each; the same object twice means the same parameters.
        form: of the layers.
        causal: whether a token sees only itself and what stands before it.
        cross: the encoding of the attention to what an encoder has read; None where there is no such attention.

    Raises:
        ValueError: encodings that fit neither the number of layers nor the direction, or a `cross` that takes steps.
    """

    def __init__(
        self,
        depth: int,
        encodings: Encoding | Sequence[Encoding],
        form: Form,
        *,
        causal: bool,
        cross: Encoding | None = None,
        rngs: nnx.Rngs,
    ):
        layers = [encodings] * depth if isinstance(encodings, Encoding) else list(encodings)
        check_layers(layers, depth, causal)
        distinct = list({id(encoding): encoding for encoding in layers}.values())
        self.encodings = nnx.List(distinct)
        self.encoding_of_layer = tuple(next(i for i, e in enumerate(distinct) if e is layer) for layer in layers)
        if cross is not None:
            check_cross(cross)
            self.cross_encoding = cross
        self.causal, self.form = causal, form
        self.blocks = nnx.List(Block(form, cross=cross is not None, rngs=rngs) for _ in range(depth))
        self.final_norm = form.make_norm(rngs) if form.placement == "pre" else None

    def layers(
        self,
        x: Float[Array, "b t m"],
        positions: PositionsLike,
        *,
        lengths: Int[Array, "#b"] | None,
        slots: Int[Array, "#b q"] | None,
        memory: Sequence[Memory] = (),
        rngs: nnx.Rngs | None,
    ) -> Float[Array, "b q m"]:
        """Embedded tokens, as they come out of the last layer; there those in `slots` alone."""
        visible = self.visible(lengths)
        real = visible.real(x.shape[1])
        for encoding in self.encodings:
            x = encoding.embeddings(x, positions)
        x = dropped(x, self.form.rate("embeddings"), rngs)
        wanted = [None] * (len(self.blocks) - 1) + [slots]
        for number, (block, index, of_layer) in enumerate(
            zip(self.blocks, self.encoding_of_layer, wanted, strict=True)
        ):
            ask = self.recalling(memory[number], positions, of_layer, rngs) if memory else None
            x = block(x, positions, self.encodings[index], visible, slots=of_layer, rngs=rngs, ask=ask)
        if self.final_norm is None:
            return x
        return normed(self.final_norm, x, real if slots is None else taken(real, slots))

    def extend_layers(
        self, x: Float[Array, "b t m"], positions: Positions, cache: Cache, slots, memory: Sequence[Memory] = ()
    ) -> tuple[Float[Array, "b t m"], Cache]:
        """The same for more embedded tokens behind those in a cache, and the cache with them in it.

        Args:
            slots: of the new tokens, as `Cache.more` gives them with the cache.
        """
        visible, real = self.visible(cache.lengths), slots < cache.lengths[:, None]
        for encoding in self.encodings:
            x = encoding.embeddings(x, positions)
        kept = []
        for number, (block, index) in enumerate(zip(self.blocks, self.encoding_of_layer, strict=True)):
            encoding, layer = self.encodings[index], cache.layers[number] if cache.layers else None
            ask = self.recalling(memory[number], positions, None, None) if memory else None
            x, keys = block.extend(x, positions, encoding, layer, slots, real, visible, cache.room, ask)
            kept.append(keys)
        if self.final_norm is not None:
            x = normed(self.final_norm, x, real)
        return x, dataclasses.replace(cache, layers=kept)

    def visible(self, lengths: Int[Array, "#b"] | None) -> Visibility:
        """What a token sees."""
        return Visibility(self.causal, lengths, window=self.form.window, stride=self.form.stride)

    def memories(
        self, read: Float[Array, "b s m"], positions: PositionsLike, lengths: Int[Array, "#b"] | None
    ) -> list[Memory]:
        """What each layer asks of a text that an encoder has read."""
        real = Visibility(False, lengths).real(read.shape[1])
        read, where = jnp.where(real[:, :, None], read, 0), Positions.led(positions)
        return [Memory(block.cross.keys(read, where, self.cross_encoding), lengths) for block in self.blocks]

    def recalling(self, memory: Memory, positions: PositionsLike, slots, rngs) -> Callable[[Attention, Array], Array]:
        """What tokens take from a memory, those in these slots, all where it is None."""
        where = Positions.led(positions)
        where = where if slots is None else where.at(slots)

        def ask(attention: Attention, x: Array) -> Array:
            visible = Visibility(False, memory.lengths, jnp.zeros((1, x.shape[1]), int))  # no query is past the text
            return attention.recall(x, where, memory.keys, self.cross_encoding, visible, rngs=rngs)

        return ask


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


def check_cross(encoding: Encoding) -> None:
    """Raises ValueError where an encoding makes no sense between two texts."""
    name = type(encoding).__name__
    for hook, what in (("steps", "counts from the first token of one text on"), ("embeddings", "acts on embeddings")):
        if encoding.overrides(hook):
            raise ValueError(f"{name} {what}: it cannot encode the attention of one text to another. Use another one.")
    check_layers([encoding], 1, causal=False)
