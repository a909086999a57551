"""Each query breaks pieces off a stick, the nearest key first; what is left over when all have had theirs goes nowhere.

    A_mn = sigma(s_mn) prod_{n < j < m} (1 - sigma(s_mj)),   s = q_m . k_n / sqrt(d),   n < m

Tan et al. 2024, arXiv:2410.17980, equation 1. It replaces the softmax and any position: the nearest of two keys that
fit is taken. A query does not see itself, so the weights of the first token are all zero, and those of no token need to
sum to 1. Products of many factors below 1 are sums of logarithms here, which neither vanish nor overflow.
"""

import jax
import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding
from posenc.sums import from_here_on


class StickBreaking(Encoding):
    """Stick-breaking attention. The last visible key of a query is taken for the query itself."""

    kind = "blind"
    causal_only = True

    def __init__(self, *, rngs: nnx.Rngs | None = None):
        del rngs

    def weights(self, logits, visible):
        behind = visible & (jax.lax.cumsum(visible.astype(jnp.int32), axis=3, reverse=True) > 1)  # not the last one
        logits = jnp.where(behind, logits, 0)
        kept = jnp.where(behind, -jax.nn.softplus(logits), 0)  # log(1 - sigma)
        between = from_here_on(kept) - kept
        return jnp.where(behind, jnp.exp(jax.nn.log_sigmoid(logits) + between), 0)
