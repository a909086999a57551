"""Li et al. 2024, arXiv:2310.04418, equation 8: f_h(psi(m - n) / psi(max(m, L))), psi(r) = log(c r + 1), its code."""

import math

from tests.formulas.driver import Paper, through

CASES = [
    {},
    {"threshold": 6.0},
    {"hidden": 5, "c": 0.5, "threshold": 2.0, "heads": 3},
    {"threshold": 6.0, "numbers": {"c": -0.1, "multiplier": -0.8}},
]
SMALL = 1e-6  # the paper's listing adds it to the denominator, and takes c r and the threshold without their signs


class Formula(Paper):
    def __init__(self, numbers, sizes, hidden=32, c=0.1, threshold=512.0):
        super().__init__(numbers, sizes)
        self.hidden, self.threshold = hidden, threshold  # c is where training begins

    @classmethod
    def more_places(cls, options):
        return {"before_the_start": ([-90, -8, 5], [-95, -90, -20, -8, 0, 5])}

    @classmethod
    def draw(cls, name, normal, options):
        if name in ("c", "multiplier"):  # positive, and not what training begins with
            return {"c": 0.1, "multiplier": 1.0}[name] * 1.3 ** math.tanh(normal)
        return normal / math.sqrt(len(normal)) if name == "down" else normal

    def bias(self, head, m, n):
        c = float(self.numbers["c"])
        last = max(m, abs(self.threshold * float(self.numbers["multiplier"])))
        share = math.log(abs(c * (m - n)) + 1) / (math.log(abs(c * last) + 1) + SMALL)
        inner = [max(a + b, 0.0) for a, b in zip(self.numbers["up"][0] * share, self.numbers["up_bias"], strict=True)]
        assert len(inner) == self.hidden
        return through(inner, self.numbers["down"])[head]
