"""Chi et al. 2022, arXiv:2205.09921, equations 4 and 5: -r1 log(1 + r2 |m - n|), or -r1 |m - n|^r2 with 0 < r2 <= 2."""

import math

from tests.formulas.driver import Paper

CASES = [
    {},
    {"kernel": "power"},
    {"numbers": {"r1": [0.004, 1.1], "r2": [0.7, -0.3]}},
    {"kernel": "power", "numbers": {"r1": [0.4, -1.0], "r2": [0.0, 1.3]}},
    {"kernel": "power", "numbers": {"r1": [0.05, 0.02], "r2": [2.0, 2.6]}},
]


class Formula(Paper):
    def __init__(self, numbers, sizes, kernel="log"):
        super().__init__(numbers, sizes)
        self.kernel = kernel

    @classmethod
    def draw(cls, name, normal, options):
        return 0.2 + abs(normal)

    def bias(self, head, m, n):
        r1, r2 = (max(float(self.numbers[name][head]), 0.01) for name in ("r1", "r2"))  # as in the authors' code
        if self.kernel == "log":
            return -r1 * math.log(1 + r2 * abs(m - n))
        return -r1 * abs(m - n) ** min(r2, 2.0)
