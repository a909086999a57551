"""From a config to cells: every point of the sweep, resolved, checked, and named by what it means.

A cell is one model trained on one task, with all its seeds. What identifies it is its resolved configuration (only the
options of the encoding, scheme and task that it uses, and the task's version), without the seeds.
"""

import dataclasses
import functools
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import jax.numpy as jnp
from flax import nnx
from ml_collections import ConfigDict, config_dict

import posenc
from experiments.settings import Evaluate, Model, Train
from experiments.tasks import TASKS, Layout
from posenc.building import names_within
from posenc.options import check_options, find, nearest, options_of

SECTIONS = {"model": Model, "train": Train, "evaluate": Evaluate}
TABLES = {"encoding": posenc.ENCODINGS, "positions": posenc.SCHEMES, "task": TASKS}
MOST_SEEDS = 2**16


class Section(ConfigDict):
    """A section whose field `values` is not hidden by the method of that name: Shaw has such an option."""

    def __getattribute__(self, name: str) -> Any:
        fields = super().__getattribute__("_fields") if name == "values" else {}
        return fields[name] if name in fields else super().__getattribute__(name)


def default_config() -> ConfigDict:
    """The config that every config file starts from: all options of everything, read off the constructors."""
    # Kinds are checked when cells are resolved; ml-collections takes None for anything, and 1.0 where True is set.
    tree: dict[str, Any] = {name: options_of(cls) for name, cls in SECTIONS.items()}
    for axis, name in (("encoding", "none"), ("positions", "in_order"), ("task", "copy")):
        sections = {key: Section(fields_of(cls), type_safe=False) for key, cls in TABLES[axis].items()}
        tree[axis] = {"name": name} | sections
    config = ConfigDict(tree, type_safe=False)
    config.encoding.pattern = ()  # names that repeat over the layers, in place of the one name
    config.encoding.share = config_dict.placeholder(bool)  # one for all layers, or one each; unset, the paper's habit
    config.positions.test = ""  # the scheme for testing, where it differs
    config.task.end = True  # an answer ends with a token that is scored
    config.seeds = 3
    config.sweep = ConfigDict({axis: config_dict.placeholder(tuple) for axis in TABLES}, allow_dotted_keys=True)
    return config


def fields_of(cls: type) -> dict[str, Any]:
    """The options of a class as fields of a config; one whose default is None can be set to a word."""
    return {name: config_dict.placeholder(str) if value is None else value for name, value in options_of(cls).items()}


@dataclasses.dataclass(frozen=True)
class Cell:
    """One point of a sweep.

    Attributes:
        config: the resolved configuration, plain data; it alone decides what the cell is.
    """

    config: Mapping[str, Any]

    @functools.cached_property
    def digest(self) -> str:
        """A hash over the whole resolved configuration."""
        return hashlib.sha256(json.dumps(self.config, sort_keys=True).encode()).hexdigest()

    @property
    def name(self) -> str:
        """The name of the cell's folder: what it is for the eye, and the hash for the rest."""
        return f"{self.config['encoding']['name']}-{self.config['task']['name']}-{self.digest[:10]}"

    def label(self, axis: str) -> str:
        """The name on an axis ("encoding", "positions", "task") with the options that are not the default."""
        chosen = self.config[axis]
        if axis == "encoding":
            return encoding_label(chosen)
        text = label(axis, chosen["name"], chosen["options"])
        if axis == "positions" and chosen["test"]["name"] != chosen["name"]:
            text += "->" + label(axis, chosen["test"]["name"], chosen["test"]["options"])
        return text if chosen.get("end", True) else f"{text} without end"

    @functools.cached_property
    def model(self) -> Model:
        return Model(**self.config["model"])

    @functools.cached_property
    def train(self) -> Train:
        return Train(**self.config["train"])

    @functools.cached_property
    def evaluate(self) -> Evaluate:
        return Evaluate(**self.config["evaluate"] | {"lengths": tuple(self.config["evaluate"]["lengths"])})

    @functools.cached_property
    def layout(self) -> Layout:
        """The task, in the form that the architecture reads."""
        task = TASKS[self.config["task"]["name"]](**self.config["task"]["options"])
        return Layout(task, self.model.architecture, self.config["task"]["end"])

    @functools.cached_property
    def schemes(self) -> tuple[Any, Any]:
        """The position schemes of training and of testing."""
        train, test = self.config["positions"], self.config["positions"]["test"]
        return tuple(posenc.SCHEMES[one["name"]](**one["options"]) for one in (train, test))

    def without_encoding(self) -> "Cell":
        """The same cell with no encoding at all."""
        none = {"name": "none", "pattern": ["none"], "share": None, "options": {"none": {}}}
        return Cell({**self.config, "encoding": none})

    def transformer(self, rngs: nnx.Rngs) -> posenc.Transformer:
        """The model, with initial parameters drawn from `rngs`."""
        model, encoding = self.model, self.config["encoding"]
        layers = posenc.make_layers(
            encoding["pattern"],
            model.depth,
            share=encoding["share"],
            options={name: tuples(options) for name, options in encoding["options"].items()},
            width=model.width,
            heads=model.heads,
            head_dim=model.width // model.heads,
            bidirectional=model.architecture == "encoder",
            rngs=rngs,
        )
        return posenc.Transformer(
            self.layout.vocabulary,
            model.width,
            model.depth,
            model.heads,
            layers,
            mlp_width=model.mlp_width or None,
            causal=model.architecture == "decoder",
            norm=model.norm,
            placement=model.placement,
            dropout=model.dropout,
            rngs=rngs,
        )


def label(axis: str, name: str, options: Mapping[str, Any]) -> str:
    """A name, with those options that differ from the default."""
    different = ", ".join(changed(axis, name, options))
    return f"{name}({different})" if different else name


def changed(axis: str, name: str, options: Mapping[str, Any]) -> list[str]:
    """The options that are not the default, with their values."""
    default = options_of(TABLES[axis][name])
    different = {key: value for key, value in tuples(options).items() if value != default[key]}
    return [f"{key}={'+'.join(map(str, v)) if isinstance(v, tuple) else v}" for key, v in different.items()]


def tuples(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as they were before JSON made lists of their tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}


def encoding_label(chosen: Mapping[str, Any]) -> str:
    """The names of a pattern of encodings, each with its changed options and those of the encodings it is made of."""
    texts, options = [], {name: tuples(values) for name, values in chosen["options"].items()}
    for name in chosen["pattern"]:
        inner = [
            f"{part}.{one}" for part in names_within(name, options) for one in changed("encoding", part, options[part])
        ]
        different = ", ".join([*changed("encoding", name, options[name]), *inner])
        texts.append(f"{name}({different})" if different else name)
    return "+".join(texts) + ("" if chosen["share"] is None else f", share={chosen['share']}")


def expand(config: ConfigDict) -> list[Cell]:
    """All cells of a config, in the order of its sweep, each once.

    Raises:
        ValueError: the sweep is empty, or cells are not what they should be; the message lists all that is wrong.
    """
    check_fields(config, default_config())
    cells, wrong, models = {}, {}, {}
    for overrides in points(config.sweep):
        try:
            cell = resolve(config, overrides)
            check(cell, models)
            cells[cell.digest] = cell
        except (ValueError, TypeError) as error:
            wrong.setdefault(str(error), overrides)
    if wrong:
        raise ValueError("\n".join(described(overrides) + error for error, overrides in wrong.items()))
    return list(cells.values())


def check_fields(config: object, like: ConfigDict, path: str = "") -> None:
    """Raises ValueError unless a config has the fields of the default one, and sections where that has sections."""
    if not isinstance(config, ConfigDict):
        what = path.removesuffix(".") or "what get_config returns"
        raise ValueError(f"{what} is {config!r}; expected a section with {', '.join(like)}, as in default_config().")
    for name in config:
        if name not in like and path != "sweep.":
            known = f"{nearest(name, like)} Known there: {', '.join(like)}."
            raise ValueError(f"the config has no field {path + name!r}.{known}")
    for name in like:
        if name not in config:
            raise ValueError(f"the config lacks {path}{name}: start from experiments.cells.default_config().")
        if isinstance(like[name], ConfigDict):
            check_fields(config[name], like[name], f"{path}{name}.")


def described(overrides: Mapping[str, Any]) -> str:
    """The point of a sweep that an error is about."""
    point = ", ".join(f"{key.removesuffix('.name')}={value}" for key, value in overrides.items())
    return f"{point}: " if point else ""


def points(sweep: ConfigDict) -> Iterator[dict[str, Any]]:
    """The product over all axes of a sweep, as overrides of config paths.

    Raises:
        ValueError: an axis is empty, is no tuple, is there twice, or is the seeds.
    """
    axes: dict[str, Any] = {}
    for key, values in sweep.items():
        path = f"{key}.name" if key in TABLES else key
        if values is None:
            continue
        if path in axes:
            raise ValueError(
                f"sweep.{key} is an axis twice, also as sweep.{key.removesuffix('.name')}. Keep one of them."
            )
        if path.split(".")[0] in ("seeds", "sweep"):
            raise ValueError(f"sweep.{key} cannot be an axis: every cell has the same seeds. Set config.seeds instead.")
        if not isinstance(values, tuple | list):
            raise ValueError(f"sweep.{key} is {values!r}; expected a tuple of values.")
        if not values:
            raise ValueError(f"sweep.{key} is empty: no cell to run. Name at least one value.")
        axes[path] = values
    for point in itertools.product(*axes.values()):
        yield dict(zip(axes, point, strict=True))


def resolve(config: ConfigDict, overrides: Mapping[str, Any]) -> Cell:
    """One cell: the config with these overrides, with what it does not use left out.

    Raises:
        ValueError: an unknown field or name, or a value of the wrong kind.
    """
    whole = config.copy_and_resolve_references().to_dict()
    for path, value in overrides.items():
        override(whole, path, value)
    resolved: dict[str, Any] = {name: section(whole[name], name, cls) for name, cls in SECTIONS.items()}
    if whole["encoding"]["pattern"] and "encoding.name" in overrides:
        raise ValueError(
            "encoding.pattern is set and decides the encodings; a sweep over their names has no effect. Sweep over "
            "encoding.pattern instead, or leave it empty."
        )
    resolved["encoding"] = encodings(whole["encoding"], resolved["model"]["depth"])
    for axis in ("positions", "task"):
        resolved[axis] = choice(whole[axis], axis, whole[axis]["name"])
    test, end = whole["positions"]["test"] or whole["positions"]["name"], whole["task"]["end"]
    if type(end) is not bool:
        raise ValueError(f"task.end is {end!r}; expected True or False.")
    resolved["positions"]["test"] = choice(whole["positions"], "positions", test)
    resolved["task"] |= {"version": TASKS[whole["task"]["name"]].version, "end": end}
    return Cell(json.loads(json.dumps(resolved)))


def override(config: dict[str, Any], path: str, value: Any) -> None:
    """Sets one field, which must exist. Its kind is checked later, with all others."""
    at: Any = config
    for name in path.split("."):
        if not isinstance(at, dict) or name not in at:
            listed = f"{nearest(name, at)} Known there: {', '.join(at)}." if isinstance(at, dict) and at else ""
            raise ValueError(f"the config has no field {path!r}.{listed}")
        section, at = at, at[name]
    if isinstance(at, dict):
        raise ValueError(f"{path} is a section of the config; name one of its fields: {', '.join(at)}.")
    section[name] = value


def section(values: dict[str, Any], name: str, cls: type) -> dict[str, Any]:
    """The settings of one section, checked."""
    settings = check_options(cls, name, values)
    cls(**settings)
    return settings


def encodings(values: dict[str, Any], depth: int) -> dict[str, Any]:
    """The encodings of the layers, with the options of each and of those that they are made of, checked."""
    pattern, share = values["pattern"], values["share"]
    if not isinstance(pattern, tuple | list) or not all(isinstance(name, str) for name in pattern):
        raise ValueError(
            f"encoding.pattern is {pattern!r}; expected names that repeat over the layers, as ('rope', 'none')."
        )
    if share is not None and type(share) is not bool:
        raise ValueError(f"encoding.share is {share!r}; expected True, False, or None for the paper's habit.")
    name = values["name"]
    pattern = list(pattern) or (name.split("+") if isinstance(name, str) else [name])
    if len(pattern) > depth:
        named = "+".join(map(str, pattern))
        raise ValueError(f"{named} are {len(pattern)} encodings for {depth} layers. Shorten it, or deepen the model.")
    pattern = pattern[:1] if len(set(pattern)) == 1 else pattern
    for name in pattern:
        find(posenc.ENCODINGS, name, "encoding")
    names = dict.fromkeys(inner for name in pattern for inner in [name, *names_within(name, values)])
    options = {name: choice(values, "encoding", name)["options"] for name in names}
    return {"name": "+".join(pattern), "pattern": pattern, "share": share, "options": options}


def choice(values: dict[str, Any], axis: str, name: str) -> dict[str, Any]:
    """A name on an axis, with its own options, checked."""
    cls = find(TABLES[axis], name, "position scheme" if axis == "positions" else axis)
    return {"name": name, "options": check_options(cls, f"{axis}.{name}", values[name])}


def check(cell: Cell, models: dict[str, tuple[int | None, bool]]) -> None:
    """Raises ValueError where a cell cannot do what it is asked, before anything is compiled or written.

    `models` collects what is known of the models that cells share, so that each is traced once.
    """
    name, layout = cell.label("encoding"), cell.layout
    identity = json.dumps([cell.config["encoding"], cell.config["model"]])
    if identity not in models:
        models[identity] = trace(cell)
    limit, blind = models[identity]
    uses = (
        ("training", cell.schemes[0], cell.train.max_length, "train.max_length"),
        ("testing", cell.schemes[1], cell.evaluate.lengths[-1], "evaluate.lengths"),
    )
    for purpose, scheme, length, field in uses:
        furthest = scheme.limit(layout.tokens(length))
        if limit is not None and furthest > limit:
            options = cell.config["encoding"]["options"]
            short = [part for part, chosen in options.items() if chosen.get("max_position", furthest) < furthest]
            raise ValueError(
                f"{name} reads positions 0 to {limit - 1}, and {purpose} at length {length} needs {furthest} of them. "
                f"Set encoding.{short[0] if short else name}.max_position to {furthest} or more, or change {field}."
            )
        if blind and not isinstance(scheme, posenc.SCHEMES["in_order"]):
            raise ValueError(
                f"{name} does not look at positions: {cell.label('positions')} is nothing to it in {purpose}. "
                "Use in_order, or leave it out."
            )


def trace(cell: Cell) -> tuple[int | None, bool]:
    """How far a model's encoding reads, and whether it is blind; traced on two tokens, to see that sizes fit."""

    def once():
        model = cell.transformer(nnx.Rngs(0))
        return model, model(jnp.zeros((1, 2), int), jnp.arange(2))

    encodings = nnx.eval_shape(once)[0].encodings
    limits = [encoding.limit for encoding in encodings if encoding.limit is not None]
    return min(limits, default=None), all(encoding.kind == "blind" for encoding in encodings)


def check_seeds(seeds: object) -> list[int]:
    """The seeds 0 .. seeds-1.

    Raises:
        ValueError: not a number of seeds.
    """
    if type(seeds) is not int or not 1 <= seeds <= MOST_SEEDS:
        raise ValueError(f"seeds is {seeds!r}; expected how many, from 1 to {MOST_SEEDS}.")
    return list(range(seeds))
