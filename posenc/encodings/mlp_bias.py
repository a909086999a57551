"""A small network of the distance, which gives a number for each head.

    s_mn = q_m . k_n / sqrt(d) + f_h(m - n),   f: 1 -> hidden -> hidden -> h, SiLU;   log: f_h(sign(r) log(1 + |r|))

CrossFormer (Wang et al. 2021, arXiv:2108.00154) and, with the logarithm, Swin v2 (Liu et al. 2021, arXiv:2111.09883);
the network is that of x-transformers. The raw distance grows without bound: beyond the trained lengths the network
extrapolates in a straight line, wherever that leads. The last bias is left out: a softmax does not see what is the same
for all keys.
"""

import jax
import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter
from posenc.encodings.skew import bias_of


class MLPBias(Encoding):
    """Dynamic position bias.

    Args:
        heads: heads of the attention, h.
        hidden: channels of both hidden layers.
        log: whether the network sees the logarithm of the distance.
        init: of the weights; the biases are zero at first.
    """

    kind = "relative"
    shared = False

    def __init__(
        self,
        heads: int,
        *,
        hidden: int = 32,
        log: bool = False,
        init=nnx.initializers.lecun_normal(),
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        if hidden < 1:
            raise ValueError(f"mlp_bias.hidden is {hidden}; expected 1 or more.")
        self.log = log
        zeros = nnx.initializers.zeros
        self.first = parameter(rngs, init, (1, hidden), param_dtype)
        self.first_bias = parameter(rngs, zeros, (hidden,), param_dtype)
        self.second = parameter(rngs, init, (hidden, hidden), param_dtype)
        self.second_bias = parameter(rngs, zeros, (hidden,), param_dtype)
        self.last = parameter(rngs, init, (hidden, heads), param_dtype)

    def bias(self, q_positions, k_positions):
        return bias_of(self.network, q_positions, k_positions)

    def network(self, r):
        """f of each distance, for each head."""
        x = r.astype(self.first.dtype)[..., None]
        x = jnp.sign(x) * jnp.log1p(jnp.abs(x)) if self.log else x
        first, first_bias, second_bias = (
            row.reshape(*(1,) * r.ndim, -1) for row in (self.first[0], self.first_bias[...], self.second_bias[...])
        )
        hidden = jax.nn.silu(x * first + first_bias)
        hidden = jax.nn.silu(jnp.einsum("...f,fg->...g", hidden, self.second[...]) + second_bias)
        return jnp.einsum("...f,fh->...h", hidden, self.last[...])
