"""Shaw et al. 2018, arXiv:1803.02155, equations 3 and 4: a row for each clipped distance, beside each key and value."""

import math

from tests.formulas.driver import Paper, between, dot

CASES = [{}, {"r_min": -2, "r_max": 3}, {"r_min": 0, "r_max": 1, "values": False}]


class Formula(Paper):
    def __init__(self, numbers, sizes, r_min=-16, r_max=16, values=True):
        super().__init__(numbers, sizes)
        self.r_min, self.r_max, self.values = r_min, r_max, values

    def row(self, table, r):
        """The row of a distance."""
        table = self.numbers[table]
        return between(lambda whole: table[max(self.r_min, min(whole, self.r_max)) - self.r_min], r)

    def added(self, scene, head, m, n):
        query = scene.q[m, head]
        return dot(query, self.row("key_rows", scene.q_at[m] - scene.k_at[n])) / math.sqrt(len(query))

    def value_row(self, m, n):
        return self.row("value_rows", m - n) if self.values else 0.0
