"""Where logarithmic buckets of distances begin, in whole numbers: a float32 logarithm may miss an edge by one."""

from collections.abc import Iterable
from fractions import Fraction


def log_starts(exact: int, reach: int, shares: Iterable[Fraction], *, past: bool = False) -> list[int]:
    """For each share, ascending, the least whole distance at or past exact (reach/exact)^share.

    Args:
        exact: the distance at which the logarithm sets in, share 0.
        reach: the distance of share 1; greater than `exact`.
        shares: 0 or more, in ascending order.
        past: whether a distance that hits the bound exactly is not enough.
    """
    starts, r = [], exact
    for share in shares:
        bound = reach**share.numerator * exact**share.denominator  # r^b e^a against M^a e^b
        while r**share.denominator * exact**share.numerator < bound + past:
            r += 1
        starts.append(r)
    return starts
