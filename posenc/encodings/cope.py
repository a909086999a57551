"""Positions that are counted by content: a query's gates decide which of the tokens behind it count.

    g_mj = sigma(q_m . k_j / sqrt(d)),   p_mn = min(sum_{j = n .. m} g_mj, P - 1)
    s_mn = q_m . (k_n + e[p_mn]) / sqrt(d)

Golovneva et al. 2024, arXiv:2405.18719, equations 3 to 5: e[p] is read linearly between whole p. A token counts itself,
so the nearest position is a gate, not 0. Keys that are not visible must not be counted. P is `max_position`; the rows
are shared by the heads and zero at first. The paper's listing, and x-transformers after it, do not divide q . e by
sqrt(d), which the authors' later code does: `scaled`. In a chain the gates see the logits with all that parts before
it, and every bias, have added.
"""

import jax
import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter
from posenc.sums import from_here_on


class CoPE(Encoding):
    """Contextual position encoding.

    Args:
        head_dim: channels of a head, d.
        max_position: P, the number of rows; counts beyond P - 1 read the last.
        scaled: whether the products with the rows are divided by sqrt(d), as those with the keys are.
        init: of the rows.
    """

    kind = "blind"
    shared = False
    causal_only = True

    def __init__(
        self,
        head_dim: int,
        *,
        max_position: int = 64,
        scaled: bool = True,
        init=nnx.initializers.zeros,
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        if max_position < 2:
            raise ValueError(f"cope.max_position is {max_position}; expected 2 or more rows.")
        self.scaled = scaled
        self.rows = parameter(rngs, init, (max_position, head_dim), param_dtype)

    def logits(self, logits, q, k, q_positions, k_positions, visible):
        gates = jnp.where(visible, jax.nn.sigmoid(logits), 0)
        position = jnp.minimum(from_here_on(gates), len(self.rows) - 1)
        products = jnp.einsum("bqhd,pd->bhqp", q.astype(logits.dtype), self.rows[...])
        products = products * q.shape[-1] ** -0.5 if self.scaled else products
        below = jnp.minimum(jnp.floor(position).astype(jnp.int32), len(self.rows) - 2)
        low, step = jnp.moveaxis(self.pairs(products, below), -1, 0)
        return logits + low + (position - below) * step

    def pairs(self, products, below):
        """The product with the row below each position, and how far it is to the next one: read together, as reading
        is what takes long.
        """
        pairs = jnp.stack([products[..., :-1], jnp.diff(products, axis=-1)], axis=-1)
        flat = jax.vmap(lambda row, at: row[at])
        *lead, keys = below.shape
        return flat(pairs.reshape(-1, *pairs.shape[-2:]), below.reshape(-1, keys)).reshape(*lead, keys, 2)
