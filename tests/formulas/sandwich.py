"""Chi et al. 2023, arXiv:2212.10356, section 5: (1 / c_h) sum_i cos((m - n) / base^(2i/D)), c_h = 8 h / H."""

import math

from tests.formulas.driver import Paper

CASES = [{}, {"channels": 6, "base": 50.0}, {"channels": 16, "heads": 3}]


class Formula(Paper):
    def __init__(self, numbers, sizes, channels=128, base=10000.0):
        super().__init__(numbers, sizes)
        self.channels, self.base = channels, base

    def bias(self, head, m, n):
        waves = [math.cos((m - n) / self.base ** (2 * i / self.channels)) for i in range(self.channels // 2)]
        return sum(waves) * self.sizes["heads"] / (8 * (head + 1))
