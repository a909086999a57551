"""Huang et al. 2018, arXiv:1809.04281, section 3.4: s_mn = (q_m . k_n + q_m . E_h[m - n]) / sqrt(d)."""

import math

import numpy as np

from tests.formulas.driver import Paper, between, dot

CASES = [
    {},
    {"bidirectional": True},
    {"max_distance": 4},
    {"max_distance": 4, "bidirectional": True},
    {"max_distance": 1, "bidirectional": True},
]


class Formula(Paper):
    def __init__(self, numbers, sizes, max_distance=512):
        super().__init__(numbers, sizes)
        self.max_distance = max_distance

    def row(self, head, whole):
        """Rows are told apart from the furthest key ahead to the furthest behind; beyond, nothing is added."""
        first = 1 - self.max_distance if self.sizes["bidirectional"] else 0
        if not first <= whole < self.max_distance:
            return np.zeros(self.sizes["head_dim"])
        return self.numbers["rows"][head, whole - first]

    def added(self, scene, head, m, n):
        row = between(lambda whole: self.row(head, whole), scene.q_at[m] - scene.k_at[n])
        return dot(scene.q[m, head], row) / math.sqrt(len(row))
