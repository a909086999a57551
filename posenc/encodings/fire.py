"""A small network of the distance, on a logarithmic scale that ends with the query's own position.

    s_mn = q_m . k_n / sqrt(d) + f_h(psi(m - n) / psi(max(m, L))),   psi(r) = log(c r + 1),   f: 1 -> hidden -> h, ReLU

Li et al. 2024, arXiv:2310.04418, equation 8 and its listing: c and a multiplier of L = `threshold` are trained, c r and
L are read without their signs, and 1e-6 is added to the divisor. The first token of a text is at 1 for every far query,
however long the text: what the network is asked never leaves [0, 1]. This makes it absolute: m counts, not the distance
alone. The network's last bias is left out: it would add the same to all logits of a head, which a softmax does not see.
Keys ahead, in an encoder, are read by their |m - n|.
"""

import jax
import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter
from posenc.positions import Positions, distance

SMALL = 1e-6  # keeps the quotient finite where c has come to 0


class FIRE(Encoding):
    """Functional interpolation for relative position encoding.

    Args:
        heads: heads of the attention, h.
        hidden: channels between the two layers of the network.
        c: its initial value.
        threshold: L, initially; queries before it are scaled as if they stood there.
        init: of the network's weights; its bias is zero at first.
    """

    kind = "absolute"
    shared = False

    def __init__(
        self,
        heads: int,
        *,
        hidden: int = 32,
        c: float = 0.1,
        threshold: float = 512.0,
        init=nnx.initializers.lecun_normal(),
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        if hidden < 1 or c <= 0 or threshold <= 0:
            raise ValueError(f"fire has hidden {hidden}, c {c}, threshold {threshold}; expected numbers above 0.")
        self.threshold = threshold
        self.c = parameter(rngs, nnx.initializers.constant(c), (), param_dtype)
        self.multiplier = parameter(rngs, nnx.initializers.ones, (), param_dtype)
        self.up = parameter(rngs, init, (1, hidden), param_dtype)
        self.up_bias = parameter(rngs, nnx.initializers.zeros, (hidden,), param_dtype)
        self.down = parameter(rngs, init, (hidden, heads), param_dtype)

    def bias(self, q_positions, k_positions):
        c = self.c[...]
        r = jnp.abs(distance(q_positions, k_positions)).astype(c.dtype)
        m = Positions.of(q_positions).values.astype(c.dtype)[:, :, None]
        end = jnp.maximum(m, jnp.abs(self.multiplier[...] * self.threshold))
        share = jnp.log1p(jnp.abs(c * r)) / (jnp.log1p(jnp.abs(c * end)) + SMALL)
        # The network's first layer with its bias is one product, pairs in a row: so are its gradients, which are sums.
        pairs = jnp.stack([share, jnp.ones_like(share)], axis=-1).reshape(-1, 2)
        hidden = jax.nn.relu(pairs @ jnp.concatenate([self.up[...], self.up_bias[...][None]]))
        by_head = jnp.einsum("nf,fh->hn", hidden, self.down[...])
        return jnp.moveaxis(by_head.reshape(-1, *share.shape), 0, 1)
