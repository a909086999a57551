"""Vaswani et al. 2017, arXiv:1706.03762, section 3.5: PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos."""

import math

from tests.formulas.driver import Paper

CASES = [{}, {"base": 50.0, "layout": "halves"}, {"learned_scale": True}]


class Formula(Paper):
    def __init__(self, numbers, sizes, base=10000.0, layout="interleaved", learned_scale=False):
        super().__init__(numbers, sizes)
        self.base, self.layout, self.learned_scale = base, layout, learned_scale

    def embed(self, x, position):
        pairs = len(x) // 2
        scale = float(self.numbers["scale"]) if self.learned_scale else 1.0
        for i in range(pairs):
            sine, cosine = (2 * i, 2 * i + 1) if self.layout == "interleaved" else (i, pairs + i)
            x[sine] += scale * math.sin(position / self.base ** (2 * i / len(x)))
            x[cosine] += scale * math.cos(position / self.base ** (2 * i / len(x)))
        return x
