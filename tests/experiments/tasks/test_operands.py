"""Arithmetic on operands of unlike sizes, against Python's own numbers."""

import collections
import fractions
import functools
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from experiments.tasks import Layout, coupling, operands
from experiments.tasks.coupling import ShortMultiplication, TripleAddition
from experiments.tasks.operands import AdditionOperands, BitwiseOr, Multiplication
from tests.experiments.tasks import drawing

LONGEST = 12
OPERATOR = {"+": 10, "x": 10, "|": 2}
COUPLED = {"order": "reversed_answer", "padding": "zeros", "least": 0}

PADDED = {"order": "plain", "padding": "zeros"}
GRID = [
    AdditionOperands(),
    AdditionOperands(second=5),
    AdditionOperands(**COUPLED),
    AdditionOperands(**COUPLED, second=5),
    AdditionOperands(order="plain"),
    AdditionOperands(**PADDED, second=5),
    Multiplication(),
    Multiplication(second=5),
    Multiplication(**COUPLED),
    Multiplication(order="plain", second=5, least=0),
    Multiplication(**PADDED),
    BitwiseOr(),
    BitwiseOr(second=5),
    BitwiseOr(bits="uniform", second=5),
]
FIXED = [ShortMultiplication(), ShortMultiplication(second=1), TripleAddition()]
every_task = pytest.mark.parametrize("task", GRID + FIXED, ids=str)
drawn = functools.partial(drawing.drawn, longest=LONGEST, count=200)


def parts(task, question):
    """The operands, as lists, in the order in which they are written."""
    operator = 2 if isinstance(task, BitwiseOr) else 10
    found = [[]]
    for symbol in question:
        if symbol == operator:
            found.append([])
        else:
            found[-1].append(symbol)
    return found


def order(task):
    """The steps in which operands and answer are read as numbers."""
    written = getattr(task, "order", "reversed_answer")
    return (-1 if written == "reversed" else 1), (1 if written == "plain" else -1)


def value(digits):
    return int("".join(map(str, digits)))


def width(task, sizes):
    """The digits of an answer that is padded with zeros; 0 where it is not."""
    if isinstance(task, TripleAddition):
        return sizes[0]
    if isinstance(task, ShortMultiplication):
        return sum(sizes)
    if task.padding == "none":
        return 0
    return max(sizes) + 1 if isinstance(task, AdditionOperands) else sum(sizes)


def answer_to(task, question):
    """What the task's rule makes of an input."""
    found = parts(task, question)
    if isinstance(task, BitwiseOr):
        return [max(bits) for bits in itertools.zip_longest(*found, fillvalue=0)]
    one, other = order(task)
    values = [value(digits[::one]) for digits in found]
    product = isinstance(task, Multiplication | ShortMultiplication)
    result = values[0] * values[1] if product else sum(values)
    return [int(digit) for digit in f"{result:0{width(task, list(map(len, found)))}}"][::other]


def is_word(task, question):
    """Whether the task can draw an input."""
    found = parts(task, question)
    sizes = list(map(len, found))
    if isinstance(task, TripleAddition):
        return len(found) == 3 and len(set(sizes)) == 1 and all(digits[0] == 0 for digits in found)
    if len(found) != 2 or 0 in sizes:
        return False
    if isinstance(task, BitwiseOr):
        shorter = [bits for bits in found if len(bits) == min(sizes)]
        single = task.bits == "uniform" or sum(map(sum, found)) == sum(map(sum, shorter)) == 1
        return single and set(itertools.chain(*found)) <= {0, 1}
    plain = [digits[:: order(task)[0]] for digits in found]
    if isinstance(task, ShortMultiplication):
        return sizes[1] == task.second and (sizes[0] == 1 or plain[0][0] > 0)
    if isinstance(task, AdditionOperands) and task.padding == "zeros":
        if sizes[0] != sizes[1]:
            return False
        plain = [[int(digit) for digit in str(value(digits))] for digits in plain]
        return max(map(len, plain)) == sizes[0] and all(digits[0] >= task.least for digits in plain)
    return all(digits[0] >= (task.least if len(digits) == 1 else 1) for digits in plain)


def natural(task, question):
    """How many digits the operands have as numbers, or as vectors."""
    found = parts(task, question)
    if isinstance(task, BitwiseOr):
        return [len(bits) for bits in found]
    return [len(str(value(digits[:: order(task)[0]]))) for digits in found]


@every_task
@pytest.mark.parametrize("length", [1, 2, 3, 5, 10, LONGEST])
def test_every_answer_follows_from_an_input_that_is_a_word(task, length):
    for question, answer in drawn(task, length):
        assert is_word(task, question), question
        assert answer == answer_to(task, question)
        assert len(question) <= task.input_length(length)
        assert len(answer) <= task.answer_length(length)
        assert set(question + answer) <= set(range(task.symbols))


@every_task
@pytest.mark.parametrize("length", [5, 7])  # no smaller: a sum of 99999 and a digit rarely takes all six that it may
def test_declared_sizes_are_the_largest_of_those_drawn(task, length):
    examples = drawn(task, length)
    most = len(max((question for question, _ in examples), key=len)), len(max((a for _, a in examples), key=len))
    assert most == (task.input_length(length), task.answer_length(length))
    if task.alike:
        assert {(len(question), len(answer)) for question, answer in examples} == {most}


@every_task
def test_padding_changes_nothing(task):
    for length in (1, 2, 4):
        assert drawn(task, length, longest=4) == drawn(task, length, longest=LONGEST)


@pytest.mark.parametrize("task", [*GRID[::3], *FIXED], ids=str)
def test_a_traced_length_gives_the_same_example_as_a_whole_number(task):
    key = jax.random.split(jax.random.key(3), 200)[0]
    (question, answer), whole = drawn(task, 4)[0], jax.jit(lambda key: task.sample(key, 4, 4))(key)
    assert whole.input[: len(question)].tolist() == question
    assert whole.answer[: len(answer)].tolist() == answer
    if whole.asked is not None:
        assert (int(whole.asked), int(whole.answered)) == (len(question), len(answer))


@pytest.mark.parametrize("task", GRID, ids=str)
def test_the_size_of_the_second_operand_can_be_told(task):
    for length, second in itertools.product((1, 3, 6), (1, 2, 5) if task.second else (1, 3)):
        for question, answer in drawn(task, length, longest=6, second=second):
            if getattr(task, "least", 1) or min(length, second) > 1:
                assert natural(task, question) == [length, second]
            assert is_word(task, question)
            assert answer == answer_to(task, question)


@pytest.mark.parametrize("task", [task for task in GRID if task.second], ids=str)
def test_the_second_operand_has_every_size_equally_often_else(task):
    sizes = collections.Counter(natural(task, question)[1] for question, _ in drawn(task, 3))
    assert scipy.stats.chisquare([sizes[size] for size in range(1, 6)]).pvalue > 1e-4


@pytest.mark.parametrize("task", [task for task in GRID if not task.second], ids=str)
def test_the_second_operand_has_the_size_of_the_first_one_else(task):
    sizes = {tuple(natural(task, question)) for question, _ in drawn(task, 3)}
    assert sizes == {(3, 3)}


def spread(words, expected):
    """Whether all of the expected words, and no others, are drawn equally often."""
    counts = collections.Counter(words)
    assert set(counts) == set(expected)
    return scipy.stats.chisquare(list(counts.values())).pvalue > 1e-4


@pytest.mark.parametrize("kind", [AdditionOperands, Multiplication])
@pytest.mark.parametrize("least", [0, 1])
def test_every_pair_of_numbers_is_drawn_equally_often(kind, least):
    task = kind(order="plain", least=least)
    for length, second in ((1, 1), (2, 1), (1, 2)):
        starts = (least if size == 1 else 10 ** (size - 1) for size in (length, second))
        expected = itertools.product(*(range(a, 10**n) for a, n in zip(starts, (length, second), strict=True)))
        examples = drawn(task, length, longest=3, count=9000, second=second)
        assert spread([tuple(map(value, parts(task, question))) for question, _ in examples], expected)


def test_every_input_of_bits_is_drawn_equally_often():
    for bits, sizes, count in (("single", (2, 5), 2), ("single", (3, 3), 6), ("uniform", (2, 3), 32)):
        task = BitwiseOr(bits=bits)
        words = [tuple(question) for question, _ in drawn(task, sizes[0], longest=5, count=3000, second=sizes[1])]
        assert len(set(words)) == count
        assert spread(words, set(words))


def test_every_input_of_fixed_operands_is_drawn_equally_often():
    task = ShortMultiplication(second=1)
    for length, numbers in ((1, range(10)), (2, range(10, 100))):
        words = [tuple(map(value, parts(task, question))) for question, _ in drawn(task, length, longest=4, count=9000)]
        assert spread(words, itertools.product(numbers, range(10)))
    task = TripleAddition()
    words = [tuple(map(value, parts(task, question))) for question, _ in drawn(task, 1, longest=4, count=9000)]
    assert spread(words, itertools.product(range(10), repeat=3))


@pytest.mark.parametrize("kind", [AdditionOperands, Multiplication])
def test_numbers_too_long_for_any_integer_of_the_device(kind):
    for question, answer in drawn(kind(second=90), 70, longest=70, count=5):
        assert answer == answer_to(kind(second=90), question)
    nines = kind().result(jnp.full(60, 9), jnp.full(60, 9)).tolist()
    assert nines[::-1] == answer_to(kind(order="plain", padding="zeros"), [9] * 60 + [10] + [9] * 60)


# ---------------------------------------------------------------------- chance


def words_of(task, length, second):
    """All inputs of two sizes, equally likely, as a convention of plain numbers would write them."""
    if isinstance(task, BitwiseOr):
        every = itertools.product(*(itertools.product((0, 1), repeat=size) for size in (length, second)))
        questions = ([*one, 2, *other] for one, other in every)
        return [question for question in questions if is_word(task, question)]
    start = [task.least if size == 1 else 10 ** (size - 1) for size in (length, second)]
    pairs = itertools.product(range(start[0], 10**length), range(start[1], 10**second))
    same = max(length, second) if isinstance(task, AdditionOperands) and task.padding == "zeros" else 0
    step = order(task)[0]
    return [
        [*map(int, f"{one:0{same}}"[::step]), 10, *map(int, f"{other:0{same}}"[::step])] for one, other in pairs
    ]  # fmt: skip


def likeliest(task, length):
    """The share of the most frequent answer, by counting."""
    shares, sizes = collections.Counter(), range(1, task.second + 1) if task.second else [length]
    for second in sizes:
        questions = words_of(task, length, second)
        answers = collections.Counter(tuple(answer_to(task, question)) for question in questions)
        for answer, count in answers.items():
            shares[answer] += fractions.Fraction(count, len(questions) * len(sizes))
    return float(max(shares.values()))


@pytest.mark.parametrize("padding", ["none", "zeros"])
@pytest.mark.parametrize("least", [0, 1])
@pytest.mark.parametrize("kind", [AdditionOperands, Multiplication])
def test_chance_is_the_share_of_the_most_frequent_result(kind, least, padding):
    for length, second in ((1, 0), (2, 0), (1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)):
        task = kind(second=second, least=least, padding=padding)
        assert task.chance(length) == pytest.approx(likeliest(task, length), rel=1e-9), (length, second)


@pytest.mark.parametrize("bits", ["single", "uniform"])
def test_chance_is_the_share_of_the_most_frequent_vector(bits):
    for length, second in itertools.product((1, 2, 3, 4), (0, 1, 2, 4, 6)):
        task = BitwiseOr(second=second, bits=bits)
        assert task.chance(length) == pytest.approx(likeliest(task, length), rel=1e-9), (length, second)


def test_chance_of_a_large_product_is_a_bound():
    for length, second, least in ((4, 3, 0), (4, 3, 1), (6, 1, 1), (6, 1, 0)):
        operands = (np.arange(10 ** (n - 1) if n > 1 else least, 10**n) for n in (length, second))
        products = np.multiply.outer(*operands).ravel()
        share = np.bincount(products).max() / len(products) / second  # as likely as one size of `second` makes it
        bound = Multiplication(second=second, least=least, padding="zeros").chance(length)
        assert share <= bound * (1 + 1e-9)
        assert bound <= 1 / 9000 or (least == 0 and bound == pytest.approx(0.1 / second))


def test_chance_of_fixed_operands_is_the_share_of_the_most_frequent_result():
    for second, length in ((1, 1), (1, 2), (2, 1), (2, 2), (1, 3)):
        pairs = itertools.product(range(10 ** (length - 1) if length > 1 else 0, 10**length), range(10**second))
        counts = collections.Counter(one * other for one, other in pairs)
        share = max(counts.values()) / counts.total()
        assert ShortMultiplication(second=second).chance(length) == pytest.approx(share)
    for length in (1, 2):
        counts = collections.Counter(map(sum, itertools.product(range(10**length), repeat=3)))
        assert TripleAddition().chance(length) == pytest.approx(max(counts.values()) / counts.total())


def test_chance_stays_a_number_at_great_lengths():
    tasks = [*GRID, *FIXED, AdditionOperands(second=500), Multiplication(second=500), BitwiseOr(second=500)]
    for task in tasks:
        assert 0 <= task.chance(500) < 0.6, task


# ---------------------------------------------------------------------- ids and numbers


def weights(task, symbols, step):
    """The weight of each digit, counted from 1; a bit's place from the left."""
    count = len(symbols)
    return list(range(1, count + 1))[:: 1 if step == -1 else -1]


def ids_of(task, question, answer):
    """Position coupling's ids: of the input; of separator, answer and end."""
    one, other = (-1, -1) if isinstance(task, BitwiseOr) else order(task)
    asked = [[*weights(task, operand, one), 0] for operand in parts(task, question)]
    said = weights(task, answer, other)
    behind = [0, *said, len(said) + 1] if other == -1 else [len(said) + 1, *said, 0]
    return list(itertools.chain(*asked))[:-1], behind


def telling(task):
    """Whether ids would tell how long the answer is."""
    return not isinstance(task, BitwiseOr) and task.order == "plain" and task.padding == "none"


@every_task
def test_ids_are_those_of_position_coupling(task):
    if task in GRID and telling(task):
        assert task.groups(3, LONGEST) is None
        return
    extent = Layout(task, "decoder").extent(5, "groups")
    for length in (1, 2, 5):
        of_examples = drawing.sampled(task, length, LONGEST, 200).groups
        if of_examples is None:
            of_length = jax.jit(task.groups, static_argnums=1)(length, LONGEST)
            of_examples = [np.broadcast_to(ids, (200, *ids.shape)) for ids in of_length]
        groups = [ids.tolist() for ids in of_examples]
        assert [len(ids[0]) for ids in groups] == [task.input_length(LONGEST), task.answer_length(LONGEST) + 2]
        for (question, answer), asked, behind in zip(drawn(task, length), *groups, strict=True):
            expected = ids_of(task, question, answer)
            assert asked[: len(question)] == expected[0]
            assert behind[: len(answer) + 2] == expected[1]
            assert max(expected[0] + expected[1][:-1]) < extent or length < 5


def test_ids_of_a_batch_are_those_of_each_example():
    task = AdditionOperands(**COUPLED, second=5)
    batch = Layout(task, "decoder").batch(jax.random.key(0), jnp.array([1, 3, 3, 5, 2, 4]), 5)
    read = 0
    for tokens, ids, real in zip(batch.tokens.tolist(), batch.groups.tolist(), batch.lengths.tolist(), strict=True):
        asked = tokens.index(11)
        expected = ids_of(task, tokens[:asked], tokens[asked + 1 : real])
        assert ids[:real] == expected[0] + expected[1][:-1][: real - asked]
        read += real
    assert read > 40


@every_task
def test_the_longest_number_is_as_long_as_the_layout_finds_one(task):
    layout = Layout(task, "decoder")
    numbers = jax.jit(lambda key: layout.batch(key, jnp.full(200, 5), 6).numbers)(jax.random.key(1))
    found = max(np.bincount(row[row > 0]).max() for row in np.asarray(numbers))
    assert found == layout.extent(5, "numbers") == task.longest_number(5)


# ---------------------------------------------------------------------- what is written, and what is refused


def examples_in(text, operator):
    """Rows of worked examples: in each, inputs and answers by column."""
    pattern = r"((?:\d )+(?:[+x|] (?:\d )+)+) *-> ((?:\d ?)+)"
    rows = [re.findall(pattern, line) for line in text.splitlines() if f" {operator} " in line and "->" in line]
    symbols = OPERATOR | {str(digit): digit for digit in range(10)}
    return [[([symbols[x] for x in q.split()], [symbols[x] for x in a.split()]) for q, a in row] for row in rows]


@pytest.mark.parametrize(
    ("module", "operator", "columns"),
    [
        (operands, "+", (AdditionOperands(), AdditionOperands(**COUPLED))),
        (operands, "x", (Multiplication(), Multiplication(**COUPLED))),
        (operands, "|", (BitwiseOr(), BitwiseOr(bits="uniform"))),
        (coupling, "x", (ShortMultiplication(), ShortMultiplication(second=1))),
        (coupling, "+", (TripleAddition(),)),
    ],
)
def test_worked_examples_hold(module, operator, columns):
    rows = examples_in(module.__doc__, operator)
    assert [len(row) for row in rows] == [len(columns)] * 2
    for row in rows:
        for task, (question, answer) in zip(columns, row, strict=True):
            assert is_word(task, question)
            assert answer == answer_to(task, question)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (AdditionOperands, {"second": -1}, "second is -1; expected 1 or more digits, or 0"),
        (BitwiseOr, {"second": -2}, "second is -2; expected 1 or more digits, or 0"),
        (AdditionOperands, {"order": "backwards"}, "order is 'backwards'; expected 'reversed' or 'reversed_answer' or"),
        (Multiplication, {"padding": "blanks"}, "padding is 'blanks'; expected 'none' or 'zeros'"),
        (Multiplication, {"least": 2}, "least is 2; expected 0 or 1"),
        (BitwiseOr, {"bits": "some"}, "bits is 'some'; expected 'single' or 'uniform'"),
        (ShortMultiplication, {"second": 0}, "second is 0; expected 1 or more digits"),
    ],
)
def test_wrong_options_are_refused(kind, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        kind(**options)
