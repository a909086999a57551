"""Where and with what a result was computed: the same program gives the same bits only on the same kind of machine.

The number of processor cores counts too: it decides how sums are cut into pieces.
"""

import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from experiments.compiling import processor

PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")
ROOT = Path(__file__).parents[1]
DIGITS = 10  # of a digest, where people read it


def environment() -> dict[str, Any]:
    """What of this process's surroundings can change a bit of a result."""
    devices = jax.devices()
    return {
        "platform": devices[0].platform,
        "device": devices[0].device_kind,
        "devices": len(devices),
        "processes": jax.process_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": short(processor()),
        "cores": cores(),
        "python": platform.python_version(),
        "flags": os.environ.get("XLA_FLAGS", ""),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
    }


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fingerprint(environment: Mapping[str, Any]) -> str:
    """A short name of an environment."""
    return short(json.dumps(environment, sort_keys=True))


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """In what two environments, or two of anything told by name, differ: "cores 8 -> 4, jax 0.10.2 -> 0.11.0"."""
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    return ", ".join(f"{name} {one.get(name)} -> {other.get(name)}" for name in names)


@functools.cache
def code() -> dict[str, str]:
    """The version of the code: a digest of its sources, and the commit that it is based on, where Git knows one."""
    paths = [path for name in ("posenc", "experiments") for path in (ROOT / name).rglob("*.py")]
    sources = {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}
    return {"sources": short(json.dumps(sources, sort_keys=True)), "commit": git("rev-parse", "HEAD")}


def git(*arguments: str) -> str:
    """What Git says of the folder that this code stands in; nothing where there is no Git, or no repository."""
    command = ["git", *arguments]
    try:
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=10)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stdout.strip() if ended.returncode == 0 else ""


def short(text: str) -> str:
    """The first digits of a digest."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
