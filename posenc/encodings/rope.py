"""Queries and keys are turned by angles in proportion to their positions; a product feels only the difference.

    (q_2i + j q_2i+1) e^(j m theta_i),   (k_2i + j k_2i+1) e^(j n theta_i),   theta_i = base^(-2i/d)

Su et al. 2021, arXiv:2104.09864, equations 14 and 34. The paper pairs neighbouring channels ("interleaved", as GPT-J
does); GPT-NeoX and Llama pair channel i with i + d/2 ("halves", the default). Either spans the same functions, but
weights trained with one are wrong with the other, and queries and keys must agree. `fraction` turns the first part of
the channels only, as in GPT-NeoX, theta over that part. `keep` < 1 is p-RoPE (Barbero et al. 2024, arXiv:2410.06205):
the slowest pairs stand still. `scaling` stretches it to longer texts (see scaling.py). Values are never turned.
"""

from typing import Literal

import jax.numpy as jnp
import numpy as np
from flax import nnx

from posenc.encodings.base import Encoding, Kind
from posenc.encodings.phase import Layout, angles, geometric, turned
from posenc.encodings.scaling import Scaling, ScalingKind
from posenc.positions import Positions


class RoPE(Encoding):
    """Rotary position embedding.

    Args:
        head_dim: channels of a head, d, where it is to be checked at once; read off the queries otherwise.
        base: the paper's 10000; the slowest pair turns by 1/base a position, or nearly so.
        layout: "halves" pairs channels i and i + d/2, "interleaved" 2i and 2i + 1.
        fraction: the share of the channels that is turned, in (0, 1]; it must come out even.
        keep: the share of those pairs, the fastest, that turns at all, in [0, 1].
        scaling, factor, original, length, rescale, ramp: as in `scaling.Scaling`.
        start: of longrope: the first positions, which are turned as in training; absolute where there are any.
    """

    kind: Kind = "relative"
    turns = True

    def __init__(
        self,
        head_dim: int | None = None,
        *,
        base: float = 1e4,
        layout: Layout = "halves",
        fraction: float = 1.0,
        keep: float = 1.0,
        scaling: ScalingKind = None,
        factor: float = 1.0,
        original: int = 512,
        length: int = 0,
        rescale: tuple[float, ...] = (),
        start: int = 0,
        ramp: Literal["turns", "pairs"] = "turns",
        rngs: nnx.Rngs | None = None,
    ):
        del rngs
        if base <= 1:
            raise ValueError(f"rope.base is {base}; expected a number above 1 (default 10000).")
        if not (0 < fraction <= 1 and 0 <= keep <= 1):
            raise ValueError(f"rope.fraction is {fraction} and rope.keep {keep}; expected shares, fraction above 0.")
        if start < 0 or (start and scaling != "longrope"):
            raise ValueError(f"rope.start is {start} and scaling {scaling!r}; longrope alone spares first positions.")
        self.base, self.layout, self.fraction, self.keep, self.start = base, layout, fraction, keep, start
        self.scaling = Scaling(scaling, factor, original, length, rescale, ramp)
        self.kind = "absolute" if start else "relative"
        if head_dim is not None:
            self.scaling.frequencies(geometric(self.turned_channels(head_dim), base))

    def turned_channels(self, head_dim: int) -> int:
        """How many of the channels of a head are turned."""
        turned = round(head_dim * self.fraction)
        if turned % 2 or turned == 0:
            raise ValueError(
                f"rope turns {turned} of {head_dim} channels; it turns pairs and needs an even number, 2 or more. "
                "Change the head's width (model width / heads) or rope.fraction."
            )
        return turned

    def angles(self, positions, pairs: int, dtype):
        """The angle of each pair of channels, ``[1|b, t, 1, pairs]``, zero where a pair stands still."""
        plain = geometric(2 * pairs, self.base)
        moving = np.arange(pairs) < int(self.keep * pairs)
        values = Positions.of(positions).values[:, :, None]
        scaled = angles(values, self.scaling.frequencies(plain) * moving, dtype)
        if not self.start:
            return scaled
        return jnp.where((values < self.start)[..., None], angles(values, plain * moving, dtype), scaled)

    def rotated(self, x, positions):
        """`x` of shape ``[b, t, h, d]``, turned; angles and products in float32 or wider, the dtype of `x` kept."""
        channels = self.turned_channels(x.shape[-1])
        at = self.angles(positions, channels // 2, x.dtype)
        sharper = self.scaling.attention  # for the whole product, and so also for the channels that are not turned
        out = turned(x[..., :channels], at, self.layout, sharper)
        return jnp.concatenate([out, (x[..., channels:] * sharper).astype(x.dtype)], axis=-1)

    def queries_keys(self, q, k, q_positions, k_positions):
        return self.rotated(q, q_positions), self.rotated(k, k_positions)
