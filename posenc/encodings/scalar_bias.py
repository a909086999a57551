"""A trained number for each head and distance, added to the logits.

    s_mn = q_m . k_n / sqrt(d) + b_h[clip(m - n, -k, k)],   k = max_distance

No single paper: T5's bias (arXiv:1910.10683) without its buckets, as in Swin (Liu et al. 2021, arXiv:2103.14030) and
BEiT. All distances beyond k share one number, and it is never trained where sequences are not longer than k.
"""

import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter
from posenc.encodings.skew import bias_of
from posenc.positions import interpolated


class ScalarBias(Encoding):
    """A table of scalars; real distances read linearly between two of them.

    Args:
        heads: heads of the attention, h.
        max_distance: k, the distance from which on all are the same.
        bidirectional: whether keys ahead have numbers of their own; in a causal model they are never seen.
        init: of the table.
    """

    kind = "relative"
    shared = False

    def __init__(
        self,
        heads: int,
        *,
        max_distance: int = 512,
        bidirectional: bool = False,
        init=nnx.initializers.normal(0.02),
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        if max_distance < 1:
            raise ValueError(f"scalar_bias.max_distance is {max_distance}; expected 1 or more.")
        self.max_distance, self.bidirectional = max_distance, bidirectional
        self.least = -max_distance if bidirectional else 0
        self.table = parameter(rngs, init, (max_distance - self.least + 1, heads), param_dtype)

    def bias(self, q_positions, k_positions):
        def read(r):
            r = jnp.clip(r, self.least, self.max_distance)
            return interpolated(lambda whole: self.table[...][whole - self.least], r)

        return bias_of(read, q_positions, k_positions)
