"""RoPE with a decay: slow pairs fade over long distances, where their angles tell nothing.

    q_m zeta_i^(m/s) e^(j m theta_i),   k_n zeta_i^(-n/s) e^(j n theta_i),   zeta_i = (i / (d/2) + gamma) / (1 + gamma)

Sun et al. 2022, arXiv:2212.10554, section 3.2, and torchscale: s = `scale_base` 512, gamma 0.4, neighbouring channels
paired, i counted from 0. The product fades with zeta^((m-n)/s) for keys behind, and would grow for keys ahead: causal
only. Far out zeta^(m/s) alone leaves the range of numbers. Only the difference counts, so both are counted from the
middle of the keys' positions; keys spread over more than 35,000 positions would still leave it, and give NaN.
"""

import jax.numpy as jnp
import numpy as np
from flax import nnx

from posenc.encodings.base import Encoding
from posenc.encodings.phase import angles, geometric, turned
from posenc.positions import Positions

LARGEST = 62.0  # a power of 2 whose square is still a float32


class XPos(Encoding):
    """Extrapolatable position embedding.

    Args:
        head_dim: channels of a head, d, where it is to be checked at once; even.
        base: of the angles' frequencies.
        scale_base: s, over how many positions the decay is zeta.
        gamma: how far the decay of the slowest pair is from its fastest; greater is milder.
    """

    kind = "relative"
    turns = True
    causal_only = True

    def __init__(
        self,
        head_dim: int | None = None,
        *,
        base: float = 1e4,
        scale_base: float = 512.0,
        gamma: float = 0.4,
        rngs: nnx.Rngs | None = None,
    ):
        del rngs
        if head_dim is not None and head_dim % 2:
            raise ValueError(f"xpos turns pairs of channels; a head has {head_dim}. Change the width or the heads.")
        if base <= 1 or scale_base <= 0 or gamma <= 0:
            raise ValueError(
                f"xpos has base {base}, scale_base {scale_base}, gamma {gamma}; expected base > 1, others > 0."
            )
        self.base, self.scale_base, self.gamma = base, scale_base, gamma

    def rotated(self, x, positions, middle, sign: int):
        """`x` turned, and grown (sign 1) or shrunk (sign -1) with its distance from the middle, ``[1|b, 1]``."""
        if x.shape[-1] % 2:
            raise ValueError(f"xpos turns pairs of channels; a head has {x.shape[-1]}. Change the width or the heads.")
        pairs, dtype = x.shape[-1] // 2, jnp.promote_types(x.dtype, jnp.float32)
        values = Positions.of(positions).values
        zeta = (np.arange(pairs) / pairs + self.gamma) / (1 + self.gamma)
        power = (
            sign
            * (values - middle).astype(dtype)[..., None]
            * (np.log2(zeta) / self.scale_base).astype(dtype)[None, None]
        )
        size = jnp.where(jnp.abs(power) <= LARGEST, jnp.exp2(power), jnp.nan)[:, :, None]
        return turned(x, angles(values[:, :, None], geometric(2 * pairs, self.base), dtype), "interleaved", size)

    def queries_keys(self, q, k, q_positions, k_positions):
        values = Positions.of(k_positions).values
        low, high = values.min(-1, keepdims=True), values.max(-1, keepdims=True)
        middle = low + (high - low) // 2
        return self.rotated(q, q_positions, middle, 1), self.rotated(k, k_positions, middle, -1)
