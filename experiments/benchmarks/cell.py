"""A training step of the cell of configs/ruoss2023.py, against x-transformers and against the closest JAX code.

All take the same steps in turns, at the lengths that our training draws, one compilation or warm-up before. A peer runs
in the Python that has it: --x_transformers=PYTHON with torch and x-transformers from the package index,
--randomized=PYTHON with dm-haiku and the peer's repository as a package on its path. Those not named are left out.
"""

import argparse
import json
import statistics
import subprocess
import time

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from configs import ruoss2023
from experiments.benchmarks.timing import in_turns, multiply, rate
from experiments.cells import Cell
from experiments.config import expand
from experiments.evaluate import Evaluator
from experiments.train import Trainer

PEERS = {"x_transformers": "x_transformers", "randomized": "randomized_positional_encodings"}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--x_transformers", metavar="PYTHON", help="an interpreter that has x-transformers")
    parser.add_argument("--randomized", metavar="PYTHON", help="one that has randomized_positional_encodings")
    parser.add_argument("--encodings", nargs="*", default=["transformer_xl", "rope"])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5, help="in each round")
    parser.add_argument(
        "--evaluate", action="store_true", help="then test each at lengths 1 to 100, compilation and all"
    )


def run(given: argparse.Namespace, rows, console: Console) -> None:
    """Ours, one for each encoding, in turns with the peers that are there."""
    count, cases, compiling, tests = given.steps, {"matrix product": multiply()}, {}, {}
    ours = {name: Trainer(cell(name)) for name in given.encodings}
    lengths = drawn(next(iter(ours.values())), (given.rounds + 1) * count)
    for name, trainer in ours.items():
        console.print(f"compiling {name} ...")
        cases[f"ours, {name}"], compiling[f"ours, {name}"], tests[f"ours, {name}"] = ours_of(trainer, count)
    for option, name in PEERS.items():
        if python := getattr(given, option):
            console.print(f"starting {name}, each length once ...")
            cases[name], compiling[name], tests[name] = peer(python, name, lengths, count)
    console.print(f"{given.rounds} rounds of {count} steps ...")
    seconds = in_turns(cases, given.rounds)
    peak = rate(seconds.pop("matrix product"))
    work = [operations(next(iter(ours.values())).cell, part) for part in np.split(lengths, given.rounds + 1)[1:]]
    for name, times in seconds.items():
        share = statistics.median(w / t for w, t in zip(work, times, strict=True)) / peak
        ratios = {
            f"over_{base.split(', ')[-1]}": statistics.median(b / a for a, b in zip(times, seconds[base], strict=True))
            for base in seconds
            if not base.startswith("ours")
        }
        step = 1e3 * statistics.mean(times) / count
        testing = {"evaluate_s": tests[name]()} if given.evaluate else {}
        rows.add(
            command="cell", case=name, ms_a_step=step, **ratios, of_matrix_rate=share, compile_s=compiling[name],
            **testing,
        )  # fmt: skip


def cell(encoding: str) -> Cell:
    """The cell, with another encoding."""
    config = ruoss2023.get_config("cell")
    config.encoding.name = encoding
    return expand(config)[0]


def drawn(trainer: Trainer, steps: int) -> np.ndarray:
    """The lengths of our first training steps."""
    lengths = jax.vmap(lambda step: trainer.program.lengths(jax.random.key(0), step)[0])(jnp.arange(steps))
    return np.asarray(lengths)


def ours_of(trainer: Trainer, count: int):
    """A case, the seconds its compilation took, and what tests it and tells the seconds."""
    seeds = jnp.zeros(1, jnp.uint32)
    state, began = [trainer.init(seeds)], time.perf_counter()
    held = trainer.held(0)
    program = trainer.program.advance.lower(state[0], seeds, jnp.int32(0), jnp.int32(1), held).compile()
    took = time.perf_counter() - began

    def case(number: int) -> None:
        steps = jnp.int32(number * count), jnp.int32((number + 1) * count)
        state[0] = jax.block_until_ready(program(state[0], seeds, *steps, held))

    def evaluate() -> float:
        began = time.perf_counter()
        jax.block_until_ready([metrics for *_, metrics in Evaluator(trainer.cell)(state[0].parameters)])
        return time.perf_counter() - began

    return case, took, evaluate


def peer(python: str, name: str, lengths: np.ndarray, count: int):
    """A case, the seconds that the first step at each length took beyond the next one, and what tests it."""
    command = [python, "-m", "experiments.benchmarks.peers", name]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603

    def answer():
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(command)} has ended. Install what it says is missing.")
        return json.loads(line)

    def ask(some: list[int] | str):
        print(json.dumps(some), file=process.stdin, flush=True)
        return answer()

    answer()  # it is ready
    distinct = sorted({int(length) for length in lengths})
    first, second = ask(distinct), ask(distinct)

    def case(number: int) -> None:
        ask(lengths[number * count : (number + 1) * count].tolist())

    return case, sum(first) - sum(second), lambda: ask("evaluate")


def operations(cell: Cell, lengths: np.ndarray) -> float:
    """Multiplications and additions of matrix products in training steps at these lengths, without any padding."""
    model, tokens = cell.model, np.array([cell.layout.tokens(int(length)) for length in lengths], float)
    mlp = model.mlp_width or 4 * model.width
    layer = tokens * (8 * model.width**2 + 4 * model.width * mlp) + 4 * tokens**2 * model.width
    return 3 * cell.train.batch * model.depth * layer.sum()
