"""Wu et al. 2021, arXiv:2107.14222: equation 18 for the pieces, section 3.2 for the modes; on a line."""

import math
from fractions import Fraction

from tests.formulas.driver import Paper, between, dot

CASES = [
    {"alpha": 2, "beta": 5, "gamma": 9, "on": ("q", "k", "v")},
    {},
    {"on": ("q",)},
    {"on": ("v",)},
    {"on": ("k", "q")},
    {"mode": "bias"},
    {"mode": "bias", "on": ("q",)},
    {"mode": "bias", "on": ("q", "k"), "alpha": 1, "beta": 4, "gamma": 20},
    {"alpha": 2, "beta": 3, "gamma": 8, "on": ("k", "v"), "heads": 3},
]


def piece(r, alpha, beta, gamma):
    """Equation 18 for a whole distance, exactly: rounding to the nearest, and to the even one from half way.

    alpha + t rounds up to s or more as soon as t >= s - alpha - 1/2, and t = log(r / alpha) / log(gamma / alpha)
    (beta - alpha) does so where (r / alpha)^(2 (beta - alpha)) >= (gamma / alpha)^(2 (s - alpha) - 1).
    """
    if abs(r) <= alpha:
        return r
    power, size = Fraction(abs(r), alpha) ** (2 * (beta - alpha)), alpha
    while size < beta:
        edge = Fraction(gamma, alpha) ** (2 * (size + 1 - alpha) - 1)
        if power < edge or (power == edge and size % 2 == 0):
            break
        size += 1
    return size * (1 if r > 0 else -1)


class Formula(Paper):
    def __init__(self, numbers, sizes, alpha=8, beta=16, gamma=64, mode="contextual", on=("k",)):
        super().__init__(numbers, sizes)
        self.alpha, self.beta, self.gamma, self.mode, self.on = alpha, beta, gamma, mode, on

    def read(self, table, r):
        """The row or the number of a distance."""
        rows = self.numbers[table]
        return between(lambda whole: rows[piece(whole, self.alpha, self.beta, self.gamma) + self.beta], r)

    def added(self, scene, head, m, n):
        r, total = scene.q_at[m] - scene.k_at[n], 0.0
        if self.mode == "bias":
            total += self.read("k_rows", r) if "k" in self.on else 0.0
            total += self.read("q_rows", -r) if "q" in self.on else 0.0
            return total
        root = math.sqrt(scene.q.shape[-1])
        total += dot(scene.q[m, head], self.read("k_rows", r)) / root if "k" in self.on else 0.0
        total += dot(scene.k[n, head], self.read("q_rows", -r)) / root if "q" in self.on else 0.0
        return total

    def value_row(self, m, n):
        return self.read("v_rows", m - n) if "v" in self.on else 0.0
