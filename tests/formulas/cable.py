"""Veisi et al. 2025, arXiv:2503.08067: sum_{l = n+1 .. m} softplus(w_h . x_l + b_h) is taken away."""

import math

from tests.formulas.driver import Paper, through

CASES = [{}, {"heads": 3, "width": 5}]


class Formula(Paper):
    causal_only = True

    @classmethod
    def draw(cls, name, normal, options):
        return normal / math.sqrt(len(normal)) if name == "step" else normal

    def added(self, scene, head, m, n):
        away = 0.0
        for token in scene.x[n + 1 : scene.slot(m) + 1]:
            away += math.log(1 + math.exp(through(token, self.numbers["step"])[head] + self.numbers["step_bias"][head]))
        return -away
