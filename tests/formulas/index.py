"""The bare position as one more channel, projected back; after Liu et al. 2018, arXiv:1807.03247."""

import math

from tests.formulas.driver import Paper, through

CASES = [{}, {"scale": 0.125}]


class Formula(Paper):
    def __init__(self, numbers, sizes, scale=1.0):
        super().__init__(numbers, sizes)
        self.scale = scale

    @classmethod
    def draw(cls, name, normal, options):
        # A position of 300 in float32 has no more digits than this.
        drawn = normal / math.sqrt(len(normal))
        drawn[-1] = 0.1 * normal[-1]
        return drawn

    def embed(self, x, position):
        return through([*x, self.scale * position], self.numbers["projection"])
