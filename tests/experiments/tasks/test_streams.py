"""Streams: what is asked for in a text, against rules on lists, and which texts are drawn how often."""

import collections
import functools
import itertools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from experiments.tasks import Layout, streams
from experiments.tasks.streams import MQAR, Dyck, FlipFlop
from tests.experiments.tasks import drawing

LONGEST = 24
WRITE, READ, IGNORE = 2, 3, 4
TASKS = [MQAR(), MQAR(12, pairs=3, filler="zero", power=1.0), FlipFlop(), FlipFlop(0.2), Dyck(), Dyck(2, 1)]
every_task = pytest.mark.parametrize("task", TASKS, ids=str)


@functools.cache
def drawn(task, length, longest=LONGEST, count=100, whole=False):
    """Tokens, and what is asked for at which of them, without what pads them."""
    got = drawing.sampled(task, length, longest, count, whole)
    assert all(field.shape == (count, task.input_length(longest)) for field in got)
    assert (got.tokens.dtype, got.targets.dtype, got.scored.dtype) == (jnp.int32, jnp.int32, bool)
    real = task.input_length(length)
    return [
        (tokens[:real].tolist(), {int(place): int(targets[place]) for place in np.flatnonzero(scored[:real])})
        for tokens, targets, scored in zip(*map(np.asarray, got), strict=True)
    ]


def asked_in(task, tokens):
    """What the task's rule asks for in a text, which must be one that the task can draw."""
    match task:
        case MQAR():
            half, pairs = task.vocabulary // 2, task.answer_length(len(tokens))
            keys, values = tokens[: 2 * pairs : 2], tokens[1 : 2 * pairs : 2]
            assert set(keys) <= set(range(1, half))
            assert set(values) <= set(range(half, task.vocabulary))
            assert len(set(keys)) == len(set(values)) == pairs
            value_of = dict(zip(keys, values, strict=True))
            rest = {place: tokens[place] for place in range(2 * pairs, len(tokens))}
            # filler may look like a key: what is asked is then a matter of how often
            return {at: value_of[token] for at, token in rest.items() if token in value_of and at % 2 == 0}
        case FlipFlop():
            asked, held = {}, None
            for place in range(0, len(tokens), 2):
                told, bit = tokens[place], tokens[place + 1] if place + 1 < len(tokens) else None
                assert told in (WRITE, READ, IGNORE)
                assert (told == WRITE) or place > 0
                if told == WRITE:
                    held = bit
                if told == READ:
                    asked[place] = held
                    assert bit in (held, None)
            assert tokens[(len(tokens) - 1) // 2 * 2] == READ
            return asked
        case Dyck():
            asked, held = {}, []
            for place, token in enumerate(tokens):
                if token < task.kinds:
                    held.append(token)
                else:
                    asked[place - 1] = token
                    assert held.pop() == token - task.kinds
                assert len(held) <= task.depth
            if len(tokens) % 2:
                asked[len(tokens) - 1] = task.kinds + held.pop()
            assert not held
            return asked


@every_task
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 7, 8, 11, 12, LONGEST])
def test_what_is_asked_follows_from_a_text_that_is_a_word(task, length):
    for tokens, asked in drawn(task, length):
        expected = asked_in(task, tokens)
        if isinstance(task, MQAR):
            assert asked.items() <= expected.items()
            assert sorted(asked.values()) == sorted(tokens[1 : 2 * len(asked) : 2])
        else:
            assert asked == expected
        assert set(tokens) <= set(range(task.symbols))


@every_task
def test_a_text_is_as_long_as_its_length_or_the_shortest_one(task):
    for length in (1, 2, 3, 4, 6, 7, 12):
        examples = drawn(task, length)
        assert {len(tokens) for tokens, _ in examples} == {length if isinstance(task, Dyck) else max(length, 3)}
        assert max(len(asked) for _, asked in examples) <= task.answer_length(length)
        assert min(len(asked) for _, asked in examples) >= 1


@every_task
def test_declared_is_the_most_that_is_asked(task):
    if isinstance(task, FlipFlop):
        task = FlipFlop(0.0)
    for length in (3, 4, 7, 8, 9):
        assert max(len(asked) for _, asked in drawn(task, length, 9, 1000)) == task.answer_length(length)


@every_task
def test_padding_changes_nothing(task):
    for length in (1, 2, 3, 6, 9):
        assert drawn(task, length, longest=9) == drawn(task, length, longest=LONGEST)
    assert drawn(task, 1, longest=1) == drawn(task, 1)


@every_task
def test_a_traced_length_gives_the_same_example_as_a_whole_number(task):
    for length in (2, 9):
        assert drawn(task, length, longest=length, whole=True) == drawn(task, length)


@every_task
def test_a_layout_asks_the_same(task):
    for architecture in task.architectures:
        layout = Layout(task, architecture)
        got = jax.jit(lambda key: layout.batch(key, jnp.array([1, 9, 12]), 12))(jax.random.key(4))  # noqa: B023
        targets, counted = map(np.asarray, got.asked())
        assert targets.shape == (3, task.answer_length(12))
        for row, real in enumerate(map(task.input_length, (1, 9, 12))):
            assert int(got.lengths[row]) == real
            expected = asked_in(task, got.tokens[row, :real].tolist())
            said = targets[row][counted[row]].tolist()
            if isinstance(task, MQAR):
                assert sorted(said) == sorted(got.tokens[row, 1 : 2 * len(said) : 2].tolist())
            else:
                assert said == [expected[place] for place in sorted(expected)]


# ---------------------------------------------------------------------- which texts are drawn


def agrees(counts, shares):
    """Whether what has been drawn agrees with the probabilities of all that can be."""
    assert sum(shares.values()) == pytest.approx(1)
    assert set(counts) <= {word for word, share in shares.items() if share}
    rare = [word for word, share in shares.items() if share * counts.total() < 5]
    common = [word for word in shares if word not in set(rare)]
    observed = [counts[word] for word in common] + [sum(counts[word] for word in rare)]
    expected = [shares[word] * counts.total() for word in common] + [sum(map(shares.get, rare)) * counts.total()]
    if not rare:
        observed, expected = observed[:-1], expected[:-1]
    return scipy.stats.chisquare(observed, np.array(expected) * sum(observed) / sum(expected)).pvalue > 1e-4


def flip_flops(ignore, length):
    """All texts of a length with their probabilities."""
    count = (length + 1) // 2
    told = {WRITE: (1 - ignore) / 2, READ: (1 - ignore) / 2, IGNORE: ignore}
    shares = {}
    for between in itertools.product(told, repeat=count - 2):
        instructions = [WRITE, *between, READ]
        for bits in itertools.product((0, 1), repeat=sum(one != READ for one in instructions)):
            left, held, text = list(bits), None, []
            for one in instructions:
                bit = held if one == READ else left.pop(0)
                held = bit if one == WRITE else held
                text += [one, bit]
            shares[tuple(text[:length])] = math.prod(map(told.get, between)) / 2 ** len(bits)
    return shares


def brackets(kinds, depth, length):
    """The same, for balanced brackets."""
    end, shares = length + length % 2, {}

    def go_on(text, held, share):
        left = end - len(text)
        if not left:
            shares[text[:length]] = share
            return
        if not held:
            opening = 1
        elif len(held) in (depth, left):
            opening = 0
        else:
            opening = 0.5
        if opening:
            for kind in range(kinds):
                go_on((*text, kind), (*held, kind), share * opening / kinds)
        if opening < 1:
            go_on((*text, kinds + held[-1]), held[:-1], share * (1 - opening))

    go_on((), (), 1.0)
    return shares


@pytest.mark.parametrize(("ignore", "length"), [(0.5, 6), (0.8, 7), (0.1, 8), (0.0, 4)])
def test_instructions_and_bits_are_drawn_as_often_as_they_should_be(ignore, length):
    counts = collections.Counter(tuple(tokens) for tokens, _ in drawn(FlipFlop(ignore), length, 9, count=6000))
    assert agrees(counts, flip_flops(ignore, length))


@pytest.mark.parametrize(("kinds", "depth", "length"), [(2, 2, 6), (2, 3, 7), (2, 1, 5), (3, 5, 4), (2, 3, 8)])
def test_brackets_are_drawn_as_often_as_they_should_be(kinds, depth, length):
    counts = collections.Counter(tuple(tokens) for tokens, _ in drawn(Dyck(kinds, depth), length, 9, count=6000))
    assert agrees(counts, brackets(kinds, depth, length))


@pytest.mark.parametrize("power", [0.01, 1.0, 3.0])
@pytest.mark.parametrize("length", [8, 12, 13])
def test_keys_are_asked_for_at_gaps_of_a_power_law_without_replacement(power, length):
    weights = [n ** (power - 1) for n in range(1, (length - 4 + 1) // 2 + 1)]
    shares = {
        (one, other): weights[one] / sum(weights) * weights[other] / (sum(weights) - weights[one])
        for one, other in itertools.permutations(range(len(weights)), 2)
    }
    counts = collections.Counter()
    for tokens, asked in drawn(MQAR(12, pairs=2, power=power, filler="zero"), length, 13, count=6000):
        place_of = {tokens[place]: (place - 4) // 2 for place in asked}
        counts[place_of[tokens[0]], place_of[tokens[2]]] += 1
    assert agrees(counts, shares)


def test_pairs_are_any_and_filler_is_any_token_or_zero():
    for filler in ("random", "zero"):
        examples = drawn(MQAR(7, pairs=2, filler=filler), 12, 12, count=6000)
        pairs = collections.Counter(tuple(tokens[:4]) for tokens, _ in examples)
        rows = [(a, b, c, d) for a, c in ((1, 2), (2, 1)) for b, d in itertools.permutations(range(3, 7), 2)]
        assert agrees(pairs, {row: 1 / len(rows) for row in rows})
        other = collections.Counter(
            token for tokens, asked in examples for place, token in enumerate(tokens[4:], 4) if place not in asked
        )
        assert set(other) == {0} if filler == "zero" else agrees(other, dict.fromkeys(range(7), 1 / 7))


# ---------------------------------------------------------------------- chance


def best_guess(task, shares, length):
    """The share of texts that the best of all rules from place to answer gets wholly right."""
    places = range(task.input_length(length))
    answers = sorted({answer for text in shares for answer in asked_in(task, list(text)).values()})
    rows = [(asked_in(task, list(text)), share) for text, share in shares.items()]
    asked = [place for place in places if any(place in row for row, _ in rows)]
    return max(
        sum(share for row, share in rows if all(guess[place] == answer for place, answer in row.items()))
        for guess in (dict(zip(asked, said, strict=True)) for said in itertools.product(answers, repeat=len(asked)))
    )


def test_chance_is_what_the_best_guess_gets():
    for ignore, length in itertools.product((0.0, 0.3, 0.8), (3, 4, 7, 10)):
        share = best_guess(FlipFlop(ignore), flip_flops(ignore, length), length)
        assert FlipFlop(ignore).chance(length) == pytest.approx(share)
    for kinds, depth, length in ((2, 2, 4), (2, 1, 6), (2, 3, 6), (3, 2, 3)):
        share = best_guess(Dyck(kinds, depth), brackets(kinds, depth, length), length)
        assert Dyck(kinds, depth).chance(length) == pytest.approx(share)


def test_chance_is_the_share_of_every_row_of_values():
    task = MQAR(8, pairs=2)
    rows = collections.Counter(tuple(asked.values()) for _, asked in drawn(task, 12, 12, count=6000))
    assert agrees(rows, {row: task.chance(12) for row in itertools.permutations(range(4, 8), 2)})


def test_chance_stays_a_number_at_great_lengths():
    for task in TASKS:
        assert 0 <= task.chance(500) < 0.1


# ---------------------------------------------------------------------- what is written, and what is refused


def symbol(name, written):
    """The token that the docstring writes as a sign."""
    if name == "mqar":
        return (
            0 if written == "." else ord(written) - ord("A") + 1 if written.isupper() else ord(written) - ord("a") + 6
        )
    return ("01wri" if name == "flip_flop" else "([)]").index(written)


def test_worked_examples_hold():
    tasks = {"mqar": MQAR(12, pairs=2), "flip_flop": FlipFlop(), "dyck": Dyck(2, 2)}
    lines, name, seen = streams.__doc__.partition("mqar: Arora")[0].splitlines(), None, collections.Counter()
    for above, below in itertools.pairwise(lines):
        if " tokens   " not in above:
            continue
        name = next((one for one in tasks if above.startswith(f"    {one} ")), name)
        start = above.index("tokens") + len("tokens   ")
        text = re.split("  +", above[start:])[0]
        said = below[start : start + len(text)].ljust(len(text))
        asked = {place: symbol(name, said[2 * place]) for place in range(len(said[::2])) if said[2 * place] != " "}
        assert asked == asked_in(tasks[name], [symbol(name, written) for written in text.split()])
        seen[name] += 1
    assert seen == {"mqar": 2, "flip_flop": 2, "dyck": 2}


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (MQAR, {"pairs": 0}, "pairs is 0; expected 1 .. 4095"),
        (MQAR, {"vocabulary": 8, "pairs": 4}, "pairs is 4; expected 1 .. 3"),
        (MQAR, {"filler": "noise"}, "filler is 'noise'; expected 'random' or 'zero'"),
        (FlipFlop, {"ignore": 1.5}, "ignore is 1.5; expected a probability"),
        (Dyck, {"kinds": 1}, "kinds is 1; expected 2 or more"),
        (Dyck, {"depth": 0}, "depth is 0; expected 1 or more"),
    ],
)
def test_wrong_options_are_refused(kind, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        kind(**options)
