"""What an encoding adds to the model: parameters, and arithmetic in a forward pass.

A comparison is fair only if one knows what each side was given. The arithmetic is XLA's count of floating-point
operations in the program before it is optimised, for one example of the longest trained length, against the same model
without any encoding. Sines, exponentials and gathers are not in that count.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from experiments.cells import Cell
from experiments.forward import KEPT


class Cost(NamedTuple):
    """What the model of a cell has, and what of it is its encoding's.

    Attributes:
        parameters: trained numbers of the whole model.
        added_parameters: those of the encodings.
        flops: floating-point operations of a forward pass over one example of the longest trained length.
        added_flops: the share by which they exceed those of the same model without an encoding: 0.1 is a tenth more.
    """

    parameters: int
    added_parameters: int
    flops: float
    added_flops: float


def cost(cell: Cell) -> Cost:
    """The cost of a cell's model."""
    model = nnx.eval_shape(lambda: cell.transformer(nnx.Rngs(0)))
    flops, without = forward_flops(cell), forward_flops(cell.without_encoding())
    return Cost(size(model), sum(map(size, model.encodings)), flops, flops / without - 1)


def size(module: nnx.Module) -> int:
    """How many trained numbers a module has."""
    return sum(leaf.size for leaf in jax.tree.leaves(nnx.state(module, nnx.Param)))


def forward_flops(cell: Cell) -> float:
    """Operations of a forward pass over one example of the longest trained length."""
    graph, parameters = nnx.split(nnx.eval_shape(lambda: cell.transformer(nnx.Rngs(0))), KEPT)

    def forward(parameters, *texts):
        return nnx.merge(graph, parameters)(*texts)

    layout, length = cell.layout, cell.train.max_length
    sizes = [layout.tokens(length)]
    if layout.architecture == "encoder_decoder":
        sizes = [layout.task.input_length(length), layout.task.answer_length(length) + layout.end]
    like = [jax.ShapeDtypeStruct((1, size), jnp.int32) for size in sizes for _ in ("tokens", "positions")]
    return jax.jit(forward).lower(parameters, *like).cost_analysis()["flops"]
