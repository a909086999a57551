"""The tasks of all three levels of the Chomsky hierarchy, each against what is known of it."""

import collections
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from experiments.tasks import context_free, context_sensitive, regular
from experiments.tasks.base import Layout
from tests.experiments.tasks import drawing, test_context_free, test_context_sensitive, test_regular

LONGEST, COUNT = 12, 4000
LEVELS = [test_regular.ALL, test_context_free.ALL, test_context_sensitive.ALL]
ALL = {name: known for level in LEVELS for name, known in level.items()}
SHORT = [(name, length) for name, known in ALL.items() for length in known.lengths if length < 7]
NESTED = [("two numbers", 9), ("an equation of three numbers", 10)]  # brackets in brackets
every_task = pytest.mark.parametrize("known", ALL.values(), ids=ALL.keys())


def drawn(known, length, longest=LONGEST, count=COUNT, whole=False):
    """Examples as pairs of lists of names."""
    return drawing.in_words(drawing.drawn(known.task, length, longest, count, whole), known.names.split())


def answers(known, length):
    """The probability of every answer."""
    total = collections.Counter()
    for word, probability in known.inputs(length).items():
        total[tuple(known.answer(list(word)))] += probability
    return total


def test_no_two_tasks_have_one_name():
    assert len(ALL) == sum(map(len, LEVELS))


@every_task
def test_names_and_symbols_are_as_many(known):
    assert known.task.symbols == len(known.names.split())


@every_task
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 9, 10, 11, 12])
def test_answers_follow_from_inputs(known, length):
    for question, answer in drawn(known, length):
        assert answer == known.answer(question)


@every_task
def test_answers_to_long_inputs_too(known):
    for length in (83, 499, 500):
        for question, answer in drawn(known, length, longest=500, count=20):
            assert answer == known.answer(question)


@pytest.mark.parametrize(("name", "length"), SHORT + NESTED)
def test_inputs_are_drawn_as_often_as_defined(name, length):
    expected = ALL[name].inputs(length)
    counts = collections.Counter(tuple(question) for question, _ in drawn(ALL[name], length))
    assert set(counts) <= set(expected)
    if len(expected) > 1:
        frequencies = [COUNT * probability for probability in expected.values()]
        assert scipy.stats.chisquare([counts[word] for word in expected], frequencies).pvalue > 1e-4


@every_task
def test_sizes_are_the_most_that_examples_take(known):
    for length in known.lengths:
        asked = max(map(len, known.inputs(length)))
        answered = max(map(len, answers(known, length)))
        for given in (length, jnp.array(length)):
            assert (known.task.input_length(given), known.task.answer_length(given)) == (asked, answered)


@every_task
def test_neither_padding_nor_tracing_changes_an_example(known):
    for length in (1, 5):
        assert drawn(known, length, longest=length, whole=True) == drawn(known, length)


@every_task
def test_chance_is_the_share_of_the_most_frequent_answer(known):
    for length in known.lengths:
        assert known.task.chance(length) == pytest.approx(max(answers(known, length).values()), rel=1e-12)
    assert 0 < known.task.chance(500) < 1


@pytest.mark.parametrize("name", ["stack_manipulation", "binary_addition", "binary_multiplication"])
def test_a_decoder_is_asked_for_the_answer_and_its_end(name):
    known = ALL[name]
    layout = Layout(known.task, "decoder")
    lengths = jnp.arange(64) % LONGEST + 1
    got = jax.tree.map(np.asarray, jax.jit(lambda key: layout.batch(key, lengths, LONGEST))(jax.random.key(2)))
    names = [*known.names.split(), "separator", "end", "blank"]
    for tokens, targets, scored, real in zip(*got[:4], strict=True):
        read = [names[token] for token in tokens[:real]]
        behind = read.index("separator")
        said = known.answer(read[:behind])
        assert read[behind + 1 :] == said
        assert [names[token] for token in targets[scored]] == [*said, "end"]


def examples(documentation):
    """The worked examples of a module's docstring, as (task, input, answer): names of a task are given once."""
    name, found = None, []
    for line in documentation.splitlines():
        if match := re.fullmatch(r"([a-z_]{3,})?\s+(.+?)\s+->((?: \d)*)(?: +\(.*\))?", line):
            name = match[1] or name
            found.append((name, match[2].split(), match[3].split()))
    return found


@pytest.mark.parametrize(
    ("module", "known", "count"),
    [
        (regular, test_regular.ALL, 8),
        (context_free, test_context_free.ALL, 8),
        (context_sensitive, test_context_sensitive.ALL, 14),
    ],
    ids=["regular", "context_free", "context_sensitive"],
)
def test_worked_examples(module, known, count):
    found = examples(module.__doc__)
    assert len(found) == count
    for name, question, answer in found:
        assert known[name].answer(question) == answer
