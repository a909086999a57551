"""The table of encodings, and the two functions that build from it: one encoding, or those of all layers."""

from collections.abc import Sequence
from typing import Any

from flax import nnx

from posenc.encodings.base import Encoding, overrides
from posenc.encodings.learned import Learned
from posenc.encodings.none import NoPE
from posenc.encodings.rope import RoPE
from posenc.encodings.shaw import Shaw
from posenc.encodings.sinusoidal import Sinusoidal
from posenc.encodings.t5 import T5
from posenc.options import build, find

ENCODINGS: dict[str, type[Encoding]] = {
    "none": NoPE,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "shaw": Shaw,
    "t5": T5,
    "rope": RoPE,
}


def make(
    name: str,
    *,
    width: int,
    heads: int,
    head_dim: int,
    value_dim: int | None = None,
    bidirectional: bool = False,
    rngs: nnx.Rngs | None = None,
    **options: Any,
) -> Encoding:
    """Builds an encoding by its name; its constructor gets those of the sizes that it asks for.

    Args:
        name: one of ENCODINGS.
        width: channels of the model.
        heads: heads of the attention.
        head_dim: channels of a query or key.
        value_dim: channels of a value, where they differ from those of a key.
        bidirectional: whether queries see keys after them.
        rngs: where initial parameters are drawn from.
        **options: the encoding's own; `posenc.options_of(ENCODINGS[name])` lists them with their defaults.

    Raises:
        ValueError: an unknown name or option, an option of the wrong kind, a size that does not fit, or an encoding
            for causal models where `bidirectional`.
    """
    cls = find(ENCODINGS, name, "encoding")
    if bidirectional and cls.causal_only:
        raise ValueError(f"{name} is for causal models only; the model is bidirectional. Use a decoder.")
    given = dict(width=width, heads=heads, head_dim=head_dim, value_dim=value_dim)
    return build(cls, name, options, **given, bidirectional=bidirectional, rngs=rngs)


def make_layers(
    pattern: str | Sequence[str],
    depth: int,
    *,
    share: bool | None = None,
    options: dict[str, dict[str, Any]] | None = None,
    **sizes: Any,
) -> list[Encoding]:
    """The encoding of each of `depth` layers; the same object twice means the same parameters.

    Args:
        pattern: a name, or names that repeat over the layers: ("rope", "none") alternates.
        share: one object for all layers of a name, or one for each; None follows each paper's habit.
        options: for each name its options.
        **sizes: as in `make`.

    Raises:
        ValueError: as in `make`; or one object for each layer is asked of an encoding that acts on the embeddings,
            of which there is one.
    """
    names = (pattern,) if isinstance(pattern, str) else tuple(pattern)
    built: dict[str, Encoding] = {}
    layers: list[Encoding] = []
    for layer in range(depth):
        name = names[layer % len(names)]
        encoding = built.get(name)
        if encoding is None or not (encoding.shared if share is None else share):
            encoding = built[name] = make(name, **sizes, **(options or {}).get(name, {}))
        if share is False and overrides(encoding, "embeddings"):
            raise ValueError(f"{name} acts on the embeddings, once: layers cannot have one each. Leave share unset.")
        layers.append(encoding)
    return layers
