"""Every encoding through training and testing, whatever it acts on."""

import numpy as np
import pytest

from experiments.evaluate import Evaluator
from experiments.train import Trainer
from posenc import ENCODINGS
from tests.experiments.test_train import SEEDS, tiny_cell

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_few_steps_lower_the_loss(name):
    trainer = Trainer(tiny_cell(encoding__name=name, task__name="sort", train__steps=60))
    state, first = trainer.advance(trainer.init(SEEDS), SEEDS, 0, 5)
    _, last = trainer.advance(state, SEEDS, 5, 60)
    assert (last < first - 0.2).all()


@pytest.mark.parametrize("name", ENCODINGS)
def test_any_encoding_is_tested_after_training_with_random_positions_in_an_encoder_where_it_may(name):
    encoding = ENCODINGS[name]
    changes = {} if encoding.causal_only else dict(model__architecture="encoder")
    if getattr(encoding, "kind", None) != "blind":
        changes |= dict(positions__name="randomized", positions__randomized__max_position=64)
    cell = tiny_cell(encoding__name=name, train__steps=2, train__warmup=1, evaluate__lengths=(6,), **changes)
    trainer = Trainer(cell)
    state, loss = trainer.advance(trainer.init(SEEDS), SEEDS, 0, 2)
    ((*_, metrics),) = Evaluator(cell)(state.parameters)
    assert np.isfinite(loss).all()
    assert all(np.isfinite(values).all() and values.shape == (3,) for values in metrics.values())
