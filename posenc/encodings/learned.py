"""A trained row for each position, added to the embeddings.

    x_p + W[p]

Gehring et al. 2017, arXiv:1705.03122; BERT and GPT. Indexing a table past its end returns the last row in JAX, without
a word: such a model would seem to run at any length. Here a read past the table is NaN. Rows beyond the trained
lengths are never trained, so the encoding does not extrapolate even where the table goes on.
"""

import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter
from posenc.positions import Positions, interpolated


class Learned(Encoding):
    """A table of `max_position` rows; a real position reads linearly between two rows.

    Args:
        width: channels of the embeddings, m.
        max_position: rows of the table: positions 0 .. max_position-1 can be read, all others are NaN.
        init: of the table.
    """

    kind = "absolute"

    def __init__(
        self,
        width: int,
        *,
        max_position: int = 512,
        init=nnx.initializers.normal(0.02),
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        if max_position < 1:
            raise ValueError(f"learned.max_position is {max_position}; expected 1 or more rows.")
        self.limit = max_position
        self.rows = parameter(rngs, init, (max_position, width), param_dtype)

    def embeddings(self, x, positions):
        def read(whole):
            return self.rows[...].at[whole].get(mode="fill", fill_value=jnp.nan, wrap_negative_indices=False)

        return x + interpolated(read, Positions.of(positions).values).astype(x.dtype)
