"""A penalty in proportion to the distance, steeper for some heads than for others.

    s_mn = q_m . k_n / sqrt(d) - s_h |m - n|,   s_h = 2^(-8h/H) for h = 1 .. H,   H a power of two

Press et al. 2022, arXiv:2108.12409, section 3: added after the scaling, nothing else is told of positions. The first
slope is 2^(-8/H), not 1. For other numbers of heads the authors' code takes the slopes of the power of two below, then
every other one of the next power ("published"); "geometric" is the formula for any H, which gives other slopes. With
"learned" the published ones are where training begins. The paper is causal. Of the proposals for encoders "symmetric"
is its authors' plain one; in "asymmetric" keys behind count as half a position nearer, as in DeepMind's
randomized_positional_encodings, so that the two sides can be told apart.
"""

import math
from typing import Literal

import jax.numpy as jnp
import numpy as np
from flax import nnx

from posenc.encodings.base import Encoding, parameter
from posenc.positions import distance


def geometric_slopes(heads: int) -> list[float]:
    """2^(-8h/heads) for each head, from 1 on."""
    return [2.0 ** (-8 * head / heads) for head in range(1, heads + 1)]


def published_slopes(heads: int) -> list[float]:
    """The same for a power of two; otherwise those of the power below it, then every other one of the next."""
    below = 2 ** math.floor(math.log2(heads))
    return geometric_slopes(below) + geometric_slopes(2 * below)[::2][: heads - below]


class ALiBi(Encoding):
    """Attention with linear biases.

    Args:
        heads: heads of the attention, H.
        slopes: "published", "geometric" or "learned".
        encoder: how the two sides are weighed where the model is bidirectional, "symmetric" or "asymmetric".
        bidirectional: whether keys ahead are seen.
    """

    kind = "relative"

    def __init__(
        self,
        heads: int,
        *,
        slopes: Literal["published", "geometric", "learned"] = "published",
        encoder: Literal["symmetric", "asymmetric"] = "symmetric",
        bidirectional: bool = False,
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        if heads < 1:
            raise ValueError(f"alibi was built for {heads} heads; expected 1 or more.")
        self.fixed = tuple(geometric_slopes(heads) if slopes == "geometric" else published_slopes(heads))
        self.nearer = 0.5 if bidirectional and encoder == "asymmetric" else 0.0

        def init(key, shape, dtype):
            return jnp.asarray(self.fixed, dtype)

        self.slopes = parameter(rngs, init, (heads,), param_dtype) if slopes == "learned" else None

    def bias(self, q_positions, k_positions):
        r = distance(q_positions, k_positions)[:, None]
        dtype = jnp.promote_types(r.dtype, jnp.result_type(float))  # float32, unless JAX is told to use 64 bits
        slopes = jnp.asarray(np.array(self.fixed), dtype) if self.slopes is None else self.slopes[...]
        return -slopes[None, :, None, None] * (jnp.abs(r) - jnp.where(r > 0, self.nearer, 0)).astype(dtype)
