"""PCFG SET: drawn compositions against an interpreter that reads them recursively, and how often each is drawn."""

import collections
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from experiments.tasks import Layout, pcfg
from experiments.tasks.pcfg import FUNCTIONS, Nodes, Pcfg, evaluated
from tests.experiments.tasks import drawing

LONGEST = 10
TASKS = [Pcfg(6), Pcfg(3, longest_string=1)]
every_task = pytest.mark.parametrize("task", TASKS, ids=["strings of 1 to 5", "strings of 1"])
RULES = {
    "copy": lambda x: x,
    "reverse": lambda x: x[::-1],
    "shift": lambda x: x[1:] + x[:1],
    "swap": lambda x: x[-1:] + x[1:-1] + x[:1] if len(x) > 1 else x,
    "repeat": lambda x: x + x,
    "echo": lambda x: x + x[-1:],
    "append": lambda x, y: x + y,
    "prepend": lambda x, y: y + x,
    "remove_first": lambda x, y: y,
    "remove_second": lambda x, y: x,
}
SHORTER = {"repeat": "copy", "echo": "copy", "append": "remove_second", "prepend": "remove_first"}


def arguments(name):
    """How many arguments a function has."""
    return RULES[name].__code__.co_argcount


def read(words):
    """The first composition in a list of words as a nested list, and the words behind it."""
    if words[0] not in RULES:
        size = next((i for i, word in enumerate(words) if word in RULES or word == ","), len(words))
        assert size > 0
        return "".join(words[:size]), words[size:]
    name, *rest = words
    tree = [name]
    for i in range(arguments(name)):
        if i == 1:
            comma, *rest = rest
            assert comma == ","
        argument, rest = read(rest)
        tree.append(argument)
    return tree, rest


def value(tree):
    """What a nested list makes."""
    return tree if isinstance(tree, str) else RULES[tree[0]](*map(value, tree[1:]))


def parts(tree):
    """A nested list and all that is in it."""
    yield tree
    if not isinstance(tree, str):
        for argument in tree[1:]:
            yield from parts(argument)


def whole(words):
    """A list of words as a nested list; an error where they are not just one composition."""
    tree, rest = read(words)
    assert rest == []
    return tree


def names(task):
    """The symbols as words."""
    return [*(chr(ord("a") + i) for i in range(task.alphabet)), *FUNCTIONS, ","]


def drawn(task, length, longest=LONGEST, count=60, whole=False):
    """Examples as pairs of lists of words."""
    return drawing.in_words(drawing.drawn(task, length, longest, count, whole), names(task))


@every_task
@pytest.mark.parametrize("length", [1, 2, 3, 5, LONGEST])
def test_every_answer_is_what_the_composition_makes(task, length):
    for question, answer in drawn(task, length):
        tree = whole(question)
        assert "".join(answer) == value(tree)
        assert sum(not isinstance(part, str) for part in parts(tree)) == length
        assert all(1 <= len(part) <= task.longest_string for part in parts(tree) if isinstance(part, str))
        assert all(len(value(part)) <= task.longest_string * (length + 1) for part in parts(tree))


@every_task
def test_padding_and_a_traced_length_change_nothing(task):
    for length in (1, 2, 5):
        assert drawn(task, length, longest=length, whole=True) == drawn(task, length)


def test_declared_sizes_are_the_greatest_that_are_drawn():
    for task in TASKS:
        sizes = [(len(question), len(answer)) for question, answer in drawn(task, 1, 1, count=2000)]
        assert (task.input_length(1), task.answer_length(1)) == tuple(map(max, zip(*sizes, strict=True)))
        for length in (2, 5, LONGEST):
            most = task.input_length(length), task.answer_length(length)
            assert all(len(q) <= most[0] and len(a) <= most[1] for q, a in drawn(task, length))
    traced = jax.jit(lambda n: (Pcfg().input_length(n), Pcfg().answer_length(n)))(8)
    assert traced == (Pcfg().input_length(8), Pcfg().answer_length(8)) == (61, 45)


# ---------------------------------------------------------------------- how often each is drawn


def shapes(functions):
    """All orders of so many functions and their strings, as words of S, U and B, with how often each is drawn."""
    found = collections.defaultdict(list)
    for size in range(functions + 1, 2 * functions + 2):
        for word in itertools.product("SUB", repeat=size):
            needed = itertools.accumulate({"S": -1, "U": 0, "B": 1}[letter] for letter in word)
            if word.count("S") == size - functions and [i for i, n in enumerate(needed) if n < 0] == [size - 1]:
                found[word.count("B")].append(word)
    chances = {}
    for binary, words in found.items():
        kinds = scipy.stats.binom(functions, 0.4).pmf(binary)
        chances |= {"".join(word): kinds / len(words) for word in words}
    return chances


def as_expected(values, chances):
    """Whether values are drawn with the chances given."""
    counts = collections.Counter(values)
    expected = np.array(list(chances.values()))
    assert set(counts) <= set(chances)
    assert expected.sum() == pytest.approx(1)
    return scipy.stats.chisquare([counts[x] for x in chances], expected * len(values)).pvalue > 1e-4


@pytest.mark.parametrize("length", [1, 2, 3])
def test_all_orders_in_which_functions_have_their_arguments_are_drawn_equally_often(length):
    def shape(tree):
        if isinstance(tree, str):
            return "S"
        return "SUB"[len(tree) - 1] + "".join(map(shape, tree[1:]))

    assert as_expected([shape(whole(question)) for question, _ in drawn(Pcfg(6), length, count=4000)], shapes(length))


def test_functions_sizes_and_symbols_are_drawn_equally_often():
    trees = [whole(question) for question, _ in drawn(Pcfg(6), 1, 1, count=4000)]
    assert as_expected([tree[0] for tree in trees], dict.fromkeys(FUNCTIONS, 0.1))
    assert as_expected([len(tree[1]) for tree in trees], dict.fromkeys(range(1, 6), 0.2))
    assert as_expected([tree[1][0] for tree in trees], dict.fromkeys("abcdef", 1 / 6))
    longest = [tree[1] for tree in trees if len(tree[1]) > 1]
    assert as_expected([string[:2] for string in longest], {x + y: 1 / 36 for x in "abcdef" for y in "abcdef"})
    both = [tree[1:] for tree in trees if len(tree) == 3]
    assert as_expected([(len(x), len(y)) for x, y in both], {(i, j): 0.04 for i in range(1, 6) for j in range(1, 6)})


def test_functions_are_drawn_equally_often_but_where_a_value_would_be_too_long():
    chances = collections.Counter()
    for shape, chance in shapes(2).items():
        kinds = [[name for name in FUNCTIONS if arguments(name) == "SUB".index(kind)] for kind in shape if kind != "S"]
        for chosen in itertools.product(*kinds):
            name = iter(chosen)
            words = " ".join("a ," if kind == "S" else next(name) for kind in shape).removesuffix(" ,").split()
            tree = whole(words)
            if len(value(tree)) > 3:
                tree[0] = SHORTER[tree[0]]
            chances[str(tree)] += chance / len(list(itertools.product(*kinds)))
    drawn_trees = [whole(["a" if len(word) == 1 and word != "," else word for word in question])
                   for question, _ in drawn(Pcfg(3, longest_string=1), 2, 2, count=8000)]  # fmt: skip
    assert as_expected(list(map(str, drawn_trees)), dict(chances))


# ---------------------------------------------------------------------- what is replaced, and the worked examples


def nodes(text, width=5):
    """A composition in the task's own form, padded; letters are symbols from 0."""
    words = text.split()
    runs = [
        (kind, [*run]) for kind, run in itertools.groupby(words, lambda w: w if w in RULES or w == "," else "string")
    ]
    found = [(kind, run[:]) for kind, group in runs for run in ([group] if kind == "string" else [[w] for w in group])]
    found = [(kind, run) for kind, run in found if kind != ","]
    symbols = [[ord(letter) - ord("a") for letter in run] if kind == "string" else [] for kind, run in found]
    count = 2 * sum(kind != "string" for kind, _ in found) + 1
    padding = count - len(found)
    return Nodes(
        jnp.array([0 if kind == "string" else FUNCTIONS.index(kind) for kind, _ in found] + [0] * padding),
        jnp.array([kind == "string" for kind, _ in found] + [False] * padding),
        jnp.array([row + [0] * (width - len(row)) for row in symbols] + [[0] * width] * padding),
        jnp.array([len(row) for row in symbols] + [0] * padding),
        jnp.array(len(found)),
    )


@pytest.mark.parametrize(
    ("text", "most", "expected", "made"),
    [
        ("repeat repeat a", 4, "repeat repeat", "a a a a"),
        ("repeat repeat a", 3, "copy repeat", "a a"),
        ("echo repeat a b", 4, "copy repeat", "a b a b"),
        ("echo repeat a b", 5, "echo repeat", "a b a b b"),
        ("append repeat a , b c", 3, "remove_second repeat", "a a"),
        ("prepend repeat a , b c", 3, "remove_first repeat", "b c"),
        ("append a , repeat b c", 5, "append repeat", "a b c b c"),
        ("reverse append repeat a , b c", 3, "reverse remove_second repeat", "a a"),
    ],
)
def test_a_function_whose_value_would_be_too_long_is_replaced(text, most, expected, made):
    functions, answer, size = evaluated(nodes(text), most, 8)
    kept = [FUNCTIONS[i] for i, string in zip(functions, nodes(text).strings, strict=True) if not string]
    assert " ".join(kept).removesuffix(" copy" * (len(kept) - len(expected.split()))) == expected
    assert [chr(ord("a") + int(i)) for i in answer[:size]] == made.split()


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("echo append copy a b , shift c d e", "a b d e c c"),
        ("remove_first a b , swap c d e", "e d c"),
        ("prepend a , repeat b c", "b c b c a"),
    ],
)
def test_the_worked_examples_follow_the_rule(question, answer):
    assert f"{question} -> {answer}" in " ".join(pcfg.__doc__.split())
    assert " ".join(value(whole(question.split()))) == answer
    _, made, size = evaluated(nodes(question), 15, 15)
    assert [chr(ord("a") + int(i)) for i in made[:size]] == answer.split()


def test_an_example_of_the_data_set_is_read_as_it_is_there():
    question = "echo append copy a b c d , shift remove_second e f g h , i j k l m"
    assert value(whole(question.split())) == "abcdfghee"


# ---------------------------------------------------------------------- the rest


def test_chance_is_no_less_than_the_share_of_any_answer():
    task = Pcfg(2, longest_string=2)
    for length in (1, 4):
        answers = collections.Counter(" ".join(answer) for _, answer in drawn(task, length, count=4000))
        share = max(answers.values()) / 4000
        assert share / 2 < task.chance(length) <= 0.5 and share <= task.chance(length)
        firsts = collections.Counter(answer[0] for _, answer in drawn(task, length, count=4000))
        assert abs(firsts["a"] - 2000) < 4 * 1000**0.5
    assert Pcfg().chance(500) == 1 / 520


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder_decoder"])
def test_a_batch_of_mixed_lengths_asks_and_answers_by_the_rule(architecture):
    task = Pcfg(6)
    layout = Layout(task, architecture)
    got = jax.jit(layout.batch, static_argnums=2)(jax.random.key(0), jnp.array([1, 5, 3, 2]), 5)
    asking = got if got.source is None else got.source
    word = [*names(task), "separator", "end", "blank"]
    for tokens, targets, scored in zip(*map(np.asarray, (asking.tokens, got.targets, got.scored)), strict=True):
        question = list(itertools.takewhile(lambda w: w not in word[-3:], (word[token] for token in tokens)))
        said = [word[symbol] for symbol in targets[scored]]
        assert "".join(said[:-1]) == value(whole(question))
        assert said[-1] == "end"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alphabet": 1}, "alphabet is 1; expected 2 or more"),
        ({"longest_string": 0}, "longest_string is 0; expected 1 or more"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Pcfg(**options)
