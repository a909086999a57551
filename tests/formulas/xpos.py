"""Sun et al. 2022, arXiv:2212.10554, section 3.2: q_m . k_n turned by (m - n) theta_i, times zeta_i^((m - n) / s)."""

import math

from tests.formulas.driver import Paper

CASES = [
    {},
    {"base": 50.0, "scale_base": 30.0, "gamma": 0.7},
    {"scale_base": 64.0, "heads": 3, "head_dim": 6},
]


class Formula(Paper):
    causal_only = True
    shrink = 0.0  # of the plain product nothing is left; the one of distances takes its place

    def __init__(self, numbers, sizes, base=10000.0, scale_base=512.0, gamma=0.4):
        super().__init__(numbers, sizes)
        self.base, self.scale_base, self.gamma = base, scale_base, gamma

    @classmethod
    def more_places(cls, options):
        # What is wide goes with how fast the pairs fade; the middle is far from 0.
        scale = options.get("scale_base", 512.0) / 512
        queries, keys = [26_000, 49_900, 54_500], [25_000, 26_100, 25_990, 26_000, 49_800, 54_700]
        return {"wide": ([round(scale * at) for at in queries], [round(scale * at) for at in keys])}

    def added(self, scene, head, m, n):
        # The product of both, in which only the distance is left: positions far out need no large numbers.
        q, k, r, total = scene.q[m, head], scene.k[n, head], scene.q_at[m] - scene.k_at[n], 0.0
        pairs = len(q) // 2
        for i in range(pairs):
            zeta, angle = (i / pairs + self.gamma) / (1 + self.gamma), r * self.base ** (-i / pairs)
            query, key = complex(q[2 * i], q[2 * i + 1]), complex(k[2 * i], k[2 * i + 1])
            turned = query * key.conjugate() * complex(math.cos(angle), math.sin(angle))
            total += zeta ** (r / self.scale_base) * turned.real
        return total / math.sqrt(len(q))
