"""Training is a pure function of cell and seed, compiled once, for any encoding and any backend."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from experiments.config import default_config, expand
from experiments.train import (
    Numbers,
    Program,
    Trainer,
    buckets,
    chunks,
    learning_rate,
    mean_loss,
    program_of,
    step_key,
    turns,
)
from posenc import ENCODINGS
from posenc.positions import taken

SEEDS = jnp.arange(3, dtype=jnp.uint32)


def tiny_cell(**changes):
    """A cell of a few thousand parameters; changes name config paths, with __ for the dots."""
    config = default_config()
    settings = {
        "encoding.name": "rope", "task.name": "reverse", "model.width": 16, "model.depth": 1, "model.heads": 2,
        "train.steps": 40, "train.warmup": 5, "train.batch": 4, "train.max_length": 4, "train.learning_rate": 3e-3,
        "train.buckets": 1,
        "evaluate.lengths": (2, 4, 6), "evaluate.examples": 16, "evaluate.batch": 8,
    }  # fmt: skip
    config.update_from_flattened_dict(settings | {key.replace("__", "."): value for key, value in changes.items()})
    return expand(config)[0]


def losses_step_by_step(trainer, seeds, steps=30):
    state, losses = trainer.init(seeds), []
    for step in range(steps):
        state, loss = trainer.advance(state, seeds, step, step + 1)
        losses.append(loss)
    return np.stack(losses)


def test_a_seed_alone_and_in_a_batch_of_seeds_go_the_same_way():
    trainer = Trainer(tiny_cell(model__dropout=0.1))
    together, alone = trainer.init(SEEDS), trainer.init(SEEDS[1:2])
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[1:2], b), together, alone)
    apart = losses_step_by_step(trainer, SEEDS[1:2])
    np.testing.assert_allclose(losses_step_by_step(trainer, SEEDS)[:, 1:2], apart, atol=1e-5)
    assert np.abs(losses_step_by_step(trainer, SEEDS[:1]) - apart).max() > 1e-3  # another seed, another way


def test_cutting_the_steps_into_chunks_changes_no_bit():
    trainer = Trainer(tiny_cell(model__dropout=0.1))
    whole, loss = trainer.advance(trainer.init(SEEDS), SEEDS, 0, 12)
    state, losses = trainer.init(SEEDS), []
    for start, stop in ((0, 1), (1, 7), (7, 12)):
        state, mean = trainer.advance(state, SEEDS, start, stop)
        losses.append(mean * (stop - start))
    jax.tree.map(np.testing.assert_array_equal, whole, state)
    np.testing.assert_allclose(loss, sum(losses) / 12, rtol=1e-5)


def test_pausing_within_a_chunk_changes_no_bit_of_its_loss_either_and_compiles_nothing_more():
    trainer = Trainer(tiny_cell(model__dropout=0.1))
    whole, loss = trainer.advance(trainer.init(SEEDS), SEEDS, 0, 12)
    compiled = trainer.program.advance._cache_size()
    state = trainer.init(SEEDS)
    for start, stop in ((0, 5), (5, 6), (6, 10)):
        state = trainer.proceed(state, SEEDS, start, stop)
    state = trainer.placed(jax.tree.map(np.asarray, state))  # as it comes from a file
    paused, mean = trainer.advance(state, SEEDS, 10, 12)
    np.testing.assert_array_equal(mean * (2 / 12), loss)  # the sum of all that was not told yet
    jax.tree.map(np.testing.assert_array_equal, whole, paused)
    assert trainer.program.advance._cache_size() == compiled


@pytest.mark.parametrize("broken", [(), (0, 2), (0, 1, 2)])
def test_the_first_step_whose_loss_is_no_number_is_kept(broken):
    trainer = Trainer(tiny_cell())
    state = trainer.proceed(trainer.init(SEEDS), SEEDS, 0, 3)
    assert np.asarray(state.diverged).tolist() == [-1, -1, -1]
    away = jnp.isin(SEEDS, jnp.array(broken, int))

    def break_some(x):
        return jnp.where(away.reshape(-1, *[1] * (x.ndim - 1)), jnp.nan, x)

    state = state._replace(parameters=jax.tree.map(break_some, state.parameters))
    for start in (3, 5):
        state = trainer.proceed(state, SEEDS, start, start + 2)
        assert np.asarray(state.diverged).tolist() == [3 if seed in broken else -1 for seed in range(3)]


def test_lengths_and_chunks_share_one_compilation(monkeypatch):
    traces, original = [], Program.step
    monkeypatch.setattr(Program, "step", lambda *args: traces.append(1) or original(*args))
    fresh = Program(tiny_cell())
    state = fresh.init(SEEDS, Numbers.of(fresh.cell.train, len(SEEDS)))
    for start, stop in ((0, 3), (3, 4), (4, 20)):
        state = fresh.advance(state, SEEDS, start, stop)
    assert fresh.advance._cache_size() == 1
    assert len(traces) <= 2  # a loop's body may be traced twice to settle its types


def test_every_step_and_every_seed_draws_another_batch():
    trainer = Trainer(tiny_cell(train__length="per_example"))
    keys = [step_key(seed, step) for seed in range(4) for step in range(4)]
    batches = [trainer.cell.layout.batch(key, jnp.full(4, 4), 4).tokens.tobytes() for key in keys]
    assert len(set(batches)) == len(batches)


@pytest.mark.parametrize("length", ["per_batch", "per_example"])
def test_training_lengths_are_uniform_and_per_batch_the_same_for_all_seeds(length):
    trainer = Trainer(tiny_cell(train__length=length, train__min_length=2))

    def lengths(seed):
        return jax.vmap(lambda step: trainer.program.lengths(step_key(seed, step), step))(jnp.arange(600))

    first, second = lengths(0), lengths(1)
    counts = np.bincount(np.asarray(first).ravel(), minlength=5)[2:]
    assert len(counts) == 3
    assert (counts / counts.sum() > 0.27).all()
    assert np.array_equal(first, second) == (length == "per_batch")
    assert (np.ptp(first, axis=1) == 0).all() == (length == "per_batch")


def test_no_two_draws_of_a_step_share_a_key(monkeypatch):
    used, original = [], Program.lengths
    fresh = Program(tiny_cell(train__length="per_example", positions__name="randomized", model__dropout=0.1))
    monkeypatch.setattr(Program, "lengths", lambda self, key, step: used.append(key) or original(self, key, step))
    layout, scheme = fresh.cell.layout, fresh.cell.schemes[0]
    batch, call = layout.batch, type(scheme).__call__
    object.__setattr__(
        layout, "batch", lambda key, *rest: used.extend([key, *jax.random.split(key, 4)]) or batch(key, *rest)
    )
    monkeypatch.setattr(type(scheme), "__call__", lambda self, key, *rest: used.append(key) or call(self, key, *rest))
    fresh.step(fresh.init_one(0, Numbers.of(fresh.cell.train, ())), 0, 0)
    used += [jax.random.key(0), step_key(0, 0), step_key(0, 1), step_key(1, 0)]
    numbers = {tuple(np.asarray(jax.random.key_data(key)).tolist()) for key in used}
    assert len(numbers) == len(used) == 11


def test_loss_is_the_mean_over_scored_tokens_only():
    cell = tiny_cell()
    batch = cell.layout.batch(jax.random.key(0), jnp.array([1, 3, 4, 2]), 4)
    logits = jax.random.normal(jax.random.key(1), (*batch.tokens.shape, cell.layout.vocabulary))
    probabilities = np.exp(np.asarray(logits, np.float64))
    probabilities /= probabilities.sum(-1, keepdims=True)
    expected = [
        -np.log(probabilities[b, t, batch.targets[b, t]])
        for b, t in np.ndindex(batch.tokens.shape)
        if batch.scored[b, t]
    ]
    assert len(expected) == 1 + 3 + 4 + 2 + 4  # answers and their ends
    np.testing.assert_allclose(mean_loss(taken(logits, batch.slots), batch), np.mean(expected), rtol=1e-5)


@pytest.mark.parametrize(("warmup", "steps"), [(10, 20), (0, 7), (1, 40)])
def test_the_learning_rate_is_that_of_a_warmed_up_cosine(warmup, steps):
    numbers = Numbers.of(tiny_cell(train__steps=steps, train__warmup=warmup).train, ())
    expected = optax.warmup_cosine_decay_schedule(0.0, 3e-3, warmup, steps)
    for step in range(steps):
        np.testing.assert_allclose(learning_rate(numbers, step), expected(step), atol=1e-9)


@pytest.mark.parametrize(("warmup", "steps"), [(10, 40), (0, 7), (1, 40)])
def test_other_schedules_warm_up_alike_and_end_as_they_say(warmup, steps):
    numbers = Numbers.of(tiny_cell(train__steps=steps, train__warmup=warmup).train, ())
    linear = optax.linear_schedule(3e-3, 0, steps - warmup)
    for step in range(steps):
        rates = {name: learning_rate(numbers, step, name) for name in ("linear", "constant", "inverse_sqrt")}
        if step < warmup:
            expected = dict.fromkeys(rates, 3e-3 * step / warmup)
        else:
            root = (max(warmup, 1) / max(step, 1)) ** 0.5 if step else 1.0
            expected = {"linear": linear(step - warmup), "constant": 3e-3, "inverse_sqrt": 3e-3 * root}
        for name, rate in rates.items():
            np.testing.assert_allclose(rate, expected[name], atol=1e-8, err_msg=f"{name} at {step}")


@pytest.mark.parametrize(
    "change",
    [
        {"train__learning_rate": 1e-2},
        {"train__warmup": 0},
        {"train__steps": 80},
        {"train__weight_decay": 3.0},
        {"train__clip": 1e-3},
    ],
    ids=lambda change: next(iter(change)),
)
def test_numbers_ride_one_program_and_each_of_them_counts(change):
    one, other = Trainer(tiny_cell()), Trainer(tiny_cell(**change))
    assert one.program is other.program
    traced = one.program.advance._cache_size()
    ends = [trainer.advance(trainer.init(SEEDS), SEEDS, 0, 8)[0].parameters for trainer in (one, other)]
    assert one.program.advance._cache_size() <= max(traced, 1)  # compiled once, by whoever came first
    kernels = [np.asarray(end["head"]["kernel"][...]) for end in ends]
    assert np.abs(kernels[0] - kernels[1]).max() > 1e-6
    alone = Program(tiny_cell(**change))
    state = alone.advance(alone.init(SEEDS, Numbers.of(alone.cell.train, len(SEEDS))), SEEDS, 0, 8)
    jax.tree.map(np.testing.assert_array_equal, state.parameters, ends[1])


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        ("adamw", lambda: optax.adamw(3e-3, 0.8, 0.95, 1e-3, weight_decay=0.02)),
        ("nesterov", lambda: optax.chain(optax.add_decayed_weights(0.0), optax.sgd(3e-3, 0.8, nesterov=True))),
        ("adafactor", lambda: optax.adafactor(3e-3)),
    ],
)
def test_optimizers_are_those_of_optax(optimizer, expected):
    decay = 0.02 if optimizer == "adamw" else 0.0
    settings = dict(optimizer=optimizer, beta1=0.8, beta2=0.95, epsilon=1e-3, weight_decay=decay, clip=1e9)
    settings |= dict(schedule="constant", warmup=0)
    cell = tiny_cell(**{f"train__{name}": value for name, value in settings.items()})
    parameters = {"matrix": jax.random.normal(jax.random.key(0), (130, 140)), "vector": jnp.linspace(-1, 2, 7)}
    ours, theirs = Program(cell).optimizer(Numbers.of(cell.train, ()), 5), expected()
    states = [ours.init(parameters), theirs.init(parameters)]
    for step in range(3):
        gradients = jax.tree.map(lambda x, step=step: jnp.sin(7 * x + step), parameters)
        (update, states[0]), (wanted, states[1]) = (
            one.update(gradients, state, parameters) for one, state in zip((ours, theirs), states, strict=True)
        )
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-9), update, wanted)


@pytest.mark.parametrize("optimizer", ["adafactor", "nesterov"])
def test_every_optimizer_trains_all_seeds_in_one_program(optimizer):
    rate = 0.03 if optimizer == "nesterov" else 0.1
    cell = tiny_cell(train__optimizer=optimizer, train__learning_rate=rate, train__steps=150, train__warmup=5)
    losses = losses_step_by_step(Trainer(cell), SEEDS, steps=150)
    assert np.all(losses[-10:].mean(0) < 0.8 * losses[:10].mean(0))


def test_smoothed_labels_give_a_share_of_the_target_to_all_tokens():
    batch = tiny_cell().layout.batch(jax.random.key(0), jnp.array([1, 3, 4]), 4)
    targets, scored = batch.asked()
    logits = jax.random.normal(jax.random.key(1), (*targets.shape, 13))
    labels = optax.smooth_labels(jax.nn.one_hot(targets, 13), 0.1)
    expected = np.asarray(optax.softmax_cross_entropy(logits, labels))[np.asarray(scored)].mean()
    np.testing.assert_allclose(mean_loss(logits, batch, 0.1), expected, rtol=1e-6)
    assert abs(float(mean_loss(logits, batch)) - expected) > 1e-3


def test_seeds_may_have_numbers_of_their_own():
    cell = tiny_cell()
    rates = jnp.array([1e-3, 3e-3, 1e-2])
    own = Numbers.of(cell.train, 3)._replace(learning_rate=rates)
    program, same_seed = program_of(cell), jnp.zeros(3, jnp.uint32)
    together = program.advance(program.init(same_seed, own), same_seed, 0, 8)
    for i, rate in enumerate(rates):
        trainer = Trainer(tiny_cell(train__learning_rate=float(rate)))
        alone, _ = trainer.advance(trainer.init(same_seed[:1]), same_seed[:1], 0, 8)
        jax.tree.map(
            lambda x, y, i=i: np.testing.assert_allclose(x[i], y[0], rtol=1e-5, atol=1e-6),
            together.parameters,
            alone.parameters,
        )


@pytest.mark.parametrize(
    "change",
    [
        {"train__batch": 8},
        {"train__max_length": 5},
        {"train__min_length": 2},
        {"train__decay_encodings": False},
        {"train__beta2": 0.98},
        {"train__label_smoothing": 0.1},
        {"model__width": 32},
        {"positions__name": "randomized"},
        {"task__name": "sort"},
        {"encoding__name": "t5"},
        {"encoding__rope__base": 100.0},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_is_no_number_has_a_program_of_its_own(change):
    assert program_of(tiny_cell()) is not program_of(tiny_cell(**change))


def test_how_a_cell_is_tested_does_not_matter_to_its_training():
    changes = dict(evaluate__lengths=(3, 5), positions__test="randomized")
    assert program_of(tiny_cell()) is program_of(tiny_cell(**changes))


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_training_step_lowers_for_cpu_cuda_and_tpu(name):
    architecture = "decoder" if ENCODINGS[name].causal_only else "encoder"
    trainer = Trainer(tiny_cell(encoding__name=name, model__architecture=architecture, model__dropout=0.1))
    state = jax.eval_shape(trainer.init, SEEDS)
    lowered = trainer.program.advance.trace(state, SEEDS, 0, 1).lower(lowering_platforms=("cpu", "cuda", "tpu"))
    assert "stablehlo" in lowered.as_text()


def test_chunks_cover_all_steps_once():
    for steps in (1, 7, 20, 333):
        covered = [step for start, stop in chunks(steps) for step in range(start, stop)]
        assert covered == list(range(steps))


@pytest.mark.parametrize(
    ("start", "stop", "length"), [(0, 12, 5), (3, 4, 5), (4, 16, 5), (0, 5, 5), (5, 6, 5), (0, 7, 7)]
)
def test_turns_have_each_step_once_in_its_own_turn(start, stop, length):
    pieces = turns(start, stop, length)
    steps = [(turn, step) for turn, first, last in pieces for step in range(first, last)]
    assert steps == [(step // length, step) for step in range(start, stop)]
    assert len(pieces) == len({turn for turn, _ in steps})


def test_the_model_holds_nothing_but_parameters():
    cell = tiny_cell(model__dropout=0.5)
    assert not jax.tree.leaves(nnx.state(cell.transformer(nnx.Rngs(0)), nnx.Not(nnx.Param)))


def test_weight_decay_leaves_the_encodings_alone_where_it_is_told_to():
    changes = dict(encoding__name="learned", train__weight_decay=0.5, train__warmup=0, train__steps=8)
    ends = {}
    for decays in (True, False):
        trainer = Trainer(tiny_cell(**changes, train__decay_encodings=decays))
        start = jax.tree.map(np.asarray, trainer.init(SEEDS).parameters)
        ends[decays] = trainer.advance(trainer.init(SEEDS), SEEDS, 0, 8)[0].parameters
    unread = {decays: np.asarray(end["encodings"][0]["rows"][...])[:, 400:] for decays, end in ends.items()}
    np.testing.assert_array_equal(unread[False], start["encodings"][0]["rows"][...][:, 400:])  # no gradient, no decay
    assert np.abs(unread[True]).sum() < 0.999 * np.abs(unread[False]).sum()
    for end in ends.values():  # the model's own parameters decay in both: those of the head, too
        assert np.abs(np.asarray(end["head"]["kernel"][...])).sum() < np.abs(start["head"]["kernel"][...]).sum()


@pytest.mark.parametrize("scheme", ["in_order", "randomized"])
def test_short_batches_in_short_arrays_go_the_way_of_long_arrays(scheme):
    changes = dict(positions__name=scheme, train__max_length=20, task__name="sort")
    whole, parted = (Trainer(tiny_cell(**changes, train__buckets=n)) for n in (1, 4))
    assert (whole.program.buckets, parted.program.buckets) == ([20], [7, 11, 15, 20])
    same = (losses_step_by_step(trainer, SEEDS[:1], steps=30) for trainer in (whole, parted))
    np.testing.assert_allclose(*same, atol=1e-5)


def test_a_batch_is_in_the_shortest_arrays_that_hold_it(monkeypatch):
    asked = []

    def listening(self, trained, statistics, *_, longest):
        asked.append(longest)
        return (jnp.zeros(()), statistics), trained

    fresh = Program(tiny_cell(train__max_length=20, train__buckets=4))
    monkeypatch.setattr(Program, "gradients_within", listening)
    with jax.disable_jit():
        state = fresh.init_one(0, Numbers.of(fresh.cell.train, ()))
        for length in (1, 7, 8, 15, 16, 20):
            monkeypatch.setattr(Program, "lengths", lambda self, key, step, length=length: jnp.full(4, length))
            fresh.step(state, 0, 0)
    assert asked == [7, 7, 11, 15, 20, 20]


@pytest.mark.parametrize("length", ["per_batch", "per_example"])
@pytest.mark.parametrize("pieces", [1, 2, 5, 50])
def test_array_sizes_hold_every_length_and_fill_whole_registers(length, pieces):
    cell = tiny_cell(train__length=length, train__buckets=pieces, train__min_length=3, train__max_length=29)
    sizes = buckets(cell)
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == 29
    assert len(sizes) == 1 if length == "per_example" or pieces == 1 else len(sizes) > 1
    for size in sizes[:-1]:  # the next longer string would need another register
        assert cell.layout.tokens(size) <= 8 * -(-cell.layout.tokens(size) // 8) < cell.layout.tokens(size + 1)


def test_only_the_answers_are_asked_for():
    trainer = Trainer(tiny_cell(task__name="parity"))
    text = str(jax.make_jaxpr(trainer.program.advance)(jax.eval_shape(trainer.init, SEEDS), SEEDS, 0, 1))
    vocabulary, answers, tokens = trainer.cell.layout.vocabulary, 2, trainer.cell.layout.tokens(4)
    assert f"f32[1,4,{answers},{vocabulary}]" in text
    assert f"f32[1,4,{tokens},{vocabulary}]" not in text


@pytest.mark.parametrize("name", ENCODINGS)
def test_sixteen_bits_are_for_activations_alone(name):
    cell = tiny_cell(encoding__name=name, model__dtype="bfloat16", model__dropout=0.1)
    trainer = Trainer(cell)
    state = jax.eval_shape(trainer.init, SEEDS)
    after = jax.eval_shape(trainer.program.advance_all, state, SEEDS, 0, 1)
    floats = jax.tree.leaves((after.parameters, after.numbers, after.total))
    assert {leaf.dtype for leaf in floats} == {jnp.dtype("float32")}
    assert {leaf.dtype.itemsize for leaf in jax.tree.leaves(after.optimizer)} == {4}
    assert "bf16[" in str(jax.make_jaxpr(trainer.program.advance_all)(state, SEEDS, 0, 1))


@pytest.mark.parametrize("name", ["rope", "shaw"])
def test_sixteen_bits_go_about_the_way_of_thirty_two(name):
    losses = [
        losses_step_by_step(Trainer(tiny_cell(encoding__name=name, model__dtype=dtype)), SEEDS[:2], steps=10)
        for dtype in ("float32", "bfloat16")
    ]
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.03)
    assert np.abs(losses[1] - losses[0]).max() > 1e-6
