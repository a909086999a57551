"""The position as a vector with a single one, appended and projected back, or added as it is.

    append:  x'_p = [x_p ; e_p] W,   W of shape [m + max_position, m]        add:  x'_p = x_p + e_p

Folklore. Appended and projected it is a learned table under another name: the lower rows of W are the table, and differ
from `learned` in nothing but their initial values. Added it needs a channel for each position. Either ends with the
last position; one_hot(p, n) of JAX is a row of zeros there, a position that was never seen, and here it is NaN.
"""

from typing import Literal

import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter
from posenc.positions import Positions, interpolated


class OneHot(Encoding):
    """One channel for each position; a real position is split between the two channels around it.

    Args:
        width: channels of the embeddings, m.
        max_position: positions 0 .. max_position-1 can be told, all others are NaN.
        combine: "append" to the channels and project back, or "add" to the first `max_position` of them.
        init: of the projection.
    """

    kind = "absolute"

    def __init__(
        self,
        width: int,
        *,
        max_position: int = 512,
        combine: Literal["append", "add"] = "append",
        init=nnx.initializers.lecun_normal(),
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        if max_position < 1:
            raise ValueError(f"one_hot.max_position is {max_position}; expected 1 or more.")
        if combine == "add" and max_position > width:
            raise ValueError(
                f"one_hot.max_position is {max_position}, but a position can be added to {width} channels only. "
                "Set it to the width or less, widen the model, or use one_hot.combine='append'."
            )
        self.limit = self.max_position = max_position
        self.width = width
        shape = (width + max_position, width)
        self.projection = parameter(rngs, init, shape, param_dtype) if combine == "append" else None

    def embeddings(self, x, positions):
        dtype = jnp.promote_types(x.dtype, jnp.float32)
        values = Positions.of(positions).values
        if self.projection is None:
            lit = self.read(jnp.eye(self.max_position, dtype=dtype), values)
            return (x + jnp.pad(lit, ((0, 0), (0, 0), (0, self.width - self.max_position)))).astype(x.dtype)
        content, rows = self.projection[...][: self.width], self.projection[...][self.width :]
        out = jnp.einsum("btm,mn->btn", x.astype(dtype), content) + self.read(rows, values)
        return out.astype(x.dtype)

    def read(self, rows, values):
        """One-hot vectors times rows, ``[1|b, t, n]``: the row that each points at; NaN where there is none."""

        def row(whole):
            return rows.at[whole].get(mode="fill", fill_value=jnp.nan, wrap_negative_indices=False)

        return interpolated(row, values)
