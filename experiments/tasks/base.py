"""What a task is, and how its examples are laid out for a decoder, for an encoder and for an encoder-decoder.

A task draws ONE example of a given length: an input and its answer. The length may be traced; arrays are as long as the
longest length needs, and what lies past the true length is never looked at. Layout happens here, once for all tasks:

                      input      answer and end
    decoder           3 1 2 |    1 2 3              tokens: the separator, then what has been written so far
    targets           . . . 1    2 3 $              the next token: loss on the answer and its end
    encoder           3 1 2 _    _ _ _              tokens: blanks, as many as the longest answer of the length takes
    targets           . . . 1    2 3 $              what belongs on each blank
    encoder-decoder   3 1 2                         read by the encoder
                          |      1 2 3              tokens of the decoder
    targets               1      2 3 $

All have the same targets and score the same symbols; only what is read differs.

A `Stream` is the other kind of task: one text, in which some tokens are asked for where they stand.

A task may also say which of its symbols are digits, and which of its tokens belong together: some position schemes
count by that. A scheme is handed what it needs by `positions`, from the batch.
"""

import abc
import dataclasses
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp

from posenc.positions import Positions, taken
from posenc.schemes import Scheme
from posenc.schemes.base import Needed
from posenc.shapes import Array, Bool, Int, Key

Architecture = Literal["decoder", "encoder", "encoder_decoder"]
Split = Literal["train", "validation", "test"]
Whole = Int[Array, ""] | int


Groups = tuple[Int[Array, "i"], Int[Array, "a+2"]]


class Example(NamedTuple):
    """One input and its answer, padded with anything.

    Attributes:
        input: symbols.
        answer: symbols, without the end.
        asked: how many symbols the input has; `Task.input_length` of the length where it is None.
        answered: how many symbols the answer has; `Task.answer_length` of the length where it is None.
        groups: as `Task.groups` has them, where they depend on what is drawn; that of the length where it is None.
    """

    input: Int[Array, "i"]
    answer: Int[Array, "a"]
    asked: Whole | None = None
    answered: Whole | None = None
    groups: Groups | None = None


class Task(abc.ABC):
    """The rule that turns an input into its answer. Options are the fields of the dataclass that implements it.

    Attributes:
        version: part of a cell's identity: raise it whenever the drawn examples change.
        digits: the symbols that are digits of numbers.
        alike: all examples of a length have as many symbols as each other, in the input and in the answer.
        architectures: those that can be asked.
        bytes: symbols are bytes of text, and losses are told in bits per byte too.
        grid: `sample` can be told how many digits a second operand has, by the keyword `second`.
    """

    version: ClassVar[int] = 1
    digits: ClassVar[range] = range(0)
    alike: ClassVar[bool] = True
    architectures: ClassVar[tuple[Architecture, ...]] = ("decoder", "encoder", "encoder_decoder")
    bytes: ClassVar[bool] = False
    grid: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def symbols(self) -> int:
        """How many different symbols inputs and answers are made of: 0 .. symbols-1."""

    @abc.abstractmethod
    def sample(self, key: Key[Array, ""], length: Whole, longest: int) -> Example:
        """One input and its answer, in arrays of `input_length(longest)` and `answer_length(longest)` symbols.

        The example depends on key and length, never on `longest`.
        """

    def input_length(self, length):
        """Symbols of the input, the most where examples differ, for a whole or a traced length.

        It must not shrink as lengths grow: arrays for the longest length hold all others.
        """
        return length

    def answer_length(self, length):
        """Symbols of the answer, the most where examples differ, without its end. It must not shrink either."""
        return length

    def longest_number(self, length: int) -> int:
        """Digits of the longest number in input or answer, where there are digits."""
        return max(self.input_length(length), self.answer_length(length))

    def groups(self, length: Whole, longest: int) -> Groups | None:
        """Ids, equal for tokens that belong together: of the input; of separator, answer and end. None, no such thing.

        In arrays for `longest`, where what lies past the true length is never looked at. Where examples of a length
        differ these are the ids of the largest, and each example has its own.
        """
        return None

    @abc.abstractmethod
    def chance(self, length: int) -> float:
        """The exact match of the best guess that does not look at the input."""

    @property
    def renewed(self) -> int:
        """After how many steps of training `held` gives other data; 0, never."""
        return 0

    def held(self, split: Split, longest: int, turn: int = 0) -> dict[str, Array]:
        """Data that `sample` is told by keyword, where examples are not made of random numbers alone.

        Args:
            split: the part of the data.
            longest: the longest length that is drawn.
            turn: of the data that are held in turn, which. Their shapes are the same.

        Raises:
            ValueError: there is none, or too little for examples of the longest length.
        """
        return {}

    def identity(self) -> str:
        """What of a task is neither an option nor its version: a digest of its data."""
        return ""


class Asked(NamedTuple):
    """One text of a stream, padded with anything.

    Attributes:
        tokens: symbols.
        targets: what belongs behind each token, where that is asked.
        scored: where it is asked.
    """

    tokens: Int[Array, "t"]
    targets: Int[Array, "t"]
    scored: Bool[Array, "t"]


class Stream(Task):
    """One text of `input_length(length)` symbols, of which up to `answer_length(length)` are asked for on the way.

    A decoder is asked at a token for what comes behind it. There is no separator and no end.
    """

    alike = False
    architectures = ("decoder",)

    @abc.abstractmethod
    def sample(self, key: Key[Array, ""], length: Whole, longest: int) -> Asked:  # type: ignore[override]
        """One text in arrays of `input_length(longest)` symbols. It depends on key and length, never on `longest`."""


class Source(NamedTuple):
    """What the encoder of an encoder-decoder reads; the fields are those of `Batch`."""

    tokens: Int[Array, "b s"]
    lengths: Int[Array, "#b"]
    numbers: Int[Array, "b s"] | None = None
    groups: Int[Array, "b s"] | None = None


class Batch(NamedTuple):
    """What a model is trained and tested on.

    Attributes:
        tokens: what it reads; of an encoder-decoder, the decoder.
        targets: what it should say.
        scored: where that counts: the answer, and its end.
        lengths: how many tokens of each example are real; one number where all are equally long.
        slots: those of the answer and its end, where the model is asked, and others where an answer is short.
        numbers: which number, counted from 1, a token is a digit of; 0 where of none; None where there are no digits.
        groups: equal ids for tokens that belong together; None where the task does not say.
        source: what the encoder of an encoder-decoder reads.
    """

    tokens: Int[Array, "b t"]
    targets: Int[Array, "b t"]
    scored: Bool[Array, "b t"]
    lengths: Int[Array, "#b"]
    slots: Int[Array, "#b a"]
    numbers: Int[Array, "b t"] | None = None
    groups: Int[Array, "b t"] | None = None
    source: Source | None = None

    def alike(self) -> "Batch":
        """The same, told that all examples are equally long: what depends on the length is done once."""
        source = None if self.source is None else self.source._replace(lengths=self.source.lengths[:1])
        return self._replace(lengths=self.lengths[:1], slots=self.slots[:1], source=source)

    def asked(self) -> tuple[Int[Array, "b a"], Bool[Array, "b a"]]:
        """Targets, and whether they count, in the slots where the model is asked."""
        return taken(self.targets, self.slots), taken(self.scored, self.slots)


@dataclasses.dataclass(frozen=True)
class Layout:
    """A task in the form that an architecture reads.

    Args:
        task: draws the examples.
        architecture: "decoder", "encoder" or "encoder_decoder".
        end: whether the answer ends with a token that is scored. Without it the length of the answer is given away.
    """

    task: Task
    architecture: Architecture
    end: bool = True

    @property
    def vocabulary(self) -> int:
        """The task's symbols, then separator, end and blank."""
        return self.task.symbols + 3

    @property
    def special(self) -> dict[str, int]:
        """The tokens that are no symbols of the task."""
        return {name: self.task.symbols + i for i, name in enumerate(("separator", "end", "blank"))}

    def tokens(self, length):
        """Tokens of an example of this length, the most where examples differ, for a whole or a traced length."""
        if isinstance(self.task, Stream):
            return self.task.input_length(length)
        return self.task.input_length(length) + self.task.answer_length(length) + self.end

    def extent(self, length: int, needs: Needed | None) -> int | None:
        """How much a position scheme has to number at this length; None where it needs what the task does not give.

        Tokens; digits of the longest number, for a scheme that needs to know the numbers; ids, for the groups.
        """
        if needs == "numbers":
            if not self.task.digits:
                return None
            blanks = self.task.answer_length(length) + 1 if self.architecture == "encoder" else 0  # count as a number
            return max(self.task.longest_number(length), blanks)
        if needs == "groups":
            ids = self.groups(self.task.groups(length, length), length, self.task.input_length(length))
            return None if ids is None else int(ids.max() - ids.min()) + 1
        if self.architecture == "encoder_decoder":
            return max(self.task.input_length(length), self.task.answer_length(length) + self.end)
        return self.tokens(length)

    def batch(self, key: Key[Array, ""], lengths: Int[Array, "b"], longest: int, **given) -> Batch:
        """One example for each length, padded to the tokens that `longest` takes.

        Args:
            **given: what `sample` is told beside the length, the same for all examples.
        """
        keys = jax.random.split(key, len(lengths))
        return jax.vmap(lambda one, length: self.example(one, length, longest, **given))(keys, lengths)

    def example(self, key: Key[Array, ""], length: Int[Array, ""], longest: int, **given) -> Batch:
        """The fields of a batch for one example; padded with the end token."""
        if isinstance(self.task, Stream):
            return self.stream(self.task.sample(key, length, longest, **given), length, longest)
        drawn = self.task.sample(key, length, longest, **given)
        asked = self.task.input_length(length) if drawn.asked is None else drawn.asked
        most = self.task.answer_length(length)
        answered = most if drawn.answered is None else drawn.answered
        slot = jnp.arange(self.tokens(longest))
        place = slot - asked  # in the answer
        targets = jnp.where((place >= 0) & (place < answered), at(drawn.answer, place), self.special["end"])
        scored = (place >= 0) & (place < answered + self.end)
        if self.architecture == "encoder":
            behind, real = jnp.full_like(targets, self.special["blank"]), asked + most + self.end
        else:
            written = jnp.where(place <= answered, at(drawn.answer, place - 1), self.special["end"])
            behind, real = jnp.where(place == 0, self.special["separator"], written), asked + answered + self.end
        tokens = jnp.where(slot < real, jnp.where(place < 0, at(drawn.input, slot), behind), self.special["end"])
        slots = asked + jnp.arange(self.task.answer_length(longest) + self.end)
        ids = self.task.groups(length, longest) if drawn.groups is None else drawn.groups
        numbers, groups = self.numbers(tokens, place), self.groups(ids, longest, asked)
        whole = Batch(tokens, targets, scored, jnp.asarray(real), slots, numbers, groups)
        return self.parted(whole, asked, longest) if self.architecture == "encoder_decoder" else whole

    def stream(self, drawn: Asked, length: Whole, longest: int) -> Batch:
        """The same for a text in which tokens are asked for where they stand."""
        real, asked = self.task.input_length(length), self.task.answer_length(longest)
        there = jnp.arange(len(drawn.tokens)) < real
        tokens = jnp.where(there, drawn.tokens, self.special["end"])
        scored = drawn.scored & there
        slots = jnp.argsort(~scored, stable=True)[:asked]  # those that count come first
        return Batch(tokens, drawn.targets, scored, jnp.asarray(real), slots)

    def parted(self, whole: Batch, asked: Whole, longest: int) -> Batch:
        """A decoder's example, with its input given to an encoder."""
        size, behind = self.task.input_length(longest), self.task.answer_length(longest) + self.end
        slot = jnp.arange(size)

        def answer(x: Array | None) -> Array | None:
            return None if x is None else jnp.take(x, asked + jnp.arange(behind), mode="clip")

        def question(x: Array | None) -> Array | None:
            return None if x is None else x[:size]

        tokens = jnp.where(slot < asked, whole.tokens[:size], self.special["end"])
        source = Source(tokens, jnp.asarray(asked), question(whole.numbers), question(whole.groups))
        tokens, targets, scored = (answer(x) for x in (whole.tokens, whole.targets, whole.scored))
        return Batch(
            tokens, targets, scored, whole.lengths - asked, jnp.arange(behind),
            answer(whole.numbers), answer(whole.groups), source,
        )  # fmt: skip

    def numbers(self, tokens: Int[Array, "t"], place: Int[Array, "t"]) -> Int[Array, "t"] | None:
        """The digits of each run of them. A blank counts as one, as a digit may belong there; the answer is a run."""
        if not self.task.digits:
            return None
        digit = jnp.isin(tokens, jnp.array([*self.task.digits, self.special["blank"]]))
        begins = digit & (~jnp.roll(digit, 1).at[0].set(False) | (place == 0))
        return jnp.where(digit, jnp.cumsum(begins), 0)

    def groups(self, ids: Groups | None, longest: int, asked: Whole) -> Int[Array, "t"] | None:
        """The ids of the tokens, from those of input and answer."""
        if ids is None:
            return None
        slot = jnp.arange(self.tokens(longest))
        return jnp.where(slot < asked, at(ids[0], slot), at(self.behind(ids[1]), slot - asked))

    def behind(self, ids: Int[Array, "a+2"]) -> Int[Array, "a+end"]:
        """The ids of what stands behind the input: a decoder reads separator and answer; an encoder, answer and end."""
        return ids[1:] if self.architecture == "encoder" else ids[:-1]


def positions(scheme: Scheme, key: Key[Array, ""], batch: Batch | Source) -> Positions:
    """The positions of a batch's tokens, from a scheme that is handed what it needs."""
    given = {} if scheme.needs is None else {scheme.needs: getattr(batch, scheme.needs)}
    return scheme(key, batch.lengths, batch.tokens.shape[1], len(batch.tokens), **given)


def at(symbols: Int[Array, "n"], place: Int[Array, "t"]) -> Int[Array, "t"]:
    """symbols[place] where there is such a place; anything elsewhere."""
    return symbols[jnp.clip(place, 0, len(symbols) - 1)]
