"""Each token says how far it moves what stands before it away: distances that are learned from content.

    s_mn = q_m . k_n / sqrt(d) - sum_{l = n+1 .. m} softplus(w_h . x_l + b_h)

Veisi et al. 2025, arXiv:2503.08067, and its code (context-aware biases, "Cable"): ALiBi with a step for each token in
place of 1. Every step is positive, so a key never comes nearer again. No other encoding is used beside it. The
published code does not divide the products by sqrt(d); here they are divided, as everywhere.
"""

import jax
import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter


class Cable(Encoding):
    """Accumulated softplus of the attention's input.

    Args:
        width: channels of the attention's input, m.
        heads: heads of the attention, h.
        init: of the weights; the biases are zero at first, which makes a step about log 2.
    """

    kind = "blind"
    shared = False
    causal_only = True

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        init=nnx.initializers.normal(0.02),
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        self.step = parameter(rngs, init, (width, heads), param_dtype)
        self.step_bias = parameter(rngs, nnx.initializers.zeros, (heads,), param_dtype)

    def steps(self, x, positions):
        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        return -jax.nn.softplus(jnp.einsum("btm,mh->bth", wide, self.step[...]) + self.step_bias[...][None, None])
