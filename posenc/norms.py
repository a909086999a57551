"""The norms that a transformer may have, by name, and the one among them that looks at other tokens."""

from collections.abc import Callable
from typing import Literal

from flax import nnx

from posenc.shapes import Array, Bool, Float

Norm = Literal["rms", "layer", "batch"]
NORMS: dict[str, Callable[..., nnx.Module]] = {"rms": nnx.RMSNorm, "layer": nnx.LayerNorm, "batch": nnx.BatchNorm}


def make_norm(norm: Norm, width: int, dtype, param_dtype, rngs: nnx.Rngs) -> nnx.Module:
    """A norm over channels, by name.

    "batch" (Ioffe and Szegedy 2015, arXiv:1502.03167) normalises each channel over all tokens of a batch: after
    `model.train()`, with the mean and variance at hand, which see other examples and the future, and it keeps running
    ones in an `nnx.BatchStat`; as it is made, and after `model.eval()`, with those.
    """
    mode = {"use_running_average": True} if norm == "batch" else {}
    return NORMS[norm](width, dtype=dtype, param_dtype=param_dtype, rngs=rngs, **mode)


def normed(norm: nnx.Module, x: Float[Array, "b t m"], real: Bool[Array, "#b t"]) -> Float[Array, "b t m"]:
    """What a norm makes of tokens; where it looks at all of them, at those that are no padding."""
    return norm(x, mask=real[:, :, None]) if isinstance(norm, nnx.BatchNorm) else norm(x)
