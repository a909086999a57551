"""Results on disk: what is written comes back, what is half written does not, and nothing foreign is touched."""

import contextlib
import functools
import itertools
import json
import math
import os
import shutil
import stat
import types
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from flax import nnx

from experiments import files, results
from experiments.config import default_config, expand
from experiments.cost import Cost
from experiments.environment import code, environment, fingerprint
from experiments.files import write
from experiments.results import COLUMNS, CellFolder, Outcome, load, rows_of
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


def finish(folder, cell, seeds, value=None, diverged=types.MappingProxyType({})):
    """Writes down fabricated results of a cell."""
    at = CellFolder(folder, cell)
    at.start()
    curve = [dict(seed=seed, step=4, loss=1.0 + seed) for seed in seeds]
    parameters = nnx.State({"weights": nnx.Param(jnp.array(seeds, jnp.float32))})
    at.publish(Outcome(seeds, fabricated(cell, seeds, value), curve, parameters, COST, 1.5, cell.name, diverged))
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
        assert set(written) == set(COLUMNS) - {"diverged", "code", "environment"}
        for column in written:
            assert row[column] == written[column] or (written[column] is None and math.isnan(row[column]))
        assert row["code"] == code()["sources"]
        assert row["environment"] == fingerprint(environment())
        assert math.isnan(row["diverged"])


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
    lines = (folder.path / "seeds-0-0" / "rows.jsonl").read_text().splitlines()
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
    assert [block.status()["seeds"] for block in folder.blocks()] == [[0, 1], [2]]
    for block in folder.blocks():
        status = block.status()
        assert (status["status"], status["seconds"], status["trained_in"]) == ("done", 1.5, cell.name)
        assert (status["code"], status["environment"]) == (code(), environment())


def test_seeds_with_gaps_are_named_one_by_one(tmp_path):
    folder = finish(tmp_path, make_cell(), [0, 2])
    assert [block.path.name for block in folder.blocks()] == ["seeds-0,2"]
    assert folder.done() == [0, 2]


def test_who_publishes_the_same_again_changes_nothing(tmp_path):
    folder = finish(tmp_path, make_cell(), [0, 1])
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    finish(tmp_path, make_cell(), [0, 1])
    assert {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()} == before


def test_who_publishes_something_else_is_refused_and_changes_nothing(tmp_path):
    folder = finish(tmp_path, make_cell(), [0, 1])
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=r"seeds-0-1 was published meanwhile, with other values"):
        finish(tmp_path, make_cell(), [0, 1], value=0.25)
    assert {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()} == before


def test_blocks_that_share_a_seed_and_agree_count_once(tmp_path):
    finish(tmp_path, make_cell(), [0, 1])
    folder = finish(tmp_path, make_cell(), [1, 2])
    assert values_of(load(tmp_path)) == values_of(pandas.DataFrame(fabricated(make_cell(), [0, 1, 2])))
    assert [row["seed"] for row in folder.training()] == [0, 1, 2]


def test_blocks_that_share_a_seed_and_disagree_are_named_and_left_out(tmp_path):
    finish(tmp_path, make_cell(encoding__name="none"), [0])
    finish(tmp_path, make_cell(encoding__name="rope"), [0, 1])
    finish(tmp_path, make_cell(encoding__name="rope"), [1, 2], value=0.25)
    with pytest.warns(UserWarning, match=r"seeds-1-2 says 0\.25 of seed 1"):
        assert set(load(tmp_path)["encoding"]) == {"none"}


def test_a_seed_that_diverged_says_so_in_its_rows_and_its_cell_when_all_did(tmp_path):
    cell = make_cell()
    some = finish(tmp_path / "some", cell, [0, 1], diverged={1: 7})
    assert some.blocks()[0].status()["status"] == "done"
    table = load(tmp_path / "some")
    assert set(table.loc[table["seed"] == 1, "diverged"]) == {7}
    assert table.loc[table["seed"] == 0, "diverged"].isna().all()
    every = finish(tmp_path / "every", cell, [0, 1], diverged={0: 3, 1: 7})
    assert every.blocks()[0].status()["status"] == "diverged"


@pytest.mark.parametrize("last", ["rows.jsonl", "training.jsonl", "status.json"])
def test_a_run_that_ends_while_it_writes_leaves_what_was_there(tmp_path, monkeypatch, last):
    cell, whole = make_cell(), files.write
    finish(tmp_path, cell, [0])

    def fail_at(path, lines):
        if path.name == last:
            raise KeyboardInterrupt
        whole(path, lines)

    before = values_of(load(tmp_path))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(files, "write", fail_at)
        patch.setattr(results, "write", fail_at)
        finish(tmp_path, cell, [1])
    assert values_of(load(tmp_path)) == before
    finish(tmp_path, cell, [1])
    assert values_of(load(tmp_path)) == values_of(pandas.DataFrame(fabricated(cell, [0, 1])))


DAMAGE = {
    "seeds-0-1/rows.jsonl": [b'{"cell": "no', b"\xff\xfe\x00", b"[]\n", b"null\n", b"{}\n", b"3\n", None],
    "seeds-0-1/status.json": [b"", b'{"seeds": [0', b"[]", b"null", b"{}", b'{"seeds": [0]}', None],
    "config.json": [b"", b"null", b"[]", b"{}", b'{"encoding": {"name": "rope"}}', b"\xff"],
}


@pytest.mark.parametrize("name, damage", [(name, damage) for name, all_of in DAMAGE.items() for damage in all_of])
def test_a_damaged_cell_is_left_out_with_a_warning_that_names_it(tmp_path, name, damage):
    finish(tmp_path, make_cell(encoding__name="none"), [0])
    damaged = finish(tmp_path, make_cell(encoding__name="rope"), [0, 1])
    if damage is None:
        (damaged.path / name).unlink()
    else:
        (damaged.path / name).write_bytes(damage)
    with pytest.warns(UserWarning, match=str(damaged.path)) as caught:
        assert set(load(tmp_path)["encoding"]) == {"none"}
    assert len(caught) == 1


def changed_bits(folder):
    """Each file of a folder once with one bit changed in its middle, and once without its last byte."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (before := path.read_bytes()):
            middle = len(before) // 2
            flipped = before[:middle] + bytes([before[middle] ^ 4]) + before[middle + 1 :]
            for after in (flipped, before[:-1]):
                path.write_bytes(after)
                yield path.relative_to(folder), after
            path.write_bytes(before)


def test_no_changed_bit_goes_unnoticed(tmp_path, quick_compilation):
    cell = make_cell(encoding__name="t5")
    folder = trained(tmp_path, cell, [[0, 1]])
    rows = folder.rows(), folder.training()
    whole = jax.tree.leaves(nnx.to_pure_dict(folder.parameters(1)))
    tried = 0
    for name, _ in changed_bits(folder.path / "seeds-0-1"):
        tried += 1
        with contextlib.suppress(ValueError):
            again = CellFolder(tmp_path, cell)
            assert (again.rows(), again.training()) == rows, name
            for one, other in zip(whole, jax.tree.leaves(nnx.to_pure_dict(again.parameters(1))), strict=True):
                np.testing.assert_array_equal(one, other, err_msg=str(name))
    assert tried > 12  # rows, curves, status and what Orbax makes of parameters


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


def test_in_what_a_changed_config_differs_is_told(tmp_path):
    cell = make_cell()
    changed = json.loads(json.dumps(cell.config))
    changed["train"]["learning_rate"] = 0.5
    (tmp_path / cell.name).mkdir()
    (tmp_path / cell.name / "config.json").write_text(json.dumps(changed))
    with pytest.raises(
        ValueError, match=r"another cell than the one of that name: train\.learning_rate 0\.5 -> 0\.001\."
    ):
        CellFolder(tmp_path, cell).check()


def test_a_cell_may_go_where_there_is_nothing_or_where_it_was_before(tmp_path):
    folder = CellFolder(tmp_path, make_cell())
    folder.check()
    folder.path.mkdir()
    folder.check()
    (folder.path / ".config.json.half").write_text("{")  # by a process that was killed
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
    assert {path.name for path in folder.path.iterdir()} == {"config.json", "seeds-0-1"}
    names = {"rows.jsonl", "training.jsonl", "status.json", "parameters"}
    assert {path.name for path in (folder.path / "seeds-0-1").iterdir()} == names


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


def trained(folder, cell, blocks):
    """A cell with the parameters that its seeds begin with, in these blocks."""
    folder, trainer = CellFolder(folder, cell), Trainer(cell)
    folder.start()
    for block in blocks:
        parameters = trainer.init(jnp.asarray(block, jnp.uint32)).parameters
        folder.publish(Outcome(block, fabricated(cell, block), [], parameters, COST, 1.0, cell.name))
    return folder


def test_saved_parameters_come_back_for_each_seed(tmp_path, quick_compilation):
    cell = make_cell(encoding__name="t5")
    folder = trained(tmp_path, cell, [[0], [1, 2]])
    stacked = Trainer(cell).init(jnp.arange(3, dtype=jnp.uint32)).parameters
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
