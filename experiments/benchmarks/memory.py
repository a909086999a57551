"""Peak memory of one attention layer above the idle process, each encoding in a process of its own.

32,768 tokens forward, 128 wide with 8 heads, or 8,192 tokens forward and backward: the memory does not depend on the
depth, as a layer's is free again when the next one runs. Minutes for each encoding.
"""

import argparse
import json
import resource
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
from flax import nnx
from rich.console import Console

import posenc

WIDTH, HEADS = 128, 8
TOKENS = {"forward": 32_768, "training": 8_192}
OPTIONS = {"learned", "one_hot", "tupe"}  # tables of positions, as long as the text
MIB = 2**20


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--encodings", nargs="*", default=list(posenc.ENCODINGS), help="all where none is named")
    parser.add_argument("--passes", nargs="*", choices=TOKENS, default=list(TOKENS))
    parser.add_argument("--tokens", type=int, help="in place of 32768 forward and 8192 in training")
    parser.add_argument("--alone", action="store_true", help="in this process, the first of each only")


def run(given: argparse.Namespace, rows, console: Console) -> None:
    """Each case in a process of its own."""
    for name in given.encodings:
        for which in given.passes:
            tokens = given.tokens or TOKENS[which]
            case = dict(command="memory", encoding=name, **{"pass": which}, tokens=tokens)
            if rows.done(**case):
                continue
            if given.alone:
                rows.add(**case, **peak(name, which, tokens))
                return
            console.print(f"{name}, {which} ...")
            rows.add(**case, **elsewhere(name, which, tokens))


def elsewhere(name: str, which: str, tokens: int) -> dict:
    """The peak of one case, from a process of its own."""
    code = "import json, sys; from experiments.benchmarks.memory import peak; print(json.dumps(peak({!r}, {!r}, {})))"
    command = [sys.executable, "-c", code.format(name, which, tokens)]
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        return {"mib": float("nan"), "seconds": float("nan"), "failure": done.stderr.strip().splitlines()[-1][:80]}
    return json.loads(done.stdout.splitlines()[-1])


def peak(name: str, which: str, tokens: int) -> dict:
    """The memory at the peak above that of the idle process, in MiB, and the seconds it took with compilation."""
    options = {"max_position": tokens} if name in OPTIONS else {}
    causal = True
    encoding = posenc.make(name, width=WIDTH, heads=HEADS, head_dim=WIDTH // HEADS, rngs=nnx.Rngs(0), **options)
    attention = posenc.Attention(WIDTH, HEADS, rngs=nnx.Rngs(1))
    graph, parameters = nnx.split((encoding, attention), nnx.Param)
    positions = posenc.Positions(jnp.arange(tokens), consecutive=True)

    def forward(parameters, x):
        encoding, attention = nnx.merge(graph, parameters)
        x = encoding.embeddings(x, positions)
        return attention(x, positions, encoding, posenc.Visibility(causal)).sum()

    go = jax.jit(forward if which == "forward" else jax.grad(forward))
    x = jnp.ones((1, tokens, WIDTH)) * jnp.linspace(-1, 1, WIDTH)[None, None]
    jax.block_until_ready(x)
    idle, began = used(), time.perf_counter()
    jax.block_until_ready(go(parameters, x))
    return {"mib": (used() - idle) / MIB, "seconds": time.perf_counter() - began}


def used() -> int:
    """The most memory this process has held so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
