"""What a config may say, what is told to whoever says something else, and what makes two cells the same."""

import functools
import inspect
import io
import math
import pathlib
import re
import tempfile
import typing
from typing import Literal

import pytest
from flax import nnx
from ml_collections import ConfigDict
from rich.console import Console

import posenc
from experiments import ablate, worker
from experiments.config import check_seeds, default_config, expand, resolve
from experiments.settings import Evaluate, Model, Train
from experiments.tasks import TASKS

SECTIONS = {"model": Model, "train": Train, "evaluate": Evaluate}
TABLES = {"encoding": posenc.ENCODINGS, "positions": posenc.SCHEMES, "task": TASKS}
OPTIONS = [(axis, name) for axis, table in TABLES.items() for name in table]


def tiny(**fields):
    """A small config, with some fields set: encoding__rope__base=3. sets encoding.rope.base."""
    config = default_config()
    config.task.name = "parity"
    config.model.update(width=16, depth=1, heads=2)
    config.train.update(steps=8, batch=4, max_length=3, warmup=1)
    config.evaluate.update(lengths=(2, 4), examples=8, batch=4)
    for path, value in fields.items():
        *sections, field = path.split("__")
        at = config
        for section in sections:
            at = at[section]
        at[field] = value
    return config


def swept(config=None, **axes):
    """A config with a sweep: model__width=(8, 16) sweeps model.width."""
    config = config or tiny()
    for path, values in axes.items():
        config.sweep[path.replace("__", ".")] = values
    return config


def only(config):
    """The one cell of a config without a sweep."""
    return resolve(config, {})


@pytest.fixture
def complaint(tmp_path, monkeypatch):
    """What a user is told who runs this config. Nothing may be trained or written."""
    monkeypatch.setattr(worker, "Trainer", None)

    def told(config):
        with pytest.raises(ValueError) as caught:
            ablate.ablate(config, tmp_path / "results", Console(file=io.StringIO()))
        assert not list(tmp_path.iterdir())
        return str(caught.value)

    return told


def holds(text, *words):
    """Whether a message says all of this."""
    assert not [word for word in words if word not in text], text


@pytest.mark.parametrize(
    "axes, words",
    [
        (
            {"encoding": ("roppe",)},
            ["encoding", "'roppe'", "'rope'", "learned, mlp_bias, music_transformer, none, one_hot"],
        ),
        (
            {"task": ("revers",)},
            ["task", "'revers'", "'reverse'", "addition, addition_any", "reverse_unique_twice, scan, short_"],
        ),
        (
            {"positions": ("randomised",)},
            ["position scheme", "'randomised'", "'randomized'", "in_order, offset, randomized"],
        ),
        (
            {"positions.test": ("in order",)},
            ["position scheme", "'in order'", "'in_order'", "in_order, offset, randomized"],
        ),
        ({"encoding": (None,)}, ["encoding", "None", "Known: alibi, axial_rope"]),
        ({"encoding": (3,)}, ["encoding", "3", "Known: alibi, axial_rope"]),
        ({"encoding": ("../../rope",)}, ["encoding", "'../../rope'", "Known: alibi, axial_rope"]),
        ({"task": ("end",)}, ["task", "'end'", "Known: addition"]),
        ({"encoding.rope.bass": (3.0,)}, ["'encoding.rope.bass'", "'base'", "base, factor, fraction, keep, layout"]),
        ({"model.widht": (8,)}, ["'model.widht'", "'width'", "depth", "heads"]),
        ({"modle.width": (8,)}, ["modle.width", "'model'", "encoding", "train"]),
    ],
)
def test_an_unknown_name_is_told_with_the_known_ones_and_the_nearest(complaint, axes, words):
    holds(complaint(swept(**axes)), *words)


def test_an_unknown_option_is_told_with_the_known_ones_and_the_nearest(complaint):
    config = tiny(encoding__name="t5")
    config.encoding.t5 = ConfigDict({"bucket": 8})
    holds(complaint(config), "bucket'", "'buckets'", "max_distance")


@pytest.mark.parametrize("section, field", [("", "sed"), ("train", "stepz"), ("task", "ende"), ("encoding", "alibi")])
def test_a_field_that_there_is_not_cannot_be_set_and_forgotten(section, field):
    config = tiny()
    with pytest.raises((AttributeError, KeyError, ValueError), match=field):
        setattr(config[section] if section else config, field, 3)
        expand(config)


@pytest.mark.parametrize("section", ["encoding", "task", "model", "sweep"])
def test_a_section_that_is_made_a_value_is_told(complaint, section):
    config = tiny()
    config[section] = "rope"
    holds(complaint(config), f"{section} is 'rope'", "section")


@pytest.mark.parametrize("value", [True, math.nan, math.inf, None, "16", 2.5], ids=str)
def test_a_whole_number_must_be_one(complaint, value):
    holds(complaint(swept(model__width=(value,))), f"model.width is {value!r}", "expected a whole number", "64")


@pytest.mark.parametrize("value", [True, math.nan, -math.inf, None, "16"], ids=str)
@pytest.mark.parametrize("path, default", [("train.learning_rate", "0.001"), ("encoding.rope.base", "10000.0")])
def test_a_number_must_be_one_and_finite(complaint, path, default, value):
    text = complaint(swept(tiny(encoding__name="rope"), **{path: (value,)}))
    holds(text, f"{path} is {value!r}", "expected a finite number", default)


@pytest.mark.parametrize(
    "path, value, expected",
    [
        ("model.architecture", "decodr", "'decoder' or 'encoder'"),
        ("model.norm", None, "'rms' or 'layer'"),
        ("encoding.rope.layout", 1, "'halves' or 'interleaved'"),
        ("encoding.shaw.values", 1, "True or False"),
        ("task.end", 0, "True or False"),
        ("evaluate.lengths", 3, "a tuple, each item a whole number"),
        ("evaluate.lengths", (2, 4.0), "a tuple, each item a whole number"),
        ("evaluate.lengths", (True, 4), "a tuple, each item a whole number"),
    ],
)
def test_any_other_option_must_be_of_its_kind(complaint, path, value, expected):
    encoding = path.split(".")[1] if path.startswith("encoding") else "none"
    holds(complaint(swept(tiny(encoding__name=encoding), **{path: (value,)})), f"{path} is {value!r}", expected)


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"model__heads": 3}, ["model.heads is 3", "model.width 16", "Change one"]),
        ({"model__depth": 0}, ["model.depth is 0", "1 or more"]),
        ({"model__dropout": 1.0}, ["model.dropout is 1.0", "0 to below 1"]),
        ({"train__steps": 0, "train__warmup": 0}, ["train.steps is 0", "1 or more"]),
        ({"train__warmup": 8}, ["train.warmup is 8", "8 steps", "train.steps", "Shorten"]),
        ({"train__min_length": 4}, ["train.max_length is 3", "train.min_length", "4", "Change one"]),
        ({"train__min_length": 0}, ["train.min_length is 0", "1 or more"]),
        ({"train__learning_rate": 0.0}, ["train.learning_rate is 0.0", "above 0"]),
        ({"train__clip": -1.0}, ["train.clip is -1.0", "above 0"]),
        ({"train__weight_decay": -1.0}, ["train.weight_decay is -1.0", "0 or more"]),
        ({"train__beta2": 1.0}, ["train.beta2 is 1.0", "from 0 to below 1"]),
        ({"train__label_smoothing": -0.1}, ["train.label_smoothing is -0.1", "from 0 to below 1"]),
        ({"train__epsilon": 0.0}, ["train.epsilon is 0.0", "above 0"]),
        ({"train__optimizer": "adam"}, ["train.optimizer", "'adam'", "'adafactor' or 'nesterov'"]),
        ({"evaluate__batch": 3}, ["evaluate.batch is 3", "evaluate.examples", "8", "Change one"]),
        ({"evaluate__lengths": (4, 2)}, ["evaluate.lengths is (4, 2)", "ascending", "each once"]),
        ({"evaluate__lengths": (2, 2)}, ["evaluate.lengths is (2, 2)", "ascending", "each once"]),
        ({"evaluate__lengths": ()}, ["evaluate.lengths is ()", "ascending"]),
        ({"evaluate__lengths": (0, 2)}, ["evaluate.lengths is (0, 2)", "from 1 on"]),
        ({"task__name": "sort", "task__sort__alphabet": 1}, ["alphabet is 1", "2 or more"]),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(complaint, fields, words):
    holds(complaint(tiny(**fields)), *words)


@pytest.mark.parametrize(
    "name, fields, words",
    [
        ("rope", {"model__width": 6}, ["3 channels", "even number", "model width / heads"]),
        ("rope", {"encoding__rope__base": 0.0}, ["rope.base is 0.0", "above 1"]),
        ("sinusoidal", {"model__width": 7, "model__heads": 1}, ["sinusoidal", "even width", "7"]),
        ("shaw", {"encoding__shaw__r_min": 1}, ["[1, 16]", "r_min <= 0 <= r_max"]),
        ("t5", {"encoding__t5__buckets": 1}, ["t5.buckets is 1", "2 or more"]),
        ("t5", {"encoding__t5__buckets": 7, "model__architecture": "encoder"}, ["t5.buckets is 7", "even number"]),
        ("t5", {"encoding__t5__max_distance": 16}, ["t5.max_distance is 16", "more than the 16", "buckets is 32"]),
        ("learned", {"encoding__learned__max_position": 0}, ["learned.max_position is 0", "1 or more"]),
    ],
)
def test_an_encoding_says_what_it_needs(complaint, name, fields, words):
    holds(complaint(tiny(encoding__name=name, **fields)), *words)


# Parity at length n has n bits, one answer and its end: n + 2 tokens.
@pytest.mark.parametrize("trained, tested, tokens", [(3, 4, 6), (5, 4, 7)])
def test_a_length_beyond_a_learned_table_is_told_before_anything_runs(complaint, trained, tested, tokens):
    fields = dict(encoding__name="learned", train__max_length=trained, evaluate__lengths=(2, tested))
    expand(tiny(**fields, encoding__learned__max_position=tokens))
    text = complaint(tiny(**fields, encoding__learned__max_position=tokens - 1))
    field = "evaluate.lengths" if tested > trained else "train.max_length"
    holds(text, f"0 to {tokens - 2}", f"Set encoding.learned.max_position to {tokens} or more", field)


@pytest.mark.parametrize("trained, tested, tokens", [(3, 4, 6), (5, 4, 7)])
def test_fewer_random_positions_than_tokens_are_told_before_anything_runs(complaint, trained, tested, tokens):
    fields = dict(encoding__name="rope", positions__name="randomized", train__max_length=trained)
    fields["evaluate__lengths"] = (2, tested)
    expand(tiny(**fields, positions__randomized__max_position=tokens))
    text = complaint(tiny(**fields, positions__randomized__max_position=tokens - 1))
    holds(text, f"randomized.max_position is {tokens - 1}", f"{tokens} tokens", f"to {tokens} or more")


def test_random_positions_must_fit_into_a_learned_table(complaint):
    fields = dict(encoding__name="learned", positions__name="randomized", positions__randomized__max_position=64)
    expand(tiny(**fields, encoding__learned__max_position=64))
    text = complaint(tiny(**fields, encoding__learned__max_position=63))
    holds(text, "0 to 62", "Set encoding.learned.max_position to 64 or more")


@pytest.mark.parametrize("field", ["positions__name", "positions__test"])
def test_an_encoding_that_ignores_positions_takes_no_random_ones(complaint, field):
    text = complaint(tiny(encoding__name="none", **{field: "randomized"}))
    holds(text, "none does not look at positions", "randomized", "in_order")
    expand(tiny(encoding__name="none", **{field: "in_order"}))


@pytest.mark.parametrize(
    "encoding, scheme, fields, words",
    [
        ("cope", "grid", {}, ["cope does not look at positions: grid", "in training", "in_order"]),
        ("rope", "grid", {}, ["rope cannot read positions.grid", "axial_rope alone reads grids"]),
        ("learned", "augmented", {}, ["learned reads positions from 0 on", "from -5.665 on in training", "table"]),
        ("learned", "offset", {}, ["learned reads positions 0 to 511", "needs 521 of them", "max_position to 521"]),
        ("rope", "digits", {"task__name": "sort"}, ["positions.digits", "digits of a number", "sort", "addition"]),
        ("rope", "coupled", {"task__name": "sort"}, ["positions.coupled", "belong together", "copy, reverse, parity"]),
        ("rope", "skipped", {"positions__skipped__target": 5}, ["skipped.target is 5", "6 tokens", "target to 6"]),
        ("rope", "offset", {"positions__offset__max_offset": -1}, ["offset.max_offset is -1", "0 or more"]),
    ],
)
def test_positions_that_make_no_sense_are_refused_with_the_reason(complaint, encoding, scheme, fields, words):
    base = dict(train__max_length=4 if scheme == "skipped" else 3, task__name="reverse") | fields
    if scheme == "offset":
        base |= dict(train__max_length=10)
    text = complaint(tiny(encoding__name=encoding, positions__name=scheme, **base))
    holds(text, *(words if scheme != "skipped" else [words[0], "9 tokens", "target to 9"]))


def test_a_grid_is_for_axial_rope_and_layers_that_look_at_no_positions(complaint):
    assert expand(tiny(encoding__name="axial_rope", positions__name="grid"))
    assert expand(tiny(encoding__name="axial_rope+none", positions__name="grid", model__depth=2))
    text = complaint(tiny(encoding__name="axial_rope+rope", positions__name="grid", model__depth=2))
    holds(text, "axial_rope+rope cannot read positions.grid")


@pytest.mark.parametrize(
    "scheme, tested, options",
    [
        ("in_order", "in_order", {}),
        ("offset", "in_order", {}),
        ("augmented", "in_order", {}),
        ("skipped", "in_order", {}),
        ("randomized", "randomized", {"max_position": 2048, "draw": "batch"}),
        ("digits", "digits", {"max_start": 0}),
        ("coupled", "coupled", {"max_position": 202, "start": "first"}),
        ("grid", "grid", {"columns": 8}),
    ],
)
def test_testing_follows_the_paper_of_the_scheme_unless_another_is_named(scheme, tested, options):
    task = "addition" if scheme == "digits" else "copy"
    fields = dict(encoding__name="axial_rope", positions__name=scheme, task__name=task)
    unsaid, said = only(tiny(**fields)), only(tiny(**fields, positions__test=tested))
    assert unsaid.config["positions"]["test"] == {"name": tested, "options": options}
    assert unsaid.label("positions") == scheme
    own = said.config["positions"]["test"]["options"] == options  # as in training, where it is said
    assert said.label("positions") == (scheme if own else f"{scheme}->{scheme}")
    trained = only(tiny(**fields, positions__test="in_order"))
    assert trained.label("positions") == (scheme if tested == "in_order" else f"{scheme}->in_order")


def test_other_options_in_testing_have_one_form_and_leave_the_model_as_it_was():
    first = only(tiny(encoding__name="rope", evaluate__encoding=" rope.factor=8   rope.scaling=linear rope.start=0"))
    again = only(tiny(encoding__name="rope", evaluate__encoding="rope.scaling=linear rope.factor=8.0"))
    assert first.evaluate.encoding == "rope.scaling=linear rope.factor=8.0"
    assert first.digest == again.digest
    assert first.label("encoding") == "rope->scaling=linear, factor=8.0"
    trained, tested = (make(nnx.Rngs(0)).encodings[0].scaling for make in (first.transformer, first.tested_transformer))
    assert (trained.kind, trained.factor) == (None, 1.0)
    assert (tested.kind, tested.factor) == ("linear", 8.0)
    plain = only(tiny(encoding__name="rope"))
    assert only(tiny(encoding__name="rope", evaluate__encoding="rope.base=10000")).digest == plain.digest
    assert first.training == plain.training != only(tiny(encoding__name="rope", train__steps=9)).training


def test_other_options_in_testing_reach_the_parts_of_an_encoding():
    fields = dict(encoding__name="chain", encoding__chain__of=("rope", "alibi"))
    one, other = (only(tiny(**fields, evaluate__encoding=text)) for text in (
        "rope.base=50 alibi.slopes=geometric", "alibi.slopes=geometric rope.base=50"
    ))  # fmt: skip
    assert one.digest == other.digest
    cell = expand(tiny(**fields, evaluate__encoding="rope.base=50"))[0]
    assert cell.label("encoding").endswith("->rope.base=50.0")
    assert cell.tested_transformer(nnx.Rngs(0)).encodings[0].parts[0].base == 50
    assert cell.transformer(nnx.Rngs(0)).encodings[0].parts[0].base == 1e4


@pytest.mark.parametrize(
    "encoding, text, words",
    [
        ("rope", "yarn", ["evaluate.encoding holds 'yarn'", "name.option=value"]),
        ("rope", "rope.scaling", ["evaluate.encoding holds 'rope.scaling'", "name.option=value"]),
        ("rope", "rope.base=5 rope.base=6", ["sets rope.base twice"]),
        ("rope", "t5.buckets=8", ["sets options of 't5'", "trained with rope"]),
        ("rope", "rope.bas=5", ["rope has no option 'bas'", "'base'"]),
        ("rope", "rope.base=x", ["rope.base is 'x'", "a finite number"]),
        ("rope", "rope.factor=2", ["rope.factor is 2.0", "a kind of scaling"]),
        ("t5", "t5.buckets=16", ["'t5.buckets=16'", "other parameters than those that are trained"]),
        ("fire", "fire.c=0.5", ["'fire.c=0.5'", "changes nothing in testing"]),
        ("learned", "learned.max_position=600", ["other parameters"]),
    ],
)
def test_options_in_testing_that_make_no_sense_are_refused(complaint, encoding, text, words):
    holds(complaint(tiny(encoding__name=encoding, evaluate__encoding=text)), *words)


@pytest.mark.parametrize("encoding, text", [("fire", "fire.threshold=8"), ("sandwich", "sandwich.base=50")])
def test_options_that_change_a_constant_do_change_something(encoding, text):
    assert expand(tiny(encoding__name=encoding, evaluate__encoding=text))


@pytest.mark.parametrize(
    "axes, words",
    [
        ({"encoding": ()}, ["sweep.encoding is empty", "at least one"]),
        ({"model.width": ()}, ["sweep.model.width is empty", "at least one"]),
        ({"positions.test": "randomized"}, ["sweep.positions.test is 'randomized'", "expected a tuple"]),
        ({"model.width": 8}, ["sweep.model.width is 8", "expected a tuple"]),
        ({"model.width.more": (8,)}, ["model.width.more", "no field"]),
        ({"model": (8,)}, ["model", "8"]),
        ({"seeds": (1, 2)}, ["sweep", "seeds"]),
        ({"encoding": ("rope", "t5"), "encoding.name": ("none",)}, ["sweep", "encoding.name", "Keep one"]),
        ({"encoding": ("rope",), "task, encoding": (("copy", "t5"),)}, ["encoding.name", "sweep.encoding", "Keep one"]),
        ({"encoding, positions": ("rope", "t5")}, ["sweep.encoding, positions has 'rope'", "expected 2 values"]),
        ({"encoding, positions": (("rope",),)}, ["('rope',)", "one for each of encoding, positions"]),
        ({"encoding, seeds": (("rope", 3),)}, ["cannot be an axis", "config.seeds"]),
    ],
)
def test_a_sweep_that_makes_no_sense_is_refused(complaint, axes, words):
    text = complaint(swept(**axes))
    holds(text, *words)
    assert "Known here: ." not in text


def test_fields_of_one_axis_move_together():
    axes = {"encoding, positions": (("none", "in_order"), ("rope", "randomized")), "model.width": (16, 32)}
    cells = expand(swept(**axes))
    got = [(cell.config["encoding"]["name"], cell.config["positions"]["name"], cell.model.width) for cell in cells]
    kinds = (("none", "in_order"), ("rope", "randomized"))
    assert got == [(*pair, width) for pair in kinds for width in (16, 32)]


@pytest.mark.parametrize("seeds", [0, -1, True, None, 2.5, "3", 2**16 + 1], ids=str)
def test_the_number_of_seeds_must_be_one(seeds):
    with pytest.raises(ValueError, match=re.escape(f"seeds is {seeds!r}; expected how many, from 1 to 65536")):
        check_seeds(seeds)
    assert check_seeds(3) == [0, 1, 2]


def test_a_config_with_no_number_of_seeds_is_refused(complaint):
    holds(complaint(tiny(seeds=0)), "seeds is 0", "from 1")


def test_all_faulty_cells_of_a_sweep_are_told_at_once(complaint):
    config = swept(encoding=("roppe", "rope", "t6"), task=("parity", "sorrt"), model__width=(16, 15))
    text = complaint(config)
    holds(text, "'roppe'", "'t6'", "'sorrt'", "model.width 15", "encoding=roppe", "model.width=15")
    assert text.count("'sorrt'") == text.count("'roppe'") == 1


def test_the_default_config_has_every_option_of_everything_as_its_constructor_declares_it():
    given = {"self", "width", "heads", "head_dim", "value_dim", "bidirectional", "init", "rngs", "param_dtype"}
    config = default_config()
    for axis, name in OPTIONS:
        declared = inspect.signature(TABLES[axis][name].__init__).parameters.values()
        assert config[axis][name].to_dict() == {p.name: p.default for p in declared if p.name not in given}
    for section, cls in SECTIONS.items():
        declared = inspect.signature(cls).parameters.values()
        assert config[section].to_dict() == {p.name: p.default for p in declared}
    assert len(expand(config)) == 1


FITTING = {
    "operators": "+-",
    "path": "configs",
    "pool": 2**16,
    "second_lengths": (2,),
    "heads": 1,
}  # where not any value will do


@functools.cache
def local_dataset():
    """A folder that the package `datasets` can read, with three lines of text."""
    folder = tempfile.mkdtemp()
    (pathlib.Path(folder) / "words.txt").write_text("one\ntwo\nthree\n")
    return folder


def other(cls, option, value):
    """Another value of an option, valid beside the rest of the tiny config."""
    if option == "dataset":
        return local_dataset()
    if option in FITTING:
        return FITTING[option]
    kind = typing.get_type_hints(cls.__init__)[option]
    if typing.get_origin(kind) is Literal:
        return next(choice for choice in typing.get_args(kind) if choice != value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, tuple):
        return value[:-1] if value else (2.0,)
    if isinstance(value, str):
        return "alibi" if cls is not Evaluate else "rope.base=50"
    if kind is float:
        return 0.5 if abs(value) in (0, 1) else value / 2 if abs(value) < 1 else value * 2
    return value + 1 if abs(value) in (0, 1, 2) else int(value / 2)


@pytest.mark.parametrize("axis, used", OPTIONS)
def test_only_the_options_in_use_are_part_of_what_a_cell_is(axis, used):
    base = {"encoding__name": "rope", f"{axis}__name": used}
    before = resolve(tiny(**base), {}).digest
    inside = {"dape": ["kerple"], "chain": ["learned", "fire"]}.get(used, [])
    for name, cls in TABLES[axis].items():
        for option, value in tiny()[axis][name].items():
            changed = {f"{axis}__{name}__{option}": other(cls, option, value)}
            assert (resolve(tiny(**base, **changed), {}).digest != before) == (name in [used, *inside]), changed


@pytest.mark.parametrize("section", SECTIONS)
def test_every_setting_of_model_training_and_evaluation_is_part_of_what_a_cell_is(section):
    digests = [resolve(tiny(encoding__name="rope"), {}).digest]
    for option, value in tiny()[section].items():
        changed = {f"{section}__{option}": other(SECTIONS[section], option, value)}
        digests.append(resolve(tiny(encoding__name="rope", **changed), {}).digest)
    assert len(set(digests)) == len(digests)


def test_names_and_the_end_of_answers_are_part_of_what_a_cell_is():
    fields = [
        {},
        {"encoding__name": "t5"},
        {"task__name": "sort"},
        {"task__end": False},
        {"positions__name": "randomized"},
    ]
    fields += [{"positions__test": "randomized"}, {"positions__name": "randomized", "positions__test": "in_order"}]
    assert len({only(tiny(**each)).digest for each in fields}) == len(fields)


@pytest.mark.parametrize("scheme", ["in_order", "randomized"])
def test_testing_on_the_scheme_of_training_is_the_same_said_or_unsaid(scheme):
    unsaid, said = (only(tiny(positions__name=scheme, positions__test=test)) for test in ("", scheme))
    assert unsaid.digest == said.digest


def test_seeds_are_no_part_of_what_a_cell_is():
    assert only(tiny(seeds=1)).digest == only(tiny(seeds=7)).digest


def test_a_new_version_of_a_task_makes_its_cells_others(monkeypatch):
    before = [cell.digest for cell in expand(swept(task=("parity", "sort")))]
    monkeypatch.setattr(TASKS["parity"], "version", 2)
    after = [cell.digest for cell in expand(swept(task=("parity", "sort")))]
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_a_whole_number_for_a_real_one_is_the_same_cell():
    config = swept(tiny(encoding__name="rope"), encoding__rope__base=(10000, 1e4), train__learning_rate=(1, 1.0))
    assert len(expand(config)) == 1


def test_duplicates_in_a_sweep_run_once_and_in_order():
    cells = expand(swept(encoding=("t5", "rope", "t5", "none", "rope")))
    assert [cell.config["encoding"]["name"] for cell in cells] == ["t5", "rope", "none"]
    assert len(expand(swept(encoding__rope__base=(1.0, 2.0)))) == 1


def test_a_sweep_is_the_product_of_its_axes():
    cells = expand(swept(encoding=("rope", "t5"), task=("copy", "sort"), model__width=(8, 16)))
    points = [(c.config["encoding"]["name"], c.config["task"]["name"], c.model.width) for c in cells]
    assert sorted(points) == [(e, t, w) for e in ("rope", "t5") for t in ("copy", "sort") for w in (8, 16)]


@pytest.mark.parametrize(
    "fields, axis, label",
    [
        ({"encoding__name": "rope"}, "encoding", "rope"),
        ({"encoding__name": "rope", "encoding__rope__base": 500.0}, "encoding", "rope(base=500.0)"),
        ({"encoding__name": "t5", "encoding__rope__base": 500.0}, "encoding", "t5"),
        (
            {"encoding__name": "t5", "encoding__t5__max_distance": 64, "encoding__t5__buckets": 8},
            "encoding",
            "t5(buckets=8, max_distance=64)",
        ),
        ({"encoding__name": "none"}, "encoding", "none"),
        ({"task__name": "sort", "task__sort__alphabet": 6}, "task", "sort(alphabet=6)"),
        ({"task__name": "sort", "task__end": False}, "task", "sort without end"),
        ({"positions__test": "in_order"}, "positions", "in_order"),
        ({"encoding__name": "rope", "positions__test": "randomized"}, "positions", "in_order->randomized"),
        (
            {
                "encoding__name": "rope",
                "positions__name": "randomized",
                "positions__test": "in_order",
                "positions__randomized__max_position": 64,
            },
            "positions",
            "randomized(max_position=64)->in_order",
        ),
    ],
)
def test_a_label_names_the_changed_options_only(fields, axis, label):
    assert only(tiny(**fields)).label(axis) == label


def test_folder_names_are_plain_words_and_apart_for_each_cell(tmp_path):
    points = [{"encoding.name": encoding, "task.name": task} for encoding in posenc.ENCODINGS for task in TASKS]
    cells = [resolve(tiny(), point) for point in points]
    for cell in cells:
        assert re.fullmatch(r"[a-z0-9_]+-[a-z0-9_]+-[0-9a-f]{10}", cell.name)
        assert (tmp_path / cell.name).resolve().parent == tmp_path.resolve()
    assert len({cell.name for cell in cells}) == len(points)


@pytest.mark.parametrize(
    "fields, label, kinds",
    [
        ({"pattern": ("rope", "none")}, "rope+none", ["RoPE", "NoPE"]),
        ({"pattern": ("rope", "rope")}, "rope", ["RoPE"]),
        ({"name": "rope+none"}, "rope+none", ["RoPE", "NoPE"]),
        ({"name": "shaw"}, "shaw", ["Shaw", "Shaw"]),
        ({"name": "shaw", "share": True}, "shaw, share=True", ["Shaw"]),
        ({"name": "t5", "share": False}, "t5, share=False", ["T5", "T5"]),
        ({"name": "chain"}, "chain", ["Chain"]),
        ({"name": "chain", "chain": {"of": ("sinusoidal", "t5")}}, "chain(of=sinusoidal+t5)", ["Chain"]),
        ({"name": "dape", "kerple": {"kernel": "power"}}, "dape(kerple.kernel=power)", ["DAPE", "DAPE"]),
        ({"name": "rope", "rope": {"scaling": "yarn", "factor": 4.0}}, "rope(factor=4.0, scaling=yarn)", ["RoPE"]),
    ],
    ids=str,
)
def test_layers_get_the_encodings_that_the_config_says(fields, label, kinds):
    config = tiny(model__depth=2)
    config.encoding.update(fields)
    (cell,) = expand(config)
    assert cell.label("encoding") == label
    assert [type(one).__name__ for one in cell.transformer(nnx.Rngs(0)).encodings] == kinds
    assert cell.name.startswith(label.split("(")[0].split(",")[0] + "-")


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"pattern": ("rope", "none", "t5")}, ["3 encodings", "2 layers", "Shorten"]),
        ({"pattern": ("rope", 3)}, ["encoding.pattern", "('rope', 3)", "as ('rope', 'none')"]),
        ({"pattern": "rope"}, ["encoding.pattern", "'rope'", "expected names"]),
        ({"pattern": ("rope", "roep")}, ["'roep'", "Did you mean 'rope'"]),
        ({"share": "yes"}, ["encoding.share", "'yes'", "True, False"]),
        ({"name": "sinusoidal", "share": False}, ["sinusoidal", "acts on the embeddings"]),
        ({"name": "chain", "chain": {"of": ("rope", "chain")}}, ["chain.of", "part of itself"]),
        ({"name": "chain", "chain": {"of": ("rope",)}}, ["chain.of", "two or more"]),
        ({"name": "dape", "dape": {"of": "rope"}}, ["dape.of", "RoPE", "adds a bias"]),
        ({"name": "dape", "dape": {"of": "dape"}}, ["dape.of", "part of itself"]),
        ({"name": "rope", "rope": {"scaling": "yarm"}}, ["encoding.rope.scaling", "'yarm'", "'yarn'"]),
        ({"name": "rope", "rope": {"factor": 4.0}}, ["rope.factor", "4.0", "rope.scaling"]),
        ({"name": "one_hot", "one_hot": {"combine": "add"}}, ["one_hot.max_position", "512", "16 channels"]),
        ({"name": "chain", "learned": {"max_position": 3}}, ["positions 0 to 2", "encoding.learned.max_position"]),
    ],
    ids=str,
)
def test_encodings_that_do_not_fit_are_refused_with_the_reason(fields, words, complaint):
    config = tiny(model__depth=2)
    config.encoding.update(fields)
    holds(complaint(config), *words)


def test_a_sweep_over_names_beside_a_pattern_is_refused(complaint):
    config = swept(tiny(model__depth=2), encoding=("rope", "t5"))
    config.encoding.pattern = ("rope", "none")
    holds(complaint(config), "encoding.pattern", "Sweep over encoding.pattern")
