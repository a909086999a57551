"""Fixed waves, added to the embeddings.

    PE(p, 2i) = sin(p / n^(2i/m)),   PE(p, 2i+1) = cos(p / n^(2i/m)),   x_p + s PE(p)

Vaswani et al. 2017, arXiv:1706.03762, section 3.5: n = `base`, s = 1. "halves" writes all sines before all cosines, as
tensor2tensor does: the same features in another order of channels. The exponent is that of the *pair* i; taking the
channel for it makes sine and cosine turn at different rates, and no shift is a rotation any more. The paper multiplies
token embeddings by sqrt(m) first: beside embeddings much smaller than 1 the waves, of size 1, are all that is left.
"""

from typing import Literal

import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter
from posenc.encodings.phase import angles, geometric
from posenc.positions import Positions


class Sinusoidal(Encoding):
    """Sines and cosines of the position at geometrically spaced wavelengths, 2 pi to 2 pi `base`.

    Args:
        width: channels of the embeddings, m; even.
        base: the paper's 10000, above which no wavelength goes (over 2 pi).
        layout: "interleaved", sine and cosine of a pair side by side, or "halves".
        learned_scale: trains s, from m^-0.5 on.
    """

    kind = "absolute"

    def __init__(
        self,
        width: int,
        *,
        base: float = 1e4,
        layout: Literal["interleaved", "halves"] = "interleaved",
        learned_scale: bool = False,
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        if width % 2:
            raise ValueError(f"sinusoidal needs an even width, a sine and a cosine for each pair; width is {width}.")
        if base <= 0:
            raise ValueError(f"sinusoidal.base is {base}; expected a positive number (default 10000).")
        self.width, self.base, self.layout = width, base, layout
        init = nnx.initializers.constant(width**-0.5)
        self.scale = parameter(rngs, init, (), param_dtype) if learned_scale else None

    def table(self, positions, dtype=jnp.float32):
        """The waves themselves, ``[1|b, t, m]``, in float32 or, where `dtype` is, wider."""
        at = angles(Positions.of(positions).values, geometric(self.width, self.base), dtype)
        waves = jnp.sin(at), jnp.cos(at)
        if self.layout == "halves":
            return jnp.concatenate(waves, axis=-1)
        return jnp.stack(waves, axis=-1).reshape(*at.shape[:-1], self.width)

    def embeddings(self, x, positions):
        table = self.table(positions, x.dtype)
        if self.scale is not None:
            table = table * self.scale[...]
        return x + table.astype(x.dtype)
