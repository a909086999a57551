"""Golovneva et al. 2024, arXiv:2405.18719, equations 3 to 5: positions counted by gates, and rows read between."""

import math

from tests.formulas.driver import Paper, between, dot

CASES = [{}, {"scaled": False}, {"max_position": 3}, {"max_position": 2}, {"heads": 3, "head_dim": 5}]


class Formula(Paper):
    causal_only = True

    def __init__(self, numbers, sizes, max_position=64, scaled=True):
        super().__init__(numbers, sizes)
        self.scaled = scaled
        self.max_position = max_position

    def added(self, scene, head, m, n):
        counted = 0.0
        for j in scene.seen(m):
            if j >= n:
                counted += 1 / (1 + math.exp(-scene.product(head, m, j)))
        row = between(lambda whole: self.numbers["rows"][whole], min(counted, self.max_position - 1))
        return dot(scene.q[m, head], row) / (math.sqrt(len(row)) if self.scaled else 1)
