"""Gehring et al. 2017, arXiv:1705.03122, section 3.1: x + W[position]; there is nothing past the table."""

import math

from tests.formulas.driver import Paper, between

CASES = [{}, {"max_position": 9}]


class Formula(Paper):
    def __init__(self, numbers, sizes, max_position=512):
        super().__init__(numbers, sizes)
        self.max_position = max_position

    def embed(self, x, position):
        rows = self.numbers["rows"]

        def number(i, whole):
            return rows[whole, i] if 0 <= whole < self.max_position else math.nan

        return [value + between(lambda whole, i=i: number(i, whole), position) for i, value in enumerate(x)]
