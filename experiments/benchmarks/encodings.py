"""What each encoding adds to a training step, against the same model without any.

A decoder of 4 layers, 256 wide, 8 heads, on 8 texts of 512 tokens in order; the loss on every token, plain gradients.
"""

import argparse
import statistics

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from rich.console import Console

import posenc
from experiments.benchmarks.timing import in_turns, ratio

VOCABULARY, WIDTH, DEPTH, HEADS = 64, 256, 4, 8


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--encodings", nargs="*", default=list(posenc.ENCODINGS), help="all where none is named")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--attention", choices=("auto", "dense", "blocks", "fused"), default="auto")


def run(given: argparse.Namespace, rows, console: Console) -> None:
    """Each encoding in turns with none."""
    none = step("none", given)
    for name in given.encodings:
        case = dict(command="encodings", encoding=name, tokens=given.tokens, batch=given.batch, dtype=given.dtype)
        if rows.done(**case):
            continue
        console.print(f"{name} ...")
        seconds = in_turns({"none": none, "it": step(name, given)}, given.rounds)
        rows.add(**case, ms=1e3 * statistics.median(seconds["it"]), to_none=ratio(seconds["it"], seconds["none"]))


def step(name: str, given: argparse.Namespace):
    """A case: loss and gradients of a model with this encoding."""
    model = model_with(name, given)
    graph, parameters = nnx.split(model, nnx.Param)
    tokens = jax.random.randint(jax.random.key(0), (given.batch, given.tokens), 0, VOCABULARY)
    positions = posenc.Positions(jnp.arange(given.tokens), consecutive=True)

    def loss(parameters):
        logits = nnx.merge(graph, parameters)(tokens, positions)
        return optax.softmax_cross_entropy_with_integer_labels(logits, jnp.roll(tokens, -1, axis=1)).mean()

    gradients = jax.jit(jax.value_and_grad(loss))
    return lambda _: jax.block_until_ready(gradients(parameters))


def model_with(name: str, given: argparse.Namespace) -> posenc.Transformer:
    """The model that is measured."""
    rngs = nnx.Rngs(0)
    options = {name: {"max_position": given.tokens} if "max_position" in options_with_reach(name) else {}}
    layers = posenc.make_layers(
        (name,), DEPTH, options=options, width=WIDTH, heads=HEADS, head_dim=WIDTH // HEADS, rngs=rngs
    )
    dtype = jnp.dtype(given.dtype)
    return posenc.Transformer(
        VOCABULARY, WIDTH, DEPTH, HEADS, layers, attention=given.attention, dtype=dtype, rngs=rngs
    )


def options_with_reach(name: str) -> set[str]:
    """The options of encodings that must know how far positions go."""
    limited = posenc.make(name, width=WIDTH, heads=HEADS, head_dim=WIDTH // HEADS, rngs=nnx.Rngs(0)).limit is not None
    return set(posenc.options_of(posenc.ENCODINGS[name])) if limited else set()
