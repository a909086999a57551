"""How RoPE is stretched to longer texts than it was trained on: other frequencies, and perhaps sharper attention.

    linear       theta_i / s                                     Chen et al. 2023, arXiv:2306.15595 (interpolation)
    ntk          theta_i s^(-2i/(d-2)), the base times s^(d/(d-2))   bloc97 2023, "NTK-aware"
    dynamic_ntk  ntk with s' = s length/original - (s - 1), from `original` on   emozilla 2023, transformers
    yarn         theta_i (g_i + (1 - g_i)/s), g_i = clip((r_i - 1)/(32 - 1), 0, 1)   Peng et al. 2023, arXiv:2309.00071
    llama3       theta_i ((1 - t_i)/s + t_i), t_i = clip((r_i - 1)/(4 - 1), 0, 1)    Llama 3 2024, arXiv:2407.21783
    longrope     theta_i / lambda_i, lambda searched for         Ding et al. 2024, arXiv:2402.13753, equation 3

r_i = original theta_i / 2 pi are the turns of a pair within the trained length, s is `factor`. YaRN multiplies queries
and keys by 0.1 ln s + 1 each, all their channels, LongRoPE by sqrt(1 + ln s / ln original). YaRN's published code, and
all that follow it, ramp along the number of the pair, between whole numbers ("pairs"), not along r as the paper has it
("turns").
The length to scale for is stated. Read off the input, as the name dynamic has it, it would change with every token, and
keys that were turned before it changed would not fit those turned later.
"""

import dataclasses
import math
from typing import Literal

import numpy as np

ScalingKind = Literal[None, "linear", "ntk", "dynamic_ntk", "yarn", "llama3", "longrope"]
FAST, SLOW = 32, 1  # YaRN: pairs with more turns than these stay, with fewer are interpolated
HIGH, LOW = 4, 1  # Llama 3: the same


@dataclasses.dataclass(frozen=True)
class Scaling:
    """A kind of scaling with its settings.

    Attributes:
        kind: one of those above, or None.
        factor: s, by how much; 1 or more.
        original: the trained length, in tokens.
        length: the length to scale for, in tokens, of dynamic_ntk; `original` where it is 0.
        rescale: lambda_i of each pair, of longrope.
        ramp: of yarn, along "turns" or along "pairs".

    Raises:
        ValueError: a setting that does not fit the kind.
    """

    kind: ScalingKind
    factor: float
    original: int
    length: int
    rescale: tuple[float, ...]
    ramp: Literal["turns", "pairs"]

    def __post_init__(self):
        if self.factor < 1 or (self.kind is None and self.factor != 1):
            expected = "1 or more" if self.factor < 1 else "1, or a kind of scaling in rope.scaling"
            raise ValueError(f"rope.factor is {self.factor}; expected {expected}.")
        if self.original < 2 or self.length < 0:
            raise ValueError(
                f"rope.original is {self.original} and rope.length {self.length}; expected lengths in tokens, original "
                "the trained one, 2 or more, and length 0 (the trained one) or more."
            )
        if (self.kind == "longrope") != bool(self.rescale) or any(one <= 0 for one in self.rescale):
            raise ValueError(
                f"rope.rescale is {self.rescale} and rope.scaling {self.kind!r}; longrope, and no other kind, needs a "
                "positive number for each pair of channels, found by a search over the model at hand."
            )
        if self.length and self.kind != "dynamic_ntk":
            raise ValueError(f"rope.length is {self.length}, which dynamic_ntk alone reads; scaling is {self.kind!r}.")

    def frequencies(self, plain: np.ndarray) -> np.ndarray:
        """The scaled frequencies, ``[pairs]``, of the plain ones.

        Raises:
            ValueError: there are too few pairs, or another number of them than of `rescale`.
        """
        pairs, s = len(plain), self.factor
        turns = self.original * plain / (2 * math.pi)
        if self.kind == "linear":
            return plain / s
        if self.kind in ("ntk", "dynamic_ntk"):
            if pairs < 2:
                raise ValueError(f"rope.scaling={self.kind!r} needs two pairs of channels or more; there is one.")
            if self.kind == "dynamic_ntk":
                s = s * max(self.length, self.original) / self.original - (s - 1)
            return plain * s ** (-np.arange(pairs) / (pairs - 1))
        if self.kind == "yarn":
            kept = np.clip((turns - SLOW) / (FAST - SLOW), 0, 1) if self.ramp == "turns" else self.along_pairs(turns)
            return plain * (kept + (1 - kept) / s)
        if self.kind == "llama3":
            kept = np.clip((turns - LOW) / (HIGH - LOW), 0, 1)
            return plain * (kept + (1 - kept) / s)
        if self.kind == "longrope":
            if len(self.rescale) != pairs:
                raise ValueError(
                    f"rope.rescale has {len(self.rescale)} numbers for {pairs} pairs of channels. Give one for each."
                )
            return plain / np.array(self.rescale)
        return plain

    def along_pairs(self, turns: np.ndarray) -> np.ndarray:
        """YaRN's ramp as published in code: linear in the number of the pair, from 1 down to 0."""
        pairs = np.arange(len(turns))
        slope = math.log(turns[0] / turns[-1]) / pairs[-1] if len(turns) > 1 else 1.0
        low = max(math.floor(math.log(turns[0] / FAST) / slope), 0)
        high = min(math.ceil(math.log(turns[0] / SLOW) / slope), 2 * len(turns) - 1)
        return 1 - np.clip((pairs - low) / (high - low if high != low else 0.001), 0, 1)

    @property
    def attention(self) -> float:
        """What queries and keys are multiplied by, each."""
        if self.kind == "yarn":
            return 0.1 * math.log(self.factor) + 1
        if self.kind == "longrope":
            return math.sqrt(1 + math.log(self.factor) / math.log(self.original))
        return 1.0
