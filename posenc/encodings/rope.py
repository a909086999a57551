"""Queries and keys are turned by angles in proportion to their positions; a product feels only the difference.

    (q_2i + j q_2i+1) e^(j m theta_i),   (k_2i + j k_2i+1) e^(j n theta_i),   theta_i = base^(-2i/d)

Su et al. 2021, arXiv:2104.09864, equations 14 and 34. The paper pairs neighbouring channels ("interleaved", as GPT-J
does); GPT-NeoX and Llama pair channel i with i + d/2 ("halves", the default). Either spans the same functions, but
weights trained with one are wrong with the other, and queries and keys must agree. `fraction` turns the first part of
the channels only, as in GPT-NeoX, theta over that part. `keep` < 1 is p-RoPE (Barbero et al. 2024, arXiv:2410.06205):
the slowest pairs stand still. Values are never turned.
"""

from typing import Literal

import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding
from posenc.positions import Positions


class RoPE(Encoding):
    """Rotary position embedding.

    Args:
        head_dim: channels of a head, d, where it is to be checked at once; read off the queries otherwise.
        base: the paper's 10000; the slowest pair turns by 1/base a position, or nearly so.
        layout: "halves" pairs channels i and i + d/2, "interleaved" 2i and 2i + 1.
        fraction: the share of the channels that is turned, in (0, 1]; it must come out even.
        keep: the share of those pairs, the fastest, that turns at all, in [0, 1].
    """

    kind = "relative"

    def __init__(
        self,
        head_dim: int | None = None,
        *,
        base: float = 1e4,
        layout: Literal["halves", "interleaved"] = "halves",
        fraction: float = 1.0,
        keep: float = 1.0,
        rngs: nnx.Rngs | None = None,
    ):
        del rngs
        if base <= 0:
            raise ValueError(f"rope.base is {base}; expected a positive number (default 10000).")
        if not (0 < fraction <= 1 and 0 <= keep <= 1):
            raise ValueError(f"rope.fraction is {fraction} and rope.keep {keep}; expected shares, fraction above 0.")
        self.base, self.layout, self.fraction, self.keep = base, layout, fraction, keep
        if head_dim is not None:
            self.turned_channels(head_dim)

    def turned_channels(self, head_dim: int) -> int:
        """How many of the channels of a head are turned."""
        turned = round(head_dim * self.fraction)
        if turned % 2 or turned == 0:
            raise ValueError(
                f"rope turns {turned} of {head_dim} channels; it turns pairs and needs an even number, 2 or more. "
                "Change the head's width (model width / heads) or rope.fraction."
            )
        return turned

    def frequencies(self, turned: int):
        """theta_i for each pair, in radians a position; zero where a pair stands still."""
        pair = jnp.arange(turned // 2)
        return jnp.where(pair < int(self.keep * (turned // 2)), self.base ** (-2.0 * pair / turned), 0.0)

    def rotated(self, x, positions):
        """`x` of shape ``[b, t, h, d]``, turned; angles and products in float32 or wider, the dtype of `x` kept."""
        dtype = jnp.promote_types(x.dtype, jnp.float32)
        turned = self.turned_channels(x.shape[-1])
        angles = (
            Positions.of(positions).values.astype(dtype)[:, :, None, None] * self.frequencies(turned)[None, None, None]
        )
        cos, sin = jnp.cos(angles), jnp.sin(angles)
        first, second = self.pairs(x[..., :turned].astype(dtype))
        pairs = first * cos - second * sin, first * sin + second * cos
        if self.layout == "halves":
            out = jnp.concatenate(pairs, axis=-1)
        else:
            out = jnp.stack(pairs, axis=-1).reshape(*x.shape[:-1], turned)
        return jnp.concatenate([out.astype(x.dtype), x[..., turned:]], axis=-1)

    def pairs(self, x):
        """First and second channel of each pair."""
        return jnp.split(x, 2, axis=-1) if self.layout == "halves" else (x[..., 0::2], x[..., 1::2])

    def queries_keys(self, q, k, q_positions, k_positions):
        return self.rotated(q, q_positions), self.rotated(k, k_positions)
