"""Ke et al. 2020, arXiv:2006.15595, equations 7 (TUPE-A) and 8 (TUPE-R, with T5's bias)."""

import functools
import math

from tests.formulas.driver import Paper, between, dot, through

CASES = [
    {},
    {"relative": False},
    {"bidirectional": True},
    {"max_position": 9},
    {"max_position": 6, "relative": False, "heads": 3},
]


def bucket(r, bidirectional):
    """T5's bucket of a distance, of 32 that end at 128: the first ones are single distances, then powers spread."""
    side = 16 if bidirectional else 32
    ahead = bidirectional and r < 0
    r = abs(r) if bidirectional else max(r, 0)
    exact = side // 2
    if r >= exact:
        # Bucket exact + s holds what is at or behind exact (128 / exact)^(s / exact), both sides to that power.
        steps = [s for s in range(exact) if r**exact * exact**s >= exact**exact * 128**s]
        r = exact + max(steps)
    return r + (16 if ahead else 0)


class Formula(Paper):
    shrink = 1 / math.sqrt(2)

    def __init__(self, numbers, sizes, max_position=512, relative=True):
        super().__init__(numbers, sizes)
        self.max_position, self.relative = max_position, relative
        self.projected = functools.cache(self.projected)

    @classmethod
    def draw(cls, name, normal, options):
        return normal / math.sqrt(len(normal)) if name in ("query", "key") else normal

    def row(self, whole):
        """The row of a position; there is nothing past the table."""
        rows = self.numbers["rows"]
        return rows[whole] if 0 <= whole < self.max_position else rows[0] * math.nan

    def projected(self, which, head, position):
        """A position as a query or as a key."""
        return through(between(self.row, position), self.numbers[which], head)

    def bias(self, head, m, n):
        positions = dot(self.projected("query", head, m), self.projected("key", head, n))
        positions /= math.sqrt(2 * self.sizes["head_dim"])
        if not self.relative:
            return positions
        table = self.numbers["distance_bias.table"]
        return positions + between(lambda r: table[bucket(r, self.sizes["bidirectional"]), head], m - n)
