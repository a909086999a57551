"""Raffel et al. 2020, arXiv:1910.10683, section 2.1: a number for each head and bucket of distances."""

import math
from fractions import Fraction

from tests.formulas.driver import Paper, between

CASES = [
    {},
    {"bidirectional": True},
    {"buckets": 10, "max_distance": 9, "bidirectional": True},
    {"buckets": 5, "max_distance": 21},
    {"scaled": False},
]


def bucket(r, buckets, max_distance, bidirectional):
    """The published rule, in exact fractions. Its sign is the other way round: there, keys ahead are positive."""
    first = 0
    if bidirectional:
        buckets //= 2
        first, r = (buckets if r < 0 else 0), abs(r)
    exact, r = buckets // 2, max(r, 0)
    if r < exact:
        return first + r
    # floor(log(r / exact) / log(max_distance / exact) * slots) is the greatest step whose power is not past r's.
    slots, step = buckets - exact, 0
    while step + 1 < slots and Fraction(r, exact) ** slots >= Fraction(max_distance, exact) ** (step + 1):
        step += 1
    return first + exact + step


class Formula(Paper):
    def __init__(self, numbers, sizes, buckets=32, max_distance=128, scaled=True):
        super().__init__(numbers, sizes)
        self.shrink = 1.0 if scaled else math.sqrt(sizes["head_dim"])  # the code does not divide the product
        self.buckets, self.max_distance = buckets, max_distance

    def bias(self, head, m, n):
        def number(whole):
            place = bucket(whole, self.buckets, self.max_distance, self.sizes["bidirectional"])
            return self.numbers["table"][place, head]

        return between(number, m - n)
