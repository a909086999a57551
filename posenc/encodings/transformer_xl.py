"""The product of query and key taken apart: each with a position in it becomes a term with a distance in it.

    s_mn = ((q_m + u) . k_n + (q_m + v) . W_R R_{m-n}) / sqrt(d),   R_r = [sin(r theta_i) ; cos(r theta_i)]

Dai et al. 2019, arXiv:1901.02860, section 3.3: theta_i = base^(-2i/width), u and v one vector for each head. The shift
that puts distances in their places gives the right ones for keys behind only, unless R covers both signs as in XLNet;
here it always does. W_R, u and v belong to a layer; in the paper's first code u and v are shared by all layers.
"""

import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter
from posenc.encodings.phase import angles, geometric
from posenc.encodings.skew import dots, on_diagonals
from posenc.positions import distance


class TransformerXL(Encoding):
    """Relative sinusoids, projected for each head, beside two global biases.

    Args:
        width: channels of R, the model's; even.
        heads: heads of the attention, h.
        head_dim: channels of a head, d.
        base: of the wavelengths.
        init: of W_R, u and v.
    """

    kind = "relative"
    shared = False

    def __init__(
        self,
        width: int,
        heads: int,
        head_dim: int,
        *,
        base: float = 1e4,
        init=nnx.initializers.normal(0.02),
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        if width % 2:
            raise ValueError(f"transformer_xl needs an even width, a sine and a cosine for each pair; it is {width}.")
        if base <= 1:
            raise ValueError(f"transformer_xl.base is {base}; expected a number above 1 (default 10000).")
        self.width, self.base = width, base
        self.projection = parameter(rngs, init, (width, heads, head_dim), param_dtype)
        self.u = parameter(rngs, init, (heads, head_dim), param_dtype)
        self.v = parameter(rngs, init, (heads, head_dim), param_dtype)

    def waves(self, values, dtype):
        """Sine and cosine of each pair, two arrays ``[..., width/2]``."""
        at = angles(values, geometric(self.width, self.base), dtype)
        return jnp.sin(at), jnp.cos(at)

    def logits(self, logits, q, k, q_positions, k_positions, visible):
        dtype, scale = logits.dtype, q.shape[-1] ** -0.5
        content = jnp.einsum("hd,bkhd->bhk", self.u[...], k.astype(dtype))[:, :, None]
        query = q.astype(dtype) + self.v[...][None, None]
        if on_diagonals(q_positions, k_positions):
            position = dots(query, lambda r: self.rows(r, dtype), q_positions, k_positions)
        else:
            position = self.in_pairs(query, distance(q_positions, k_positions))
        return logits + (content + position) * scale

    def rows(self, r, dtype):
        """The projected waves of each distance, ``[..., h, d]``."""
        waves = jnp.concatenate(self.waves(r, dtype), axis=-1)
        return jnp.einsum("...m,mhd->...hd", waves, self.projection[...])

    def in_pairs(self, query, r):
        """The same for any distances, ``[1|b, q, k]``."""
        waves = jnp.concatenate(self.waves(r, query.dtype), axis=-1)
        if len(waves) > 1:
            return jnp.einsum("bqhd,bqkm,mhd->bhqk", query, waves, self.projection[...])
        # Shared by all examples: one product for each query and head. XLA moves the larger operand unless it is told.
        rows = jnp.einsum("qkm,mhd->hqdk", waves[0], self.projection[...])
        return jnp.transpose(jnp.einsum("hqbd,hqdk->hqbk", jnp.transpose(query, (2, 1, 0, 3)), rows), (2, 0, 1, 3))
