"""He et al. 2020, arXiv:2006.03654, equation 4, with the logarithmic buckets of the code's second version."""

import functools
import math

from tests.formulas.driver import Paper, between, dot, through

CASES = [
    {"buckets": 16, "max_distance": 40},
    {},
    {"p2c": "query_to_key"},
    {"buckets": 16, "max_distance": 40, "p2c": "query_to_key"},
    {"buckets": 4, "max_distance": 9},
    {"buckets": 8, "max_distance": 6},
    {"buckets": 12, "max_distance": 100, "heads": 3, "width": 5},
]


def bucket(r, buckets, max_distance):
    """The published rule in whole numbers. With M = buckets / 2, beyond M it is

        M + ceil(log(r / M) / log((max_distance - 1) / M) (M - 1)),

    and that ceiling is the least s with (r / M)^(M-1) <= ((max_distance - 1) / M)^s.
    """
    middle = buckets // 2
    if abs(r) <= middle:
        return r
    # The logarithm, which may be wrong by a rounding, says where to begin to look.
    guess = math.log(abs(r) / middle) / math.log((max_distance - 1) / middle) * (middle - 1)
    s = max(math.floor(guess) - 1, 0)
    while abs(r) ** (middle - 1) * middle**s > (max_distance - 1) ** s * middle ** (middle - 1):
        s += 1
    return (middle + s) * (1 if r > 0 else -1)


def row_of(r, buckets, max_distance):
    """Which of the 2 x buckets rows belongs to a distance."""
    return max(0, min(bucket(r, buckets, max_distance) + buckets, 2 * buckets - 1))


class Formula(Paper):
    shrink = 1 / math.sqrt(3)

    def __init__(self, numbers, sizes, max_distance=512, buckets=256, p2c="key_to_query"):
        super().__init__(numbers, sizes)
        self.max_distance, self.buckets, self.p2c = max_distance, buckets, p2c
        self.projected = functools.cache(self.projected)

    @classmethod
    def draw(cls, name, normal, options):
        return normal if name == "rows" else normal / math.sqrt(len(normal))

    def projected(self, which, head, r):
        """The row of a distance, projected as if it were a query or a key."""
        row = between(lambda whole: self.numbers["rows"][row_of(whole, self.buckets, self.max_distance)], r)
        return through(row, self.numbers[which], head)

    def added(self, scene, head, m, n):
        query, key = scene.q[m, head], scene.k[n, head]
        r = scene.q_at[m] - scene.k_at[n]
        content_to_position = dot(query, self.projected("key", head, r))
        position_to_content = dot(key, self.projected("query", head, -r if self.p2c == "key_to_query" else r))
        return (content_to_position + position_to_content) / math.sqrt(3 * len(query))
