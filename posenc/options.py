"""Options are the keyword arguments of a constructor; this file lists, checks and hands them over.

An encoding, a position scheme or a task says what it can be told by annotated keyword arguments with defaults. From
that signature come the fields of a config, the checks and the error messages, so that an option is written down once.
"""

import difflib
import inspect
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar

T = TypeVar("T")

# Handed over by whoever builds the object, never chosen in a config.
GIVEN = frozenset({"head_dim", "value_dim", "bidirectional", "rngs", "param_dtype"})

LARGEST_FLOAT = 3.4e38  # of float32


def find(table: Mapping[str, T], name: object, what: str) -> T:
    """The entry `name` of `table`. `what` says in the singular what the table holds, for the error.

    Raises:
        ValueError: the name is unknown; the message lists the known ones and suggests the nearest.
    """
    if isinstance(name, str) and name in table:
        return table[name]
    raise ValueError(f"Unknown {what} {name!r}.{nearest(name, table)} Known: {', '.join(sorted(table))}.")


def nearest(name: object, known: Iterable[str]) -> str:
    """A sentence that suggests the known name closest to a mistyped one, or nothing."""
    close = difflib.get_close_matches(str(name).lower(), list(known), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def options_of(cls: type) -> dict[str, Any]:
    """The options of a class with their defaults, in the order of its constructor."""
    return {
        name: parameter.default
        for name, parameter in signature_of(cls).items()
        if parameter.default is not parameter.empty and name not in GIVEN and not name.endswith("init")
    }


def signature_of(cls: type) -> Mapping[str, inspect.Parameter]:
    """The constructor's parameters; NNX's metaclass hides them from a look at the class itself."""
    return inspect.signature(cls.__init__).parameters  # type: ignore[misc]


def build(cls: type[T], name: str, options: Mapping[str, Any], **given: Any) -> T:
    """Builds `cls` with checked options and with those of `given` that its constructor asks for.

    Raises:
        ValueError: an option is unknown or is not of the kind that the signature declares.
    """
    checked = check_options(cls, name, options)
    asked = signature_of(cls)
    return cls(**{key: value for key, value in given.items() if key in asked}, **checked)


def check_options(cls: type, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, each known to `cls` and of the declared kind; whole numbers become floats where a float is declared.

    Args:
        name: of what the options belong to, for the error.

    Raises:
        ValueError: an option is unknown or of another kind.
    """
    known = options_of(cls)
    kinds = typing.get_type_hints(cls.__init__)  # type: ignore[misc]
    for option, value in options.items():
        if option not in known:
            listed = ", ".join(known) or "none, it takes no options"
            raise ValueError(f"{name} has no option {option!r}.{nearest(option, known)} Known: {listed}.")
        if not _fits(value, kinds[option]):
            raise ValueError(
                f"{name}.{option} is {value!r}; expected {_described(kinds[option])} (default {known[option]!r})."
            )
    return {option: float(value) if kinds[option] is float else value for option, value in options.items()}


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a declared kind. True is no number, NaN and infinity are none, and 2^31 is no int32."""
    if typing.get_origin(kind) is Literal:
        return any(type(value) is type(choice) and value == choice for choice in typing.get_args(kind))
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return any(_fits(value, choice) for choice in typing.get_args(kind))
    if typing.get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_fits(item, typing.get_args(kind)[0]) for item in value)
    if kind is float:
        return type(value) in (int, float) and abs(value) < LARGEST_FLOAT
    if kind in (int, bool, str):
        return type(value) is kind and (kind is not int or abs(value) < 2**31)
    return isinstance(value, kind)


def _described(kind: Any) -> str:
    if typing.get_origin(kind) is Literal:
        return " or ".join(repr(choice) for choice in typing.get_args(kind))
    if typing.get_origin(kind) is tuple:
        return f"a tuple, each item {_described(typing.get_args(kind)[0])}"
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " or ".join(map(_described, typing.get_args(kind)))
    names = {int: "a whole number below 2^31", float: "a finite number", bool: "True or False", str: "a string"}
    return names.get(kind, f"a built {getattr(kind, '__name__', kind)}")
