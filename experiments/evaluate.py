"""Evaluation: exact match, token accuracy and loss of every seed at every length, compiled once per bucket of lengths.

Exact match is teacher-forced: each token of the answer is predicted from the true tokens before it. It equals greedy
decoding's, example by example: if every argmax is right given the true prefix, decoding writes the same answer, and at
the first wrong one both fail. Token accuracy has no such equality: a decoder that has gone wrong does not get the true
prefix back. `evaluate.generated` gives both for answers that the model has written by itself.

Text is told in bits per byte, by the two protocols in use, which disagree: over windows that do not overlap every byte
counts, also those with little before them; with a sliding window only the last few bytes of each do, which have nearly
the whole context (Press et al. 2022, arXiv:2108.12409, appendix B). Windows are drawn, the same ones for every cell, so
that both are averages over the same forward passes: `bits_per_byte`, `bits_per_byte_sliding`, and
`bits_per_byte_from_N` for the bytes N to 2N - 1 of a window.
"""

import functools
import itertools
import json
import math
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from experiments.cells import Cell
from experiments.devices import over_batch, over_seeds
from experiments.forward import KEPT, answers, logits
from experiments.tasks import Batch
from experiments.train import NOTHING, Held
from posenc.shapes import Array, Float, Int, Key

METRICS = ("exact_match", "token_accuracy", "loss")
BITS = "bits_per_byte"
FROM = f"{BITS}_from_"
GENERATED = ("generated_exact_match", "generated_token_accuracy")


class Sums(NamedTuple):
    """Sums over examples; they are divided once, at the end."""

    examples: Float[Array, ""]
    tokens: Float[Array, ""]
    exact: Float[Array, ""]
    right: Float[Array, ""]
    loss: Float[Array, ""]
    generated_exact: Float[Array, ""] | None = None
    generated_right: Float[Array, ""] | None = None
    by_place: Float[Array, "a"] | None = None

    def metrics(self) -> dict[str, Array]:
        """Exact match a share of examples, token accuracy of answer tokens, loss in nats per answer token."""
        values = (self.exact / self.examples, self.right / self.tokens, self.loss / self.tokens)
        metrics = dict(zip(METRICS, values, strict=True))
        if self.generated_exact is None or self.generated_right is None:
            return metrics
        written = (self.generated_exact / self.examples, self.generated_right / self.tokens)
        return metrics | dict(zip(GENERATED, written, strict=True))


def evaluator_of(cell: Cell) -> "Evaluator":
    """The evaluator of a cell: that of another one, if there was one that differs in training alone."""
    test = cell.config["positions"]["test"]
    return evaluator(json.dumps({**cell.config, "train": {}, "positions": test | {"test": test}}))


@functools.lru_cache(maxsize=16)
def evaluator(config: str) -> "Evaluator":
    """The evaluator of a cell's configuration, kept while the last few are in use."""
    return Evaluator(Cell(json.loads(config)))


class Evaluator:
    """The evaluation of one cell.

    Args:
        cell: what to evaluate; how it was trained is not looked at.
    """

    def __init__(self, cell: Cell):
        self.cell = cell
        self.graph, _ = nnx.split(nnx.eval_shape(lambda: cell.tested_transformer(nnx.Rngs(0))), KEPT)
        self.layout = cell.tested_layout
        self.held = self.layout.task.held("test", cell.evaluate.lengths[-1])
        self.metrics = jax.jit(self.all_seeds, static_argnames="longest")

    def __call__(self, parameters: nnx.State) -> Iterator[tuple[int, int | None, dict[str, Array]]]:
        """For each length, and each of a second operand, the metrics, one value per seed.

        Args:
            parameters: with a leading axis of seeds.
        """
        lengths, seconds = self.cell.evaluate.lengths, self.cell.evaluate.second_lengths
        for length, second in itertools.product(lengths, seconds or (None,)):
            key = jax.random.fold_in(jax.random.key(self.cell.evaluate.seed), length)
            held = self.held if second is None else {**self.held, "second": jnp.asarray(second)}
            key = key if second is None else jax.random.fold_in(key, second)
            metrics = self.metrics(parameters, key, length, held, longest=bucket(length, lengths[-1]))
            there = {f"{FROM}{start}" for start in starts(length)}
            metrics = {name: x for name, x in metrics.items() if not name.startswith(FROM) or name in there}
            yield length, second, metrics

    def all_seeds(
        self, parameters: nnx.State, key: Key[Array, ""], length: Int[Array, ""], held: Held = NOTHING, *, longest: int
    ) -> dict[str, Array]:
        """The metrics of each seed at one length, in arrays for `longest`."""
        one = functools.partial(self.sums, key=key, length=length, held=held, longest=longest)
        sums = over_seeds(one, self.cell.evaluate.batch, parameters)
        return sums.metrics() | ({} if sums.by_place is None else self.bits(sums.by_place, sums.examples, length))

    def bits(self, by_place: Float[Array, "s a"], examples: Float[Array, "s"], length: Int[Array, ""]) -> dict:
        """Bits per byte over all places of a window, over its last ones, and over some of them each."""
        place = jnp.arange(by_place.shape[1])

        def mean(first: Int[Array, ""] | int, stop: Int[Array, ""] | int) -> Float[Array, "s"]:
            counts = (place >= first) & (place < jnp.minimum(stop, length))
            return jnp.sum(by_place, axis=1, where=counts[None]) / (examples * counts.sum() * math.log(2))

        last = jnp.maximum(length - self.cell.evaluate.stride, 0)
        spans = {f"{FROM}{start}": mean(start, 2 * start) for start in starts(by_place.shape[1])}
        return {BITS: mean(0, length), f"{BITS}_sliding": mean(last, length)} | spans

    def sums(
        self, parameters: nnx.State, *, key: Key[Array, ""], length: Int[Array, ""], held: Held, longest: int
    ) -> Sums:
        """Over all examples of one length, a batch at a time, for one seed."""
        batches = self.cell.evaluate.examples // self.cell.evaluate.batch
        one = functools.partial(self.batch_sums, parameters, length=length, held=held, longest=longest)
        sums = jax.lax.map(one, jax.random.split(key, batches))
        return jax.tree.map(lambda part: part.sum(0), sums)

    def batch_sums(
        self, parameters: nnx.State, key: Key[Array, ""], *, length: Int[Array, ""], held: Held, longest: int
    ) -> Sums:
        """Over one batch."""
        batch_key, positions_key = jax.random.split(key)
        size = self.cell.evaluate.batch
        layout, scheme = self.layout, self.cell.schemes[1]
        batch = over_batch(layout.batch(batch_key, jnp.full(size, length), longest, **held))
        batch = batch.alike() if layout.task.alike else batch
        model = nnx.merge(self.graph, parameters)
        sums = count(logits(model, scheme, positions_key, batch), batch, by_place=layout.task.bytes)
        if not self.cell.evaluate.generated:
            return sums
        end = layout.special["end"] if layout.end else None
        return counted(sums, answers(model, scheme, positions_key, batch, end), batch)


def count(logits: Float[Array, "b a v"], batch: Batch, *, by_place: bool = False) -> Sums:
    """What is right in a batch; with the losses of each place, if asked for.

    Logits that are not finite are wrong, whatever their argmax.
    """
    targets, scored = batch.asked()
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, targets)
    right = (logits.argmax(-1) == targets) & jnp.isfinite(losses)
    return Sums(
        examples=jnp.array(float(len(right))),
        tokens=scored.sum(dtype=jnp.float32),
        exact=jnp.all(right | ~scored, axis=-1).sum(dtype=jnp.float32),
        right=jnp.sum(right, where=scored, dtype=jnp.float32),
        loss=jnp.sum(losses, where=scored),
        by_place=jnp.sum(losses, axis=0, where=scored) if by_place else None,
    )


def counted(sums: Sums, written: Int[Array, "b a"], batch: Batch) -> Sums:
    """The same with what is right of answers that the model has written by itself."""
    targets, scored = batch.asked()
    right = written == targets
    return sums._replace(
        generated_exact=jnp.all(right | ~scored, axis=-1).sum(dtype=jnp.float32),
        generated_right=jnp.sum(right, where=scored, dtype=jnp.float32),
    )


def starts(length: int) -> list[int]:
    """The first places of spans, each as long as all before it, among so many: 1, 2, 4, 8 and so on."""
    return [1 << i for i in range(length.bit_length()) if 1 << i < length]


def bucket(length: int, longest: int) -> int:
    """The length whose padded program serves this one: the next power of two from 8 on, at most the longest."""
    return min(max(8, 1 << (length - 1).bit_length()), longest)
