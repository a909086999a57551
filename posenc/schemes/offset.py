"""Each example starts somewhere: consecutive positions, all shifted by one random amount.

    p_t = t + k,   k ~ U{0, ..., K}

SHAPE, Kiyono et al. 2021, arXiv:2109.05644, where K = 500. An absolute encoding so learns to look at distances; a
relative one is the same with and without. In testing positions start at 0 (the authors' code starts at K there: the
same to a model that has learnt what it should). A table needs K rows more than the longest sequence has tokens.
"""

import dataclasses

import jax

from posenc.positions import Positions
from posenc.schemes.base import Scheme, slots
from posenc.schemes.in_order import InOrder


@dataclasses.dataclass(frozen=True)
class Offset(Scheme):
    """Consecutive positions from a random start, drawn for each example.

    Args:
        max_offset: the last start, K.
    """

    max_offset: int = 500

    def __post_init__(self):
        if self.max_offset < 0:
            raise ValueError(f"offset.max_offset is {self.max_offset}; expected 0 or more.")

    def __call__(self, key, lengths, size, batch=1):
        start = jax.random.randint(key, (batch, 1), 0, self.max_offset + 1)
        return Positions(slots(lengths, size) + start, consecutive=True)

    def bounds(self, extent):
        return 0, extent - 1 + self.max_offset

    def tested(self):
        return InOrder()
