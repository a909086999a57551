"""Where a program runs: the seeds of a cell, and the examples of a batch, over all devices there are.

Seeds know nothing of each other, so that each device takes its share of them and never waits. What is left over goes to
the batch: with one seed on eight devices each computes an eighth of the gradient. Both come to what one device gives,
up to the order of sums.
"""

import math
from collections.abc import Callable
from typing import TypeVar

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

Tree = TypeVar("Tree")


def mesh_for(seeds: int, batch: int) -> Mesh:
    """As many of the devices as can share the seeds evenly, and among those the examples; more seeds apart first."""
    devices = jax.devices()
    counts = [n for n in range(1, len(devices) + 1) if seeds % n == 0]
    shapes = [(n, max(m for m in range(1, len(devices) // n + 1) if batch % m == 0)) for n in counts]
    shape = max(shapes, key=lambda shape: (math.prod(shape), shape))
    used = np.array(devices[: math.prod(shape)]).reshape(shape)
    return Mesh(used, ("seeds", "batch"), axis_types=(AxisType.Auto, AxisType.Auto))


def over_seeds(one: Callable, batch: int, *stacked):
    """A function of each seed's part of what is stacked along the first axis, in one program.

    Args:
        one: takes a part of each of `stacked`; it may call `over_batch` on what it draws.
        batch: the examples that it draws at a time.
        stacked: trees of arrays with a leading axis of seeds.
    """
    mesh = mesh_for(len(jax.tree.leaves(stacked)[0]), batch)
    if mesh.size == 1:
        return in_turn_or_at_once(one, *stacked)
    seeds = PartitionSpec("seeds")

    def share(*stacked):
        return in_turn_or_at_once(one, *stacked)

    parted = jax.shard_map(share, mesh=mesh, in_specs=seeds, out_specs=seeds, axis_names={"seeds"}, check_vma=False)
    return parted(*stacked)


def in_turn_or_at_once(one: Callable, *stacked):
    """The seeds of one device. An accelerator does all at once, and would be idle with few.

    A CPU is as busy with one, and its caches hold one: there they take turns.
    """
    if jax.default_backend() == "cpu":
        return jax.lax.map(lambda parts: one(*parts), stacked, batch_size=1)
    return jax.vmap(one)(*stacked)


def spread(stacked: Tree, batch: int) -> Tree:
    """What is stacked along an axis of seeds, where `over_seeds` wants it: a program need not be compiled for two."""
    mesh = mesh_for(len(jax.tree.leaves(stacked)[0]), batch)
    return stacked if mesh.size == 1 else jax.device_put(stacked, NamedSharding(mesh, PartitionSpec("seeds")))


def over_batch(batch: Tree) -> Tree:
    """What is drawn for a batch, its first axis shared out to the devices of a seed; an axis of 1 goes to all."""
    mesh = jax.sharding.get_abstract_mesh()
    if "batch" not in mesh.axis_names or mesh.shape["batch"] == 1:
        return batch

    def place(x):
        alike = x.shape[0] == 1
        return jax.lax.with_sharding_constraint(x, PartitionSpec() if alike else PartitionSpec("batch"))

    return jax.tree.map(place, batch)
