"""Li et al. 2021, arXiv:2106.02795, algorithm 1: x + GeLU([cos(p W_r) ; sin(p W_r)] / sqrt(F) W_1 + b_1) W_2 + b_2."""

import math

from tests.formulas.driver import Paper, through

CASES = [{}, {"features": 10, "hidden": 7, "gamma": 2.0}]


class Formula(Paper):
    def __init__(self, numbers, sizes, features=64, hidden=64, gamma=10.0):
        super().__init__(numbers, sizes)
        self.features, self.hidden = features, hidden  # gamma says what training begins with, and no more

    @classmethod
    def draw(cls, name, normal, options):
        # Angles of positions up to 300 are to have digits left in float32.
        return {"frequencies": 0.1 * normal, "down": normal / math.sqrt(len(normal))}.get(name, normal)

    def embed(self, x, position):
        frequencies = self.numbers["frequencies"]
        assert len(frequencies) == self.features // 2
        waves = [math.cos(position * f) for f in frequencies] + [math.sin(position * f) for f in frequencies]
        waves = [wave / math.sqrt(self.features) for wave in waves]
        inner = [a + b for a, b in zip(through(waves, self.numbers["up"]), self.numbers["up_bias"], strict=True)]
        assert len(inner) == self.hidden
        inner = [0.5 * a * (1 + math.erf(a / math.sqrt(2))) for a in inner]
        outer = through(inner, self.numbers["down"])
        return [a + b + c for a, b, c in zip(x, outer, self.numbers["down_bias"], strict=True)]
