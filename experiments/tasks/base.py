"""What a task is, and how its examples are laid out for a decoder and for an encoder.

A task draws ONE example of a given length: an input and its answer. The length may be traced; arrays are as long as the
longest length needs, and what lies past the true length is never looked at. Layout happens here, once for all tasks:

                 input      answer and end
    decoder      3 1 2 |    1 2 3              tokens: the separator, then what has been written so far
    targets      . . . 1    2 3 $              the next token: loss on the answer and its end
    encoder      3 1 2 _    _ _ _              tokens: blanks
    targets      . . . 1    2 3 $              what belongs on each blank

Both have the same length, the same targets and the same scored slots; only the tokens behind the input differ.

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

Architecture = Literal["decoder", "encoder"]


class Task(abc.ABC):
    """The rule that turns an input into its answer. Options are the fields of the dataclass that implements it."""

    version: ClassVar[int] = 1  # part of a cell's identity: raise it whenever the drawn examples change
    digits: ClassVar[range] = range(0)  # the symbols that are digits of numbers

    @property
    @abc.abstractmethod
    def symbols(self) -> int:
        """How many different symbols inputs and answers are made of: 0 .. symbols-1."""

    @abc.abstractmethod
    def sample(
        self, key: Key[Array, ""], length: Int[Array, ""] | int, longest: int
    ) -> tuple[Int[Array, "i"], Int[Array, "a"]]:
        """One input and its answer, in arrays of `input_length(longest)` and `answer_length(longest)` symbols.

        The example depends on key and length, never on `longest`.
        """

    def input_length(self, length):
        """Symbols of the input, for a whole or a traced length."""
        return length

    def answer_length(self, length):
        """Symbols of the answer, without its end."""
        return length

    def longest_number(self, length: int) -> int:
        """Digits of the longest number in input or answer, where there are digits."""
        return max(self.input_length(length), self.answer_length(length))

    def groups(self, length: Int[Array, ""] | int, longest: int) -> tuple[Int[Array, "i"], Int[Array, "a+2"]] | None:
        """Ids, equal for tokens that belong together: of the input; of separator, answer and end. None, no such thing.

        In arrays for `longest`, where what lies past the true length is never looked at.
        """
        return None

    @abc.abstractmethod
    def chance(self, length: int) -> float:
        """The exact match of the best guess that does not look at the input."""


class Batch(NamedTuple):
    """What a model is trained and tested on.

    Attributes:
        tokens: what it reads.
        targets: what it should say.
        scored: where that counts: the answer, and its end.
        lengths: how many tokens of each example are real; one number where all are equally long.
        slots: those of the answer and its end, where the model is asked, and of padding where an answer is short.
        numbers: which number, counted from 1, a token is a digit of; 0 where of none; None where there are no digits.
        groups: equal ids for tokens that belong together; None where the task does not say.
    """

    tokens: Int[Array, "b t"]
    targets: Int[Array, "b t"]
    scored: Bool[Array, "b t"]
    lengths: Int[Array, "#b"]
    slots: Int[Array, "#b a"]
    numbers: Int[Array, "b t"] | None = None
    groups: Int[Array, "b t"] | None = None

    def alike(self) -> "Batch":
        """The same, told that all examples are equally long: what depends on the length is done once."""
        return self._replace(lengths=self.lengths[:1], slots=self.slots[:1])

    def asked(self) -> tuple[Int[Array, "b a"], Bool[Array, "b a"]]:
        """Targets, and whether they count, in the slots where the model is asked."""
        return taken(self.targets, self.slots), taken(self.scored, self.slots)


@dataclasses.dataclass(frozen=True)
class Layout:
    """A task in the form that an architecture reads.

    Args:
        task: draws the examples.
        architecture: "decoder" or "encoder".
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
        """Tokens of an example of this length, for a whole or a traced length."""
        return self.task.input_length(length) + self.task.answer_length(length) + self.end

    def extent(self, length: int, needs: Needed | None) -> int | None:
        """How much a position scheme has to number at this length; None where it needs what the task does not give.

        Tokens; digits of the longest number, for a scheme that needs to know the numbers; ids, for the groups.
        """
        if needs == "numbers":
            return self.task.longest_number(length) + (self.architecture == "encoder") if self.task.digits else None
        if needs == "groups":
            ids = self.groups(length, length)
            return None if ids is None else int(ids.max() - ids.min()) + 1
        return self.tokens(length)

    def batch(self, key: Key[Array, ""], lengths: Int[Array, "b"], longest: int) -> Batch:
        """One example for each length, padded to the tokens that `longest` takes."""
        keys = jax.random.split(key, len(lengths))
        return Batch(*jax.vmap(lambda one, length: self.example(one, length, longest))(keys, lengths))

    def example(self, key: Key[Array, ""], length: Int[Array, ""], longest: int):
        """The fields of a batch for one example; padded with the end token."""
        question, answer = self.task.sample(key, length, longest)
        asked, answered = self.task.input_length(length), self.task.answer_length(length)
        slot = jnp.arange(self.tokens(longest))
        place = slot - asked  # in the answer
        targets = jnp.where(place < answered, at(answer, place), self.special["end"])
        if self.architecture == "decoder":
            behind = jnp.where(place == 0, self.special["separator"], at(answer, place - 1))
        else:
            behind = jnp.full_like(targets, self.special["blank"])
        real = self.tokens(length)
        tokens = jnp.where(slot < real, jnp.where(place < 0, at(question, slot), behind), self.special["end"])
        scored = (place >= 0) & (slot < real)
        slots = asked + jnp.arange(self.task.answer_length(longest) + self.end)
        numbers, groups = self.numbers(tokens, place), self.groups(length, longest)
        return tokens, targets, scored, jnp.asarray(real), slots, numbers, groups

    def numbers(self, tokens: Int[Array, "t"], place: Int[Array, "t"]) -> Int[Array, "t"] | None:
        """The digits of each run of them. A blank counts as one, as a digit may belong there; the answer is a run."""
        if not self.task.digits:
            return None
        digit = jnp.isin(tokens, jnp.array([*self.task.digits, self.special["blank"]]))
        begins = digit & (~jnp.roll(digit, 1).at[0].set(False) | (place == 0))
        return jnp.where(digit, jnp.cumsum(begins), 0)

    def groups(self, length: Int[Array, ""] | int, longest: int) -> Int[Array, "t"] | None:
        """The task's ids of the tokens: a decoder reads separator and answer, an encoder writes answer and end."""
        ids = self.task.groups(length, longest)
        if ids is None:
            return None
        place = jnp.arange(self.tokens(longest)) - self.task.input_length(length)
        behind = at(ids[1], place + (self.architecture == "encoder"))
        return jnp.where(place < 0, at(ids[0], place + self.task.input_length(length)), behind)


def positions(scheme: Scheme, key: Key[Array, ""], batch: Batch) -> Positions:
    """The positions of a batch's tokens, from a scheme that is handed what it needs."""
    given = {} if scheme.needs is None else {scheme.needs: getattr(batch, scheme.needs)}
    return scheme(key, batch.lengths, batch.tokens.shape[1], len(batch.tokens), **given)


def at(symbols: Int[Array, "n"], place: Int[Array, "t"]) -> Int[Array, "t"]:
    """symbols[place] where there is such a place; anything elsewhere."""
    return symbols[jnp.clip(place, 0, len(symbols) - 1)]
