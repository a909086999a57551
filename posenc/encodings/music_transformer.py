"""A trained row for each head and distance, multiplied with the queries; distances are told apart to a full length.

    s_mn = (q_m . k_n + q_m . E_h[m - n]) / sqrt(d)

Huang et al. 2018, arXiv:1809.04281, section 3.4: Shaw's rows on the keys, none on the values, without clipping, and in
memory for q times `max_distance` numbers instead of q times k rows. As in the authors' code (tensor2tensor) there is a
row for the distances 0 .. max_distance-1, and nothing is added beyond: a model is not told how far such a key is.
"""

import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter
from posenc.encodings.skew import dots, on_diagonals
from posenc.positions import distance, interpolated


class MusicTransformer(Encoding):
    """Relative rows on keys, by skewing where positions are consecutive.

    Args:
        heads: heads of the attention, h.
        head_dim: channels of a head, d.
        max_distance: how many distances have a row, the distance 0 being one; in each direction where `bidirectional`.
        bidirectional: whether keys ahead have rows; in a causal model they are never seen.
        init: of the rows; normal with deviation d^-0.5 where it is None.
    """

    kind = "relative"
    shared = False

    def __init__(
        self,
        heads: int,
        head_dim: int,
        *,
        max_distance: int = 512,
        bidirectional: bool = False,
        init=None,
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        if max_distance < 1:
            raise ValueError(f"music_transformer.max_distance is {max_distance}; expected 1 or more.")
        self.max_distance, self.bidirectional = max_distance, bidirectional
        self.ahead = max_distance - 1 if bidirectional else 0
        init = init or nnx.initializers.normal(head_dim**-0.5)
        self.rows = parameter(rngs, init, (heads, self.ahead + max_distance, head_dim), param_dtype)

    def logits(self, logits, q, k, q_positions, k_positions, visible):
        query, scale = q.astype(logits.dtype), q.shape[-1] ** -0.5
        if on_diagonals(q_positions, k_positions):
            return logits + scale * dots(query, self.read, q_positions, k_positions)
        products = jnp.einsum("bqhd,hrd->bhqr", query, self.rows[...])
        products = jnp.pad(products, ((0, 0), (0, 0), (0, 0), (0, 1)))  # what lies beyond reads a zero
        r = distance(q_positions, k_positions)[:, None]
        return logits + scale * interpolated(lambda r: jnp.take_along_axis(products, self.index(r), axis=-1), r)

    def read(self, r):
        """The rows of each distance, ``[..., h, d]``; nothing where there is none."""
        rows = jnp.moveaxis(self.rows[...], 0, 1)
        return interpolated(lambda r: rows.at[self.index(r)].get(mode="fill", fill_value=0), r)

    def index(self, r):
        """The row of each whole distance; one past the last where there is none."""
        known = (r >= -self.ahead) & (r < self.max_distance)
        return jnp.where(known, r + self.ahead, self.ahead + self.max_distance)
