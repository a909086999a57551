"""Training: a pure function of (cell, seed), all seeds of a cell in one compiled program.

A step draws its batch inside the program, from its seed and its number alone: there is no input pipeline, and nothing
to remember between steps but parameters, optimiser and the number. Lengths are traced, arrays are as long as the
longest training length needs, so one compilation serves all lengths. It serves all learning rates too: what changes no
shape is an argument (`Numbers`), and cells that differ in nothing else share a `Program`.
"""

import functools
import itertools
import json
import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from experiments.cells import Cell
from experiments.devices import over_batch, over_seeds, spread
from experiments.forward import KEPT, logits
from experiments.settings import Schedule, Train
from experiments.tasks import Batch
from experiments.tasks.base import Whole
from posenc.shapes import Array, Float, Int, Key

LANES = 8  # numbers of 32 bits in a vector register


class Numbers(NamedTuple):
    """The settings of training that change no shape."""

    learning_rate: Float[Array, "*s"]
    warmup: Float[Array, "*s"]
    steps: Float[Array, "*s"]
    weight_decay: Float[Array, "*s"]
    clip: Float[Array, "*s"]

    @classmethod
    def of(cls, train: Train, seeds: int | tuple[()]) -> "Numbers":
        """Those of a cell, for each of so many seeds."""
        return cls(*(jnp.full(seeds, getattr(train, name), jnp.float32) for name in cls._fields))


class State(NamedTuple):
    """What training carries from step to step, and what it was told.

    Attributes:
        parameters: trained ones, and the running statistics of batch norms.
        optimizer: of the trained ones.
        numbers: settings.
        total: the sum of the losses since it was last told. It is carried, so that where steps pause changes no bit.
        diverged: the first step whose loss was not finite, -1 where there was none.
    """

    parameters: nnx.State
    optimizer: optax.OptState
    numbers: Numbers
    total: Float[Array, "*s"]
    diverged: Int[Array, "*s"]


Held = Mapping[str, Array]
NOTHING: Held = {}


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
        self.cell, self.program, self.task = cell, program_of(cell), cell.layout.task
        self.held = functools.lru_cache(maxsize=1)(functools.partial(self.task.held, "train", cell.train.max_length))

    def init(self, seeds: Int[Array, "s"]) -> State:
        """The states before the first step."""
        return self.program.init(seeds, Numbers.of(self.cell.train, len(seeds)))

    def placed(self, states: State) -> State:
        """States that come from a file, on the devices where this program wants them."""
        return spread(jax.tree.map(lambda x: jnp.array(np.asarray(x)), states), self.cell.train.batch)

    def advance(self, states: State, seeds: Int[Array, "s"], start: int, stop: int) -> tuple[State, Array]:
        """The states after the steps start .. stop-1, and the mean losses; the old states' memory is used again."""
        states = self.proceed(states, seeds, start, stop)
        return told(states), states.total / (stop - start)

    def proceed(self, states: State, seeds: Int[Array, "s"], start: int, stop: int) -> State:
        """The same, where the losses are not told yet."""
        for turn, first, last in turns(start, stop, self.task.renewed or stop):
            states = self.program.advance(states, seeds, first, last, self.held(turn))
        return states


def told(states: State) -> State:
    """The states once their losses have been told: the next sum begins at nothing."""
    return states._replace(total=jnp.zeros_like(states.total))


def program_of(cell: Cell) -> "Program":
    """The program of a cell: that of another one, if there was one that differs in `Numbers` or in testing alone."""
    numbers = {name: getattr(Train(), name) for name in Numbers._fields}
    if cell.train.curriculum == "growing":
        del numbers["steps"], numbers["warmup"]  # lengths that grow with the steps are the same for all seeds
    positions = cell.training["positions"]
    testing = {"evaluate": {}, "positions": positions | {"test": positions}}
    return program(json.dumps({**cell.config, **testing, "train": {**cell.config["train"], **numbers}}))


@functools.lru_cache(maxsize=16)
def program(config: str) -> "Program":
    """The program of a cell's configuration, kept while the last few are in use."""
    return Program(Cell(json.loads(config)))


class Program:
    """What is compiled to train a cell.

    Args:
        cell: what to train; its `Numbers` are not looked at.
    """

    def __init__(self, cell: Cell):
        self.cell = cell
        self.buckets = buckets(cell)
        self.graph, _ = nnx.split(nnx.eval_shape(lambda: cell.transformer(nnx.Rngs(0))), KEPT)
        self.advance = jax.jit(self.advance_all, donate_argnums=0)

    def init(self, seeds: Int[Array, "s"], numbers: Numbers) -> State:
        """The states before the first step."""
        return spread(jax.vmap(self.init_one)(seeds, numbers), self.cell.train.batch)

    def init_one(self, seed: Int[Array, ""], numbers: Numbers) -> State:
        """The same for one seed."""
        parameters = self.parameters(seed)
        copies = jax.tree.map(jnp.copy, numbers)  # `advance` takes the memory of a state for its own
        optimizer = self.optimizer(numbers, 0).init(nnx.filter_state(parameters, nnx.Param))
        return State(parameters, optimizer, copies, jnp.zeros(()), jnp.full((), -1, jnp.int32))

    def parameters(self, seed: Int[Array, ""]) -> nnx.State:
        """Those before the first step, of one seed."""
        return nnx.split(self.cell.transformer(nnx.Rngs(seed_key(seed, "init"))), KEPT)[1]

    def advance_all(
        self, states: State, seeds: Int[Array, "s"], start: Whole, stop: Whole, held: Held = NOTHING
    ) -> State:
        """The states of all seeds after the steps start .. stop-1.

        Start and stop are traced: one compilation, however the steps are cut into chunks. `held` is the task's data.
        """
        one = functools.partial(self.advance_one, start=start, stop=stop, held=held)
        return over_seeds(one, self.cell.train.batch, states, seeds)

    def advance_one(
        self, state: State, seed: Int[Array, ""], *, start: Int[Array, ""], stop: Int[Array, ""], held: Held
    ) -> State:
        """The same for one seed."""

        def one(step, state):
            state, loss = self.step(state, seed, step, held)
            now = (state.diverged < 0) & ~jnp.isfinite(loss)
            return state._replace(total=state.total + loss, diverged=jnp.where(now, step, state.diverged))

        return jax.lax.fori_loop(start, stop, one, state)

    def step(
        self, state: State, seed: Int[Array, ""], step: Int[Array, ""], held: Held = NOTHING
    ) -> tuple[State, Float[Array, ""]]:
        """One update, and the loss before it."""
        keys = Keys(*jax.random.split(step_key(seed, step), 4))
        lengths = self.lengths(keys.lengths, step)
        trained, statistics = nnx.filter_state(state.parameters, nnx.Param, nnx.BatchStat)
        (loss, statistics), gradients = self.gradients(trained, statistics, keys, lengths, held)
        optimizer = self.optimizer(state.numbers, step)
        updates, carried = optimizer.update(gradients, state.optimizer, trained)
        parameters = nnx.merge_state(optax.apply_updates(trained, updates), statistics)
        return state._replace(parameters=parameters, optimizer=carried), loss

    def optimizer(self, numbers: Numbers, step: Int[Array, ""] | int) -> optax.GradientTransformation:
        """As it is at a step: gradients are clipped, weight decay is decoupled."""
        mask = None if self.cell.train.decay_encodings else of_the_model
        return optax.chain(
            optax.clip_by_global_norm(numbers.clip),
            scaled(self.cell.train),
            optax.add_decayed_weights(numbers.weight_decay, mask),
            optax.scale_by_learning_rate(learning_rate(numbers, step, self.cell.train.schedule)),
        )

    def gradients(self, trained: nnx.State, statistics: nnx.State, keys: Keys, lengths: Int[Array, "b"], held: Held):
        """Loss, running statistics and gradients, in arrays no longer than the batch needs.

        Where all seeds share one length, each bucket of lengths is a branch of the program, and the others are skipped.
        """
        roads = [functools.partial(self.gradients_within, longest=longest) for longest in self.buckets]
        if len(roads) == 1:
            return roads[0](trained, statistics, keys, lengths, held)
        branch = sum((lengths[0] > longest).astype(jnp.int32) for longest in self.buckets[:-1])
        return jax.lax.switch(branch, roads, trained, statistics, keys, lengths, held)

    def gradients_within(
        self,
        trained: nnx.State,
        statistics: nnx.State,
        keys: Keys,
        lengths: Int[Array, "b"],
        held: Held,
        *,
        longest: int,
    ):
        """The same in arrays for `longest`."""
        batch = over_batch(self.cell.layout.batch(keys.batch, lengths, longest, **held))
        if self.cell.train.length == "per_batch" and self.cell.layout.task.alike:
            batch = batch.alike()

        def loss_of(trained):
            model = nnx.merge(self.graph, trained, statistics, copy=True)  # what it writes down stays in here
            model.train()
            rngs = nnx.Rngs(keys.dropout) if self.cell.model.dropout else None
            said = logits(model, self.cell.schemes[0], keys.positions, batch, rngs)
            return mean_loss(said, batch, self.cell.train.label_smoothing), nnx.state(model, nnx.BatchStat)

        return jax.value_and_grad(loss_of, has_aux=True)(trained)

    def lengths(self, key: Key[Array, ""], step: Int[Array, ""]) -> Int[Array, "b"]:
        """The length of each example of a batch."""
        train, longest = self.cell.train, self.longest(step)
        if train.curriculum == "fixed":
            return jnp.full(train.batch, longest)
        if train.length == "per_example":
            return jax.random.randint(key, (train.batch,), train.min_length, longest + 1)
        key = jax.random.fold_in(seed_key(0, "lengths"), step)  # the same for all seeds
        return jnp.full(train.batch, jax.random.randint(key, (), train.min_length, longest + 1))

    def longest(self, step: Int[Array, ""]) -> Int[Array, ""] | int:
        """The longest length that may be drawn at a step."""
        train = self.cell.train
        if train.curriculum != "growing":
            return train.max_length
        more = (train.max_length - train.min_length + 1) * step // train.steps
        return jnp.minimum(train.min_length + more, train.max_length)


def seed_key(seed: Int[Array, ""], purpose: str) -> Key[Array, ""]:
    """The root of all that a seed decides, apart for each purpose."""
    return jax.random.fold_in(jax.random.key(seed), ("init", "steps", "lengths").index(purpose))


def step_key(seed: Int[Array, ""], step: Int[Array, ""]) -> Key[Array, ""]:
    """Everything random in a step comes from here."""
    return jax.random.fold_in(seed_key(seed, "steps"), step)


def mean_loss(logits: Float[Array, "b a v"], batch: Batch, smoothing: float = 0.0) -> Float[Array, ""]:
    """Cross-entropy in nats per scored token, over the whole batch; `smoothing` of a target goes to all tokens."""
    targets, scored = batch.asked()
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, targets)
    if smoothing:
        anything = -jax.nn.log_softmax(logits).mean(-1)
        losses = (1 - smoothing) * losses + smoothing * anything
    return jnp.sum(losses, where=scored) / jnp.sum(scored)


def scaled(train: Train) -> optax.GradientTransformation:
    """Gradients as an optimiser scales them, before decay and learning rate."""
    if train.optimizer == "adamw":
        return optax.scale_by_adam(train.beta1, train.beta2, train.epsilon)
    if train.optimizer == "nesterov":
        return optax.trace(train.beta1, nesterov=True)
    return optax.chain(optax.scale_by_factored_rms(), optax.clip_by_block_rms(1.0), optax.scale_by_param_block_rms())


def learning_rate(numbers: Numbers, step: Int[Array, ""] | int, schedule: Schedule = "cosine") -> Float[Array, ""]:
    """At a step: a straight line up to its peak, and then what the schedule says.

    "cosine", half a cosine down to nothing at the last step; "linear", a straight line there; "constant"; or
    "inverse_sqrt", the peak times sqrt(warmup / step), as by Vaswani et al. 2017 (arXiv:1706.03762).
    """
    warming = jnp.where(step < numbers.warmup, step / jnp.maximum(numbers.warmup, 1), 1)
    done = jnp.maximum(step - numbers.warmup, 0) / (numbers.steps - numbers.warmup)
    if schedule == "cosine":
        return warming * optax.cosine_decay_schedule(numbers.learning_rate, 1)(done)
    begun = jnp.maximum(numbers.warmup, 1)
    after = {"linear": 1 - done, "constant": 1.0, "inverse_sqrt": jnp.sqrt(begun / jnp.maximum(step, begun))}
    return warming * numbers.learning_rate * after[schedule]


def of_the_model(parameters: nnx.State) -> nnx.State:
    """True for each parameter of the model itself, False for those of its encodings."""
    theirs = {"encodings", "cross_encoding"}
    return jax.tree_util.tree_map_with_path(
        lambda path, _: not theirs & {getattr(part, "key", None) for part in path}, parameters
    )


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


def turns(start: int, stop: int, length: int) -> list[tuple[int, int, int]]:
    """The steps start .. stop-1 in pieces within turns of so many steps: (turn, start, stop) of each piece."""
    numbers = range(start // length, (stop - 1) // length + 1)
    return [(turn, max(start, turn * length), min(stop, (turn + 1) * length)) for turn in numbers]


@functools.cache
def chunks(steps: int, pieces: int = 20) -> tuple[tuple[int, int], ...]:
    """Where training pauses to show how it goes: (start, stop) of each piece."""
    edges = [round(steps * i / pieces) for i in range(pieces + 1)]
    return tuple((start, stop) for start, stop in itertools.pairwise(edges) if start < stop)
