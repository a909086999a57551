"""A kernel of the distance with two trained numbers for each head.

    log:    s_mn = q_m . k_n / sqrt(d) - r1 log(1 + r2 |m - n|)
    power:  s_mn = q_m . k_n / sqrt(d) - r1 |m - n|^r2,   0 < r2 <= 2

Chi et al. 2022, arXiv:2205.09921: conditionally positive definite as long as r1, r2 > 0 and, for the power, r2 <= 2. As
in the authors' code both are clipped to 0.01 or more where they are used; a gradient passes through, so that a number
that training has pushed past the edge can come back. Each head has its own, all layers the same, as in that code.
"""

from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter
from posenc.encodings.skew import bias_of

LEAST = 0.01


class KERPLE(Encoding):
    """Kernelised relative positional encoding.

    Args:
        heads: heads of the attention, h.
        kernel: "log" or "power". The factors before and inside the logarithm begin uniform in (0, 2) and (0, 1); that
            before the power and the exponent in (0, 1) and (0, 2).
    """

    kind = "relative"

    def __init__(
        self,
        heads: int,
        *,
        kernel: Literal["log", "power"] = "log",
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        self.kernel = kernel
        first, second = (2.0, 1.0) if kernel == "log" else (1.0, 2.0)
        self.r1 = parameter(rngs, nnx.initializers.uniform(first), (heads,), param_dtype)
        self.r2 = parameter(rngs, nnx.initializers.uniform(second), (heads,), param_dtype)

    def bias(self, q_positions, k_positions):
        return bias_of(self.at, q_positions, k_positions)

    def at(self, r):
        """The kernel at each distance, for each head."""
        size = jnp.abs(r).astype(self.r1.dtype)[..., None]
        lead = (1,) * r.ndim
        r1 = clipped(self.r1[...], jnp.inf).reshape(*lead, -1)
        r2 = clipped(self.r2[...], jnp.inf if self.kernel == "log" else 2.0).reshape(*lead, -1)
        if self.kernel == "log":
            return -r1 * jnp.log1p(r2 * size)
        return -r1 * jnp.where(size > 0, jnp.where(size > 0, size, 1) ** r2, 0)  # the gradient of 0^p is not finite


def clipped(x, largest: float):
    """`x` between LEAST and `largest`, with the gradient of `x`."""
    return x + jax.lax.stop_gradient(jnp.clip(x, LEAST, largest) - x)
