"""Waves of trained frequencies, and a small network that makes an embedding of them.

    r_p = [cos(p W_r) ; sin(p W_r)] / sqrt(F),   x_p + GeLU(r_p W_1 + b_1) W_2 + b_2,   W_r ~ N(0, gamma^-2)

Li et al. 2021, arXiv:2106.02795, algorithm 1, for one axis: F `features`, half of them frequencies. gamma^-2 is a
variance: the deviation is 1/gamma, which ports of the method take differently. Trained frequencies are float32 numbers
and no constants: angles of far-out positions have float32's error, and no exact road as in `sinusoidal`.
"""

import jax
import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter
from posenc.positions import Positions


class Fourier(Encoding):
    """Learnable Fourier features.

    Args:
        width: channels of the embeddings, m.
        features: F, cosines and sines together; even.
        hidden: channels between the two layers of the network.
        gamma: one over the deviation of the initial frequencies, in positions a radian.
        init: of W_1 and W_2.
    """

    kind = "absolute"

    def __init__(
        self,
        width: int,
        *,
        features: int = 64,
        hidden: int = 64,
        gamma: float = 10.0,
        init=nnx.initializers.lecun_normal(),
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        if features < 2 or features % 2 or hidden < 1:
            raise ValueError(
                f"fourier has features {features}, hidden {hidden}; expected an even number, 2 or more, and 1 or more."
            )
        if gamma <= 0:
            raise ValueError(f"fourier.gamma is {gamma}; expected a number above 0 (default 10).")
        zeros = nnx.initializers.zeros
        self.frequencies = parameter(rngs, nnx.initializers.normal(1 / gamma), (features // 2,), param_dtype)
        self.up = parameter(rngs, init, (features, hidden), param_dtype)
        self.up_bias = parameter(rngs, zeros, (hidden,), param_dtype)
        self.down = parameter(rngs, init, (hidden, width), param_dtype)
        self.down_bias = parameter(rngs, zeros, (width,), param_dtype)

    def embeddings(self, x, positions):
        dtype = jnp.promote_types(x.dtype, jnp.float32)
        at = Positions.of(positions).values.astype(dtype)[..., None] * self.frequencies[...][None, None]
        waves = jnp.concatenate([jnp.cos(at), jnp.sin(at)], axis=-1) * self.up.shape[0] ** -0.5
        hidden = jax.nn.gelu(waves @ self.up[...] + self.up_bias[...][None, None], approximate=False)
        return x + (hidden @ self.down[...] + self.down_bias[...][None, None]).astype(x.dtype)
