"""The regular tasks: rules on lists of words, the probabilities of all short inputs, and what is refused."""

import itertools
import math

import pytest

from experiments.tasks.regular import CycleNavigation, EvenPairs, ModularArithmetic, ParityCheck
from tests.experiments.tasks.chomsky import Known, uniform


def odd_pairs(question):
    unequal = sum(one != other for one, other in itertools.pairwise(question))
    return [str(unequal % 2)]


def odd_ones(question):
    return [str(question.count("1") % 2)]


def place_on_a_cycle(question, cycle=5):
    return [str((question.count("2") - question.count("0")) % cycle)]


def value(question, modulus=5):
    """First the products, then the sum, as at school."""
    terms = []
    for before, number in zip(["+", *question[1::2]], question[::2], strict=True):
        if before == "*":
            terms[-1].append(int(number))
        else:
            terms.append([-1 if before == "-" else 1, int(number)])
    return [str(sum(map(math.prod, terms)) % modulus)]


def expressions(length, numbers="01234", operators="+-*"):
    """An even length is one less."""
    return uniform(*([numbers, operators] * length)[: length - (length % 2 == 0)])


def bits(length):
    return uniform(*["01"] * length)


def steps(length):
    return uniform(*["012"] * length)


ALL = {
    "even_pairs": Known(EvenPairs(), "0 1", odd_pairs, bits, range(1, 8)),
    "modular_arithmetic": Known(ModularArithmetic(), "0 1 2 3 4 + - *", value, expressions, range(1, 7)),
    "parity_check": Known(ParityCheck(), "0 1", odd_ones, bits, range(1, 8)),
    "cycle_navigation": Known(
        CycleNavigation(), "0 1 2 3 4", place_on_a_cycle, steps, range(1, 8)
    ),
    "two numbers, two operators": Known(
        ModularArithmetic(2, "*-"), "0 1 * -", lambda question: value(question, 2),
        lambda n: expressions(n, "01", "*-"), range(1, 10),
    ),
    "a cycle of two": Known(
        CycleNavigation(2), "0 1 2", lambda question: place_on_a_cycle(question, 2),
        steps, range(1, 8),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ModularArithmetic(1), "modulus is 1; expected 2 or more"),
        (lambda: ModularArithmetic(operators=""), "operators is ''; expected some of"),
        (lambda: ModularArithmetic(operators="+/"), r"operators is '\+/'; expected some of"),
        (lambda: ModularArithmetic(operators="++"), r"operators is '\+\+'; expected no repeats"),
        (lambda: CycleNavigation(1), "cycle is 1; expected 2 or more"),
    ],
)
def test_wrong_options_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
