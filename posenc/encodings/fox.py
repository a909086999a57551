"""Each token sets a gate for each head, and what stands before it is forgotten by so much.

    s_mn = q_m . k_n / sqrt(d) + sum_{l = n+1 .. m} log f_l,   f_l = sigma(w_h . x_l + b_h)

Lin et al. 2025, arXiv:2503.02130, equation 6 (Forgetting Transformer): no position is looked at, and no other encoding
is used beside it. The sum begins behind the key: a token is never forgotten by its own gate. x is what the projections
of the attention read. The architecture's other parts (output gate, norms of queries and keys) are not this encoding's.
"""

import jax
import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter


class FoX(Encoding):
    """Forget gates, accumulated along the sequence.

    Args:
        width: channels of the attention's input, m.
        heads: heads of the attention, h.
        init: of the gates' weights; their biases are zero at first.
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
        self.gate = parameter(rngs, init, (width, heads), param_dtype)
        self.gate_bias = parameter(rngs, nnx.initializers.zeros, (heads,), param_dtype)

    def steps(self, x, positions):
        dtype = jnp.promote_types(x.dtype, jnp.float32)
        return jax.nn.log_sigmoid(
            jnp.einsum("btm,mh->bth", x.astype(dtype), self.gate[...]) + self.gate_bias[...][None, None]
        )
