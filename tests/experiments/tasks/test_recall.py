"""Recall: questions with answers, against rules on lists, and which texts are drawn how often."""

import collections
import functools
import itertools
import re

import jax
import numpy as np
import pytest
import scipy.stats

from experiments.tasks import recall
from experiments.tasks.recall import Induction, Needle, Passkey, distinct
from tests.experiments.tasks import drawing

LONGEST = 24
MARK = 10
TASKS = [Induction(), Induction(3), Passkey(), Passkey(size=2, filler=3), Needle(), Needle(pairs=1, alphabet=2)]
every_task = pytest.mark.parametrize("task", TASKS, ids=str)
drawn = functools.partial(drawing.drawn, longest=LONGEST, count=100)


def answer_to(task, question):
    """What the task's rule makes of an input, which must be one that the task can draw."""
    *text, last = question
    match task:
        case Induction():
            assert text.count(last) == 1
            return [text[text.index(last) + 1]]
        case Passkey():
            assert last == MARK
            assert text.count(MARK) == 1
            mark = text.index(MARK)
            key, behind = text[mark + 1 : mark + 1 + task.size], text[mark + 1 + task.size :]
            assert len(key) == task.size
            assert set(key) <= set(range(10))
            for filler in (text[:mark], behind):
                assert filler == [MARK + 1 + i % task.filler for i in range(len(filler))]
            return key
        case Needle():
            kinds = [symbol // task.alphabet for symbol in text]
            pairs = [(symbol, value) for symbol, value in itertools.pairwise(text) if symbol < task.alphabet]
            assert len(dict(pairs)) == len(pairs) == kinds.count(0) == kinds.count(1)
            assert {value // task.alphabet for _, value in pairs} == {1}
            assert len(pairs) == min(task.pairs, len(text) // 2)
            return [dict(pairs)[last]]


@every_task
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, LONGEST])
def test_every_answer_follows_from_an_input_that_is_a_word(task, length):
    for question, answer in drawn(task, length):
        assert answer == answer_to(task, question)
        assert set(question) <= set(range(task.symbols))


@every_task
def test_an_input_is_as_long_as_its_length_or_the_shortest_text(task):
    shortest = {Passkey: getattr(task, "size", 0) + 2}.get(type(task), 3)
    for length in (1, 2, 3, 4, 6, 7, 8, 12):
        assert {len(question) for question, _ in drawn(task, length)} == {max(length, shortest)}


@every_task
def test_padding_changes_nothing(task):
    for length in (1, 2, 3, 5, 8):
        assert drawn(task, length, longest=8) == drawn(task, length, longest=LONGEST)
    assert drawn(task, 1, longest=1) == drawn(task, 1)


@every_task
def test_a_traced_length_gives_the_same_example_as_a_whole_number(task):
    key = jax.random.split(jax.random.key(3), 100)[0]
    for length in (2, 9):
        whole = jax.jit(lambda key: task.sample(key, length, length))(key)  # noqa: B023
        assert (whole.input.tolist(), whole.answer.tolist()) == drawn(task, length)[0]


def words_of(task, length):
    """All inputs of a length, each as likely as the others."""
    match task:
        case Induction():
            for asked, found in itertools.product(range(task.alphabet), range(length - 2)):
                others = [symbol for symbol in range(task.alphabet) if symbol != asked]
                for filler in itertools.product(others, repeat=length - 2):
                    yield *filler[:found], asked, *filler[found:], asked
        case Passkey():
            size, cycle = length - task.size - 2, [MARK + 1 + i % task.filler for i in range(length)]
            for key, mark in itertools.product(itertools.product(range(10), repeat=task.size), range(size + 1)):
                yield *cycle[:mark], MARK, *key, *cycle[: size - mark], MARK
        case Needle():
            count = min(task.pairs, (length - 1) // 2)
            units, alphabet = length - 1 - count, range(task.alphabet)
            for places in itertools.combinations(range(units), count):
                kinds = [[(task.alphabet * 2 + x,) for x in alphabet]] * units
                for place in places:
                    kinds[place] = [
                        (key, task.alphabet + value) for key, value in itertools.product(alphabet, alphabet)
                    ]
                for unit in itertools.product(*kinds):
                    text = tuple(itertools.chain(*unit))
                    keys = {symbol for symbol in text if symbol < task.alphabet}
                    yield from ((*text, key) for key in keys if len(keys) == count)


SMALL = [
    *((Induction(3), length) for length in (3, 4, 5)),
    *((Passkey(size=1, filler=2), length) for length in (3, 4, 5, 7)),
    *((Needle(pairs=2, alphabet=2), length) for length in (3, 4, 5, 6)),
    (Needle(pairs=1, alphabet=3), 4),
    (Needle(pairs=3, alphabet=3), 5),
]


@pytest.mark.parametrize(("task", "length"), SMALL, ids=str)
def test_every_word_is_drawn_equally_often(task, length):
    counts = collections.Counter(tuple(question) for question, _ in drawn(task, length, longest=8, count=6000))
    expected = set(words_of(task, length))
    assert set(counts) == expected
    assert scipy.stats.chisquare([counts[word] for word in expected]).pvalue > 1e-4


@pytest.mark.parametrize(("task", "length"), SMALL, ids=str)
def test_chance_is_the_share_of_the_most_frequent_answer(task, length):
    words = list(words_of(task, length))
    assert len(set(words)) == len(words)
    answers = collections.Counter(tuple(answer_to(task, list(word))) for word in words)
    assert task.chance(length) == pytest.approx(max(answers.values()) / len(words))


def test_chance_stays_a_number_at_great_lengths():
    for task in TASKS:
        assert 0 < task.chance(500) <= 0.5


def test_a_needle_is_as_often_any_of_the_pairs_in_any_place():
    asked, places = collections.Counter(), collections.Counter()
    for question, _ in drawn(Needle(), LONGEST, count=6000):
        keys = [symbol for symbol in question[:-1] if symbol < 32]
        asked[keys.index(question[-1])] += 1
        places.update(place for place, symbol in enumerate(question[:-1]) if symbol < 32)
    assert scipy.stats.chisquare([asked[which] for which in range(4)]).pvalue > 1e-4
    assert set(places) == set(range(LONGEST - 2))


@pytest.mark.parametrize("below", [3, 4, 7])
def test_distinct_numbers_are_any_of_them_in_any_order(below):
    draw = jax.jit(jax.vmap(distinct, (0, None, None)), static_argnums=2)
    rows = draw(jax.random.split(jax.random.key(0), 6000), below, 3).tolist()
    counts = collections.Counter(map(tuple, rows))
    assert set(counts) == set(itertools.permutations(range(below), 3))
    assert scipy.stats.chisquare(list(counts.values())).pvalue > 1e-4
    keys = jax.random.split(jax.random.key(0), 6000)
    assert np.array_equal(draw(keys, below, 2), np.array(rows)[:, :2])


def symbols(task, written):
    """The symbols that the docstring writes as letters."""
    match task:
        case Induction():
            return [int(word) for word in written]
        case Passkey():
            return [
                int(word) if word.isdigit() else MARK if word == "M" else 11 + "abc".index(word) for word in written
            ]
        case Needle():
            fillers = ".,"
            return [
                2 * task.alphabet + fillers.index(word) if word in fillers
                else ord(word) - ord("A") if word.isupper() else task.alphabet + ord(word) - ord("a")
                for word in written
            ]  # fmt: skip


def test_worked_examples_hold():
    text = recall.__doc__.partition("induction: Olsson")[0]
    tasks = {"induction": Induction(10), "passkey": Passkey(size=2, filler=3), "needle": Needle(pairs=3, alphabet=26)}
    found = re.findall(r"((?:\S )+)-> (\S(?: \S)*)", re.sub(" +(?=->)", " ", text))
    names = ["induction", "passkey", "induction", "passkey", "needle", "needle"]
    assert len(found) == len(names)
    for name, (question, answer) in zip(names, found, strict=True):
        task = tasks[name]
        assert symbols(task, answer.split()) == answer_to(task, symbols(task, question.split()))


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (Induction, {"alphabet": 2}, "alphabet is 2; expected 3 or more"),
        (Passkey, {"size": 0}, "size is 0; expected 1 or more"),
        (Passkey, {"filler": 0}, "filler is 0; expected 1 or more"),
        (Needle, {"pairs": 0}, "pairs is 0; expected 1 .. 32"),
        (Needle, {"pairs": 5, "alphabet": 4}, "pairs is 5; expected 1 .. 4"),
    ],
)
def test_wrong_options_are_refused(kind, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        kind(**options)
