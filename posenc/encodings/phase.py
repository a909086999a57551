"""Angles that stay exact however far out a position lies, and the turning of channels by them.

    angle = 2 pi frac(p f),   f = theta / 2 pi   turns a position

In float32 a million radians are known to 6e-2 only, and a model that is tested far from 0 is tested on noise. Turns can
be counted in whole numbers instead: f is a fixed-point fraction of 64 bits, p a whole number, and what overflows in
their product are the full turns, which nobody needs. JAX has no 64-bit numbers by default, so f has two limbs of 32.
What is left of a real position, below 1, is multiplied as usual. Trained frequencies cannot be treated so.
"""

from typing import Literal

import jax.numpy as jnp
import numpy as np

from posenc.shapes import Array, Num
from posenc.sums import computed_once

Layout = Literal["halves", "interleaved"]
LARGEST = 2.0**31  # of a whole number of 32 bits


def geometric(channels: int, base: float) -> np.ndarray:
    """base^(-2i/channels) for each pair of channels: radians a position, in float64, ``[channels/2]``."""
    return np.float64(base) ** (-np.arange(0, channels, 2) / channels)


def angles(positions: Num[Array, "..."], frequencies: np.ndarray, dtype=jnp.float32) -> Array:
    """Position times frequency in radians, but for full turns.

    Args:
        positions: whole or real, of any shape; beyond 2^31 the angle is NaN.
        frequencies: radians a position, ``[f]``; numbers, not traced.
        dtype: of the result, widened to float32 at least.

    Returns:
        Angles from -pi to pi, or a little more where positions are real, ``[..., f]``.
    """
    dtype = jnp.promote_types(dtype, jnp.float32)
    turns = np.asarray(frequencies, np.float64) / (2 * np.pi)
    fraction = [int(f * 2.0**64) % 2**64 for f in turns]
    lead = (1,) * positions.ndim
    high, low = (np.array([f >> by & 0xFFFFFFFF for f in fraction], np.uint32).reshape(*lead, -1) for by in (32, 0))
    whole = jnp.floor(positions)
    p = whole.astype(jnp.int32).astype(jnp.uint32)[..., None]  # modulo 2^32; a negative one has all higher bits set
    upper = p * high + high_word(p, low) - jnp.where(positions[..., None] < 0, low, jnp.uint32(0))
    counted = upper.astype(jnp.int32).astype(dtype) * 2.0**-32 + (p * low).astype(dtype) * 2.0**-64
    if positions.dtype.itemsize > 4 and jnp.issubdtype(positions.dtype, jnp.integer):
        counted = jnp.where(jnp.abs(positions)[..., None] <= LARGEST, counted, jnp.nan)
    if jnp.issubdtype(positions.dtype, jnp.floating):
        rest = jnp.where(jnp.abs(positions) < LARGEST, positions - whole, jnp.nan).astype(dtype)
        counted = counted + rest[..., None] * turns.astype(dtype).reshape(*lead, -1)
    return 2 * np.pi * counted


def high_word(a: Array, b: np.ndarray) -> Array:
    """The upper 32 bits of the product of two uint32, from halves of 16 bits."""
    middle = (a >> 16) * (b & 0xFFFF) + ((a & 0xFFFF) * (b & 0xFFFF) >> 16)
    other = (a & 0xFFFF) * (b >> 16) + (middle & 0xFFFF)
    return (a >> 16) * (b >> 16) + (middle >> 16) + (other >> 16)


def turned(x: Array, angles: Array, layout: Layout, size: float | Array = 1.0) -> Array:
    """Each pair of channels of `x` turned by its angle and multiplied by `size`, at least in float32; the dtype of x.

    Args:
        x: ``[b, t, h, d]``.
        angles: ``[1|b, t, 1, d/2]``.
        layout: "halves" pairs channels i and i + d/2, "interleaved" 2i and 2i + 1.
        size: broadcastable to the angles.
    """
    cos, sin = computed_once(jnp.cos(angles) * size), computed_once(jnp.sin(angles) * size)
    wide = x.astype(cos.dtype)
    first, second = jnp.split(wide, 2, axis=-1) if layout == "halves" else (wide[..., 0::2], wide[..., 1::2])
    pairs = first * cos - second * sin, first * sin + second * cos
    out = jnp.concatenate(pairs, -1) if layout == "halves" else jnp.stack(pairs, -1).reshape(x.shape)
    return out.astype(x.dtype)
