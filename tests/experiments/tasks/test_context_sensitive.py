"""The context-sensitive tasks: rules on lists of words, the probabilities of short inputs, and what they alone have."""

import itertools
import math

import pytest

from experiments.tasks import context_sensitive
from experiments.tasks.base import Layout
from experiments.tasks.context_sensitive import (
    BinaryAddition,
    BinaryMultiplication,
    BucketSort,
    ComputeSqrt,
    DuplicateString,
    MissingDuplicateString,
    OddsFirst,
)
from tests.experiments.tasks.chomsky import Known, mixed, uniform

# ----------------------------------------------------------------------------------------------------------- strings


def bits(length):
    return uniform(*["01"] * length)


def missing(question):
    """What the other half has where one has the hole."""
    if question == ["1"]:
        return ["1"]
    *said, last = [*question, None] if len(question) % 2 == 0 else question
    assert last in (None, ".")
    half = len(said) // 2
    for one, other in zip(said[:half], said[half:], strict=True):
        assert one == other or "?" in (one, other)
    hole = said.index("?")
    assert said.count("?") == 1
    assert set(said) <= set("01?")
    return [said[(hole + half) % len(said)]]


def holes(length):
    if length == 1:
        return {("1",): 1.0}
    half, parts = length // 2, []
    for word, place in itertools.product(bits(half), range(2 * half)):
        said = [*word, *word]
        said[place] = "?"
        parts.append((0.5**half / (2 * half), {(*said, *"." * (length % 2)): 1.0}))
    return mixed(*parts)


# ----------------------------------------------------------------------------------------------------------- numbers


def number(written):
    """Its least significant bit comes first."""
    return int("".join(reversed(written)), base=2)


def written(whole, size=1):
    return list(reversed(f"{whole:0{size}b}"))


def both(question):
    """The two numbers, or the one and zero where there is room for one only."""
    if len(question) < 3:
        return number(question), 0
    behind = question.index("|")
    numbers = number(question[:behind]), number(question[behind + 1 :])
    assert 0 not in numbers
    return numbers


def total(question):
    return written(sum(both(question)))


def times(question):
    return written(math.prod(both(question)))


def positive(size):
    return {tuple(written(whole, size)): 1 / (2**size - 1) for whole in range(1, 2**size)}


def pairs(length):
    """Both numbers are more than zero; where there is room for one only, the highest one is left out."""
    if length < 3:
        return {tuple(written(whole, length)): 1 / (2**length - 1) for whole in range(2**length - 1)}
    sizes = range(1, length - 1)
    joined = (
        {
            (*one, "|", *other): p * q
            for (one, p), (other, q) in itertools.product(positive(size).items(), positive(length - 1 - size).items())
        }
        for size in sizes
    )
    return mixed(*((1 / len(sizes), words) for words in joined))


def square_root(question):
    found = math.isqrt(int("".join(question), base=2))
    return list(f"{found:0{math.ceil(len(question) / 2)}b}")


# ------------------------------------------------------------------------------------------------------------- tests

ALL = {
    "duplicate_string": Known(DuplicateString(), "0 1", lambda question: question * 2, bits, range(1, 8)),
    "missing_duplicate_string": Known(MissingDuplicateString(), "0 1 ? .", missing, holes, range(1, 10)),
    "odds_first": Known(OddsFirst(), "0 1", lambda question: question[1::2] + question[::2], bits, range(1, 8)),
    "binary_addition": Known(BinaryAddition(), "0 1 |", total, pairs, range(1, 12)),
    "binary_multiplication": Known(BinaryMultiplication(), "0 1 |", times, pairs, range(1, 12)),
    "compute_sqrt": Known(ComputeSqrt(), "0 1", square_root, positive, range(1, 12)),
    "bucket_sort": Known(BucketSort(), "0 1 2 3 4", sorted, lambda n: uniform(*["01234"] * n), range(1, 6)),
    "four symbols, three times": Known(
        DuplicateString(4, times=3), "0 1 2 3", lambda question: question * 3,
        lambda n: uniform(*["0123"] * n), range(1, 6),
    ),
}  # fmt: skip


def test_chance_of_a_long_product_is_no_less_than_that_of_the_likeliest_one():
    exact, bounds = (
        [chance(length) for length in range(17, 20)]
        for chance in (context_sensitive.likeliest_product, BinaryMultiplication().chance)
    )
    assert all(bound >= share for bound, share in zip(bounds, exact, strict=True))


@pytest.mark.parametrize("name", ["binary_addition", "binary_multiplication", "compute_sqrt"])
@pytest.mark.parametrize("length", range(1, 9))
def test_the_longest_number_is_the_longest_run_of_digits(name, length):
    known, longest = ALL[name], 0
    for word in known.inputs(length):
        runs = ["".join(question).split("|") for question in (word, known.answer(list(word)))]
        longest = max(longest, *map(len, itertools.chain(*runs)))
    assert known.task.longest_number(length) == longest


@pytest.mark.parametrize(
    ("task", "length", "architecture", "expected"),
    [
        (DuplicateString(), 3, "decoder", "1 2 3 0 1 2 3 1 2 3"),
        (DuplicateString(), 3, "encoder", "1 2 3 1 2 3 1 2 3 4"),
        (OddsFirst(), 5, "decoder", "1 2 3 4 5 0 2 4 1 3 5"),
        (OddsFirst(), 4, "encoder", "1 2 3 4 2 4 1 3 5"),
    ],
)
def test_ids_of_symbols_that_belong_together(task, length, architecture, expected):
    layout = Layout(task, architecture)
    got = layout.groups(layout.task.groups(length, 6), 6, length)[: layout.tokens(length)].tolist()
    assert got == [int(word) for word in expected.split()]
    assert layout.extent(length, "groups") == max(got) - min(got) + 1


def test_no_repetition_is_refused():
    with pytest.raises(ValueError, match="times is 0; expected 1 or more"):
        DuplicateString(times=0)
    with pytest.raises(ValueError, match="alphabet is 1; expected 2 or more"):
        DuplicateString(1)
