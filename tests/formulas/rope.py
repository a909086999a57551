"""Su et al. 2021, arXiv:2104.09864, equations 14 and 34: pair i is turned by position * base^(-2i/d).

`keep`: Barbero et al. 2024, arXiv:2410.06205. Scaling: linear arXiv:2306.15595, ntk and dynamic_ntk bloc97 and emozilla
2023, yarn arXiv:2309.00071, llama3 arXiv:2407.21783, longrope arXiv:2402.13753, equation 3.
"""

import math

from tests.formulas.driver import Paper

CASES = [
    {},
    {"layout": "interleaved", "base": 50.0},
    {"fraction": 0.5, "keep": 0.75},
    {"layout": "interleaved", "fraction": 0.5},
    {"keep": 0.0},
    {"scaling": "linear", "factor": 4.0, "original": 16},
    {"scaling": "ntk", "factor": 4.0, "original": 16},
    {"scaling": "ntk", "factor": 3.0, "original": 16, "base": 50.0, "fraction": 0.75, "keep": 0.7},
    {"scaling": "dynamic_ntk", "factor": 2.0, "original": 16, "length": 64},
    {"scaling": "dynamic_ntk", "factor": 2.0, "original": 16, "length": 16},
    {"scaling": "dynamic_ntk", "factor": 2.0, "original": 16, "length": 9},
    {"scaling": "yarn", "factor": 4.0, "original": 16},
    {"scaling": "yarn", "factor": 4.0, "original": 512, "base": 50.0, "layout": "interleaved"},
    {"scaling": "yarn", "factor": 8.0, "original": 512, "base": 50.0, "fraction": 0.75},
    {"scaling": "yarn", "factor": 8.0, "original": 512, "base": 50.0, "keep": 0.75},
    {"scaling": "yarn", "factor": 4.0, "original": 16, "ramp": "pairs"},
    {"scaling": "yarn", "factor": 4.0, "original": 512, "base": 50.0, "ramp": "pairs"},
    {"scaling": "yarn", "factor": 4.0, "original": 1000, "base": 10.0, "ramp": "pairs", "head_dim": 12},
    {"scaling": "llama3", "factor": 8.0, "original": 16},
    {"scaling": "llama3", "factor": 8.0, "original": 16, "base": 4.0, "keep": 0.75},
    {"scaling": "longrope", "factor": 4.0, "original": 16, "rescale": (1.0, 1.7, 2.5, 4.0)},
    {"scaling": "longrope", "factor": 4.0, "original": 16, "rescale": (1.5, 1.7, 2.5, 4.0), "start": 4},
]


class Formula(Paper):
    def __init__(
        self,
        numbers,
        sizes,
        base=10000.0,
        layout="halves",
        fraction=1.0,
        keep=1.0,
        scaling=None,
        factor=1.0,
        original=512,
        length=0,
        rescale=(),
        start=0,
        ramp="turns",
    ):
        super().__init__(numbers, sizes)
        self.base, self.layout, self.fraction, self.keep = base, layout, fraction, keep
        self.scaling, self.factor, self.original, self.length = scaling, factor, original, length
        self.rescale, self.start, self.ramp = rescale, start, ramp

    def frequency(self, i, turned, position):
        """By how much pair i of `turned` channels is turned from one position to the next."""
        theta, s = self.base ** (-2 * i / turned), self.factor
        turns = self.original * theta / (2 * math.pi)
        if self.scaling == "linear":
            return theta / s
        if self.scaling == "dynamic_ntk":
            s = s * self.length / self.original - (s - 1) if self.length > self.original else 1.0
        if self.scaling in ("ntk", "dynamic_ntk"):
            return (self.base * s ** (turned / (turned - 2))) ** (-2 * i / turned)
        if self.scaling == "yarn":
            kept = self.kept_by_pair(i, turned) if self.ramp == "pairs" else min(max((turns - 1) / (32 - 1), 0.0), 1.0)
            return theta * kept + theta / s * (1 - kept)
        if self.scaling == "llama3":
            wavelength = 2 * math.pi / theta
            if wavelength < self.original / 4:
                return theta
            if wavelength > self.original / 1:
                return theta / s
            smooth = (self.original / wavelength - 1) / (4 - 1)
            return (1 - smooth) * theta / s + smooth * theta
        if self.scaling == "longrope":
            return theta if self.start > 0 and position < self.start else theta / self.rescale[i]
        return theta

    def kept_by_pair(self, i, turned):
        """YaRN's code: the share of a pair's own frequency falls in a line, between two whole numbers of a pair."""

        def pair_with(turns):
            return turned * math.log(self.original / (turns * 2 * math.pi)) / (2 * math.log(self.base))

        low, high = max(math.floor(pair_with(32)), 0), min(math.ceil(pair_with(1)), turned - 1)
        return 1 - min(max((i - low) / (high - low if high != low else 0.001), 0.0), 1.0)

    def sharpness(self):
        """What queries and keys are each multiplied with."""
        if self.scaling == "yarn":
            return 0.1 * math.log(self.factor) + 1
        if self.scaling == "longrope":
            return math.sqrt(1 + math.log(self.factor) / math.log(self.original))
        return 1.0

    def turn(self, x, position):
        turned = round(self.fraction * len(x))
        for i in range(int(self.keep * (turned // 2))):
            a, b = (2 * i, 2 * i + 1) if self.layout == "interleaved" else (i, i + turned // 2)
            angle = position * self.frequency(i, turned, position)
            x[a], x[b] = (
                x[a] * math.cos(angle) - x[b] * math.sin(angle),
                x[b] * math.cos(angle) + x[a] * math.sin(angle),
            )
        return x * self.sharpness()

    def turn_query(self, q, position):
        return self.turn(q, position)

    def turn_key(self, k, position):
        return self.turn(k, position)
