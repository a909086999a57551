"""Encodings built by name: one, one that is made of others, or those of all layers of a model."""

from collections.abc import Mapping, Sequence
from typing import Any

from flax import nnx

from posenc.encodings import ENCODINGS
from posenc.encodings.base import Encoding
from posenc.options import build, find, options_of


def make(
    name: str,
    *,
    width: int,
    heads: int,
    head_dim: int,
    value_dim: int | None = None,
    bidirectional: bool = False,
    rngs: nnx.Rngs | None = None,
    parts: Mapping[str, Mapping[str, Any]] | None = None,
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
        parts: the options of encodings that an option `of` names, by their names; the defaults where it is None.
        **options: the encoding's own; `posenc.options_of(ENCODINGS[name])` lists them with their defaults.

    Raises:
        ValueError: an unknown name or option, an option of the wrong kind, a size that does not fit, an encoding for
            causal models where `bidirectional`, or one that is part of itself.
    """
    cls = find(ENCODINGS, name, "encoding")
    if bidirectional and cls.causal_only:
        raise ValueError(f"{name} is for causal models only; the model is bidirectional. Use a decoder.")
    if name in names_within(name, dict(parts or {}) | {name: options}):
        raise ValueError(f"{name}.of leads back to {name}: an encoding cannot be part of itself.")
    sizes = dict(width=width, heads=heads, head_dim=head_dim, value_dim=value_dim, bidirectional=bidirectional)
    return assemble(cls, name, options, parts, **sizes, rngs=rngs)


def assemble(
    cls: type[Encoding],
    name: str,
    options: Mapping[str, Any],
    parts: Mapping[str, Mapping[str, Any]] | None = None,
    **given: Any,
) -> Encoding:
    """Builds an encoding of any class; those that its option `of` names are built first, by `make`.

    Args:
        cls: the class.
        name: what errors call it.
        options: its own.
        parts: as in `make`.
        **given: sizes, direction and rngs, as in `make`.

    Raises:
        ValueError: as in `make`.
    """
    of = (options_of(cls) | dict(options)).get("of")

    def built(part: Any) -> Any:
        return make(part, parts=parts, **given, **(parts or {}).get(part, {})) if type(part) is str else part

    if of is not None:
        options = dict(options) | {"of": tuple(map(built, of)) if isinstance(of, tuple | list) else built(of)}
    return build(cls, name, options, **given)


def names_within(name: str, options: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The encodings that an encoding is made of by its option `of`, and those that these are made of, each once.

    Args:
        name: of the outer encoding, which is not among them unless it contains itself.
        options: of any encodings, by name; the defaults where one is missing.
    """
    found: list[str] = []
    waiting = [name]
    while waiting:
        outer = waiting.pop(0)
        of = (options_of(find(ENCODINGS, outer, "encoding")) | dict(options.get(outer, {}))).get("of", ())
        inner = [part for part in (of if isinstance(of, tuple | list) else (of,)) if type(part) is str]
        new = [part for part in dict.fromkeys(inner) if part not in found]
        found, waiting = found + new, waiting + new
    return found


def make_layers(
    pattern: str | Sequence[str],
    depth: int,
    *,
    share: bool | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    **sizes: Any,
) -> list[Encoding]:
    """The encoding of each of `depth` layers; the same object twice means the same parameters.

    Args:
        pattern: a name, or names that repeat over the layers: ("rope", "none") alternates.
        share: one object for all layers of a name, or one for each; None follows each paper's habit.
        options: for each name its options, also for names within an encoding made of others.
        **sizes: as in `make`.

    Raises:
        ValueError: as in `make`; or one object for each layer is asked of an encoding that acts on the embeddings,
            of which there is one.
    """
    names = (pattern,) if isinstance(pattern, str) else tuple(pattern)
    if not names:
        raise ValueError("the pattern of encodings is empty; name at least one.")
    built: dict[str, Encoding] = {}
    layers: list[Encoding] = []
    for layer in range(depth):
        name = names[layer % len(names)]
        encoding = built.get(name)
        if encoding is None or not (encoding.shared if share is None else share):
            encoding = built[name] = make(name, parts=options, **sizes, **(options or {}).get(name, {}))
        if share is False and encoding.overrides("embeddings"):
            raise ValueError(f"{name} acts on the embeddings, once: layers cannot have one each. Leave share unset.")
        layers.append(encoding)
    return layers
