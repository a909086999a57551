"""What holds for every test: no silent broadcasting between ranks, and programs that are compiled quickly."""

import os

import jax

jax.config.update("jax_numpy_rank_promotion", "raise")

# Nearly every program here runs once, on a few numbers: what a good compiler takes long for is never won back.
QUICK = {
    "xla_backend_optimization_level": 1,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}
# Read with the first program; commands and notebooks that a test starts inherit it. The last word is the user's.
flags = [f"--{flag}={value}" for flag, value in QUICK.items()]
os.environ["HF_HUB_OFFLINE"] = "1"  # datasets are local ones here
os.environ["XLA_FLAGS"] = " ".join([*flags, os.environ.get("XLA_FLAGS", "")])
