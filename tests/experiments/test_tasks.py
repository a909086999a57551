"""The tasks, against rules on plain lists, and the two layouts, written out token by token."""

import collections
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from experiments.tasks import Example, Layout, Task
from experiments.tasks.arithmetic import Addition
from experiments.tasks.strings import Copy, Parity, Reverse, Sort

PLUS = 10
LONGEST = 9
ALL = {
    "copy": Copy(6),
    "reverse": Reverse(6),
    "sort": Sort(6),
    "parity": Parity(),
    "addition": Addition(),
    "addition from the right": Addition(reversed_digits=True),
}
every_task = pytest.mark.parametrize("task", ALL.values(), ids=ALL.keys())
every_layout = pytest.mark.parametrize(
    "layout",
    [Layout(task, architecture, end) for task in ALL.values() for architecture in ("decoder", "encoder")
     for end in (True, False)],
    ids=[f"{name} {architecture} {end}" for name in ALL for architecture in ("decoder", "encoder")
         for end in ("with end", "without end")],
)  # fmt: skip


pytestmark = pytest.mark.usefixtures("quick_compilation")


def answer_to(task, question):
    """What the task's rule makes of an input: a list of numbers from a list of numbers."""
    match task:
        case Copy():
            return question
        case Reverse():
            return question[::-1]
        case Sort():
            return sorted(question)
        case Parity():
            return [question.count(1) % 2]
        case Addition():
            plus = question.index(PLUS)
            order = -1 if task.reversed_digits else 1
            operands = question[:plus], question[plus + 1 :]
            total = sum(int("".join(map(str, digits[::order]))) for digits in operands)
            return [int(digit) for digit in f"{total:0{plus + 1}}"][::order]


def alphabet(task):
    """The symbols that a task draws, without the plus."""
    return range(task.symbols - isinstance(task, Addition))


def sizes(task, length):
    """Symbols of the input and of the answer."""
    return {Parity: (length, 1), Addition: (2 * length + 1, length + 1)}.get(type(task), (length, length))


@functools.cache
def drawn(task, length, longest=LONGEST, count=50):
    """Examples as pairs of lists, without what pads them."""
    keys = jax.random.split(jax.random.key(3), count)
    both = jax.vmap(lambda key: task.sample(key, length, longest))(keys)
    questions, answers = np.asarray(both.input), np.asarray(both.answer)
    assert (questions.shape[1], answers.shape[1]) == sizes(task, longest)
    asked, answered = sizes(task, length)
    return list(zip(questions[:, :asked].tolist(), answers[:, :answered].tolist(), strict=True))


@every_task
@pytest.mark.parametrize("length", [1, 2, 5, LONGEST])
def test_every_answer_follows_from_its_input(task, length):
    for question, answer in drawn(task, length):
        assert answer == answer_to(task, question)


@every_task
@pytest.mark.parametrize("length", [1, 2, 5, LONGEST])
def test_every_input_is_a_word_of_the_alphabet(task, length):
    for question, _ in drawn(task, length):
        if isinstance(task, Addition):
            assert question[length] == PLUS
            question = question[:length] + question[length + 1 :]
        assert set(question) <= set(alphabet(task))


@every_task
def test_declared_sizes_are_those_of_the_answers_that_the_rule_gives(task):
    for length in (1, 2, LONGEST):
        question, _ = drawn(task, length)[0]
        sized = task.input_length(length), task.answer_length(length)
        assert sized == (len(question), len(answer_to(task, question)))


@every_task
def test_padding_changes_nothing(task):
    for length in (1, 2, 3):
        assert drawn(task, length, longest=3) == drawn(task, length, longest=LONGEST)


@every_task
def test_a_traced_length_gives_the_same_example_as_a_whole_number(task):
    key = jax.random.key(5)
    traced = jax.jit(lambda length: task.sample(key, length, LONGEST))(4)
    for one, other, size in zip(traced[:2], task.sample(key, 4, LONGEST)[:2], sizes(task, 4), strict=True):
        np.testing.assert_array_equal(one[:size], other[:size])


@every_task
def test_every_pair_of_symbols_is_drawn_equally_often(task):
    examples = [[symbol for symbol in question if symbol != PLUS] for question, _ in drawn(task, 3, 3, count=6000)]
    for i, j in itertools.combinations(range(len(examples[0])), 2):
        counts = collections.Counter((word[i], word[j]) for word in examples)
        expected = list(itertools.product(alphabet(task), repeat=2))
        assert scipy.stats.chisquare([counts[pair] for pair in expected]).pvalue > 1e-4


@pytest.mark.parametrize("length", [1, 2, 9])
def test_parity_is_even_as_often_as_odd(length):
    odd = sum(answer == [1] for _, answer in drawn(Parity(), length, count=6000))
    assert abs(odd - 3000) < 4 * (6000 / 4) ** 0.5


def inputs(task, length):
    """All inputs of a length."""
    if not isinstance(task, Addition):
        return map(list, itertools.product(alphabet(task), repeat=length))
    digits = itertools.product(range(10), repeat=2 * length)
    return ([*both[:length], PLUS, *both[length:]] for both in digits)


@pytest.mark.parametrize(
    "task, lengths",
    [
        *((kind(size), range(1, longest)) for kind in (Copy, Reverse, Sort) for size, longest in ((2, 8), (3, 7))),
        (Sort(5), range(1, 6)),
        (Parity(), range(1, 8)),
        (Addition(), (1, 2)),
        (Addition(reversed_digits=True), (1, 2)),
    ],
    ids=str,
)
def test_chance_is_the_share_of_the_most_frequent_answer(task, lengths):
    for length in lengths:
        answers = collections.Counter(tuple(answer_to(task, question)) for question in inputs(task, length))
        assert task.chance(length) == pytest.approx(max(answers.values()) / answers.total(), rel=1e-12)


def test_chance_stays_a_number_at_great_lengths():
    for task in ALL.values():
        assert 0 <= task.chance(500) <= 0.5


@pytest.mark.parametrize("kind", [Copy, Reverse, Sort])
def test_an_alphabet_of_one_symbol_is_refused(kind):
    with pytest.raises(ValueError, match="alphabet is 1; expected 2 or more"):
        kind(1)


class HandMade(Task):
    """3 1 2 -> 4 0, and numbers behind them that must not show."""

    symbols = 5

    def answer_length(self, length):
        return length - 1

    def sample(self, key, length, longest):
        return Example(jnp.array([3, 1, 2, 4, 4])[:longest], jnp.array([4, 0, 1, 3])[: longest - 1])

    def chance(self, length):
        return 0.0


SEPARATOR, END, BLANK = 5, 6, 7
x, o = True, False


@pytest.mark.parametrize(
    "architecture, end, tokens, targets, scored",
    [
        ("decoder", True, [3, 1, 2, SEPARATOR, 4, 0, END, END], [4, 0, END], [o, o, o, x, x, x, o, o]),
        ("decoder", False, [3, 1, 2, SEPARATOR, 4, END, END], [4, 0], [o, o, o, x, x, o, o]),
        ("encoder", True, [3, 1, 2, BLANK, BLANK, BLANK, END, END], [4, 0, END], [o, o, o, x, x, x, o, o]),
        ("encoder", False, [3, 1, 2, BLANK, BLANK, END, END], [4, 0], [o, o, o, x, x, o, o]),
    ],
)
def test_layouts_token_by_token(architecture, end, tokens, targets, scored):
    layout = Layout(HandMade(), architecture, end)
    got = layout.example(jax.random.key(0), jnp.array(3), 4)
    assert got[0].tolist() == tokens
    assert got[1][np.array(scored)].tolist() == targets
    assert got[2].tolist() == scored
    assert int(got[3]) == 5 + end
    assert (layout.special, layout.vocabulary) == ({"separator": 5, "end": 6, "blank": 7}, 8)


@functools.cache
def batch(layout, lengths=(1, 5, 3, LONGEST), key=7):
    """A batch of four, as arrays of NumPy."""
    got = layout.batch(jax.random.key(key), jnp.array(lengths), LONGEST)
    return got._replace(**{name: np.asarray(value) for name, value in got._asdict().items()})


@every_layout
def test_a_batch_of_mixed_lengths_asks_and_answers_by_the_rule(layout):
    lengths = (1, 5, 3, LONGEST)
    mixed = batch(layout, lengths)
    assert mixed.tokens.shape == mixed.targets.shape == mixed.scored.shape == (4, layout.tokens(LONGEST))
    for tokens, targets, scored, real, length in zip(*mixed[:4], lengths, strict=True):
        asked, answered = sizes(layout.task, length)
        assert real == asked + answered + layout.end == layout.tokens(length)
        assert np.flatnonzero(scored).tolist() == list(range(asked, real))
        answer = answer_to(layout.task, tokens[:asked].tolist())
        assert targets[scored].tolist() == answer + [layout.special["end"]] * layout.end
        assert set(tokens[real:]) <= {layout.special["end"]}
        assert max(tokens) < layout.vocabulary


@every_task
@pytest.mark.parametrize("end", [True, False])
def test_both_architectures_get_the_same_questions_targets_and_scored_slots(task, end):
    decoder, encoder = (batch(Layout(task, architecture, end)) for architecture in ("decoder", "encoder"))
    np.testing.assert_array_equal(decoder.scored, encoder.scored)
    np.testing.assert_array_equal(decoder.lengths, encoder.lengths)
    np.testing.assert_array_equal(decoder.targets[decoder.scored], encoder.targets[encoder.scored])
    np.testing.assert_array_equal(decoder.tokens[~decoder.scored], encoder.tokens[~encoder.scored])
    assert (decoder.tokens[decoder.scored] != encoder.tokens[encoder.scored]).all()


@every_task
def test_a_decoder_reads_at_each_slot_what_it_should_have_said_at_the_slot_before(task):
    for tokens, targets, scored, _ in zip(*batch(Layout(task, "decoder"))[:4], strict=True):
        first, *rest = np.flatnonzero(scored)
        assert tokens[first] == task.symbols
        assert tokens[rest].tolist() == targets[scored][:-1].tolist()


@every_task
def test_an_encoder_reads_nothing_of_the_answer(task):
    read = batch(Layout(task, "encoder"))
    assert set(read.tokens[read.scored]) == {Layout(task, "encoder").special["blank"]}


@every_task
def test_examples_of_a_batch_differ_and_batches_of_other_keys_too(task):
    layout = Layout(task, "decoder")
    one, other, again = (batch(layout, (LONGEST,) * 4, key).tokens.tolist() for key in (7, 8, 7))
    assert one == again
    assert len({tuple(tokens) for tokens in one + other}) == 8


def test_an_example_of_a_batch_does_not_depend_on_the_lengths_of_the_others():
    layout = Layout(Reverse(6), "decoder")
    one, other = (batch(layout, lengths).tokens for lengths in ((3, 6, 1, 1), (3, 2, 5, 9)))
    np.testing.assert_array_equal(one[0], other[0])


# ---------------------------------------------------------------------- numbers, and tokens that belong together


def written(text):
    """Ids or counts as one writes them under the tokens."""
    return [int(word) for word in text.split()]


@pytest.mark.parametrize(
    ("task", "architecture", "expected"),
    [
        # 4 7 + 0 5 = 0 5 2          the sum's digits stand where those stand that they are made of; = comes before them
        (Addition(), "decoder", "2 1 0 2 1 4 3 2 1"),
        (Addition(), "encoder", "2 1 0 2 1 3 2 1 0"),
        (Addition(reversed_digits=True), "decoder", "1 2 0 1 2 0 1 2 3"),
        (Addition(reversed_digits=True), "encoder", "1 2 0 1 2 1 2 3 4"),
        (Copy(), "decoder", "1 2 0 1 2"),
        (Copy(), "encoder", "1 2 1 2 3"),
        (Reverse(), "decoder", "1 2 3 2 1"),
        (Reverse(), "encoder", "1 2 2 1 0"),
        (Parity(), "decoder", "0 0 1 0"),
        (Parity(), "encoder", "0 0 0 1"),
    ],
)
def test_ids_of_tokens_that_belong_together_are_those_of_position_coupling(task, architecture, expected):
    layout = Layout(task, architecture)
    groups = layout.batch(jax.random.key(0), jnp.array([2, 5]), 6).groups
    assert groups[0, : layout.tokens(2)].tolist() == written(expected)
    assert layout.extent(2, "groups") == max(written(expected)) - min(written(expected)) + 1


def test_each_symbol_of_an_answer_has_the_id_of_the_one_it_repeats():
    for task in (Copy(50), Reverse(50)):
        got = batch(Layout(task, "encoder"))
        for tokens, targets, groups, length in zip(
            got.tokens, got.targets, got.groups, (1, 5, 3, LONGEST), strict=True
        ):
            asked = dict(zip(groups[:length].tolist(), tokens[:length].tolist(), strict=True))
            said = [asked[group] for group in groups[length : 2 * length].tolist()]
            assert said == targets[length : 2 * length].tolist()


@pytest.mark.parametrize(
    ("architecture", "expected"), [("decoder", "1 1 0 2 2 0 3 3 3"), ("encoder", "1 1 0 2 2 3 3 3 3")]
)
def test_digits_are_counted_by_the_number_they_are_of(architecture, expected):
    layout = Layout(Addition(), architecture)
    numbers = layout.batch(jax.random.key(0), jnp.array([2, 5]), 6).numbers
    assert numbers[0, : layout.tokens(2)].tolist() == written(expected)
    assert layout.extent(2, "numbers") == max(written(expected).count(number) for number in (1, 2, 3))


@every_layout
def test_what_a_scheme_needs_is_there_or_said_not_to_be(layout):
    got = batch(layout)
    for field in ("numbers", "groups"):
        value = getattr(got, field)
        if layout.extent(3, field) is None:
            assert value.dtype == object  # None
            continue
        for row, real, length in zip(value, got.lengths, (1, 5, 3, LONGEST), strict=True):
            most = np.unique(row[:real][row[:real] > 0], return_counts=True)[1].max(initial=0)
            span = row[:real].max() - row[:real].min() + 1
            assert layout.extent(length, field) >= (most if field == "numbers" else span)
            if layout.end:
                assert layout.extent(length, field) == (most if field == "numbers" else span)
