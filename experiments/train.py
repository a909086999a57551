"""Training: a pure function of (cell, seed), all seeds of a cell in one compiled program.

A step draws its batch inside the program, from its seed and its number alone: there is no input pipeline, and nothing
to remember between steps but parameters, optimiser and the number. Lengths are traced, arrays are as long as the
longest training length needs, so one compilation serves all lengths.
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from experiments.cells import Cell
from experiments.tasks import Batch, positions
from posenc.shapes import Array, Float, Int, Key

LANES = 8  # numbers of 32 bits in a vector register


class State(NamedTuple):
    """What training carries from step to step."""

    parameters: nnx.State
    optimizer: optax.OptState


class Keys(NamedTuple):
    """What a step draws with."""

    lengths: Key[Array, ""]
    batch: Key[Array, ""]
    positions: Key[Array, ""]
    dropout: Key[Array, ""]


class Trainer:
    """The training of one cell.

    Args:
        cell: what to train.
    """

    def __init__(self, cell: Cell):
        self.cell = cell
        self.optimizer = make_optimizer(cell)
        self.buckets = buckets(cell)
        self.graph, _ = nnx.split(nnx.eval_shape(lambda: cell.transformer(nnx.Rngs(0))), nnx.Param)
        self.init = jax.vmap(self.init_one)
        self.advance = jax.jit(self.advance_all, donate_argnums=0)

    def init_one(self, seed: Int[Array, ""]) -> State:
        """The state before the first step. `init` takes an array of seeds."""
        _, parameters = nnx.split(self.cell.transformer(nnx.Rngs(seed_key(seed, "init"))), nnx.Param)
        return State(parameters, self.optimizer.init(parameters))

    def advance_all(
        self, states: State, seeds: Int[Array, "s"], start: Int[Array, ""], stop: Int[Array, ""]
    ) -> tuple[State, Float[Array, "s"]]:
        """The states of all seeds after the steps start .. stop-1, and their mean losses.

        Start and stop are traced: one compilation, however the steps are cut into chunks.
        """
        return over_seeds(lambda state, seed: self.advance_one(state, seed, start, stop), states, seeds)

    def advance_one(
        self, state: State, seed: Int[Array, ""], start: Int[Array, ""], stop: Int[Array, ""]
    ) -> tuple[State, Float[Array, ""]]:
        """The same for one seed."""

        def one(step, carry):
            state, total = carry
            state, loss = self.step(state, seed, step)
            return state, total + loss

        state, total = jax.lax.fori_loop(start, stop, one, (state, jnp.zeros(())))
        return state, total / (stop - start)

    def step(self, state: State, seed: Int[Array, ""], step: Int[Array, ""]) -> tuple[State, Float[Array, ""]]:
        """One update, and the loss before it."""
        keys = Keys(*jax.random.split(step_key(seed, step), 4))
        lengths = self.lengths(keys.lengths, step)
        loss, gradients = self.gradients(state.parameters, keys, lengths)
        updates, optimizer = self.optimizer.update(gradients, state.optimizer, state.parameters)
        return State(optax.apply_updates(state.parameters, updates), optimizer), loss

    def gradients(self, parameters: nnx.State, keys: Keys, lengths: Int[Array, "b"]):
        """Loss and gradients, in arrays no longer than the batch needs.

        Where all seeds share one length, each bucket of lengths is a branch of the program, and the others are skipped.
        """
        roads = [functools.partial(self.gradients_within, longest=longest) for longest in self.buckets]
        if len(roads) == 1:
            return roads[0](parameters, keys, lengths)
        branch = sum((lengths[0] > longest).astype(jnp.int32) for longest in self.buckets[:-1])
        return jax.lax.switch(branch, roads, parameters, keys, lengths)

    def gradients_within(self, parameters: nnx.State, keys: Keys, lengths: Int[Array, "b"], *, longest: int):
        """Loss and gradients, in arrays for `longest`."""
        batch = self.cell.layout.batch(keys.batch, lengths, longest)
        batch = batch.alike() if self.cell.train.length == "per_batch" else batch
        where = positions(self.cell.schemes[0], keys.positions, batch)

        def loss_of(parameters):
            model = nnx.merge(self.graph, parameters)
            rngs = nnx.Rngs(keys.dropout) if self.cell.model.dropout else None
            return mean_loss(model(batch.tokens, where, lengths=batch.lengths, slots=batch.slots, rngs=rngs), batch)

        return jax.value_and_grad(loss_of)(parameters)

    def lengths(self, key: Key[Array, ""], step: Int[Array, ""]) -> Int[Array, "b"]:
        """The length of each example of a batch."""
        train = self.cell.train
        if train.length == "per_example":
            return jax.random.randint(key, (train.batch,), train.min_length, train.max_length + 1)
        key = jax.random.fold_in(seed_key(0, "lengths"), step)  # the same for all seeds
        return jnp.full(train.batch, jax.random.randint(key, (), train.min_length, train.max_length + 1))


def over_seeds(one: Callable, *stacked):
    """A function of each seed's part of what is stacked along the first axis, in one program.

    An accelerator does all at once, and would be idle with few. A CPU is as busy with one, and its caches hold one:
    there they take turns.
    """
    if jax.default_backend() == "cpu":
        return jax.lax.map(lambda parts: one(*parts), stacked, batch_size=1)
    return jax.vmap(one)(*stacked)


def seed_key(seed: Int[Array, ""], purpose: str) -> Key[Array, ""]:
    """The root of all that a seed decides, apart for each purpose."""
    return jax.random.fold_in(jax.random.key(seed), ("init", "steps", "lengths").index(purpose))


def step_key(seed: Int[Array, ""], step: Int[Array, ""]) -> Key[Array, ""]:
    """Everything random in a step comes from here."""
    return jax.random.fold_in(seed_key(seed, "steps"), step)


def mean_loss(logits: Float[Array, "b a v"], batch: Batch) -> Float[Array, ""]:
    """Cross-entropy in nats per scored token, over the whole batch."""
    targets, scored = batch.asked()
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, targets)
    return jnp.sum(losses, where=scored) / jnp.sum(scored)


def make_optimizer(cell: Cell) -> optax.GradientTransformation:
    """Clipped AdamW, warmed up and cooled down."""
    train = cell.train
    schedule = optax.warmup_cosine_decay_schedule(0.0, train.learning_rate, train.warmup, train.steps)
    mask = None if train.decay_encodings else of_the_model
    adamw = optax.adamw(schedule, weight_decay=train.weight_decay, mask=mask)
    return optax.chain(optax.clip_by_global_norm(train.clip), adamw)


def of_the_model(parameters: nnx.State) -> nnx.State:
    """True for each parameter of the model itself, False for those of its encodings."""
    return jax.tree_util.tree_map_with_path(lambda path, _: path[0].key != "encodings", parameters)


def buckets(cell: Cell) -> list[int]:
    """The lengths that arrays are made for, ascending; the last is the longest that is trained.

    Each is the longest that fits into a whole number of LANES tokens: odd sizes leave vector registers half empty.
    """
    train, tokens = cell.train, cell.layout.tokens
    lengths = range(train.min_length, train.max_length + 1)
    pieces = train.buckets if train.length == "per_batch" else 1
    sizes = [math.ceil(tokens(lengths[-1]) * i / pieces / LANES) * LANES for i in range(1, pieces)]
    fitting = [[length for length in lengths if tokens(length) <= size] for size in sizes]
    return sorted({found[-1] for found in fitting if found} | {lengths[-1]})


@functools.cache
def chunks(steps: int, pieces: int = 20) -> tuple[tuple[int, int], ...]:
    """Where training pauses to show how it goes: (start, stop) of each piece."""
    edges = [round(steps * i / pieces) for i in range(pieces + 1)]
    return tuple((start, stop) for start, stop in itertools.pairwise(edges) if start < stop)
