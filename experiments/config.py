"""From a config to cells: every point of the sweep, resolved and checked."""

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict, config_dict

import posenc
from experiments.cells import TABLES, Cell, habit, tuples
from experiments.checks import check
from experiments.settings import Cluster, Evaluate, Model, Train, assigned
from experiments.tasks import TASKS
from posenc.building import names_within
from posenc.options import check_options, find, nearest, options_of

SECTIONS = {"model": Model, "train": Train, "evaluate": Evaluate}
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
    config.encoding.cross = "none"  # of what a decoder asks of an encoder's text
    config.encoding.share = config_dict.placeholder(bool)  # one for all layers, or one each; unset, the paper's habit
    config.positions.test = ""  # the scheme for testing; unset, what the paper of the scheme for training tests with
    config.task.end = True  # an answer ends with a token that is scored
    config.seeds = 3
    config.cluster = ConfigDict(options_of(Cluster), type_safe=False)
    config.sweep = ConfigDict({axis: config_dict.placeholder(tuple) for axis in TABLES}, allow_dotted_keys=True)
    return config


def fields_of(cls: type) -> dict[str, Any]:
    """The options of a class as fields of a config; one whose default is None can be set to a word."""
    return {name: config_dict.placeholder(str) if value is None else value for name, value in options_of(cls).items()}


def expand(config: ConfigDict) -> list[Cell]:
    """All cells of a config, in the order of its sweep, each once.

    Raises:
        ValueError: the sweep is empty, or cells are not what they should be; the message lists all that is wrong.
    """
    check_fields(config, default_config())
    cells, wrong = {}, {}
    models: dict[str, posenc.Transformer] = {}
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
            raise ValueError(f"the config lacks {path}{name}: start from experiments.config.default_config().")
        if isinstance(like[name], ConfigDict):
            check_fields(config[name], like[name], f"{path}{name}.")


def described(overrides: Mapping[str, Any]) -> str:
    """The point of a sweep that an error is about."""
    point = ", ".join(f"{key.removesuffix('.name')}={value}" for key, value in overrides.items())
    return f"{point}: " if point else ""


def points(sweep: ConfigDict) -> Iterator[dict[str, Any]]:
    """The product over all axes of a sweep, as overrides of config paths.

    An axis may set several fields together: "encoding, positions" takes pairs.

    Raises:
        ValueError: an axis is empty, is no tuple, is there twice, or is the seeds.
    """
    axes = {key: axis(key, values) for key, values in sweep.items() if values is not None}
    owner: dict[str, str] = {}
    for key, steps in axes.items():
        for path in steps[0]:
            if path in owner:
                raise ValueError(f"sweep.{key} sets {path}, and so does sweep.{owner[path]}. Keep one of them.")
            owner[path] = key
    for point in itertools.product(*axes.values()):
        yield {path: value for step in point for path, value in step.items()}


def axis(key: str, values: object) -> list[dict[str, Any]]:
    """The overrides of each step along one axis."""
    paths = [f"{name}.name" if name in TABLES else name for name in key.replace(" ", "").split(",")]
    for one in {path.split(".")[0] for path in paths} & {"seeds", "sweep", "cluster"}:
        raise ValueError(f"sweep.{key} cannot be an axis: every cell has the same {one}. Set config.{one} instead.")
    if not isinstance(values, tuple | list):
        raise ValueError(f"sweep.{key} is {values!r}; expected a tuple of values.")
    if not values:
        raise ValueError(f"sweep.{key} is empty: no cell to run. Name at least one value.")
    if len(paths) == 1:
        return [{paths[0]: value} for value in values]
    for value in values:
        if not isinstance(value, tuple | list) or len(value) != len(paths):
            raise ValueError(f"sweep.{key} has {value!r}; expected {len(paths)} values, one for each of {key}.")
    return [dict(zip(paths, value, strict=True)) for value in values]


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
    resolved["encoding"] = encodings(whole["encoding"], resolved["model"])
    resolved["evaluate"]["encoding"] = retold(resolved["evaluate"]["encoding"], resolved["encoding"]["options"])
    for axis in ("positions", "task"):
        resolved[axis] = choice(whole[axis], axis, whole[axis]["name"])
    test, end = whole["positions"]["test"], whole["task"]["end"]
    if type(end) is not bool:
        raise ValueError(f"task.end is {end!r}; expected True or False.")
    train = resolved["positions"]
    resolved["positions"] = train | {"test": choice(whole["positions"], "positions", test) if test else habit(train)}
    data = TASKS[resolved["task"]["name"]](**resolved["task"]["options"]).identity()
    resolved["task"] |= {"version": TASKS[whole["task"]["name"]].version, "end": end} | ({"data": data} if data else {})
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


def encodings(values: dict[str, Any], model: Mapping[str, Any]) -> dict[str, Any]:
    """The encodings of the layers, with the options of each and of those that they are made of, checked."""
    depth, two_texts, cross = model["depth"], model["architecture"] == "encoder_decoder", values["cross"]
    find(posenc.ENCODINGS, cross, "encoding")
    if cross != "none" and not two_texts:
        raise ValueError(
            f"encoding.cross is {cross!r}, and model.architecture {model['architecture']!r} has no attention between "
            "two texts. Leave it out, or use encoder_decoder."
        )
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
    used = [*pattern, cross] if two_texts else pattern
    names = dict.fromkeys(inner for name in used for inner in [name, *names_within(name, values)])
    options = {name: choice(values, "encoding", name)["options"] for name in names}
    chosen = {"name": "+".join(pattern), "pattern": pattern, "share": share, "options": options}
    return chosen | ({"cross": cross} if two_texts else {})


def retold(text: str, options: Mapping[str, Mapping[str, Any]]) -> str:
    """What an encoding is told otherwise in testing, checked, in one form: what differs, in the order of its options.

    Raises:
        ValueError: it names no option of the encodings at hand, or a value is of the wrong kind.
    """
    words, asked = [], assigned(text)
    for name in asked:
        if name not in options:
            raise ValueError(
                f"evaluate.encoding sets options of {name!r}, and the model is trained with {', '.join(options)}."
                f"{nearest(name, options)}"
            )
    for name, values in ((name, asked[name]) for name in options if name in asked):
        cls, trained = posenc.ENCODINGS[name], tuples(options[name])
        checked = check_options(cls, f"evaluate.encoding: {name}", values)
        for option in options_of(cls):
            if option in checked and checked[option] != trained[option]:
                words.append(f"{name}.{option}={str(checked[option]).replace(' ', '')}")
    return " ".join(words)


def choice(values: dict[str, Any], axis: str, name: str) -> dict[str, Any]:
    """A name on an axis, with its own options, checked."""
    cls = find(TABLES[axis], name, "position scheme" if axis == "positions" else axis)
    return {"name": name, "options": check_options(cls, f"{axis}.{name}", values[name])}


def cluster_of(config: ConfigDict) -> Cluster:
    """What a config asks of a cluster.

    Raises:
        ValueError: a value is not what it should be.
    """
    return Cluster(**check_options(Cluster, "cluster", config.cluster.to_dict()))


def check_seeds(seeds: object) -> list[int]:
    """The seeds 0 .. seeds-1.

    Raises:
        ValueError: not a number of seeds.
    """
    if type(seeds) is not int or not 1 <= seeds <= MOST_SEEDS:
        raise ValueError(f"seeds is {seeds!r}; expected how many, from 1 to {MOST_SEEDS}.")
    return list(range(seeds))
