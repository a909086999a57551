"""Trained rows for clipped distances, added to the keys and to the values.

    s_mn = q_m . (k_n + aK[c]) / sqrt(d),   o_m = sum_n A_mn (v_n + aV[c]),   c = clip(m - n, r_min, r_max)

Shaw et al. 2018, arXiv:1803.02155, equations 3 and 4, which index by n - m: with symmetric clipping the same table,
read backwards. The row is added to the key after its projection, k_n = W_k x_n, and is not projected itself. Rows are
shared by the heads, not by the layers. A table clipped at 4 on either side has nine rows, 0 being one.
"""

import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter
from posenc.encodings.skew import dots, on_diagonals, sums
from posenc.positions import distance, interpolated


class Shaw(Encoding):
    """Relative rows on keys and on values, one pair for each distance from `r_min` to `r_max`.

    Args:
        head_dim: channels of a key, d.
        value_dim: channels of a value; those of a key where it is None.
        r_min: the distance to which keys ahead of the query are clipped; zero or negative.
        r_max: the distance to which keys behind it are clipped; zero or positive.
        values: whether the values get rows too.
        init: of both tables.
    """

    kind = "relative"
    shared = False

    def __init__(
        self,
        head_dim: int,
        value_dim: int | None = None,
        *,
        r_min: int = -16,
        r_max: int = 16,
        values: bool = True,
        init=nnx.initializers.glorot_uniform(),
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        if not r_min <= 0 <= r_max or r_min == r_max:
            raise ValueError(f"shaw clips to [{r_min}, {r_max}]; expected r_min <= 0 <= r_max, not both 0.")
        self.r_min, self.r_max = r_min, r_max
        rows = r_max - r_min + 1
        self.key_rows = parameter(rngs, init, (rows, head_dim), param_dtype)
        self.value_rows = parameter(rngs, init, (rows, value_dim or head_dim), param_dtype) if values else None

    def read(self, rows, r):
        """The row of each distance."""
        clipped = jnp.clip(r, self.r_min, self.r_max)
        return interpolated(lambda r: rows[...][r - self.r_min], clipped)

    def logits(self, logits, q, k, q_positions, k_positions, visible):
        query, scale = q.astype(logits.dtype), q.shape[-1] ** -0.5
        if on_diagonals(q_positions, k_positions):
            added = dots(query, lambda r: self.read(self.key_rows, r)[..., None, :], q_positions, k_positions)
            return logits + added * scale
        rows = self.read(self.key_rows, distance(q_positions, k_positions)).astype(logits.dtype)
        return logits + jnp.einsum("bqhd,bqkd->bhqk", query, rows) * scale

    def values(self, out, weights, v, q_positions, k_positions):
        if self.value_rows is None:
            return out
        return out + sums(weights, lambda r: self.read(self.value_rows, r).astype(v.dtype), q_positions, k_positions)
