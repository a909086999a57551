"""Compiled programs kept on disk: a cell that was compiled once starts at once the next time, also in another process.

JAX does the keeping; here is where. A user who has set JAX_COMPILATION_CACHE_DIR, to a folder or to nothing, has
decided, and is left alone.
"""

import hashlib
import os
import platform
from pathlib import Path

import jax

LEAST_SECONDS = 0.5  # a program that compiles faster is not worth a file


def keep_programs() -> None:
    """Turns the cache on, for the commands; a library that is imported has no business in a user's folders."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(folder()))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)


def folder() -> Path:
    """One for each kind of processor: programs for a newer one than this would crash."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "posenc" / hashlib.sha256(processor().encode()).hexdigest()[:12]


def processor() -> str:
    """The kind of this machine's processor, with what it can do where Linux tells."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    known = [line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))]
    return "\n".join([platform.system(), platform.machine(), platform.processor(), *sorted(set(known))])
