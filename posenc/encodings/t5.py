"""A trained number for each head and each bucket of distances, added to the logits.

    s_mn = q_m . k_n / sqrt(d) + b_h[bucket(m - n)]

    bucket(r) = r                                                       for r < e
              = e + floor((B - e) log(r / e) / log(max_distance / e))   beyond, at most B - 1,   e = B / 2

Raffel et al. 2020, arXiv:1910.10683, section 2.1 and its code. Bidirectional: half of the buckets, B = buckets / 2, for
keys behind or at the query, the other half for keys ahead of it; causal: B = buckets, and keys ahead share bucket 0.
One table serves all layers. T5's own code leaves out 1/sqrt(d), of which the paper says nothing: `scaled` = False does
so too. Bucket edges are computed in whole numbers: a float32 logarithm may put an edge on the wrong side.
"""

from fractions import Fraction

import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter
from posenc.encodings.buckets import log_starts
from posenc.encodings.skew import bias_of
from posenc.positions import interpolated


def bucket_starts(buckets: int, max_distance: int) -> list[int]:
    """The least distance in each bucket of one direction."""
    exact = buckets // 2
    shares = [Fraction(j, buckets - exact) for j in range(buckets - exact)]
    return [*range(exact), *log_starts(exact, max_distance, shares)]


class T5(Encoding):
    """Bucketed scalar bias: near distances have a bucket each, far ones share buckets that widen as they go.

    Args:
        heads: heads of the attention, h.
        buckets: rows of the table; even where `bidirectional`, 2 or more in each direction.
        max_distance: all distances from here on fall into the last bucket, or earlier; more than the exact buckets.
        scaled: whether the products are divided by sqrt(d), as everywhere else; False multiplies queries by it first.
        bidirectional: whether keys ahead have buckets of their own.
        init: of the table.
    """

    kind = "relative"

    def __init__(
        self,
        heads: int,
        *,
        buckets: int = 32,
        max_distance: int = 128,
        scaled: bool = True,
        bidirectional: bool = False,
        init=nnx.initializers.normal(0.02),
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        one_way = buckets // 2 if bidirectional else buckets
        if one_way < 2 or (bidirectional and buckets % 2):
            least = "an even number from 4 on" if bidirectional else "2 or more"
            raise ValueError(f"t5.buckets is {buckets}; expected {least}.")
        if max_distance <= one_way // 2:
            raise ValueError(
                f"t5.max_distance is {max_distance}; expected more than the {one_way // 2} distances that have a "
                f"bucket each (buckets is {buckets})."
            )
        self.one_way, self.max_distance, self.bidirectional = one_way, max_distance, bidirectional
        self.scaled = scaled
        self.table = parameter(rngs, init, (buckets, heads), param_dtype)

    def bucket(self, r):
        """The bucket of each whole distance, positive for keys behind."""
        starts = jnp.asarray(bucket_starts(self.one_way, self.max_distance))
        if not self.bidirectional:
            return jnp.searchsorted(starts, jnp.maximum(r, 0), side="right") - 1
        return jnp.searchsorted(starts, jnp.abs(r), side="right") - 1 + jnp.where(r < 0, self.one_way, 0)

    def queries_keys(self, q, k, q_positions, k_positions):
        return q if self.scaled else (q * q.shape[-1] ** 0.5).astype(q.dtype), k

    def bias(self, q_positions, k_positions):
        def read(r):
            return interpolated(lambda whole: self.table[...][self.bucket(whole)], r)

        return bias_of(read, q_positions, k_positions)
