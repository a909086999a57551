"""Whether a cell can do what it is asked, before anything is compiled or written."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.extend.core import ClosedJaxpr

import posenc
from experiments.cells import Cell, Transformer
from experiments.tasks import TASKS, Layout, Stream
from posenc.shapes import Array, Num

NEEDED = {"numbers": "which tokens are digits of a number", "groups": "which tokens belong together"}
Models = dict[str, tuple[Transformer, Transformer]]


def check(cell: Cell, models: Models) -> None:
    """Raises ValueError where a cell cannot do what it is asked.

    `models` collects the models that cells share, as trained and as tested, without parameters: each is traced once.
    """
    check_form(cell)
    identity = json.dumps([cell.config["encoding"], cell.config["model"], cell.evaluate.encoding])
    if identity not in models:
        trained = nnx.eval_shape(lambda: cell.transformer(nnx.Rngs(0)))
        tested = nnx.eval_shape(lambda: cell.tested_transformer(nnx.Rngs(0))) if cell.evaluate.encoding else trained
        trace(trained, jnp.arange(2))  # do the sizes fit?
        if cell.evaluate.encoding:
            check_tested(cell.evaluate.encoding, trained, tested)
        models[identity] = trained, tested
    train, test = cell.config["positions"], cell.config["positions"]["test"]
    longest = cell.train.max_length, cell.evaluate.lengths[-1]
    for model, layout, scheme, chosen, use, length, field in (
        (models[identity][0], cell.layout, cell.schemes[0], train, "training", longest[0], "train.max_length"),
        (models[identity][1], cell.tested_layout, cell.schemes[1], test, "testing", longest[1], "evaluate.lengths"),
    ):
        check_scheme(cell, scheme, f"positions.{chosen['name']}", model, use)
        bounds = scheme.bounds(layout.extent(length, scheme.needs))
        check_reach(cell, bounds, model, f"{use} at length {length}", field)


def check_form(cell: Cell) -> None:
    """Raises ValueError where a task cannot be put in the form that is asked for."""
    task, name, architecture = cell.layout.task, cell.config["task"]["name"], cell.model.architecture
    if architecture not in task.architectures:
        raise ValueError(
            f"task {name} is for {' and '.join(task.architectures)}, and model.architecture is {architecture!r}. "
            "Change one of them."
        )
    if isinstance(task, Stream) and not cell.layout.end:
        raise ValueError(f"task {name} asks within one text, which has no end: task.end says nothing. Leave it out.")
    if cell.evaluate.second_lengths and not task.grid:
        two = ", ".join(one for one, cls in TASKS.items() if cls.grid)
        raise ValueError(
            f"evaluate.second_lengths is {cell.evaluate.second_lengths}, and {name} has no second operand of a length "
            f"of its own. Leave it out, or use one of {two}."
        )
    task.held("train", cell.train.max_length)  # is there enough?
    task.held("test", cell.evaluate.lengths[-1])
    if cell.evaluate.generated and (isinstance(task, Stream) or architecture == "encoder"):
        why = "it says all at once" if architecture == "encoder" else f"{name} asks for single tokens within a text"
        raise ValueError(f"evaluate.generated is True, and {architecture} writes no answer: {why}. Leave it out.")


def check_tested(text: str, trained: Transformer, tested: Transformer) -> None:
    """Raises ValueError where options in testing ask for other parameters, or change nothing."""
    states = [jax.tree.map(jnp.shape, nnx.to_pure_dict(nnx.state(model, nnx.Param))) for model in (trained, tested)]
    if states[0] != states[1]:
        raise ValueError(
            f"evaluate.encoding is {text!r}, which asks for other parameters than those that are trained. Change such "
            "options in encoding, for training too."
        )
    if same(trace(trained, jnp.arange(2)), trace(tested, jnp.arange(2))):
        raise ValueError(
            f"evaluate.encoding is {text!r}, which changes nothing in testing: perhaps it decides only where training "
            "begins. Leave it out."
        )


def same(one: ClosedJaxpr, other: ClosedJaxpr) -> bool:
    """Whether two programs do the same, to the letter and to the last constant."""
    constants = zip(one.consts, other.consts, strict=False)
    return str(one) == str(other) and all(np.array_equal(a, b, equal_nan=True) for a, b in constants)


def check_scheme(cell: Cell, scheme: posenc.Scheme, name: str, model: Transformer, purpose: str) -> None:
    """Raises ValueError where a position scheme makes no sense with the encoding or the task of a cell."""
    encoding, task = cell.label("encoding"), cell.config["task"]["name"]
    if cell.layout.extent(1, scheme.needs) is None:
        layouts = {one: Layout(cls(), cell.model.architecture) for one, cls in TASKS.items()}
        knowing = [one for one, layout in layouts.items() if layout.extent(1, scheme.needs)]
        raise ValueError(
            f"{name} counts by {NEEDED[scheme.needs]}, and the task {task} does not say. Tasks that do: "
            f"{', '.join(knowing)}."
        )
    if all(one.kind == "blind" for one in model.encodings) and not isinstance(scheme, posenc.SCHEMES["in_order"]):
        raise ValueError(
            f"{encoding} does not look at positions: {cell.label('positions')} is nothing to it in {purpose}. "
            "Use in_order, or leave it out."
        )
    if scheme.axes > 1:
        try:
            trace(model, jnp.zeros((1, 2, scheme.axes), int))
        except ValueError as error:
            raise ValueError(f"{encoding} cannot read {name}: {error}") from None


def check_reach(cell: Cell, bounds: tuple[float, float], model: Transformer, use: str, field: str) -> None:
    """Raises ValueError where a scheme gives positions that an encoding cannot read."""
    lowest, highest = bounds
    limit = min((one.limit for one in model.encodings if one.limit is not None), default=math.inf)
    name, options = cell.label("encoding"), cell.config["encoding"]["options"]
    if limit < math.inf and lowest < 0:
        raise ValueError(
            f"{name} reads positions from 0 on, and {cell.label('positions')} gives positions from {lowest:g} on in "
            f"{use}. Use an encoding without a table of positions, or another scheme."
        )
    if highest > limit - 1:
        needed = math.ceil(highest) + 1
        short = [part for part, chosen in options.items() if chosen.get("max_position", needed) < needed]
        raise ValueError(
            f"{name} reads positions 0 to {limit - 1}, and {use} needs {needed} of them. "
            f"Set encoding.{short[0] if short else name}.max_position to {needed} or more, or change {field}."
        )


def trace(model: Transformer, positions: Num[Array, "..."]) -> ClosedJaxpr:
    """The program of a model without parameters on two tokens.

    Raises:
        ValueError: what an encoding says that cannot do with them.
    """
    graph, state = nnx.split(model)
    texts = (jnp.zeros((1, 2), int), positions) * (2 if isinstance(model, posenc.EncoderDecoder) else 1)
    return jax.make_jaxpr(lambda state: nnx.merge(graph, state)(*texts))(state)
