"""Every task in every architecture, curricula, batch norm, and answers that a model has written by itself."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from experiments import ablate, results
from experiments.cost import cost
from experiments.evaluate import Evaluator
from experiments.tasks import TASKS, Layout, Stream
from experiments.train import Trainer, of_the_model, program_of
from tests.experiments.test_train import SEEDS, losses_step_by_step, tiny_cell

FORMS = [(name, architecture) for name, task in TASKS.items() for architecture in task.architectures]


# ---------------------------------------------------------------------- every task in every form


@pytest.mark.parametrize(("name", "architecture"), FORMS)
def test_a_batch_of_every_task_has_the_sizes_that_a_model_needs(name, architecture):
    task = TASKS[name]()
    layout, held = Layout(task, architecture), task.held("test", 7)
    drawn = functools.partial(layout.batch, longest=7, **held)
    batch = jax.eval_shape(drawn, jax.random.key(0), jnp.array([2, 7]))
    asked, answered = task.input_length(7), task.answer_length(7)
    if isinstance(task, Stream):
        tokens, slots = asked, answered
    else:
        tokens, slots = answered + 1 + (architecture != "encoder_decoder") * asked, answered + 1
    assert batch.tokens.shape == batch.targets.shape == batch.scored.shape == (2, tokens)
    assert batch.slots.shape == (2, slots)
    assert batch.lengths.shape == (2,)
    assert (batch.source is not None) == (architecture == "encoder_decoder")
    if batch.source is not None:
        assert batch.source.tokens.shape == (2, asked)
        assert (batch.source.numbers is None) == (not task.digits)
    assert all(0 <= task.chance(length) <= 1 for length in (1, 2, 7, 40, 500))
    sizes = [(task.input_length(length), task.answer_length(length)) for length in range(1, 60)]
    for one, longer in itertools.pairwise(sizes):
        assert one[0] <= longer[0] and one[1] <= longer[1]  # arrays for the longest length hold all others


def test_the_source_of_an_encoder_decoder_is_the_input_and_its_text_the_answer():
    for name in ("reverse", "addition", "stack_manipulation", "sort_numbers"):
        task, lengths = TASKS[name](), jnp.array([1, 5, 3])
        whole, parted = (
            Layout(task, form).batch(jax.random.key(3), lengths, 5) for form in ("decoder", "encoder_decoder")
        )
        for example in range(3):
            asked, real = int(whole.slots[example, 0]), int(whole.lengths[example])
            assert parted.source.lengths[example] == asked
            assert parted.lengths[example] == real - asked
            for field in ("tokens", "numbers", "groups"):
                row = getattr(whole, field)
                if row is None:
                    assert getattr(parted, field) is getattr(parted.source, field) is None
                    continue
                assert getattr(parted.source, field)[example, :asked].tolist() == row[example, :asked].tolist()
                assert getattr(parted, field)[example, : real - asked].tolist() == row[example, asked:real].tolist()
            assert parted.targets[example, : real - asked].tolist() == whole.targets[example, asked:real].tolist()
            assert parted.scored[example].tolist() == [slot < real - asked for slot in range(parted.tokens.shape[1])]
            assert set(parted.source.tokens[example, asked:].tolist()) <= {task.symbols + 1}


def test_an_answer_of_any_length_says_nothing_of_it_to_an_encoder_and_is_scored_to_its_end():
    layout = Layout(TASKS["stack_manipulation"](), "encoder")
    batch = layout.batch(jax.random.key(0), jnp.full(40, 6), 8)
    blank, end = layout.special["blank"], layout.special["end"]
    answered = set()
    for tokens, targets, scored, real in zip(*batch[:4], strict=True):
        assert tokens.tolist() == tokens[:6].tolist() + [blank] * 7 + [end] * (layout.tokens(8) - 13)
        assert real == 13
        size = int(scored.sum())
        assert scored.tolist() == [6 <= slot < 6 + size for slot in range(len(scored))]
        said = targets[6 : 6 + size].tolist()
        assert said[-1] == end and end not in said[:-1]
        answered.add(size)
    assert len(answered) > 3


@pytest.mark.parametrize("name", ["reverse", "stack_manipulation", "mqar"])
def test_an_encoder_decoder_or_a_stream_trains_and_is_evaluated(name):
    architecture = "decoder" if name == "mqar" else "encoder_decoder"
    options = dict(task__mqar__vocabulary=16, task__mqar__pairs=2, train__max_length=9) if name == "mqar" else {}
    cell = tiny_cell(task__name=name, model__architecture=architecture, encoding__name="t5", **options)
    trainer = Trainer(cell)
    state, first = trainer.advance(trainer.init(SEEDS[:2]), SEEDS[:2], 0, 5)
    state, last = trainer.advance(state, SEEDS[:2], 5, 40)
    assert (last < first).all()
    for *_, metrics in Evaluator(cell)(state.parameters):
        assert np.isfinite(np.stack(list(metrics.values()))).all()


def test_each_stack_has_its_own_encodings_and_all_of_them_are_counted_and_left_undecayed():
    cell = tiny_cell(model__architecture="encoder_decoder", encoding__name="t5", encoding__cross="shaw", model__depth=2)
    model = cell.transformer(nnx.Rngs(0))
    assert [type(one).__name__ for one in model.encodings] == ["T5", "T5", "Shaw"]
    assert [one.bidirectional for one in model.encodings[:2]] == [True, False]
    assert cell.label("encoding") == "t5, cross=shaw"
    added = 2 * 32 * 2 + 2 * 33 * 8  # two tables of T5, and Shaw's rows for keys and for values
    assert cost(cell).added_parameters == added
    mask = of_the_model(nnx.state(model, nnx.Param))
    sizes = jax.tree.map(lambda x, ours: 0 if ours else x.size, nnx.state(model, nnx.Param), mask)
    assert sum(jax.tree.leaves(sizes)) == added


# ---------------------------------------------------------------------- what a model writes by itself


@functools.cache
def written(architecture):
    """The metrics of a model that is right at times, with those of what it writes itself."""
    cell = tiny_cell(
        task__name="sort", model__architecture=architecture, train__steps=250, train__batch=16,
        train__length="per_example", evaluate__lengths=(2, 4, 6), evaluate__generated=True,
        positions__name="offset", encoding__name="sinusoidal",
    )  # fmt: skip
    trainer = Trainer(cell)
    parameters = trainer.advance(trainer.init(SEEDS), SEEDS, 0, 250)[0].parameters
    return cell, [metrics for *_, metrics in Evaluator(cell)(parameters)]


@pytest.mark.parametrize("architecture", ["decoder", "encoder_decoder"])
def test_what_is_written_and_what_is_said_of_the_true_text_match_whole_and_differ_by_token(architecture):
    cell, metrics = written(architecture)
    forced, free = (np.stack([one[f"{kind}exact_match"] for one in metrics]) for kind in ("", "generated_"))
    np.testing.assert_array_equal(forced, free)
    assert 0 < forced.mean() < 1  # it says something
    forced, free = (np.stack([one[f"{kind}token_accuracy"] for one in metrics]) for kind in ("", "generated_"))
    assert (free <= forced + 0.1).all() and np.abs(forced - free).max() > 0.01
    values = {name: np.asarray(value) for name, value in metrics[0].items()}
    rows = results.rows_of(cell, [0, 1, 2], 2, values, cost(cell))
    assert {row["metric"] for row in rows} >= {"exact_match", "generated_exact_match", "generated_token_accuracy"}


# ---------------------------------------------------------------------- curricula


def lengths(trainer, steps):
    program = trainer.program
    return [program.lengths(jax.random.key(step), jnp.asarray(step)).tolist() for step in steps]


@pytest.mark.parametrize("kind", ["per_batch", "per_example"])
def test_a_fixed_curriculum_is_the_longest_length_and_a_growing_one_reaches_it(kind):
    changes = dict(train__length=kind, train__min_length=2, train__max_length=9, train__steps=400)
    fixed, growing = (Trainer(tiny_cell(**changes, train__curriculum=name)) for name in ("fixed", "growing"))
    assert lengths(fixed, (0, 40)) == [[9] * 4] * 2
    drawn = lengths(growing, range(400))
    for step, row in enumerate(drawn):
        assert min(row) >= 2 and max(row) <= 2 + 8 * step // 400
        assert kind == "per_example" or len(set(row)) == 1
    assert {length for row in drawn for length in row} == set(range(2, 10))
    assert max(max(row) for row in drawn[350:]) == 9


def test_cells_that_grow_at_another_pace_do_not_share_a_program():
    one, other, alike = (tiny_cell(train__steps=n, train__curriculum="growing") for n in (40, 80, 40))
    assert program_of(one) is program_of(alike) is not program_of(other)
    assert program_of(tiny_cell(train__steps=40)) is program_of(tiny_cell(train__steps=80))


# ---------------------------------------------------------------------- batch norm


def test_running_statistics_are_carried_for_each_seed_and_tested_with():
    trainer = Trainer(tiny_cell(model__norm="batch"))
    state, _ = trainer.advance(trainer.init(SEEDS), SEEDS, 0, 30)
    statistics = nnx.filter_state(state.parameters, nnx.BatchStat)
    for path, leaf in jax.tree_util.tree_leaves_with_path(statistics):
        assert len(leaf) == 3
        assert jnp.abs(leaf[0] - leaf[1]).max() > 1e-4, path  # each seed has its own
    assert len(jax.tree.leaves(statistics)) == 2 * 3  # mean and variance, of two norms and the last one
    again, _ = trainer.advance(trainer.init(SEEDS), SEEDS, 0, 12)
    again, _ = trainer.advance(again, SEEDS, 12, 30)
    jax.tree.map(np.testing.assert_array_equal, state.parameters, again.parameters)
    evaluator = Evaluator(trainer.cell)
    ((*_, metrics), *_) = evaluator(state.parameters)
    moved = jax.tree.map(lambda x: x + 1.0, statistics)
    ((*_, other), *_) = evaluator(nnx.merge_state(nnx.filter_state(state.parameters, nnx.Param), moved))
    assert np.abs(metrics["loss"] - other["loss"]).max() > 1e-2


@pytest.mark.parametrize(("norms", "architecture", "told"), [
    (("batch", "batch"), "decoder", 1), (("rms", "batch"), "encoder_decoder", 1), (("batch",), "encoder", 0),
    (("layer",), "decoder", 0),
])  # fmt: skip
def test_a_sweep_is_told_once_that_batch_norm_sees_the_future_in_a_decoder(norms, architecture, told, monkeypatch):
    said = []
    monkeypatch.setattr(ablate.logging, "warning", said.append)
    ablate.warn([tiny_cell(model__norm=norm, model__architecture=architecture) for norm in norms])
    assert len(said) == told
    assert all("while it trains, its means and variances see later tokens" in text for text in said)


def test_statistics_are_saved_with_the_parameters(tmp_path):
    cell = tiny_cell(model__norm="batch")
    trainer, folder = Trainer(cell), results.CellFolder(tmp_path, cell)
    state, _ = trainer.advance(trainer.init(SEEDS[:2]), SEEDS[:2], 0, 5)
    folder.start()
    folder.publish(results.Outcome([0, 1], [], [], state.parameters, cost(cell), 1.0, cell.name))
    jax.tree.map(np.testing.assert_array_equal, folder.trained([0, 1])[0], state.parameters)


def test_statistics_do_not_depend_on_the_bucket():
    ends = []
    for n in (1, 4):
        trainer = Trainer(tiny_cell(model__norm="batch", train__max_length=12, train__buckets=n, task__name="sort"))
        ends.append(losses_step_by_step(trainer, SEEDS[:1], steps=15))
    np.testing.assert_allclose(*ends, atol=1e-5)


# ---------------------------------------------------------------------- grids of operands


def test_a_grid_has_a_row_for_each_pair_of_sizes_and_its_examples_have_them():
    cell = tiny_cell(
        task__name="addition_operands", task__addition_operands__second=3, evaluate__lengths=(2, 4),
        evaluate__second_lengths=(1, 5), encoding__name="none",
    )  # fmt: skip
    evaluator, seen = Evaluator(cell), []
    batch = evaluator.layout.batch

    def watch(*args, **given):
        drawn = batch(*args, **given)
        jax.debug.callback(lambda tokens: seen.append(tokens.tolist()), drawn.tokens)
        return drawn

    object.__setattr__(evaluator.layout, "batch", watch)
    rows, points = [], []
    for length, second, metrics in evaluator(Trainer(cell).init(SEEDS[:1]).parameters):
        jax.block_until_ready(metrics)
        jax.effects_barrier()
        for tokens in [row for drawn in seen for row in drawn]:
            plus, equals = tokens.index(10), tokens.index(11)
            assert (plus, equals - plus - 1) == (length, second)
        seen.clear()
        points.append((length, second))
        rows += results.rows_of(cell, [0], length, {k: np.asarray(v) for k, v in metrics.items()}, cost(cell), second)
    assert points == [(2, 1), (2, 5), (4, 1), (4, 5)]
    assert {(row["length"], row["second"]): row["trained"] for row in rows} == {
        (2, 1): True, (2, 5): False, (4, 1): True, (4, 5): False,
    }  # fmt: skip


# ---------------------------------------------------------------------- what makes no sense


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (dict(task__name="flip_flop", model__architecture="encoder"), "task flip_flop is for decoder, and"),
        (dict(task__name="mqar", model__architecture="encoder_decoder"), "task mqar is for decoder and encoder, and"),
        (dict(task__name="dyck", task__end=False), "task dyck asks within one text, which has no end"),
        (dict(model__architecture="encoder", evaluate__generated=True), "encoder writes no answer: it says all at"),
        (dict(task__name="dyck", evaluate__generated=True), "dyck asks for single tokens within a text"),
        (dict(encoding__cross="t5"), "'decoder' has no attention between two texts"),
        (dict(encoding__cross="t6"), r"Unknown encoding 't6'. Did you mean 't5'\?"),
        (dict(evaluate__second_lengths=(2,)), "reverse has no second operand of a length of its own.*multiplication"),
        (
            dict(evaluate__second_lengths=(3, 2), task__name="multiplication"),
            r"evaluate.second_lengths is \(3, 2\); expected ascending lengths",
        ),
        (dict(model__architecture="encoder_decoder", encoding__name="fox"), "fox is for causal models only"),
        (
            dict(model__architecture="encoder_decoder", encoding__cross="sinusoidal"),
            "Sinusoidal acts on embeddings: it cannot encode the attention of one text to another",
        ),
        (dict(model__window=-1), "model.window is -1; expected 0 or more"),
        (dict(evaluate__stride=0), "evaluate.stride is 0; expected 1 or more"),
        (dict(task__name="text", task__text__path="no/such"), "task.text.path is 'no/such', and there is nothing"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(fields, words):
    with pytest.raises(ValueError, match=words):
        tiny_cell(**fields)
