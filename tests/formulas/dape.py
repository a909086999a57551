"""Zheng et al. 2024, arXiv:2405.14722, equation 7: S = Q K^T / sqrt(d) + B + f([Q K^T / sqrt(d) ; B])."""

import math

from tests.formulas.driver import Paper, module, through

CASES = [
    {},
    {"of": "alibi", "hidden": 5},
    {"of": "fire", "heads": 3},
    {"of": "t5", "bidirectional": True},
    {"of": "kerple", "parts": {"kerple": {"kernel": "power"}}},
]


class Formula(Paper):
    def __init__(self, numbers, sizes, of="kerple", hidden=32, parts=None):
        super().__init__(numbers, sizes)
        inside = {name.removeprefix("of."): value for name, value in numbers.items() if name.startswith("of.")}
        self.of = module(of).Formula(inside, sizes, **(parts or {}).get(of, {}))
        self.hidden = hidden

    @classmethod
    def draw(cls, name, normal, options):
        if name.startswith("of."):
            of = options.get("of", "kerple")
            return module(of).Formula.draw(name.removeprefix("of."), normal, options.get("parts", {}).get(of, {}))
        return normal / math.sqrt(len(normal)) if name in ("up", "down") else normal

    def added(self, scene, head, m, n):
        heads = range(self.sizes["heads"])
        products = [scene.product(h, m, n) for h in heads]
        biases = [self.of.bias(h, scene.q_at[m], scene.k_at[n]) for h in heads]
        inner = through(products + biases, self.numbers["up"])
        inner = [a + b for a, b in zip(inner, self.numbers["up_bias"], strict=True)]
        assert len(inner) == self.hidden
        inner = [a if a > 0 else 0.01 * a for a in inner]
        return biases[head] + through(inner, self.numbers["down"])[head]
