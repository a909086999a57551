"""Row and column of a picture that is read line by line.

    p_t = (floor(t / W), t mod W)

Of the encodings, `axial_rope` reads them. A picture of another width at the same W is another picture: the tokens alone
do not say how wide it is.
"""

import dataclasses

import jax.numpy as jnp

from posenc.positions import Positions
from posenc.schemes.base import Scheme, slots


@dataclasses.dataclass(frozen=True)
class Grid(Scheme):
    """Whole positions with two coordinates, shared by examples of the same length.

    Args:
        columns: tokens of a row, W.
    """

    axes = 2

    columns: int = 8

    def __post_init__(self):
        if self.columns < 1:
            raise ValueError(f"grid.columns is {self.columns}; expected 1 or more.")

    def __call__(self, key, lengths, size, batch=1):
        return Positions(jnp.stack(jnp.divmod(slots(lengths, size), self.columns), axis=-1))

    def bounds(self, extent):
        return 0, max((extent - 1) // self.columns, min(extent, self.columns) - 1)
