"""Evaluation: what is counted, that buckets do not matter, and that exact match is greedy decoding's."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from experiments.evaluate import Evaluator, bucket, count
from experiments.train import Trainer
from posenc.positions import taken
from tests.experiments.test_train import SEEDS, tiny_cell


@functools.cache
def trained():
    """A decoder that gets some examples right and others wrong."""
    cell = tiny_cell(
        task__name="sort",
        train__steps=250,
        train__batch=16,
        train__length="per_example",
        evaluate__lengths=(2, 4, 5, 6),
    )
    trainer = Trainer(cell)
    return cell, trainer.advance(trainer.init(SEEDS), SEEDS, 0, 250)[0].parameters


def test_teacher_forced_exact_match_equals_greedy_decoding_example_by_example():
    cell, parameters = trained()
    model = nnx.merge(Evaluator(cell).graph, jax.tree.map(lambda x: x[0], parameters))
    layout, length, verdicts = cell.layout, 4, []
    batch = layout.batch(jax.random.key(5), jnp.full(64, length), length)
    logits = model(batch.tokens, jnp.arange(batch.tokens.shape[1]))
    right = (logits.argmax(-1) == batch.targets) | ~batch.scored
    written = batch.tokens.at[:, length + 1 :].set(0)  # the prompts, up to the separator
    for slot in range(length, 2 * length + 1):
        said = model(written, jnp.arange(written.shape[1]))[:, slot].argmax(-1)
        verdicts.append(said == batch.targets[:, slot])
        written = written.at[:, slot + 1 :].set(said[:, None])
    verdicts = list(np.all(verdicts, axis=0))
    assert verdicts == list(np.asarray(right.all(-1)))
    assert 5 < sum(verdicts) < 64  # it says something: some are right, and not all


@pytest.mark.parametrize("architecture", ["decoder", "encoder"])
def test_the_bucket_changes_nothing(architecture):
    cell = tiny_cell(model__architecture=architecture)
    parameters, evaluator, key = Trainer(cell).init(SEEDS).parameters, Evaluator(cell), jax.random.key(3)
    exact, padded = (evaluator.metrics(parameters, key, 4, longest=longest) for longest in (4, 9))
    for metric in exact:
        np.testing.assert_allclose(exact[metric], padded[metric], rtol=1e-5)
    assert len(np.unique(np.asarray(exact["loss"]))) == 3


def test_every_length_is_tested_at_that_length():
    cell, seen = tiny_cell(train__max_length=3, evaluate__lengths=(2, 3, 5, 9)), []
    original = cell.layout.batch

    def watch(key, lengths, longest):
        jax.debug.callback(lambda drawn: seen.extend(drawn.tolist()), lengths)
        return original(key, lengths, longest)

    object.__setattr__(cell.layout, "batch", watch)
    for length, _, metrics in Evaluator(cell)(Trainer(cell).init(SEEDS).parameters):
        jax.block_until_ready(metrics)
        jax.effects_barrier()
        assert set(seen) == {length}
        seen.clear()


def test_nothing_is_dropped_in_testing():
    with_dropout, without = (tiny_cell(model__dropout=rate) for rate in (0.5, 0.0))
    parameters = Trainer(without).init(SEEDS).parameters
    metrics = [list(Evaluator(cell)(parameters)) for cell in (with_dropout, without)]
    jax.tree.map(np.testing.assert_array_equal, *metrics)


def test_a_learned_table_of_exactly_the_longest_length_is_tested_to_its_end():
    cell = tiny_cell(encoding__name="learned", encoding__learned__max_position=13, evaluate__lengths=(2, 6))
    assert cell.layout.tokens(6) == 13
    parameters = Trainer(cell).init(SEEDS).parameters
    for *_, metrics in Evaluator(cell)(parameters):
        assert np.isfinite(metrics["loss"]).all()
    over = Evaluator(cell).metrics(parameters, jax.random.key(0), 5, longest=9)  # a bucket beyond the table
    assert np.isfinite(over["loss"]).all()


def test_lengths_share_a_compilation_within_a_bucket():
    cell = tiny_cell(evaluate__lengths=(1, 2, 5, 8, 9, 12))
    evaluator = Evaluator(cell)
    list(evaluator(Trainer(cell).init(SEEDS).parameters))
    assert evaluator.metrics._cache_size() == 2  # 8 and 12
    assert [bucket(length, 12) for length in (1, 8, 9, 12)] == [8, 8, 12, 12]
    assert [bucket(length, 100) for length in (9, 16, 17, 64, 65)] == [16, 16, 32, 64, 100]


def test_all_seeds_and_encodings_see_the_same_examples():
    def tokens(cell):
        seen = []
        evaluator = Evaluator(cell)
        original = cell.layout.batch

        def watch(key, lengths, longest):
            jax.debug.callback(lambda k: seen.append(k.tobytes()), jax.random.key_data(key))
            return original(key, lengths, longest)

        object.__setattr__(cell.layout, "batch", watch)
        list(evaluator(Trainer(cell).init(SEEDS).parameters))
        jax.effects_barrier()
        return sorted(set(seen))

    first, second = (tokens(tiny_cell(encoding__name=name)) for name in ("rope", "none"))
    assert first == second
    assert len(first) == 3 * 2  # lengths x batches, not seeds


def test_counts_are_those_of_a_loop():
    cell = tiny_cell()
    batch = cell.layout.batch(jax.random.key(0), jnp.array([1, 3, 4, 2]), 4)
    answer = jax.nn.one_hot(batch.targets, cell.layout.vocabulary) * 5
    noise = jax.random.normal(jax.random.key(1), answer.shape) * 2
    noise = noise.at[3].set(0)  # the last example is right,
    noise = noise.at[3, :, 0].add(jnp.where(batch.scored[3], 0, 99.0))  # but where nobody asks
    sums = count(taken(answer + noise, batch.slots), batch)
    said = np.asarray((answer + noise).argmax(-1))
    examples = [
        [said[b, t] == batch.targets[b, t] for t in range(said.shape[1]) if batch.scored[b, t]] for b in range(4)
    ]
    assert sums.examples == 4
    assert sums.tokens == sum(map(len, examples)) == 14
    assert sums.exact == sum(map(all, examples))
    assert sums.right == sum(map(sum, examples))
    assert 1 <= sums.exact < 4
    metrics = sums.metrics()
    assert metrics["exact_match"] == sum(map(all, examples)) / 4
    np.testing.assert_allclose(metrics["token_accuracy"], sum(map(sum, examples)) / 14, rtol=1e-6)
    shares = np.exp(np.asarray(answer + noise, np.float64))
    shares /= shares.sum(-1, keepdims=True)
    losses = [-np.log(shares[b, t, batch.targets[b, t]]) for b in range(4) for t in np.flatnonzero(batch.scored[b])]
    np.testing.assert_allclose(metrics["loss"], np.mean(losses), rtol=1e-5)


def test_logits_that_are_not_finite_are_wrong():
    cell = tiny_cell()
    batch = cell.layout.batch(jax.random.key(0), jnp.array([2]), 2)
    broken = jnp.full((*batch.tokens.shape, cell.layout.vocabulary), jnp.nan)
    sums = count(
        taken(broken, batch.slots), batch._replace(targets=jnp.zeros_like(batch.targets))
    )  # argmax of NaN is 0
    assert (sums.exact, sums.right) == (0, 0)
