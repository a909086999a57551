"""SCAN: commands of a small grammar, and the actions that they ask for. The length is the number of ACTIONS.

scan    walk                             -> WALK                                                  (length 1)
        jump left                        -> LTURN JUMP                                            (length 2)
        turn opposite right              -> RTURN RTURN                                           (length 2)
        look around left after run twice -> RUN RUN LTURN LOOK LTURN LOOK LTURN LOOK LTURN LOOK   (length 10)

Lake & Baroni 2018, https://arxiv.org/abs/1711.00350. In their grammar a command is one clause, or two joined by "and"
(done in the order written) or by "after" (done the other way round). A clause is a phrase done once, twice or thrice.
A phrase is a verb (walk, look, run, jump), or a verb or "turn" with a side: plain (turn there, then act), "opposite"
(turn there two times, then act) or "around" (turn there and act, four times over); "turn" itself adds no act.

That makes 20 910 commands with 1 to 48 actions. Those of a length are all equally likely. No command has 23, 29, 31 or
certain other numbers of actions: such a length stands for the nearest shorter one, and any past 48 for 48. The length
split of the paper trains on at most 22 actions, that of Kazemnejad et al. 2023 (arXiv:2305.19466) on at most 25; both
test to 48.
"""

import collections
import dataclasses
import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks.base import Example, Task

WORDS = (
    "walk",
    "look",
    "run",
    "jump",
    "left",
    "right",
    "turn",
    "opposite",
    "around",
    "twice",
    "thrice",
    "and",
    "after",
)
ACTIONS = ("WALK", "LOOK", "RUN", "JUMP", "LTURN", "RTURN")
MOST_ACTIONS = 48


@dataclasses.dataclass(frozen=True)
class Scan(Task):
    """Words of a command in, actions out; the words are symbols 0 .. 12, the actions 13 .. 18."""

    alike = False

    @property
    def symbols(self):
        return len(WORDS) + len(ACTIONS)

    def input_length(self, length):
        return looked_up(table().words, length)

    def answer_length(self, length):
        return looked_up(table().actions, length)

    def sample(self, key, length, longest):
        known = table()
        row = jax.random.randint(key, (), looked_up(known.begins, length), looked_up(known.ends, length))
        command = jnp.asarray(known.commands[:, : self.input_length(longest)])[row]
        answer = jnp.asarray(known.answers[:, : self.answer_length(longest)])[row]
        asked = jnp.asarray(known.asked)[row]
        return Example(command.astype(jnp.int32), answer.astype(jnp.int32), asked, self.answer_length(length))

    def chance(self, length):
        """The share of the likeliest sequence of actions among the commands of that length."""
        return shares()[self.answer_length(length)]


class Table(NamedTuple):
    """All commands, those with fewer actions first, as symbols; and what there is for each length from 0 on.

    Attributes:
        commands: padded with zeros, as are the answers.
        asked: words of each command.
        actions: by length, how many actions its examples have: the length, or less where no command has as many.
        begins: by length, the first of the commands with so many actions.
        ends: by length, the place behind the last of them.
        words: by length, the most words of a command with at most so many actions.
    """

    commands: np.ndarray
    answers: np.ndarray
    asked: np.ndarray
    actions: np.ndarray
    begins: np.ndarray
    ends: np.ndarray
    words: np.ndarray


@functools.cache
def table() -> Table:
    """The grammar's commands, written out once."""
    known = sorted(commands(), key=lambda pair: len(pair[1]))
    asked, answered = np.array([(len(words), len(actions)) for words, actions in known], np.int32).T
    lengths = np.arange(MOST_ACTIONS + 1)
    actions = np.maximum.accumulate(np.where(np.isin(lengths, answered), lengths, 0))
    words = np.zeros(MOST_ACTIONS + 1, int)
    np.maximum.at(words, answered, asked)
    return Table(
        commands=padded([[WORDS.index(word) for word in words] for words, _ in known]),
        answers=padded([[len(WORDS) + ACTIONS.index(action) for action in actions] for _, actions in known]),
        asked=asked,
        actions=actions,
        begins=np.searchsorted(answered, actions, side="left"),
        ends=np.searchsorted(answered, actions, side="right"),
        words=np.maximum.accumulate(words),
    )


def commands():
    """Every command of the grammar: its words, and the actions that they ask for."""
    clauses = [
        (words + often, actions * times)
        for words, actions in phrases()
        for often, times in (([], 1), (["twice"], 2), (["thrice"], 3))
    ]
    yield from clauses
    for (words, actions), (others, more) in itertools.product(clauses, repeat=2):
        yield [*words, "and", *others], actions + more
        yield [*words, "after", *others], more + actions


def phrases():
    """A verb, or a verb or "turn" with a side: words and actions."""
    for verb in ("walk", "look", "run", "jump", "turn"):
        act = [] if verb == "turn" else [verb.upper()]
        if act:
            yield [verb], act
        for side, turn in (("left", "LTURN"), ("right", "RTURN")):
            yield [verb, side], [turn, *act]
            yield [verb, "opposite", side], [turn, turn, *act]
            yield [verb, "around", side], [turn, *act] * 4


def padded(rows) -> np.ndarray:
    """Lists of unlike sizes as one array of small numbers."""
    return np.array([*itertools.zip_longest(*rows, fillvalue=0)], np.int8).T


def looked_up(values, length):
    """What there is for a whole or a traced length; past the longest, what there is for that."""
    if isinstance(length, jax.Array):
        return jnp.asarray(values, jnp.int32)[jnp.minimum(length, MOST_ACTIONS)]
    return int(values[min(length, MOST_ACTIONS)])


@functools.cache
def shares() -> dict[int, float]:
    """By number of actions: how many of the commands have the likeliest answer."""
    answers = collections.defaultdict(collections.Counter)
    for _, actions in commands():
        answers[len(actions)][tuple(actions)] += 1
    return {length: max(counts.values()) / counts.total() for length, counts in answers.items()}
