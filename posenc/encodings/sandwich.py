"""The inner product of two sinusoidal embeddings as a bias: it falls with the distance, in waves that even out.

    s_mn = q_m . k_n / sqrt(d) + (1 / c_h) sum_{i < D/2} cos((m - n) base^(-2i/D)),   c_h = 8 h / H,   D = `channels`

Chi et al. 2023, arXiv:2212.10356, section 5 and its listing, read in attention-gym's version of it: no code of the
authors was found. Some (NeMo) subtract D/2, which a softmax does not see. Head h = 1 .. H divides by c_h, as ALiBi's
slopes fall with the head. The cosine does not tell what is ahead from what is behind. Nothing is trained.
"""

import jax.numpy as jnp
import numpy as np
from flax import nnx

from posenc.encodings.base import Encoding
from posenc.encodings.phase import angles, geometric
from posenc.encodings.skew import bias_of


class Sandwich(Encoding):
    """Smooth attention with sinusoidal products.

    Args:
        heads: heads of the attention, H.
        channels: D, of the embeddings whose products are taken; even. Independent of the model's width.
        base: of the wavelengths.
    """

    kind = "relative"

    def __init__(self, heads: int, *, channels: int = 128, base: float = 1e4, rngs: nnx.Rngs | None = None):
        del rngs
        if channels < 2 or channels % 2:
            raise ValueError(f"sandwich.channels is {channels}; expected an even number, 2 or more.")
        if base <= 1:
            raise ValueError(f"sandwich.base is {base}; expected a number above 1 (default 10000).")
        self.heads, self.channels, self.base = heads, channels, base

    def bias(self, q_positions, k_positions):
        def read(r):
            waves = jnp.cos(angles(r, geometric(self.channels, self.base), jnp.result_type(float))).sum(-1)
            compression = 8 * (1 + np.arange(self.heads)) / self.heads
            return waves[..., None] / compression.astype(waves.dtype).reshape(*(1,) * r.ndim, -1)

        return bias_of(read, q_positions, k_positions)
