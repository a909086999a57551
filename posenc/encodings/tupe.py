"""Positions correlated with positions by projections of their own, untied from those of the words.

    s_mn = (q_m . k_n + (p_m U_Q) . (p_n U_K)) / sqrt(2 d) + b_h[bucket(m - n)]

Ke et al. 2020, arXiv:2006.15595, equations 7 (TUPE-A) and 8 (TUPE-R, with T5's bias). Two terms are added, hence the 2;
b is not scaled. p, U_Q, U_K and b are shared by all layers. The authors' code normalises p and gives U_Q and U_K
biases, the equations do not. The paper also unties the [CLS] token, which a model without such a token does not have.
"""

import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter
from posenc.encodings.t5 import T5
from posenc.positions import Positions, interpolated


class TUPE(Encoding):
    """Untied absolute correlation, with or without a relative bias; positions past the table are NaN.

    Args:
        width: channels of a position's row, p.
        heads: heads of the attention, h.
        head_dim: channels of a head, d.
        max_position: rows of p: positions 0 .. max_position-1 can be read.
        relative: whether T5's bias, with its default buckets, is added (TUPE-R) or not (TUPE-A).
        bidirectional: whether keys ahead have buckets of their own in it.
        init: of p, U_Q, U_K and b.
    """

    kind = "absolute"

    def __init__(
        self,
        width: int,
        heads: int,
        head_dim: int,
        *,
        max_position: int = 512,
        relative: bool = True,
        bidirectional: bool = False,
        init=nnx.initializers.normal(0.02),
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        if max_position < 1:
            raise ValueError(f"tupe.max_position is {max_position}; expected 1 or more rows.")
        self.limit, self.bidirectional = max_position, bidirectional
        self.rows = parameter(rngs, init, (max_position, width), param_dtype)
        self.query = parameter(rngs, init, (width, heads, head_dim), param_dtype)
        self.key = parameter(rngs, init, (width, heads, head_dim), param_dtype)
        given = dict(bidirectional=bidirectional, init=init, rngs=rngs, param_dtype=param_dtype)
        self.distance_bias = T5(heads, **given) if relative else None

    def queries_keys(self, q, k, q_positions, k_positions):
        return (q * 2**-0.5).astype(q.dtype), k

    def bias(self, q_positions, k_positions):
        q = jnp.einsum("btm,mhd->bthd", self.read(q_positions), self.query[...])
        k = jnp.einsum("btm,mhd->bthd", self.read(k_positions), self.key[...])
        bias = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (2 * q.shape[-1]) ** -0.5
        return bias if self.distance_bias is None else bias + self.distance_bias.bias(q_positions, k_positions)

    def read(self, positions):
        """p for each position, linear between rows."""

        def row(whole):
            return self.rows[...].at[whole].get(mode="fill", fill_value=jnp.nan, wrap_negative_indices=False)

        return interpolated(row, Positions.of(positions).values)
