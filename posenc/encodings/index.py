"""The bare position as one more channel, projected back to the width.

    x'_p = [x_p ; s p] W,   W of shape [m + 1, m]

Folklore, after CoordConv (Liu et al. 2018, arXiv:1807.03247), which appends coordinates to images. The channel grows
without bound: beside embeddings of size 1 a position of 40 is all that a layer sees, and beyond the trained lengths it
is larger than ever before. `scale` = 1/length keeps it small, and changes what a position means with the length.
"""

import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter
from posenc.positions import Positions


class Index(Encoding):
    """One number for each token, its position.

    Args:
        width: channels of the embeddings, m.
        scale: s, what the position is multiplied by.
        init: of the projection.
    """

    kind = "absolute"

    def __init__(
        self,
        width: int,
        *,
        scale: float = 1.0,
        init=nnx.initializers.lecun_normal(),
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        if scale == 0:
            raise ValueError("index.scale is 0, which hides the position; expected another number (default 1).")
        self.scale = scale
        self.projection = parameter(rngs, init, (width + 1, width), param_dtype)

    def embeddings(self, x, positions):
        dtype = jnp.promote_types(x.dtype, jnp.float32)
        position = self.scale * Positions.of(positions).values.astype(dtype)[..., None]
        content, row = self.projection[...][:-1], self.projection[...][-1:]
        return (jnp.einsum("btm,mn->btn", x.astype(dtype), content) + position @ row).astype(x.dtype)
