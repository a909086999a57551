"""What training has come to, on disk: whole or not there, and never something else."""

import contextlib
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl import logging

from experiments import checkpoints
from experiments.checkpoints import Checkpoints, Progress
from experiments.train import Trainer
from tests.experiments.test_train import SEEDS, tiny_cell


@pytest.fixture(scope="module")
def trainer():
    return Trainer(tiny_cell(model__dropout=0.1))


@pytest.fixture(scope="module")
def states(trainer):
    """The states before some steps, as arrays that nobody takes the memory of."""
    state, found = trainer.init(SEEDS), {}
    for start, stop in ((0, 5), (5, 10), (10, 15)):
        state = trainer.proceed(state, SEEDS, start, stop)
        found[stop] = jax.tree.map(np.asarray, state)
    return found


@pytest.fixture
def said(monkeypatch):
    """What is warned of."""
    lines = []
    monkeypatch.setattr(logging, "warning", lambda text, *values: lines.append(text % values))
    return lines


def curve(step):
    return [dict(seed=0, step=step, loss=0.1 + 0.2)]


def saved(folder, states, steps=(5, 10)):
    """A folder with checkpoints of these steps."""
    kept = Checkpoints(folder / "checkpoints" / "seeds-0-2")
    for step in steps:
        kept.save(Progress(step, jax.tree.map(jnp.asarray, states[step]), curve(step), 1.5 * step))
    return kept


def same(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_what_is_saved_comes_back_to_the_bit(tmp_path, states):
    found = saved(tmp_path, states).newest(states[5])
    same(found.state, states[10])
    assert (found.step, found.training, found.seconds) == (10, curve(10), 15.0)
    assert jax.tree.structure(found.state) == jax.tree.structure(states[10])


def test_training_goes_on_from_a_checkpoint_as_if_it_had_never_stopped(tmp_path, trainer, states):
    found = saved(tmp_path, states).newest(jax.eval_shape(trainer.init, SEEDS))
    same(trainer.proceed(trainer.placed(found.state), SEEDS, 10, 15), states[15])


def test_the_two_newest_are_kept_and_nothing_is_left_half_made(tmp_path, states):
    kept = saved(tmp_path, states, (5, 10, 15))
    assert kept.steps() == [15, 10]
    assert sorted(path.name for path in kept.path.iterdir()) == ["000000010", "000000015"]
    kept.clear()
    assert not list(tmp_path.rglob("checkpoints"))
    assert kept.newest(states[5]) is None
    kept.clear()


def test_clearing_leaves_the_checkpoints_of_other_seeds(tmp_path, states):
    other = tmp_path / "checkpoints" / "seeds-3-4"
    other.mkdir(parents=True)
    saved(tmp_path, states).clear()
    assert list((tmp_path / "checkpoints").iterdir()) == [other]


def test_any_changed_bit_is_named_and_the_one_before_is_taken(tmp_path, states, said):
    kept, tried = saved(tmp_path, states), 0
    newest = kept.path / "000000010"
    for path in sorted(newest.rglob("*")):
        if not path.is_file() or not (before := path.read_bytes()):
            continue
        middle = len(before) // 2
        for after in (before[:middle] + bytes([before[middle] ^ 1]) + before[middle + 1 :], before[:-2], None):
            path.unlink()
            if after is not None:
                path.write_bytes(after)
            del said[:]
            found = kept.newest(states[5])
            assert (found.step, len(said)) == (5, 1), path
            assert "checkpoint of step 10 is not used" in said[0]
            assert str(path) in said[0]
            same(found.state, states[5])
            tried += 1
            path.write_bytes(before)
    assert tried > 12
    assert kept.newest(states[5]).step == 10


def test_where_none_is_whole_training_begins_anew(tmp_path, states, said):
    kept = saved(tmp_path, states)
    for path in kept.path.glob("*/progress.json"):
        path.write_text("{}")
    assert kept.newest(states[5]) is None
    assert len(said) == 2


def test_a_checkpoint_of_other_parameters_is_not_used(tmp_path, states, said):
    other = jax.eval_shape(Trainer(tiny_cell(model__width=8)).init, SEEDS)
    assert saved(tmp_path, states).newest(other) is None
    assert len(said) == 2


def test_a_checkpoint_under_the_name_of_another_step_is_not_used(tmp_path, states, said):
    kept = saved(tmp_path, states, (5,))
    shutil.copytree(kept.path / "000000005", kept.path / "000000012")
    assert kept.newest(states[5]).step == 5
    assert "step 12 is not used" in said[0]


@pytest.mark.parametrize("point", ["save", "write_sealed", "discard"])
def test_a_process_that_ends_while_it_saves_leaves_what_was_there(tmp_path, states, monkeypatch, point):
    kept = saved(tmp_path, states)

    def end(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(checkpoints.ocp if point == "save" else checkpoints, point, end)
        saved(tmp_path, states, (15,))
    newest = kept.newest(states[5])
    assert newest.step == (15 if point == "discard" else 10)
    same(newest.state, states[newest.step])
    saved(tmp_path, states, (15,))
    assert [path.name for path in kept.path.glob(".*")] == []
    same(kept.newest(states[5]).state, states[15])


def test_going_on_elsewhere_is_told(tmp_path, states, said, monkeypatch):
    kept = saved(tmp_path, states)
    kept.newest(states[5])
    assert said == []
    here = checkpoints.environment()
    monkeypatch.setattr(checkpoints, "environment", lambda: here | {"cores": 1024})
    monkeypatch.setattr(checkpoints, "code", lambda: {"sources": "0123456789", "commit": ""})
    assert kept.newest(states[5]).step == 10
    assert f"cores {here['cores']} -> 1024" in said[0]
    assert "-> 0123456789" in said[0]


def test_what_a_checkpoint_says_is_plain_json(tmp_path, states):
    kept = saved(tmp_path, states, (5,))
    told = json.loads((kept.path / "000000005" / "progress.json").read_text())
    assert (told["step"], told["training"], told["environment"]["platform"]) == (5, curve(5), "cpu")
