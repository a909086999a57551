"""A short sequence cut into chunks that stand far apart, so that distances of a long one are met in training.

    p_t = t + u_i for a token t of chunk i,   u_0 = 0,   u_i ~ U{u_i-1, ..., L - T}

PoSE, Zhu et al. 2023, arXiv:2309.10400, equations 3 and 4: T tokens, L = `target` positions, N = `chunks`. How long the
chunks are is read off the authors' code for N = 2: the first takes 1 .. ceil(T/2) tokens. Here each but the last takes
1 .. ceil(T/N), which is the same. The paper also leaves out the text between the chunks; here all tokens stay, as in
its variant v_i = 0, for a task without its middle is another task. In testing positions are 0, 1, 2, ...
"""

import dataclasses

import jax
import jax.numpy as jnp

from posenc.positions import Positions
from posenc.schemes.base import Scheme, check_room, slots
from posenc.schemes.in_order import InOrder


@dataclasses.dataclass(frozen=True)
class Skipped(Scheme):
    """Chunks of consecutive positions with random skips between them, drawn for each example.

    Args:
        chunks: N.
        target: how many positions there are, L: the tokens of the longest sequence that the model is to read.
    """

    chunks: int = 2
    target: int = 2048

    def __post_init__(self):
        if self.chunks < 1 or self.target < 1:
            raise ValueError(f"skipped has chunks {self.chunks} and target {self.target}; expected 1 or more of both.")

    def __call__(self, key, lengths, size, batch=1):
        lengths, real = lengths[:, None], slots(lengths, size)
        cut = skip = jnp.zeros((batch, 1), int)  # where the next chunk begins, and by how much it is shifted
        positions = real
        for one in jax.random.split(key, self.chunks - 1):
            for_cut, for_skip = jax.random.split(one)
            cut = cut + jax.random.randint(for_cut, (batch, 1), 1, -(-lengths // self.chunks) + 1)
            further = jax.random.randint(for_skip, (batch, 1), skip, self.target - lengths + 1)
            positions = positions + (real >= cut) * (further - skip)
            skip = further
        return Positions(positions)

    def bounds(self, extent):
        check_room("skipped.target", self.target, extent)
        return 0, self.target - 1

    def tested(self):
        return InOrder()
