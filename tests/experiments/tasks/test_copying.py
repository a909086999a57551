"""Copying and reversing: every example against a rule on plain lists, and how often each is drawn."""

import collections
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from experiments.tasks import Layout, copying
from experiments.tasks.copying import (
    CopyOne,
    CopyOneTwice,
    CopyReplaced,
    CopyUnique,
    CopyUniqueTwice,
    ReverseThenCopy,
    ReverseUnique,
    ReverseUniqueTwice,
)
from tests.experiments.tasks import drawing

MARK = 7
LONGEST = 12
RULES = {
    CopyOne: lambda word: word,
    CopyOneTwice: lambda word: word + word,
    CopyReplaced: lambda word: [word[1] if symbol == word[0] else symbol for symbol in word[2:]],
    CopyUnique: lambda word: word,
    CopyUniqueTwice: lambda word: [*word, MARK, *word],
    ReverseUnique: lambda word: word[::-1],
    ReverseUniqueTwice: lambda word: [*word[::-1], MARK, *word[::-1]],
    ReverseThenCopy: lambda word: [*word[::-1], MARK, *word],
}
ALL = [kind(MARK) for kind in RULES]
every_task = pytest.mark.parametrize("task", ALL, ids=[kind.__name__ for kind in RULES])
drawn = functools.partial(drawing.drawn, longest=LONGEST, count=50)


def questions(task, length):
    """All inputs of a length."""
    alphabet = range(task.alphabet)
    match task:
        case CopyOne():
            return [[symbol] * length for symbol in alphabet]
        case CopyReplaced():
            return [[old, new, *[old] * length] for old, new in itertools.permutations(alphabet, 2)]
    return [list(word) for word in itertools.product(alphabet, repeat=length)]


@every_task
@pytest.mark.parametrize("length", [1, 2, 3, 5, LONGEST])
def test_every_answer_follows_from_its_input(task, length):
    for question, answer in drawn(task, length):
        assert answer == RULES[type(task)](question)


@every_task
def test_every_input_is_one_of_its_length_and_each_is_drawn_as_often(task):
    for length in (1, 2):
        counts = collections.Counter(tuple(question) for question, _ in drawn(task, length, longest=length, count=4000))
        expected = [tuple(question) for question in questions(task, length)]
        assert set(counts) <= set(expected)
        assert scipy.stats.chisquare([counts[question] for question in expected]).pvalue > 1e-4


@pytest.mark.parametrize("task", [CopyOne(MARK), CopyReplaced(MARK)], ids=["CopyOne", "CopyReplaced"])
def test_one_symbol_is_one_at_every_length(task):
    for length in (3, LONGEST):
        assert all(question in questions(task, length) for question, _ in drawn(task, length))


def test_places_of_a_string_do_not_depend_on_one_another():
    for task in (CopyUnique(4), ReverseThenCopy(4)):
        words = [question for question, _ in drawn(task, 4, longest=4, count=4000)]
        for i, j in itertools.combinations(range(4), 2):
            counts = collections.Counter((word[i], word[j]) for word in words)
            assert scipy.stats.chisquare([counts[pair] for pair in itertools.product(range(4), repeat=2)]).pvalue > 1e-4


@every_task
def test_padding_and_a_traced_length_change_nothing(task):
    for length in (1, 2, 5):
        assert drawn(task, length, longest=length, whole=True) == drawn(task, length)


@every_task
def test_declared_sizes_are_those_of_the_answers_that_the_rule_gives(task):
    for length in (1, 2, LONGEST):
        question, _ = drawn(task, length)[0]
        answer = RULES[type(task)](question)
        assert (task.input_length(length), task.answer_length(length)) == (len(question), len(answer))
        assert max(question + answer) < task.symbols


@pytest.mark.parametrize("kind", RULES)
def test_chance_is_the_share_of_the_most_frequent_answer(kind):
    for alphabet, length in itertools.product((2, 3), (1, 2, 4)):
        task = kind(alphabet)
        answers = collections.Counter(tuple(RULES[kind](question)) for question in questions(task, length))
        assert task.chance(length) == pytest.approx(max(answers.values()) / answers.total(), rel=1e-12)
    assert 0 <= kind().chance(500) <= 0.01


WORKED = [
    (CopyOne, "3 3 3", "3 3 3"),
    (CopyOne, "0 0", "0 0"),
    (CopyOneTwice, "3 3 3", "3 3 3 3 3 3"),
    (CopyOneTwice, "0 0", "0 0 0 0"),
    (CopyReplaced, "3 7 3 3 3", "7 7 7"),
    (CopyReplaced, "0 5 0 0", "5 5"),
    (CopyUnique, "3 1 4", "3 1 4"),
    (CopyUnique, "2 2", "2 2"),
    (CopyUniqueTwice, "3 1 4", "3 1 4 N 3 1 4"),
    (CopyUniqueTwice, "2 0", "2 0 N 2 0"),
    (ReverseUnique, "3 1 4", "4 1 3"),
    (ReverseUnique, "2 0", "0 2"),
    (ReverseUniqueTwice, "3 1 4", "4 1 3 N 4 1 3"),
    (ReverseUniqueTwice, "2 0", "0 2 N 0 2"),
    (ReverseThenCopy, "3 1 4", "4 1 3 N 3 1 4"),
    (ReverseThenCopy, "2 0", "0 2 N 2 0"),
]


@pytest.mark.parametrize(("kind", "question", "answer"), WORKED)
def test_the_worked_examples_follow_the_rule(kind, question, answer):
    assert f"{question} -> {answer}" in " ".join(copying.__doc__.split())
    assert RULES[kind]([int(word) for word in question.split()]) == [
        MARK if word == "N" else int(word) for word in answer.split()
    ]


@pytest.mark.parametrize(
    ("kind", "architecture", "expected"),
    [
        (CopyOne, "decoder", "1 2 0 1 2"),
        (CopyOneTwice, "decoder", "1 2 0 1 2 1 2"),
        (CopyOneTwice, "encoder", "1 2 1 2 1 2 3"),
        (CopyReplaced, "decoder", "0 0 1 2 0 1 2"),
        (CopyReplaced, "encoder", "0 0 1 2 1 2 3"),
        (CopyUnique, "encoder", "1 2 1 2 3"),
        (CopyUniqueTwice, "decoder", "1 2 0 1 2 0 1 2"),
        (CopyUniqueTwice, "encoder", "1 2 1 2 0 1 2 3"),
        (ReverseUnique, "decoder", "1 2 3 2 1"),
        (ReverseUnique, "encoder", "1 2 2 1 0"),
        (ReverseUniqueTwice, "decoder", "1 2 3 2 1 3 2 1"),
        (ReverseUniqueTwice, "encoder", "1 2 2 1 3 2 1 0"),
        (ReverseThenCopy, "decoder", "1 2 3 2 1 0 1 2"),
        (ReverseThenCopy, "encoder", "1 2 2 1 0 1 2 3"),
    ],
)
def test_ids_of_tokens_that_belong_together(kind, architecture, expected):
    layout = Layout(kind(MARK), architecture)
    got = jax.jit(layout.batch, static_argnums=2)(jax.random.key(0), jnp.array([2, 5]), 6)
    ids = [int(word) for word in expected.split()]
    assert got.groups[0, : layout.tokens(2)].tolist() == ids
    assert layout.extent(2, "groups") == max(ids) - min(ids) + 1


@every_task
def test_each_symbol_of_an_answer_has_the_id_of_the_one_it_repeats(task):
    layout = Layout(type(task)(50), "encoder")
    got = jax.jit(layout.batch, static_argnums=2)(jax.random.key(0), jnp.array([1, 5, 3, LONGEST]), LONGEST)
    got = jax.tree.map(np.asarray, got)
    for tokens, targets, groups, length in zip(got.tokens, got.targets, got.groups, (1, 5, 3, LONGEST), strict=True):
        asked, answered = task.input_length(length), task.answer_length(length)
        said = dict(zip(groups[asked - length : asked].tolist(), tokens[asked - length : asked].tolist(), strict=True))
        if isinstance(task, CopyReplaced):
            said = dict.fromkeys(said, tokens[1])
        for target, group in zip(targets[asked : asked + answered], groups[asked : asked + answered], strict=True):
            assert target == 50 or target == said[int(group)]


@pytest.mark.parametrize("kind", RULES)
def test_an_alphabet_of_one_symbol_is_refused(kind):
    with pytest.raises(ValueError, match="alphabet is 1; expected 2 or more"):
        kind(1)
    assert kind().alphabet == 100
