"""Press et al. 2022, arXiv:2108.12409, section 3: -s_h |m - n| is added, s_h = 2^(-8h/H)."""

import math

from tests.formulas.driver import Paper

CASES = [
    {},
    {"heads": 3},
    {"heads": 6},
    {"heads": 12, "slopes": "geometric"},
    {"heads": 12},
    {"slopes": "geometric", "heads": 3},
    {"slopes": "learned"},
    {"bidirectional": True},
    {"encoder": "asymmetric", "bidirectional": True},
    {"encoder": "asymmetric", "bidirectional": True, "heads": 3, "slopes": "learned"},
]


def geometric(heads):
    """The formula of section 3."""
    return [2.0 ** (-8 * (head + 1) / heads) for head in range(heads)]


def published(heads):
    """The authors' code: those of the power of two below, then every other one of the power above."""
    below = 1
    while 2 * below <= heads:
        below *= 2
    return geometric(below) + geometric(2 * below)[::2][: heads - below]


class Formula(Paper):
    def __init__(self, numbers, sizes, slopes="published", encoder="symmetric"):
        super().__init__(numbers, sizes)
        self.kind, self.encoder = slopes, encoder

    def bias(self, head, m, n):
        heads = self.sizes["heads"]
        if self.kind == "learned":
            slope = self.numbers["slopes"][head]
        else:
            slope = (geometric if self.kind == "geometric" else published)(heads)[head]
        nearer = 0.5 if self.encoder == "asymmetric" and n < m else 0.0
        return -slope * (math.fabs(m - n) - nearer)
