"""What a task is, and how its examples are laid out for a decoder and for an encoder.

A task draws ONE example of a given length: an input and its answer. The length may be traced; arrays are as long as the
longest length needs, and what lies past the true length is never looked at. Layout happens here, once for all tasks:

                 input      answer and end
    decoder      3 1 2 |    1 2 3              tokens: the separator, then what has been written so far
    targets      . . . 1    2 3 $              the next token: loss on the answer and its end
    encoder      3 1 2 _    _ _ _              tokens: blanks
    targets      . . . 1    2 3 $              what belongs on each blank

Both have the same length, the same targets and the same scored slots; only the tokens behind the input differ.
"""

import abc
import dataclasses
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp

from posenc.shapes import Array, Bool, Int, Key

Architecture = Literal["decoder", "encoder"]


class Task(abc.ABC):
    """The rule that turns an input into its answer. Options are the fields of the dataclass that implements it."""

    version: ClassVar[int] = 1  # part of a cell's identity: raise it whenever the drawn examples change

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

    @abc.abstractmethod
    def chance(self, length: int) -> float:
        """The exact match of the best guess that does not look at the input."""


class Batch(NamedTuple):
    """What a model is trained and tested on.

    Attributes:
        tokens: what it reads.
        targets: what it should say.
        scored: where that counts: the answer, and its end.
        lengths: how many tokens of each example are real.
    """

    tokens: Int[Array, "b t"]
    targets: Int[Array, "b t"]
    scored: Bool[Array, "b t"]
    lengths: Int[Array, "b"]


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

    def batch(self, key: Key[Array, ""], lengths: Int[Array, "b"], longest: int) -> Batch:
        """One example for each length, padded to the tokens that `longest` takes."""
        keys = jax.random.split(key, len(lengths))
        return Batch(*jax.vmap(lambda one, length: self.example(one, length, longest))(keys, lengths))

    def example(self, key: Key[Array, ""], length: Int[Array, ""], longest: int):
        """Tokens, targets, scored and length of one example; padded with the end token."""
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
        return tokens, targets, (place >= 0) & (slot < real), jnp.asarray(real)


def at(symbols: Int[Array, "n"], place: Int[Array, "t"]) -> Int[Array, "t"]:
    """symbols[place] where there is such a place; anything elsewhere."""
    return symbols[jnp.clip(place, 0, len(symbols) - 1)]
