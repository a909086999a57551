"""The one interface of position schemes: which position each token gets.

A scheme is a small callable that gives `size` slots positions, of which the first `lengths` of each example are real
tokens. Padding carries the position of the last real token, so that no encoding is ever asked about a position that no
token has. The law of what it draws depends on the lengths alone, never on `size`.
"""

import abc
from typing import ClassVar, Literal

import jax.numpy as jnp

from posenc.positions import Positions
from posenc.shapes import Array, Int, Key

Needed = Literal["numbers", "groups"]


class Scheme(abc.ABC):
    """Which positions tokens get. Options are the fields of the dataclass that implements it.

    Attributes:
        needs: what it must be told about the tokens, beyond how many there are, by the keyword of this name:
            "numbers", ``[b, t]``, which number, counted from 1, a token is a digit of, and 0 where of none; "groups",
            whole numbers ``[b, t]``, equal for tokens that belong together; None, nothing.
        axes: of the positions it gives; 1 on a line, 2 on a grid.
    """

    needs: ClassVar[Needed | None] = None
    axes: ClassVar[int] = 1

    @abc.abstractmethod
    def __call__(self, key: Key[Array, ""], lengths: Int[Array, "#b"], size: int, batch: int = 1) -> Positions:
        """Positions ``[1|b, size]``, or ``[1|b, size, axes]`` on a grid; the leading axis is 1 where all share them.

        Args:
            key: where random positions are drawn from.
            lengths: how many tokens of each example are real, 1 or more; one number where all are as long.
            size: slots, the longest length or more.
            batch: examples.
        """

    @abc.abstractmethod
    def bounds(self, extent: int) -> tuple[float, float]:
        """The lowest and the highest position that may come, both included.

        Args:
            extent: how many tokens there are; digits of the longest number, for a scheme that needs to know
                the numbers; different ids, for one that needs the groups.

        Raises:
            ValueError: that many have no room.
        """

    def tested(self) -> "Scheme":
        """The scheme that a model trained with this one is tested with, in its paper."""
        return self


def slots(lengths: Int[Array, "#b"], size: int) -> Int[Array, "#b t"]:
    """0, 1, 2, ... for the real tokens of each example, and then its last one again."""
    return jnp.minimum(jnp.arange(size)[None], lengths[:, None] - 1)


def check_room(option: str, there: int, needed: int, what: str = "tokens") -> None:
    """Raises ValueError where there are fewer positions, set by an option, than are needed."""
    if needed > there:
        raise ValueError(
            f"{option} is {there}, but sequences of {needed} {what} need as many different positions. "
            f"Set {option.rpartition('.')[2]} to {needed} or more, or use shorter sequences."
        )
