"""What the tests of the three levels of the Chomsky hierarchy share.

A task is tested against what it is known to be: a rule on lists of words, and the probability of every input, both
written from the definition. Symbols have names here, so that rules and examples read as they do in the docstrings.
"""

import collections
import itertools
import re
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from experiments.tasks.base import Layout, Task
from tests.experiments.tasks import drawing

LONGEST, COUNT = 12, 4000


class Known(NamedTuple):
    """A task, and what is known of it.

    Attributes:
        task: what is tested.
        names: of its symbols, with blanks between them.
        answer: the rule, from a list of names to a list of names.
        inputs: every input of a length, as a tuple of names, with its probability.
        lengths: those whose inputs are few enough to look at each of them.
    """

    task: Task
    names: str
    answer: Callable[[list[str]], list[str]]
    inputs: Callable[[int], dict[tuple[str, ...], float]]
    lengths: range


def drawn(known, length, longest=LONGEST, count=COUNT, whole=False):
    """Examples as pairs of lists of names."""
    return drawing.in_words(drawing.drawn(known.task, length, longest, count, whole), known.names.split())


def uniform(*alphabets):
    """All words with a symbol from each alphabet, equally likely."""
    words = list(itertools.product(*alphabets))
    return dict.fromkeys(words, 1 / len(words))


def mixed(*parts):
    """The sum of some of those, each taken with a weight: pairs of a weight and what it is the weight of."""
    total = collections.Counter()
    for weight, words in parts:
        for word, probability in words.items():
            total[word] += weight * probability
    return dict(total)


def answers(known, length):
    """The probability of every answer."""
    total = collections.Counter()
    for word, probability in known.inputs(length).items():
        total[tuple(known.answer(list(word)))] += probability
    return total


def check_that_names_and_symbols_are_as_many(known):
    assert known.task.symbols == len(known.names.split())


def check_that_answers_follow_from_inputs(known, length):
    for question, answer in drawn(known, length):
        assert answer == known.answer(question)


def check_that_long_answers_follow_from_inputs(known):
    for length in (83, 499, 500):
        for question, answer in drawn(known, length, longest=500, count=20):
            assert answer == known.answer(question)


def check_that_inputs_are_drawn_as_often_as_defined(known, length):
    expected = known.inputs(length)
    counts = collections.Counter(tuple(question) for question, _ in drawn(known, length))
    assert set(counts) <= set(expected)
    if len(expected) > 1:
        frequencies = [COUNT * probability for probability in expected.values()]
        assert scipy.stats.chisquare([counts[word] for word in expected], frequencies).pvalue > 1e-4


def check_that_sizes_are_the_most_that_examples_take(known):
    for length in known.lengths:
        asked = max(map(len, known.inputs(length)))
        answered = max(map(len, answers(known, length)))
        for given in (length, jnp.array(length)):
            assert (known.task.input_length(given), known.task.answer_length(given)) == (asked, answered)


def check_that_neither_padding_nor_tracing_changes_an_example(known):
    for length in (1, 5):
        assert drawn(known, length, longest=length, whole=True) == drawn(known, length)


def check_that_chance_is_the_share_of_the_most_frequent_answer(known):
    for length in known.lengths:
        assert known.task.chance(length) == pytest.approx(max(answers(known, length).values()), rel=1e-12)
    assert 0 < known.task.chance(500) < 1


def check_that_a_decoder_is_asked_for_the_answer_and_its_end(known):
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
