"""Heo et al. 2024, arXiv:2403.13298, section 3.1: each axis turns a share of the channels, with angles of its own."""

import math

from tests.formulas.driver import Paper

CASES = [{}, {"base": 100.0}, {"base": 50.0, "head_dim": 12}]
PLANE = ([[[1, 0], [1, 1], [1, 7]]], [[[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 7]]])
HALVES = (
    [[[1.5, -3.0], [0.25, 1.0], [40.0, 0.3]]],
    [[[0.5, 2.0], [1.0, -0.7], [9.0, 2.5], [1.5, -3.0], [0, 1], [40, 3]]],
)
SPACE = ([[[1, 0, 5], [1, 1, -2], [30, 7, 0]]], [[[0, 0, 9], [0, 1, 1], [0, 2, 4], [1, 0, 5], [1, 1, -2], [30, 7, 0]]])


class Formula(Paper):
    def __init__(self, numbers, sizes, base=10000.0):
        super().__init__(numbers, sizes)
        self.base = base

    @classmethod
    def more_places(cls, options):
        examples = tuple(
            [[[axis + shift for axis in token] for token in side[0]] for shift in (0, 3, 11)] for side in PLANE
        )
        return {"plane": PLANE, "planes": examples, "halves": HALVES} | (
            {"space": SPACE} if options.get("head_dim") == 12 else {}
        )

    def turn(self, x, position):
        place = position if isinstance(position, list) else [position]
        share = len(x) // len(place)
        for axis, coordinate in enumerate(place):
            for i in range(share // 2):
                a = axis * share + 2 * i
                angle = coordinate * self.base ** (-2 * i / share)
                x[a], x[a + 1] = (
                    x[a] * math.cos(angle) - x[a + 1] * math.sin(angle),
                    x[a] * math.sin(angle) + x[a + 1] * math.cos(angle),
                )
        return x

    def turn_query(self, q, position):
        return self.turn(q, position)

    def turn_key(self, k, position):
        return self.turn(k, position)
