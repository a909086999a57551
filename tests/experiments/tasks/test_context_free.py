"""The context-free tasks: rules on lists of words, the probabilities of all short inputs, and what is refused."""

import functools
import itertools

import pytest

from experiments.tasks.context_free import ModularArithmeticBrackets, ReverseString, SolveEquation, StackManipulation
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


@pytest.mark.parametrize("kind", [ModularArithmeticBrackets, SolveEquation])
def test_a_modulus_below_two_is_refused(kind):
    with pytest.raises(ValueError, match="modulus is 1; expected 2 or more"):
        kind(1)
