"""Sums, polynomials, chains of variables, sorting and addition: examples against rules, and how often each is drawn."""

import collections
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from experiments.tasks import Layout, reasoning
from experiments.tasks.reasoning import AdditionAny, Lego, Polynomial, SortNumbers, SortSingle, Summation
from tests.experiments.tasks import drawing

PLUS = COMMA = 10
MINUS = 11
LONGEST = 12
ALL = {
    "summation": Summation(),
    "polynomial": Polynomial(),
    "lego": Lego(),
    "lego with few names": Lego(3),
    "sort_single": SortSingle(9),
    "sort_numbers": SortNumbers(),
    "sort_numbers in a small range": SortNumbers(8, 12),
    "addition_any": AdditionAny(),
}
every_task = pytest.mark.parametrize("task", ALL.values(), ids=ALL.keys())
drawn = functools.partial(drawing.drawn, longest=LONGEST, count=60)


# ---------------------------------------------------------------------- the rules


def numbers_in(symbols, between):
    """The numbers that digits spell, which must have no leading zeros."""
    parts = [list(part) for is_between, part in itertools.groupby(symbols, lambda x: x == between) if not is_between]
    assert len(parts) == symbols.count(between) + 1
    assert all(part == [0] or part[0] != 0 for part in parts)
    return [int("".join(map(str, part))) for part in parts]


def spelt(numbers):
    """Their digits, with commas in between."""
    return [COMMA if letter == "," else int(letter) for letter in ",".join(map(str, numbers))]


def polynomial_value(question):
    """The value at x of the terms that follow it."""
    signs = {PLUS: 1, MINUS: -1}
    x, terms = signs[question[0]] * question[1], question[2:]
    return sum(signs[terms[i]] * terms[i + 1] * x ** terms[i + 2] for i in range(0, len(terms), 3))


def lego_value(question, variables):
    """What the queried variable is, after all clauses have been done in order."""
    signs, value = {variables: 1, variables + 1: -1}, {variables + 2: 1}
    *clauses, query = question
    for i in range(0, len(clauses), 3):
        name, sign, source = clauses[i : i + 3]
        assert name < variables and (source == variables + 2) == (i == 0)
        value[name] = signs[sign] * value[source]
    return value[query]


def answer_to(task, question):
    """What the task's rule makes of an input: a list of numbers from a list of numbers."""
    match task:
        case Summation():
            return [sum(question) % 10]
        case Polynomial():
            return [polynomial_value(question) % 10]
        case Lego():
            return [task.variables + (lego_value(question, task.variables) == -1)]
        case SortSingle():
            return sorted(question)
        case SortNumbers():
            return spelt(sorted(numbers_in(question, COMMA)))
        case AdditionAny():
            return spelt([sum(numbers_in(question, PLUS))])


def is_question(task, question, length):
    """Whether an input is one of this length."""
    match task:
        case Summation():
            return len(question) == length and set(question) <= set(range(1, 10))
        case Polynomial():
            terms = [tuple(question[i : i + 3]) for i in range(2, len(question), 3)]
            known = [(PLUS, c, d) for c in range(4) for d in range(4)] + [
                (MINUS, c, d) for c in range(1, 4) for d in range(4)
            ]
            x = tuple(question[:2])
            return len(terms) == length and set(terms) <= set(known) and (*x, 0) in known and x[1] < 3
        case Lego():
            names, sources = question[0:-1:3], question[2:-1:3]
            few = [names[i : i + task.variables] for i in range(0, length, task.variables)]
            chained = sources[1:] == names[:-1] and all(len(set(some)) == len(some) for some in few)
            second_half = names[min((length + 1) // 2, length - 1) :]
            return len(question) == 3 * length + 1 and chained and question[-1] in second_half
        case SortSingle():
            return len(question) == length and set(question) <= set(range(task.alphabet))
        case SortNumbers():
            numbers = numbers_in(question, COMMA)
            return len(numbers) == length and set(numbers) <= set(range(task.smallest, task.largest + 1))
        case AdditionAny():
            first, second = numbers_in(question, PLUS)
            return max(len(str(first)), len(str(second))) == length


@every_task
@pytest.mark.parametrize("length", [1, 2, 3, 6, LONGEST])
def test_every_answer_follows_from_an_input_of_the_length(task, length):
    for question, answer in drawn(task, length):
        assert is_question(task, question, length)
        assert answer == answer_to(task, question)
        assert max(question + answer) < task.symbols


@every_task
def test_padding_and_a_traced_length_change_nothing(task):
    for length in (1, 2, 5):
        assert drawn(task, length, longest=length, whole=True) == drawn(task, length)


@every_task
def test_declared_sizes_are_the_greatest_that_are_drawn(task):
    for length in (1, 2):
        sizes = [(len(question), len(answer)) for question, answer in drawn(task, length, count=2000)]
        assert (task.input_length(length), task.answer_length(length)) == tuple(map(max, zip(*sizes, strict=True)))
        assert task.alike == (len(set(sizes)) == 1)


def test_a_long_addition_carries_through():
    both = [numbers_in(question, PLUS) for question, _ in drawn(AdditionAny(), 40, longest=40, count=200)]
    assert {len(str(sum(pair))) for pair in both} == {40, 41}
    for question, answer in drawn(AdditionAny(), 40, longest=40, count=200):
        assert answer == answer_to(AdditionAny(), question)


# ---------------------------------------------------------------------- how often each is drawn


def uniform(values, expected):
    """Whether values are drawn equally often from those expected."""
    counts, expected = collections.Counter(values), list(expected)
    if len(expected) == 1:
        return set(counts) == set(expected)
    return set(counts) <= set(expected) and scipy.stats.chisquare([counts[x] for x in expected]).pvalue > 1e-4


def test_digits_of_a_sum_are_drawn_equally_often():
    assert uniform(
        [tuple(q) for q, _ in drawn(Summation(), 2, longest=2, count=4000)], itertools.product(range(1, 10), repeat=2)
    )


def test_x_coefficients_and_degrees_are_drawn_equally_often():
    def signed(number):
        return (MINUS if number < 0 else PLUS, abs(number))

    terms = [(*signed(c), d) for c in range(-3, 4) for d in range(4)]
    one = [tuple(question) for question, _ in drawn(Polynomial(), 1, longest=1, count=6000)]
    assert uniform(one, [(*signed(x), *term) for x in range(-2, 3) for term in terms])
    two = [tuple(question[2:]) for question, _ in drawn(Polynomial(), 2, longest=2, count=20_000)]
    assert uniform(two, [(*first, *second) for first in terms for second in terms])


def test_names_signs_and_queries_of_a_chain_are_drawn_equally_often():
    chains = [question for question, _ in drawn(Lego(3), 3, longest=3, count=4000)]
    expected = itertools.product(itertools.permutations(range(3)), itertools.product((3, 4), repeat=3))
    assert uniform([(tuple(chain[0:-1:3]), tuple(chain[1:-1:3])) for chain in chains], expected)
    for length, asked in ((1, [0]), (2, [1]), (3, [2]), (5, [3, 4]), (6, [3, 4, 5])):
        chains = [question for question, _ in drawn(Lego(), length, count=1000)]
        assert uniform([chain[0:-1:3].index(chain[-1]) for chain in chains], asked)


def test_numbers_to_sort_are_drawn_equally_often():
    pairs = [tuple(numbers_in(question, COMMA)) for question, _ in drawn(SortNumbers(8, 12), 2, longest=2, count=4000)]
    assert uniform(pairs, itertools.product(range(8, 13), repeat=2))
    tens = [numbers_in(question, COMMA)[0] for question, _ in drawn(SortNumbers(), 1, longest=1, count=4000)]
    assert scipy.stats.kstest(tens, scipy.stats.randint(10, 10_000).cdf).pvalue > 1e-4


def test_sizes_of_operands_and_operands_of_a_size_are_drawn_equally_often():
    pairs = [tuple(numbers_in(question, PLUS)) for question, _ in drawn(AdditionAny(), 1, longest=1, count=4000)]
    assert uniform(pairs, itertools.product(range(10), repeat=2))
    pairs = [tuple(numbers_in(question, PLUS)) for question, _ in drawn(AdditionAny(), 2, longest=2, count=6000)]
    assert uniform([tuple(len(str(one)) for one in pair) for pair in pairs], [(1, 2), (2, 1), (2, 2)])
    assert uniform([first for first, second in pairs if second > 9 and first > 9], range(10, 100))
    assert uniform([first for first, second in pairs if first < 10], range(10))
    assert uniform([second for first, second in pairs if first < 10], range(10, 100))


# ---------------------------------------------------------------------- chance


def questions(task, length):
    """All inputs of a length, each as often as it is drawn in a cycle of them all."""
    match task:
        case Summation():
            return itertools.product(range(1, 10), repeat=length)
        case Polynomial():
            terms = [(MINUS if c < 0 else PLUS, abs(c), d) for c in range(-3, 4) for d in range(4)]
            heads = [(MINUS if x < 0 else PLUS, abs(x)) for x in range(-2, 3)]
            return (head + sum(chosen, ()) for head in heads for chosen in itertools.product(terms, repeat=length))
        case SortSingle():
            return itertools.product(range(task.alphabet), repeat=length)
        case SortNumbers():
            numbers = range(task.smallest, task.largest + 1)
            return (spelt(chosen) for chosen in itertools.product(numbers, repeat=length))


@pytest.mark.parametrize(
    ("task", "lengths"),
    [
        (Summation(), (1, 2, 3, 4)),
        (Polynomial(), (1, 2)),
        (SortSingle(3), (1, 2, 5)),
        (SortNumbers(8, 12), (1, 2, 5, 6)),
    ],
    ids=str,
)
def test_chance_is_the_share_of_the_most_frequent_answer(task, lengths):
    for length in lengths:
        answers = collections.Counter(tuple(answer_to(task, list(question))) for question in questions(task, length))
        assert task.chance(length) == pytest.approx(max(answers.values()) / answers.total(), rel=1e-9)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_chance_of_addition_is_that_of_the_likeliest_sum(length):
    sums = np.zeros(2 * 10**length)
    for sizes in itertools.product(range(1, length + 1), repeat=2):
        if max(sizes) == length:
            counts = [np.bincount(np.arange(10 ** (size - 1) * (size > 1), 10**size)) for size in sizes]
            together = np.convolve(*counts) / np.prod([count.sum() for count in counts]) / (2 * length - 1)
            sums[: len(together)] += together
    assert sums.sum() == pytest.approx(1)
    assert AdditionAny().chance(length) == pytest.approx(sums.max(), rel=1e-9)


def test_chance_of_a_chain_is_even():
    for length in (1, 2, 3, 7):
        plus = sum(answer == [26] for _, answer in drawn(Lego(), length, count=4000))
        assert abs(plus - 4000 * Lego().chance(length)) < 4 * 1000**0.5


@every_task
def test_chance_stays_a_number_at_great_lengths(task):
    assert 0 <= task.chance(500) <= 0.5


# ---------------------------------------------------------------------- the rest


def test_few_names_come_round_again_and_the_latest_value_counts():
    later = 0
    for question, answer in drawn(Lego(3), LONGEST):
        clauses = [question[i : i + 3] for i in range(0, 3 * LONGEST, 3)]
        last = max(i for i, clause in enumerate(clauses) if clause[0] == question[-1])
        negative = sum(clause[1] == 4 for clause in clauses[: last + 1]) % 2
        assert answer == [3 + negative]
        later += last >= LONGEST - 3
    assert later == 60


WORKED = [
    (Summation(), "3 9 4", "6"),
    (Summation(), "5 5", "0"),
    (Polynomial(), "- 2 + 3 2 - 1 3", "0"),
    (Polynomial(), "+ 2 - 3 1", "4"),
    (Lego(), "c + 1 a - c b - a b", "+"),
    (Lego(), "b - 1 d + b d", "-"),
    (SortSingle(), "7 2 9 2", "2 2 7 9"),
    (SortSingle(), "4 0", "0 4"),
    (SortNumbers(), "8 8 1 , 4 1 2 5 , 9 0", "9 0 , 8 8 1 , 4 1 2 5"),
    (SortNumbers(), "5 7 , 5 7", "5 7 , 5 7"),
    (AdditionAny(), "9 5 + 7", "1 0 2"),
    (AdditionAny(), "8 + 1 2 0", "1 2 8"),
]


@pytest.mark.parametrize(("task", "question", "answer"), WORKED)
def test_the_worked_examples_follow_the_rule(task, question, answer):
    assert f"{question} -> {answer}" in " ".join(reasoning.__doc__.split())
    names = {"+": PLUS, "-": MINUS, ",": COMMA}
    if isinstance(task, Lego):
        names = {"+": 26, "-": 27, "1": 28} | {chr(ord("a") + i): i for i in range(26)}
    question, answer = (
        [names[word] if word in names else int(word) for word in side.split()] for side in (question, answer)
    )
    length = {Summation: len(question), Polynomial: len(question) // 3, Lego: len(question) // 3}.get(type(task))
    if length is not None:
        assert is_question(task, question, length)
    assert answer_to(task, question) == answer


@pytest.mark.parametrize("task", [SortNumbers(), AdditionAny()], ids=["SortNumbers", "AdditionAny"])
def test_digits_are_counted_by_the_number_they_are_of(task):
    for architecture in task.architectures:
        layout = Layout(task, architecture)
        got = jax.jit(layout.batch, static_argnums=2)(jax.random.key(0), jnp.array([1, 5, 3, 6]), 6)
        for read in (got, got.source) if got.source else (got,):
            for tokens, numbers, real in zip(read.tokens, read.numbers, read.lengths, strict=True):
                digit = np.isin(tokens[:real], [*range(10), layout.special["blank"]])
                assert ((numbers[:real] > 0) == digit).all()
                sizes = np.bincount(numbers[:real])[1:]
                assert max(sizes, default=0) <= layout.extent(6, "numbers")
    assert "encoder" not in SortNumbers.architectures


def test_bits_of_a_sum_belong_with_the_answer():
    layout = Layout(Summation(), "decoder")
    assert layout.batch(jax.random.key(0), jnp.array([2, 5]), 6).groups[0, :4].tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (Lego, {"variables": 1}, "variables is 1; expected 2 or more"),
        (SortSingle, {"alphabet": 1}, "alphabet is 1; expected 2 or more"),
        (
            SortNumbers,
            {"smallest": 20, "largest": 20},
            "smallest is 20 and largest 20; expected 0 <= smallest < largest",
        ),
        (SortNumbers, {"smallest": -1}, "smallest is -1"),
        (SortNumbers, {"largest": 10**9}, r"expected 0 <= smallest < largest < 10\^9"),
    ],
)
def test_wrong_options_are_refused(kind, options, message):
    with pytest.raises(ValueError, match=message):
        kind(**options)


def test_defaults_are_those_of_the_paper():
    assert (Lego().variables, SortSingle().alphabet) == (26, 50)
    assert SortNumbers().chance(2) == pytest.approx(math.factorial(2) / 9990**2)
