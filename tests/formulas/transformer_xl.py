"""Dai et al. 2019, arXiv:1901.02860, section 3.3: ((q_m + u) . k_n + (q_m + v) . W_R R_{m-n}) / sqrt(d)."""

import math

from tests.formulas.driver import Paper, dot, through

CASES = [{}, {"base": 50.0}, {"heads": 3, "width": 10}]


class Formula(Paper):
    def __init__(self, numbers, sizes, base=10000.0):
        super().__init__(numbers, sizes)
        self.base = base

    @classmethod
    def draw(cls, name, normal, options):
        return normal / math.sqrt(len(normal)) if name == "projection" else normal

    def added(self, scene, head, m, n):
        r, width = scene.q_at[m] - scene.k_at[n], self.sizes["width"]
        angles = [r / self.base ** (2 * i / width) for i in range(width // 2)]
        row = through([*map(math.sin, angles), *map(math.cos, angles)], self.numbers["projection"], head)
        u, v = self.numbers["u"][head], self.numbers["v"][head]
        key, query = scene.k[n, head], scene.q[m, head]
        return (dot(u, key) + dot([a + b for a, b in zip(query, v, strict=True)], row)) / math.sqrt(len(query))
