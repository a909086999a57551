"""No positional encoding.

    o_m = sum_n softmax_n(q_m . k_n / sqrt(d)) v_n

Haviv et al. 2022, arXiv:2203.16634; Kazemnejad et al. 2023, arXiv:2305.19466.
A causal decoder still learns order, from how many keys each query sees. An encoder cannot: permuting its tokens
permutes its outputs.
"""

from flax import nnx

from posenc.encodings.base import Encoding


class NoPE(Encoding):
    """Changes nothing."""

    kind = "blind"

    def __init__(self, *, rngs: nnx.Rngs | None = None):
        del rngs
