"""A number for each head and clipped distance, as in Liu et al. 2021, arXiv:2103.14030, equation 4, on a line."""

from tests.formulas.driver import Paper, between

CASES = [{}, {"bidirectional": True}, {"max_distance": 3}, {"max_distance": 4, "bidirectional": True, "heads": 3}]


class Formula(Paper):
    def __init__(self, numbers, sizes, max_distance=512):
        super().__init__(numbers, sizes)
        self.max_distance = max_distance

    def bias(self, head, m, n):
        first = -self.max_distance if self.sizes["bidirectional"] else 0  # nothing ahead, in a causal model
        table = self.numbers["table"]
        return between(lambda whole: table[max(first, min(whole, self.max_distance)) - first, head], m - n)
