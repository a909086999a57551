"""Trained rows or numbers for distances that are told apart finely near by and coarsely far off, on q, k or v.

    g(r) = round(r)                                                              for |r| <= alpha
         = sign(r) min(beta, round(alpha + log(|r| / alpha) / log(gamma / alpha) (beta - alpha)))   beyond

    contextual   k: q_m . rK[g(m - n)] / sqrt(d)     q: k_n . rQ[g(n - m)] / sqrt(d)     v: sum_n A_mn rV[g(m - n)]
    bias         k: b[g(m - n)]                      q: b'[g(n - m)]

Wu et al. 2021, arXiv:2107.14222, equation 18 for g, here for a line and not for an image. As in the authors' code, the
heads share all rows, b is added as it is (the paper divides it by sqrt(d)), and everything is zero at first. As
there, the table "on q" is multiplied with the keys, and the one on k with the queries.
"""

from fractions import Fraction
from typing import Literal

import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter
from posenc.encodings.buckets import log_starts
from posenc.encodings.skew import bias_of, dots, on_diagonals, sums
from posenc.positions import distance, interpolated


class IRPE(Encoding):
    """Image relative position encoding with the piecewise index, on a line of tokens.

    Args:
        heads: heads of the attention, h.
        head_dim: channels of a key, d.
        value_dim: channels of a value; those of a key where it is None.
        alpha: distances up to here are exact.
        beta: the largest index; there are 2 beta + 1 rows.
        gamma: the distance with the largest index; beyond it all are the same.
        mode: "contextual", rows to be multiplied, or "bias", numbers to be added.
        on: of "q", "k" and "v" those that get a table; "v" in contextual mode only.
        init: of the tables.
    """

    kind = "relative"
    shared = False

    def __init__(
        self,
        heads: int,
        head_dim: int,
        value_dim: int | None = None,
        *,
        alpha: int = 8,
        beta: int = 16,
        gamma: int = 64,
        mode: Literal["contextual", "bias"] = "contextual",
        on: tuple[Literal["q", "k", "v"], ...] = ("k",),
        init=nnx.initializers.zeros,
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        if not 1 <= alpha < min(beta, gamma):
            raise ValueError(f"irpe has alpha {alpha}, beta {beta}, gamma {gamma}; expected 1 <= alpha < beta, gamma.")
        if not on or len(set(on)) < len(on) or (mode == "bias" and "v" in on):
            raise ValueError(f"irpe.on is {on} and mode {mode!r}; expected some of q, k and (contextual only) v, once.")
        self.alpha, self.beta, self.gamma, self.mode, self.heads = alpha, beta, gamma, mode, heads
        sizes = {"q": head_dim, "k": head_dim, "v": value_dim or head_dim}
        shapes = {name: (2 * beta + 1, *((size,) if mode == "contextual" else ())) for name, size in sizes.items()}
        self.q_rows, self.k_rows, self.v_rows = (
            parameter(rngs, init, shapes[name], param_dtype) if name in on else None for name in ("q", "k", "v")
        )

    def row(self, r):
        """The row of each whole distance: g(r) + beta."""
        starts = list(range(1, self.alpha + 1))
        for j in range(self.alpha + 1, self.beta + 1):  # what lies halfway is rounded to an even number
            share = Fraction(2 * (j - self.alpha) - 1, 2 * (self.beta - self.alpha))
            starts += log_starts(self.alpha, self.gamma, [share], past=j % 2 == 1)
        return self.beta + jnp.sign(r) * jnp.searchsorted(jnp.asarray(starts), jnp.abs(r), side="right")

    def bias(self, q_positions, k_positions):
        if self.mode == "contextual":
            return None

        def read(r):
            total = sum(term for term in (self.read(self.k_rows, r), self.read(self.q_rows, -r)) if term is not None)
            return jnp.repeat(jnp.asarray(total)[..., None], self.heads, axis=-1)

        return bias_of(read, q_positions, k_positions)

    def read(self, rows, r):
        """The row, or number, of each distance; None where there is no table."""
        return None if rows is None else interpolated(lambda whole: rows[...][self.row(whole)], r)

    def logits(self, logits, q, k, q_positions, k_positions, visible):
        if self.mode == "bias":
            return logits
        scale = q.shape[-1] ** -0.5
        if self.k_rows is not None:
            logits = logits + scale * self.dots(q.astype(logits.dtype), self.k_rows, q_positions, k_positions)
        if self.q_rows is not None:
            from_keys = self.dots(k.astype(logits.dtype), self.q_rows, k_positions, q_positions)
            logits = logits + scale * jnp.swapaxes(from_keys, 2, 3)
        return logits

    def dots(self, x, rows, x_positions, y_positions):
        """The product of each x_i with the row of its distance to each y_j."""
        if on_diagonals(x_positions, y_positions):
            return dots(x, lambda r: self.read(rows, r)[..., None, :], x_positions, y_positions)
        products, r = jnp.einsum("bihd,rd->bhir", x, rows[...]), distance(x_positions, y_positions)[:, None]
        return interpolated(lambda r: jnp.take_along_axis(products, self.row(r), axis=-1), r)

    def values(self, out, weights, v, q_positions, k_positions):
        if self.v_rows is None:
            return out
        return out + sums(weights, lambda r: self.read(self.v_rows, r).astype(v.dtype), q_positions, k_positions)
