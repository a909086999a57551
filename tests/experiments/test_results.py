"""Results on disk: what is written comes back, what is half written does not, and nothing foreign is touched."""

import functools
import itertools
import json
import math
import os
import shutil
import stat
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from flax import nnx

from experiments import results
from experiments.config import default_config, expand
from experiments.cost import Cost
from experiments.results import COLUMNS, CellFolder, load, rows_of, write
from experiments.train import Trainer

LENGTHS = (1, 2, 3, 4)
COST = Cost(parameters=1000, added_parameters=100, flops=2e6, added_flops=0.25)


@functools.cache
def make_cell(**fields):
    """A cell of a small config: model__width=8 sets model.width."""
    config = default_config()
    config.task.name = "parity"
    config.model.update(width=8, depth=1, heads=2)
    config.train.update(steps=4, batch=2, min_length=2, max_length=3, warmup=1)
    config.evaluate.update(lengths=LENGTHS, examples=8, batch=8)
    for path, value in fields.items():
        section, field = path.split("__")
        config[section][field] = value
    return expand(config)[0]


def fabricated(cell, seeds, value=None):
    """Rows as an evaluation would give them: for each seed, length and metric another value, or the given one."""
    rows = []
    for length in cell.evaluate.lengths:
        values = {
            metric: [value if value is not None else (seed + 1) / (length + place + 2) for seed in seeds]
            for place, metric in enumerate(("exact_match", "token_accuracy", "loss"))
        }
        rows += rows_of(cell, seeds, length, values, COST)
    return rows


def finish(folder, cell, seeds, value=None):
    """Writes down fabricated results of a cell."""
    at = CellFolder(folder, cell)
    at.start()
    curve = [dict(seed=seed, step=4, loss=1.0 + seed) for seed in seeds]
    parameters = nnx.State({"weights": nnx.Param(jnp.array(seeds, jnp.float32))})
    at.finish(seeds, fabricated(cell, seeds, value), curve, parameters, COST, 1.5, cell.name)
    return at


def values_of(table):
    """(seed, length, metric) -> value; each may be there once."""
    keys = list(zip(table["seed"], table["length"], table["metric"], strict=True))
    assert len(keys) == len(set(keys))
    return dict(zip(keys, table["value"], strict=True))


def test_what_is_written_comes_back_in_exactly_the_promised_columns(tmp_path):
    cell = make_cell(encoding__name="rope")
    finish(tmp_path, cell, [0, 1])
    table = load(tmp_path)
    assert list(table.columns) == [*COLUMNS, "variant"]
    for row, written in zip(table.to_dict("records"), fabricated(cell, [0, 1]), strict=True):
        assert set(written) == set(COLUMNS)
        for column in COLUMNS:
            assert row[column] == written[column] or (written[column] is None and math.isnan(row[column]))


def test_a_row_says_what_its_value_is_of(tmp_path):
    cell = make_cell(encoding__name="rope", model__architecture="encoder", task__end=False)
    finish(tmp_path, cell, [1])
    for row in load(tmp_path).to_dict("records"):
        said = (row["cell"], row["encoding"], row["positions"], row["task"], row["architecture"], row["seed"])
        assert said == (cell.name, "rope", "in_order", "parity without end", "encoder", 1)
        assert row["count"] == 8
        place = ["exact_match", "token_accuracy", "loss"].index(row["metric"])
        assert row["value"] == 2 / (row["length"] + place + 2)
        assert row["chance"] == 0.5 if row["metric"] == "exact_match" else math.isnan(row["chance"])


def test_lengths_are_trained_from_the_least_to_the_greatest_both_included(tmp_path):
    finish(tmp_path, make_cell(), [0])
    table = load(tmp_path)
    assert {(row.length, row.trained) for row in table.itertuples()} == {(1, False), (2, True), (3, True), (4, False)}
    assert table["trained"].dtype == bool


def test_an_encoding_named_none_is_a_name_and_no_missing_value(tmp_path):
    finish(tmp_path, make_cell(encoding__name="none"), [0])
    finish(tmp_path, make_cell(encoding__name="rope"), [0])
    table = load(tmp_path)
    assert sorted(table["encoding"].unique()) == ["none", "rope"]
    assert table["encoding"].notna().all()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_is_null_in_the_file_and_nan_in_the_table(tmp_path, value):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    folder = finish(tmp_path, make_cell(), [0], value)
    lines = (folder.path / "rows.jsonl").read_text().splitlines()
    assert all(json.loads(line, parse_constant=refuse)["value"] is None for line in lines)
    assert len(lines) == len(LENGTHS) * 3
    assert load(tmp_path)["value"].isna().all()
    assert load(tmp_path)["value"].dtype == np.float64


def test_blocks_of_seeds_add_up_without_duplicates(tmp_path):
    cell = make_cell()
    finish(tmp_path, cell, [0, 1])
    folder = finish(tmp_path, cell, [2])
    assert folder.done() == [0, 1, 2]
    together = pandas.DataFrame(fabricated(cell, [0, 1, 2]))
    assert values_of(load(tmp_path)) == values_of(together)
    assert [(row["seed"], row["loss"]) for row in folder.training()] == [(0, 1.0), (1, 2.0), (2, 3.0)]
    status = folder.status()
    assert (status["status"], status["blocks"], status["seconds"]) == ("done", [[0, 1], [2]], 3.0)
    assert set(status["versions"]) >= {"jax", "flax", "numpy"}


def test_seeds_that_the_status_does_not_name_are_not_there_and_are_replaced_when_run(tmp_path):
    cell = make_cell()
    folder = finish(tmp_path, cell, [0])
    status = (folder.path / "status.json").read_bytes()
    finish(tmp_path, cell, [1], value=0.25)
    (folder.path / "status.json").write_bytes(status)
    assert folder.done() == [0]
    assert set(load(tmp_path)["seed"]) == {0}
    assert {row["seed"] for row in folder.training()} == {0}
    finish(tmp_path, cell, [1], value=0.75)
    values = values_of(load(tmp_path))
    assert {value for (seed, _, _), value in values.items() if seed == 1} == {0.75}
    assert len(folder.training()) == 2


@pytest.mark.parametrize("last", ["rows.jsonl", "training.jsonl", "status.json"])
def test_a_run_that_ends_while_it_writes_leaves_what_was_there(tmp_path, monkeypatch, last):
    cell, whole = make_cell(), results.write
    finish(tmp_path, cell, [0])

    def fail_at(path, lines):
        if path.name == last:
            raise KeyboardInterrupt
        whole(path, lines)

    before = values_of(load(tmp_path))
    monkeypatch.setattr(results, "write", fail_at)
    with pytest.raises(KeyboardInterrupt):
        finish(tmp_path, cell, [1])
    monkeypatch.setattr(results, "write", whole)
    assert values_of(load(tmp_path)) == before
    finish(tmp_path, cell, [1])
    assert values_of(load(tmp_path)) == values_of(pandas.DataFrame(fabricated(cell, [0, 1])))


DAMAGE = {
    "rows.jsonl": [b'{"cell": "no', b"\xff\xfe\x00", b"[]\n", b"null\n", b"{}\n", b"3\n", None],
    "status.json": [b"", b'{"seeds": [0', b"[]", b"null", b"{}", b'{"seeds": 3}'],
    "config.json": [b"", b"null", b"[]", b"{}", b'{"encoding": {"name": "rope"}}', b"\xff"],
}


@pytest.mark.parametrize("name, damage", [(name, damage) for name, all_of in DAMAGE.items() for damage in all_of])
def test_a_damaged_cell_is_left_out_with_a_warning_that_names_it(tmp_path, name, damage):
    finish(tmp_path, make_cell(encoding__name="none"), [0])
    damaged = finish(tmp_path, make_cell(encoding__name="rope"), [0])
    if damage is None:
        (damaged.path / name).unlink()
    else:
        (damaged.path / name).write_bytes(damage)
    with pytest.warns(UserWarning, match=damaged.path.name) as caught:
        assert set(load(tmp_path)["encoding"]) == {"none"}
    assert len(caught) == 1


def test_a_damaged_file_is_named_in_the_warning(tmp_path):
    damaged = finish(tmp_path, make_cell(encoding__name="rope"), [0])
    finish(tmp_path, make_cell(encoding__name="none"), [0])
    (damaged.path / "rows.jsonl").write_text('{"cell": "no')
    with pytest.warns(UserWarning, match=str(damaged.path / "rows.jsonl")):
        load(tmp_path)


def test_a_copy_of_a_cell_under_another_name_is_not_counted_again(tmp_path):
    folder = finish(tmp_path, make_cell(), [0])
    before = values_of(load(tmp_path))
    shutil.copytree(folder.path, tmp_path / "copy of it")
    with pytest.warns(UserWarning, match="copy of it"):
        assert values_of(load(tmp_path)) == before


def test_a_cell_under_another_name_is_left_out_with_a_warning_that_names_it(tmp_path):
    finish(tmp_path, make_cell(encoding__name="none"), [0])
    folder = finish(tmp_path, make_cell(encoding__name="rope"), [0])
    folder.path.rename(tmp_path / "renamed")
    with pytest.warns(UserWarning, match="renamed"):
        assert set(load(tmp_path)["encoding"]) == {"none"}


def test_what_is_no_cell_is_passed_over(tmp_path):
    finish(tmp_path, make_cell(), [0])
    before = values_of(load(tmp_path))
    CellFolder(tmp_path, make_cell(encoding__name="rope")).start()
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "pictures").mkdir()
    assert values_of(load(tmp_path)) == before


@pytest.mark.parametrize("what", ["missing", "empty", "file", "unfinished"])
def test_where_there_are_no_results_that_is_said(tmp_path, what):
    folder = tmp_path / "results"
    if what == "file":
        folder.write_text("")
    elif what != "missing":
        folder.mkdir()
    if what == "unfinished":
        CellFolder(folder, make_cell()).start()
    with pytest.raises(FileNotFoundError, match=str(folder)):
        load(folder)


def put_files(path, cell):
    path.mkdir()
    (path / "thesis.tex").write_text("mine")


def put_a_file(path, cell):
    path.write_text("mine")


def put_another_config(path, cell):
    path.mkdir()
    (path / "config.json").write_text(json.dumps(cell.config | {"encoding": {"name": "t5", "options": {}}}))


def put_a_damaged_config(path, cell):
    path.mkdir()
    (path / "config.json").write_text("{")


@pytest.mark.parametrize("put", [put_files, put_a_file, put_another_config, put_a_damaged_config])
def test_what_stands_where_a_cell_should_is_not_touched(tmp_path, put):
    cell = make_cell()
    folder = CellFolder(tmp_path, cell)
    put(folder.path, cell)
    with pytest.raises(ValueError, match=str(folder.path)):
        folder.check()


@pytest.mark.parametrize("put", [put_files, put_a_file, put_another_config])
def test_whoever_has_something_else_there_is_told_what_to_do(tmp_path, put):
    cell = make_cell()
    put(tmp_path / cell.name, cell)
    with pytest.raises(ValueError, match="Move it away, or choose another results folder"):
        CellFolder(tmp_path, cell).check()


def test_a_cell_may_go_where_there_is_nothing_or_where_it_was_before(tmp_path):
    folder = CellFolder(tmp_path, make_cell())
    folder.check()
    folder.path.mkdir()
    folder.check()
    finish(tmp_path, folder.cell, [0])
    folder.check()


def test_a_reader_sees_the_whole_old_file_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "rows.jsonl"
    write(path, ["old"])

    def lines():
        for line in ("new", "newer"):
            assert path.read_text() == "old\n"
            yield line

    with path.open() as reader:
        write(path, lines())
        assert reader.read() == "old\n"
    assert path.read_text() == "new\nnewer\n"


def test_a_writer_that_fails_midway_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "rows.jsonl"
    write(path, ["old"])

    def lines():
        yield "new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(path, lines())
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


def test_no_temporary_files_are_left(tmp_path):
    folder = finish(tmp_path, make_cell(), [0, 1])
    files = {"config.json", "rows.jsonl", "training.jsonl", "status.json"}
    assert {path.name for path in folder.path.iterdir()} == files | {"parameters"}
    assert [path.name for path in (folder.path / "parameters").iterdir()] == ["0-1"]


@pytest.mark.parametrize("mask, mode", [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600), (0o002, 0o664)])
def test_files_have_the_mode_that_the_user_wants(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write(tmp_path / "rows.jsonl", ["line"])
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "rows.jsonl").stat().st_mode) == mode


def test_variant_names_the_settings_in_which_cells_differ_and_no_others(tmp_path):
    fields = [{}, {"train__steps": 8}, {"train__steps": 8, "model__norm": "layer"}]
    cells = [make_cell(**each) for each in fields]
    for cell in cells:
        finish(tmp_path, cell, [0])
    variant = load(tmp_path).groupby("cell")["variant"].unique()
    assert [list(variant[cell.name]) for cell in cells] == [
        ["norm=rms, steps=4"], ["norm=rms, steps=8"], ["norm=layer, steps=8"],
    ]  # fmt: skip


def test_variant_is_empty_where_only_columns_of_their_own_differ(tmp_path):
    for encoding, architecture in itertools.product(("none", "rope"), ("decoder", "encoder")):
        finish(tmp_path, make_cell(encoding__name=encoding, model__architecture=architecture), [0])
    table = load(tmp_path)
    assert table["cell"].nunique() == 4
    assert set(table["variant"]) == {""}


def test_an_unfinished_cell_adds_nothing_to_the_variants(tmp_path):
    finish(tmp_path, make_cell(), [0])
    CellFolder(tmp_path, make_cell(train__steps=8)).start()
    assert set(load(tmp_path)["variant"]) == {""}


@pytest.fixture
def quick_compilation():
    """Initial parameters come from many small programs: compiling them well takes long."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()  # other tests compile their own, or the same number would have other bits here and there


def test_saved_parameters_come_back_for_each_seed(tmp_path, quick_compilation):
    cell = make_cell(encoding__name="t5")
    folder, trainer = CellFolder(tmp_path, cell), Trainer(cell)
    folder.start()
    stacked = trainer.init(jnp.arange(3, dtype=jnp.uint32)).parameters
    for block in ([0], [1, 2]):
        part = jax.tree.map(lambda x, block=block: x[block[0] : block[-1] + 1], stacked)
        folder.finish(block, fabricated(cell, block), [], part, COST, 1.0, cell.name)
    for seed in (2, 0, 1):
        want = nnx.to_pure_dict(jax.tree.map(lambda x, seed=seed: x[seed], stacked))
        got = nnx.to_pure_dict(folder.parameters(seed))
        jax.tree.map(np.testing.assert_array_equal, got, want)
    assert len({float(jax.tree.leaves(folder.parameters(seed))[0].sum()) for seed in (0, 1, 2)}) == 3
    with pytest.raises(KeyError, match="no results of seed 3; done are"):
        folder.parameters(3)


def test_loading_does_not_warn_of_anything_where_nothing_is_wrong(tmp_path):
    finish(tmp_path, make_cell(), [0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(tmp_path)
