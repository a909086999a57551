"""What a model says of a batch, whatever its architecture: the one place where a batch meets positions and a model."""

import jax
import jax.numpy as jnp
from flax import nnx

import posenc
from experiments.cells import Transformer
from experiments.tasks import Batch, positions
from posenc.shapes import Array, Float, Int, Key

KEPT = (nnx.Param, nnx.BatchStat)  # what a model is, beside its structure


def logits(
    model: Transformer, scheme: posenc.Scheme, key: Key[Array, ""], batch: Batch, rngs: nnx.Rngs | None = None
) -> Float[Array, "b a v"]:
    """What a model says where it is asked, each token given the true ones before it.

    Args:
        scheme: where the tokens stand.
        key: for that.
        rngs: for dropout.
    """
    kinds = dict(lengths=batch.lengths, slots=batch.slots, rngs=rngs)
    if batch.source is None:
        return model(batch.tokens, positions(scheme, key, batch), **kinds)
    source, (read, written) = batch.source, jax.random.split(key)
    there = source.tokens, positions(scheme, read, source)
    return model(*there, batch.tokens, positions(scheme, written, batch), source_lengths=source.lengths, **kinds)


def answers(
    model: Transformer, scheme: posenc.Scheme, key: Key[Array, ""], batch: Batch, end: int | None
) -> Int[Array, "b a"]:
    """What a decoder writes in the slots of an answer, greedily, each token given those that it has written before.

    Args:
        end: the token after which an answer is over; None where answers have no end.
    """
    steps = batch.slots.shape[1]
    examples = len(batch.tokens)
    if batch.source is None:
        where, first = positions(scheme, key, batch), jnp.broadcast_to(batch.slots[:, 0], examples)
        prompts = batch.tokens.shape[1] - steps + 1  # up to the separator behind the longest input
        return posenc.generate(
            model, batch.tokens[:, :prompts], steps, lengths=first + 1, positions=lasting(where), end=end
        )
    source, (read, written) = batch.source, jax.random.split(key)
    memory = model.read(source.tokens, positions(scheme, read, source), lengths=source.lengths)
    where = lasting(positions(scheme, written, batch))
    return posenc.generate(model, batch.tokens[:, :1], steps, positions=where, end=end, memory=memory)


def lasting(where: posenc.Positions) -> posenc.Positions:
    """With one more behind the last: that of the last token written, which nobody reads."""
    where = posenc.Positions.led(where)
    return posenc.Positions(jnp.concatenate([where.values, where.values[:, -1:]], axis=1))
