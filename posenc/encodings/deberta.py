"""Content and position disentangled: content to content, content to position, position to content.

    s_mn = (q_m . k_n + q_m . W_K P[d(m - n)] + k_n . W_Q P[d(n - m)]) / sqrt(3 d)
    d(r) = clip(bucket(r) + B, 0, 2B-1)
    bucket(r) = r up to M = B/2,   beyond   sign(r) (M + ceil(log(|r| / M) / log((max_distance - 1) / M) (M - 1)))

He et al. 2020, arXiv:2006.03654, equation 4, with the logarithmic buckets of its second version (B = `buckets`). Three
terms are added, hence the 3. The third reads the distance from the key to the query, in the paper; all published code
reads that from the query to the key ("query_to_key"), and Microsoft's stops one row short of 0 for keys far ahead. P is
shared by the heads and projected without a bias; each layer has one of its own here, where the paper shares P, and not
its projections, over the layers.
"""

from fractions import Fraction
from typing import Literal

import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter
from posenc.encodings.buckets import log_starts
from posenc.encodings.skew import dots, on_diagonals
from posenc.positions import distance, interpolated


class DeBERTa(Encoding):
    """Disentangled attention. Real distances read linearly between whole ones.

    Args:
        width: channels of P, the model's.
        heads: heads of the attention, h.
        head_dim: channels of a head, d.
        max_distance: about where the last bucket begins.
        buckets: B, in each direction; even, 4 or more, less than 2 (`max_distance` - 1).
        p2c: the distance that the position-to-content term reads: "key_to_query", the paper's, or "query_to_key".
        init: of P and of both projections.
    """

    kind = "relative"
    shared = False

    def __init__(
        self,
        width: int,
        heads: int,
        head_dim: int,
        *,
        max_distance: int = 512,
        buckets: int = 256,
        p2c: Literal["key_to_query", "query_to_key"] = "key_to_query",
        init=nnx.initializers.normal(0.02),
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        if buckets < 4 or buckets % 2 or max_distance - 1 <= buckets // 2:
            raise ValueError(
                f"deberta.buckets is {buckets} and max_distance {max_distance}; expected an even number of "
                "buckets, 4 or more, and less than 2 (max_distance - 1) of them."
            )
        self.max_distance, self.buckets, self.p2c = max_distance, buckets, p2c
        self.rows = parameter(rngs, init, (2 * buckets, width), param_dtype)
        self.query = parameter(rngs, init, (width, heads, head_dim), param_dtype)
        self.key = parameter(rngs, init, (width, heads, head_dim), param_dtype)

    def row(self, r):
        """The row of P for each whole distance."""
        middle = self.buckets // 2
        shares = [Fraction(j, middle - 1) for j in range(middle)]
        starts = [*range(1, middle + 1), *log_starts(middle, self.max_distance - 1, shares, past=True)]
        bucket = jnp.sign(r) * jnp.searchsorted(jnp.asarray(starts), jnp.abs(r), side="right")
        return jnp.clip(bucket + self.buckets, 0, 2 * self.buckets - 1)

    def queries_keys(self, q, k, q_positions, k_positions):
        return (q * 3**-0.5).astype(q.dtype), k

    def logits(self, logits, q, k, q_positions, k_positions, visible):
        to_position = self.dots(q.astype(logits.dtype), self.key, 1, q_positions, k_positions)
        sign = 1 if self.p2c == "key_to_query" else -1
        from_position = self.dots(k.astype(logits.dtype), self.query, sign, k_positions, q_positions)
        scale = q.shape[-1] ** -0.5  # the 3 is in q already
        return logits + to_position * scale + jnp.swapaxes(from_position, 2, 3) * scale * 3**-0.5

    def dots(self, x, projection, sign, x_positions, y_positions):
        """x_i . projection P[d(sign r_ij)] for each pair."""
        rows = jnp.einsum("rm,mhd->rhd", self.rows[...], projection[...])
        if on_diagonals(x_positions, y_positions):
            return dots(x, lambda r: interpolated(lambda r: rows[self.row(r)], sign * r), x_positions, y_positions)
        products, r = jnp.einsum("bihd,rhd->bhir", x, rows), sign * distance(x_positions, y_positions)[:, None]
        return interpolated(lambda r: jnp.take_along_axis(products, self.row(r), axis=-1), r)
