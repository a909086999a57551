"""What a task of the Chomsky hierarchy is known to be: a rule on lists of words, and the probability of every input.

Both are written from the definition. Symbols have names here, so that rules and examples read as they do in the
docstrings.
"""

import collections
import itertools
from collections.abc import Callable
from typing import NamedTuple

from experiments.tasks.base import Task


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
