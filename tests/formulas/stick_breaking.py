"""Tan et al. 2024, arXiv:2410.17980, equation 1: A_mn = sigma(s_mn) prod_{n < j < m} (1 - sigma(s_mj)), n < m."""

import math

from tests.formulas.driver import Paper

CASES = [{}, {"heads": 3, "head_dim": 5}]


class Formula(Paper):
    causal_only = True

    def weights(self, logits):
        # The last key that is seen is the query itself, which takes nothing of itself.
        left, weights = 1.0, [0.0]
        for logit in logits[-2::-1]:
            broken = 1 / (1 + math.exp(-logit))
            weights.append(left * broken)
            left *= 1 - broken
        return weights[::-1]
