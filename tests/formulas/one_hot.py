"""The position as a vector with a single one, appended and projected back, or added; folklore."""

import math

from tests.formulas.driver import Paper, between, through

CASES = [
    {"max_position": 20},
    {},
    {"max_position": 6},
    {"max_position": 9, "combine": "add"},
    {"max_position": 12, "combine": "add"},
]


class Formula(Paper):
    def __init__(self, numbers, sizes, max_position=512, combine="append"):
        super().__init__(numbers, sizes)
        self.max_position, self.combine = max_position, combine

    @classmethod
    def draw(cls, name, normal, options):
        drawn = normal.copy()
        drawn[: normal.shape[1]] /= math.sqrt(normal.shape[1])
        return drawn

    def channel(self, i, position):
        """One channel of the vector; nothing is defined where there is no channel for the position."""

        def at_whole(whole):
            return float(whole == i) if 0 <= whole < self.max_position else math.nan

        return between(at_whole, position)

    def embed(self, x, position):
        ones = [self.channel(i, position) for i in range(self.max_position)]
        if self.combine == "append":
            return through([*x, *ones], self.numbers["projection"])
        return [value + (ones[i] if i < self.max_position else 0.0) for i, value in enumerate(x)]
