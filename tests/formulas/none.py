"""No positional encoding: Haviv et al. 2022, arXiv:2203.16634; what a decoder knows, it knows from the causal mask."""

from tests.formulas.driver import Paper

CASES = [{}]


class Formula(Paper):
    """Plain attention."""
