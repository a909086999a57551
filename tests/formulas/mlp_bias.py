"""A small network of the distance, Wang et al. 2021, arXiv:2108.00154, or of its logarithm, Liu et al., 2111.09883."""

import functools
import math

from tests.formulas.driver import Paper, through

CASES = [{}, {"log": True}, {"hidden": 5, "heads": 3}, {"hidden": 5, "log": True}]


def silu(values, biases):
    """x sigma(x) of each sum."""
    return [(a + b) / (1 + math.exp(-a - b)) for a, b in zip(values, biases, strict=True)]


class Formula(Paper):
    def __init__(self, numbers, sizes, hidden=32, log=False):
        super().__init__(numbers, sizes)
        self.hidden, self.log = hidden, log
        self.outputs = functools.cache(self.outputs)

    @classmethod
    def draw(cls, name, normal, options):
        if name == "first":  # of distances up to 300, unless of their logarithms
            return normal if options.get("log") else 0.05 * normal
        return normal / math.sqrt(len(normal)) if name in ("second", "last") else normal

    def outputs(self, r):
        """What the network gives for a distance, to each head."""
        if self.log:
            r = math.copysign(math.log(1 + abs(r)), r)
        inner = silu(through([r], self.numbers["first"]), self.numbers["first_bias"])
        assert len(inner) == self.hidden
        inner = silu(through(inner, self.numbers["second"]), self.numbers["second_bias"])
        return through(inner, self.numbers["last"])

    def bias(self, head, m, n):
        return self.outputs(m - n)[head]
