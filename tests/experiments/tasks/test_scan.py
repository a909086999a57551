"""SCAN: drawn commands against an interpreter of words, and the known counts of the data set."""

import collections

import jax
import numpy as np
import pytest
import scipy.stats

from experiments.tasks import Layout, scan
from experiments.tasks.scan import ACTIONS, WORDS, Scan
from tests.experiments.tasks import drawing

TASK = Scan()
LENGTHS = [1, 2, 3, 9, 12, 22, 24, 33, 48]
GAPS = {23: 22, 29: 28, 31: 30, 34: 33, 35: 33, 39: 36, 47: 40, 49: 48, 500: 48}
VERBS = ("walk", "look", "run", "jump")


def actions_of(words):
    """What a command asks for, read as the grammar has it; an error where it is none of the grammar."""
    for joint in ("and", "after"):
        if joint in words:
            at = words.index(joint)
            first, second = clause(words[:at]), clause(words[at + 1 :])
            return first + second if joint == "and" else second + first
    return clause(words)


def clause(words):
    """What a clause asks for."""
    *rest, last = words
    return phrase(rest) * {"twice": 2, "thrice": 3}[last] if last in ("twice", "thrice") else phrase(words)


def phrase(words):
    """What a phrase asks for."""
    match words:
        case [verb] if verb in VERBS:
            return [verb.upper()]
        case [verb, *how, ("left" | "right") as side] if verb in (*VERBS, "turn"):
            act = [] if verb == "turn" else [verb.upper()]
            turn = [{"left": "LTURN", "right": "RTURN"}[side]]
            return {(): turn + act, ("opposite",): turn + turn + act, ("around",): (turn + act) * 4}[tuple(how)]
    raise ValueError(words)


def drawn(length, longest=48, count=60, whole=False):
    """Examples as pairs of lists of words."""
    return drawing.in_words(drawing.drawn(TASK, length, longest, count, whole), (*WORDS, *ACTIONS))


@pytest.mark.parametrize("length", LENGTHS)
def test_every_answer_is_what_the_command_asks_for_and_as_long_as_the_length(length):
    for command, actions in drawn(length):
        assert actions == actions_of(command)
        assert len(actions) == length == TASK.answer_length(length)
        assert len(command) <= TASK.input_length(length)


def test_padding_and_a_traced_length_change_nothing():
    for length in (1, 2, 9, 23):
        assert drawn(length, longest=length, whole=True) == drawn(length, longest=26) == drawn(length)


def test_the_grammar_has_the_commands_of_the_data_set():
    known = list(scan.commands())
    assert len(known) == len({tuple(words) for words, _ in known}) == 20_910
    assert all(actions_of(words) == actions for words, actions in known)
    # Sizes of the published splits: by 22 actions (Lake & Baroni 2018), by 25 (Kazemnejad et al. 2023).
    assert [sum(len(actions) <= most for _, actions in known) for most in (22, 25)] == [16_990, 20_910 - 3_136]


def test_sizes_are_the_greatest_of_all_commands_with_as_many_actions_or_fewer():
    sized = jax.jit(lambda length: (TASK.input_length(length), TASK.answer_length(length)))
    for length in range(1, 49):
        fewer = [(len(words), len(actions)) for words, actions in scan.commands() if len(actions) <= length]
        assert (TASK.input_length(length), TASK.answer_length(length)) == tuple(
            max(size) for size in zip(*fewer, strict=True)
        )
        assert sized(length) == (TASK.input_length(length), TASK.answer_length(length))


@pytest.mark.parametrize(("length", "instead"), GAPS.items())
def test_lengths_that_no_command_has_give_those_of_the_nearest_shorter_one(length, instead):
    assert TASK.answer_length(length) == instead
    assert TASK.chance(length) == TASK.chance(instead)
    assert drawn(length, longest=max(length, 48)) == drawn(instead)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_all_commands_of_a_length_are_drawn_equally_often(length):
    expected = [" ".join(words) for words, actions in scan.commands() if len(actions) == length]
    counts = collections.Counter(" ".join(command) for command, _ in drawn(length, count=60 * len(expected)))
    assert set(counts) == set(expected)
    assert scipy.stats.chisquare([counts[command] for command in expected]).pvalue > 1e-4


def test_chance_is_the_share_of_the_most_frequent_answer():
    for length in LENGTHS:
        answers = collections.Counter(
            tuple(actions_of(words)) for words, actions in scan.commands() if len(actions) == length
        )
        assert TASK.chance(length) == pytest.approx(max(answers.values()) / answers.total(), rel=1e-12)
    assert TASK.chance(1) == 1 / 6  # four acts and two turns


@pytest.mark.parametrize(
    ("command", "actions"),
    [
        ("walk", "WALK"),
        ("jump left", "LTURN JUMP"),
        ("turn opposite right", "RTURN RTURN"),
        ("look around left after run twice", "RUN RUN LTURN LOOK LTURN LOOK LTURN LOOK LTURN LOOK"),
    ],
)
def test_the_worked_examples_follow_the_rule(command, actions):
    assert f"{command} -> {actions}" in " ".join(scan.__doc__.split())
    assert actions_of(command.split()) == actions.split()
    assert (command.split(), actions.split()) in list(scan.commands())


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder_decoder"])
def test_a_batch_of_mixed_lengths_asks_and_answers_by_the_rule(architecture):
    layout = Layout(TASK, architecture)
    got = jax.jit(layout.batch, static_argnums=2)(jax.random.key(0), np.array([1, 48, 9, 23]), 48)
    read = got if got.source is None else got.source
    for tokens, targets, scored in zip(read.tokens, got.targets, got.scored, strict=True):
        command = [WORDS[token] for token in tokens.tolist() if token < len(WORDS)]
        said = targets[scored].tolist()
        if architecture == "encoder":
            assert set(tokens[scored].tolist()) == {layout.special["blank"]}
        assert [(*WORDS, *ACTIONS)[symbol] for symbol in said[:-1]] == actions_of(command)
        assert said[-1] == layout.special["end"]
