"""The context-free tasks, against rules on lists of words and the probabilities of all short inputs."""

import functools
import itertools

import pytest

from experiments.tasks import context_free
from experiments.tasks.context_free import ModularArithmeticBrackets, ReverseString, SolveEquation, StackManipulation
from tests.experiments.tasks import chomsky
from tests.experiments.tasks.chomsky import Known, mixed, uniform

# ------------------------------------------------------------------------------------------------------------ stacks


def stack(question):
    """Bits come first, one at least, and actions behind them."""
    held = list(itertools.takewhile(lambda symbol: symbol in "01", question))
    assert held
    for action in question[len(held) :]:
        match action:
            case "POP":
                held = held[:-1]
            case "PUSH0" | "PUSH1":
                held = [*held, action[-1]]
            case _:
                raise AssertionError(f"{action} among the actions")
    return held[::-1]


def stacks(length):
    if length == 1:
        return uniform("01")
    actions = ["POP", "PUSH0", "PUSH1"]
    sizes = range(1, length)
    return mixed(*((1 / len(sizes), uniform(*["01"] * size, *[actions] * (length - size))) for size in sizes))


# ------------------------------------------------------------------------------------------------------- expressions


def value(question, modulus=5):
    """Of exactly the expressions that are defined: d, -d, (d), (-d) and (expression operator expression)."""

    def read(at):
        match question[at]:
            case "-":
                return -int(question[at + 1]), at + 2
            case "(":
                number, behind = read(at + 1)
                if question[behind] == ")":
                    assert behind - at in (2, 3)
                    return number, behind + 1
                operator = question[behind]
                other, closing = read(behind + 1)
                assert question[closing] == ")"
                result = {"+": number + other, "-": number - other, "*": number * other}[operator]
                return result, closing + 1
            case number:
                return int(number), at + 1

    result, end = read(0)
    assert end == len(question)
    assert all(int(symbol) < modulus for symbol in question if symbol.isdigit())
    return [str(result % modulus)]


def joined(*parts):
    """All texts of one word from each part, with their probabilities."""
    total = {(): 1.0}
    for part in parts:
        total = {(*one, *other): p * q for one, p in total.items() for other, q in part.items()}
    return total


@functools.cache
def expressions(length, numbers="01234", operators="+-*"):
    number = uniform(numbers)
    minus, opening, closing = ({(symbol,): 1.0} for symbol in "-()")
    match length:
        case 1:
            return number
        case 2:
            return joined(minus, number)
        case 3:
            return joined(opening, number, closing)
        case 4:
            return joined(opening, minus, number, closing)
    lefts = range(1, length - 3)
    splits = ((expressions(n, numbers, operators), expressions(length - 3 - n, numbers, operators)) for n in lefts)
    between = uniform(operators)
    return mixed(*((1 / len(lefts), joined(opening, one, between, other, closing)) for one, other in splits))


def solution(question, modulus=5):
    """The one number that makes the equation true, tried one by one."""
    if len(question) < 3:
        assert set(question) == {"0"}
        return ["0"]
    *expression, equals, result = question
    assert (equals, expression.count("x")) == ("=", 1)
    tried = {
        str(number): value([str(number) if symbol == "x" else symbol for symbol in expression], modulus)
        for number in range(modulus)
    }
    (right,) = (number for number, found in tried.items() if found == [result])
    return [right]


def equations(length, numbers="01234"):
    if length < 3:
        return {("0",) * length: 1.0}
    places, parts = range(length - 2), []
    for expression, probability in expressions(length - 2, numbers, "+-").items():
        for place in places:
            unknown = next(i for i in [*places[place:], *places] if expression[i].isdigit())
            equation = (*expression[:unknown], "x", *expression[unknown + 1 :], "=", *value(expression, len(numbers)))
            parts.append((probability / len(places), {equation: 1.0}))
    return mixed(*parts)


# ------------------------------------------------------------------------------------------------------------- tests


ALL = {
    "stack_manipulation": Known(StackManipulation(), "0 1 POP PUSH0 PUSH1", stack, stacks, range(1, 8)),
    "reverse_string": Known(
        ReverseString(), "0 1", lambda question: question[::-1], lambda n: uniform(*["01"] * n), range(1, 8)
    ),
    "modular_arithmetic_brackets": Known(
        ModularArithmeticBrackets(), "0 1 2 3 4 + - ( ) *", value, expressions, range(1, 12)
    ),
    "solve_equation": Known(SolveEquation(), "0 1 2 3 4 + - ( ) x =", solution, equations, range(1, 11)),
    "two numbers": Known(
        ModularArithmeticBrackets(2), "0 1 + - ( ) *", lambda question: value(question, 2),
        lambda n: expressions(n, "01"), range(1, 14),
    ),
    "three numbers, two operators": Known(
        ModularArithmeticBrackets(3, multiplication=False), "0 1 2 + - ( )", lambda question: value(question, 3),
        lambda n: expressions(n, "012", "+-"), range(1, 11),
    ),
    "an equation of three numbers": Known(
        SolveEquation(3), "0 1 2 + - ( ) x =", lambda question: solution(question, 3),
        lambda n: equations(n, "012"), range(1, 12),
    ),
}  # fmt: skip
every_task = pytest.mark.parametrize("known", ALL.values(), ids=ALL.keys())


@every_task
def test_names_and_symbols_are_as_many(known):
    chomsky.check_that_names_and_symbols_are_as_many(known)


@every_task
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 9, 10, 11, 12])
def test_answers_follow_from_inputs(known, length):
    chomsky.check_that_answers_follow_from_inputs(known, length)


@every_task
def test_answers_to_long_inputs_too(known):
    chomsky.check_that_long_answers_follow_from_inputs(known)


@every_task
@pytest.mark.parametrize("length", range(1, 7))
def test_inputs_are_drawn_as_often_as_defined(known, length):
    chomsky.check_that_inputs_are_drawn_as_often_as_defined(known, length)


@pytest.mark.parametrize(("name", "length"), [("two numbers", 9), ("an equation of three numbers", 10)])
def test_nested_brackets_are_drawn_as_often_as_defined(name, length):
    chomsky.check_that_inputs_are_drawn_as_often_as_defined(ALL[name], length)


@every_task
def test_sizes_are_the_most_that_examples_take(known):
    chomsky.check_that_sizes_are_the_most_that_examples_take(known)


@every_task
def test_neither_padding_nor_tracing_changes_an_example(known):
    chomsky.check_that_neither_padding_nor_tracing_changes_an_example(known)


@every_task
def test_chance_is_the_share_of_the_most_frequent_answer(known):
    chomsky.check_that_chance_is_the_share_of_the_most_frequent_answer(known)


def test_a_decoder_is_asked_for_the_stack_and_its_end():
    chomsky.check_that_a_decoder_is_asked_for_the_answer_and_its_end(ALL["stack_manipulation"])


def test_worked_examples():
    found = chomsky.examples(context_free.__doc__)
    assert len(found) == 8
    for name, question, answer in found:
        assert ALL[name].answer(question) == answer


@pytest.mark.parametrize("kind", [ModularArithmeticBrackets, SolveEquation])
def test_a_modulus_below_two_is_refused(kind):
    with pytest.raises(ValueError, match="modulus is 1; expected 2 or more"):
        kind(1)
