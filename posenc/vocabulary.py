"""From tokens to embeddings, and from what the layers make of them to logits over the vocabulary."""

import jax.numpy as jnp
from flax import nnx

from posenc.blocks import Form
from posenc.shapes import Array, Float, Int


def make_embed(vocabulary: int, form: Form, rngs: nnx.Rngs) -> nnx.Embed:
    """A row for each token; what layers see of it has a variance of 1."""
    init = nnx.initializers.normal(form.width**-0.5 if form.scale_embeddings else 1.0)
    return nnx.Embed(vocabulary, form.width, embedding_init=init, param_dtype=form.param_dtype, rngs=rngs)


def make_head(vocabulary: int, form: Form, rngs: nnx.Rngs) -> nnx.Linear | None:
    """The map to logits; None where it is that of the embeddings."""
    if form.tie_embeddings:
        return None
    return nnx.Linear(form.width, vocabulary, use_bias=False, rngs=rngs, **form.kinds)


def embedded(embed: nnx.Embed, tokens: Int[Array, "b t"], form: Form) -> Float[Array, "b t m"]:
    """The embeddings of tokens."""
    x = embed(tokens)
    return (x * form.width**0.5 if form.scale_embeddings else x).astype(form.dtype)


def logits(embed: nnx.Embed, head: nnx.Linear | None, x: Float[Array, "b q m"], form: Form) -> Float[Array, "b q v"]:
    """Over the vocabulary, in float32 or wider."""
    if head is not None:
        said = head(x)
    else:
        rows = embed.embedding[...].astype(form.dtype)
        said = (x if form.scale_embeddings else x * form.width**-0.5) @ rows.T
    return said.astype(jnp.promote_types(form.dtype, jnp.float32))
