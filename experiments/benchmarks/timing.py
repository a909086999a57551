"""Cases that take turns, and the rate of the machine they run on."""

import statistics
import time
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

SIZE = 2048  # of the matrices whose product is the yardstick
PAUSE = 0.3  # seconds between cases: OpenMP's threads wait for more work for a while, on the cores of whoever is next


def in_turns(cases: Mapping[str, Callable[[int], None]], rounds: int) -> dict[str, list[float]]:
    """The seconds of each case in each round; a case is told the round's number. The first round is for warming up."""
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, case in cases.items():
            time.sleep(PAUSE)
            began = time.perf_counter()
            case(number)
            if number:
                seconds[name].append(time.perf_counter() - began)
    return seconds


def ratio(times: list[float], base: list[float]) -> float:
    """The median over rounds of one case's time over another's."""
    return statistics.median(a / b for a, b in zip(times, base, strict=True))


def multiply() -> Callable[[int], None]:
    """A case: one product of two matrices of float32."""
    product = jax.jit(lambda a: a @ a)
    matrix = jnp.ones((SIZE, SIZE))

    def case(_: int) -> None:
        product(matrix).block_until_ready()

    return case


def rate(seconds: list[float]) -> float:
    """Operations a second, from the times of `multiply`."""
    return 2 * SIZE**3 / statistics.median(seconds)
