"""What holds for every test: no silent broadcasting between ranks, programs compiled quickly and not kept for ever."""

import os

import jax
import jax.monitoring
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")

# Nearly every program here runs once, on a few numbers: what a good compiler takes long for is never won back.
QUICK = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}
# Read with the first program; commands and notebooks that a test starts inherit it. The last word is the user's.
flags = [f"--{flag}={value}" for flag, value in QUICK.items()]
os.environ["XLA_FLAGS"] = " ".join([*flags, os.environ.get("XLA_FLAGS", "")])

MANY = 2000  # programs that are kept: each takes half a megabyte of memory, or more
compiled: list[str] = []


def listen(event: str, *_, **__):
    """Told by JAX of each thing that takes time."""
    if event.endswith("backend_compile_duration"):
        compiled.append(event)


jax.monitoring.register_event_duration_secs_listener(listen)


@pytest.fixture(autouse=True)
def programs_are_forgotten_when_they_are_many():
    if len(compiled) > MANY:
        jax.clear_caches()
        compiled.clear()
