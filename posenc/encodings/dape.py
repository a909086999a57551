"""A small network that looks at the logits and another encoding's bias, all heads at once, and corrects their sum.

    S = Q K^T / sqrt(d) + B + f([Q K^T / sqrt(d) ; B]),   f: 2h -> hidden -> h for each pair of query and key

Zheng et al. 2024, arXiv:2405.14722, equation 7: B is the bias of KERPLE, ALiBi or FIRE. The network sees logits that
nobody may see too; what it gives there is masked with all the rest. Its kind is that of the encoding inside, whose bias
is added here and not by the hook of that name: attention would add it twice. The network's last bias is left out: a
softmax does not see what is the same for all keys.
"""

import jax
import jax.numpy as jnp
from flax import nnx

from posenc.encodings.base import Encoding, parameter


class DAPE(Encoding):
    """Data-adaptive positional encoding.

    Args:
        heads: heads of the attention, h.
        of: an encoding with a bias, which may scale queries and keys too; its name, where `posenc.make` builds it,
            with its own options.
        hidden: channels between the two layers of the network.
        init: of the network's weights; its bias is zero at first.
    """

    shared = False

    def __init__(
        self,
        heads: int,
        *,
        of: str | Encoding = "kerple",
        hidden: int = 32,
        init=nnx.initializers.lecun_normal(),
        rngs: nnx.Rngs | None = None,
        param_dtype=jnp.float32,
    ):
        if not isinstance(of, Encoding):
            raise ValueError(f"dape.of is {of!r}; posenc.make builds encodings from names, DAPE takes a built one.")
        if not of.overrides("bias") or any(of.overrides(hook) for hook in OTHERS):
            raise ValueError(f"dape.of is {type(of).__name__}; expected one that adds a bias, such as kerple or alibi.")
        if hidden < 1:
            raise ValueError(f"dape.hidden is {hidden}; expected 1 or more.")
        self.of, self.kind, self.limit = of, of.kind, of.limit
        self.causal_only, self.bidirectional = of.causal_only, of.bidirectional
        self.up = parameter(rngs, init, (2 * heads, hidden), param_dtype)
        self.up_bias = parameter(rngs, nnx.initializers.zeros, (hidden,), param_dtype)
        self.down = parameter(rngs, init, (hidden, heads), param_dtype)

    def queries_keys(self, q, k, q_positions, k_positions):
        return self.of.queries_keys(q, k, q_positions, k_positions)

    def logits(self, logits, q, k, q_positions, k_positions, visible):
        bias = jnp.asarray(self.of.bias(q_positions, k_positions))
        bias = jnp.broadcast_to(bias, logits.shape)
        seen = jnp.concatenate([logits, bias], axis=1)
        # A column for each pair: with an axis of examples before that of heads, XLA moves all of it for each product.
        pairs = jnp.moveaxis(seen, 1, 0).reshape(seen.shape[1], -1)
        hidden = jax.nn.leaky_relu(jnp.einsum("cn,cf->fn", pairs, self.up[...]) + self.up_bias[...][:, None])
        change = jnp.einsum("fn,fh->hn", hidden, self.down[...]).reshape(-1, len(logits), *logits.shape[2:])
        return logits + bias + jnp.moveaxis(change, 0, 1)


OTHERS = ("embeddings", "steps", "logits", "weights", "values")
