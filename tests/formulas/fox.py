"""Lin et al. 2025, arXiv:2503.02130, equation 6: sum_{l = n+1 .. m} log sigma(w_h . x_l + b_h) is added."""

import math

from tests.formulas.driver import Paper, through

CASES = [{}, {"heads": 3, "width": 5}]


class Formula(Paper):
    causal_only = True

    @classmethod
    def draw(cls, name, normal, options):
        return normal / math.sqrt(len(normal)) if name == "gate" else normal

    def added(self, scene, head, m, n):
        total = 0.0
        for token in scene.x[n + 1 : scene.slot(m) + 1]:
            gate = through(token, self.numbers["gate"])[head] + self.numbers["gate_bias"][head]
            total += math.log(1 / (1 + math.exp(-gate)))
        return total
