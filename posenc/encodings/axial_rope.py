"""RoPE for positions with several axes: each axis turns a share of the channels of its own.

    channels [a d/A, (a+1) d/A) are turned by p_a theta_i,   theta_i = base^(-2i / (d/A)),   A axes

Heo et al. 2024, arXiv:2403.13298, section 3.1, for images (base 100 there): the first half of a head is turned by one
coordinate, the second half by the other, neighbouring channels paired, frequencies starting anew on each axis. On a
line of tokens, one axis, it is RoPE with the interleaved layout. It tells neither axis of two tokens that differ along
a diagonal from two that differ along both apart: the logits are a sum over axes.
"""

from flax import nnx

from posenc.encodings.base import Encoding
from posenc.encodings.phase import angles, geometric, turned
from posenc.positions import Positions


class AxialRoPE(Encoding):
    """Rotary embedding of grid positions ``[..., t, axes]``; a line of positions is one axis.

    Args:
        base: of the frequencies of each axis.
    """

    kind = "relative"
    turns = True

    def __init__(self, *, base: float = 1e4, rngs: nnx.Rngs | None = None):
        del rngs
        if base <= 1:
            raise ValueError(f"axial_rope.base is {base}; expected a number above 1 (default 10000).")
        self.base = base

    def rotated(self, x, positions):
        """`x` of shape ``[b, t, h, d]``, each share of its channels turned by its axis."""
        grid = Positions.grid(positions)
        channels, axes = x.shape[-1], grid.shape[-1]
        if channels % (2 * axes):
            raise ValueError(
                f"axial_rope splits the channels of a head into pairs for each of {axes} axes; a head has {channels}. "
                f"Expected a multiple of {2 * axes}."
            )
        at = angles(grid, geometric(channels // axes, self.base), x.dtype)  # 1|b t axes pairs
        at = at.reshape(*at.shape[:2], 1, channels // 2)
        return turned(x, at, "interleaved")

    def queries_keys(self, q, k, q_positions, k_positions):
        return self.rotated(q, q_positions), self.rotated(k, k_positions)
