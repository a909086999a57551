"""The library by itself: what it imports, what its wheel holds."""

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Arrows run from right to left: a file may import those that stand before it.
ORDER = [
    "shapes",
    "options",
    "positions",
    "visibility",
    "dropout",
    "softmax",
    "sums",
    "schemes",
    "encodings",
    "building",
    "attention",
    "cache",
    "norms",
    "blocks",
    "vocabulary",
    "transformer",
    "encoder_decoder",
    "decoding",
    "testing",
    "adapter",
    "drawing",
]
EXPERIMENTS = [
    "compiling",
    "environment",
    "files",
    "claims",
    "stopping",
    "devices",
    "tasks",
    "settings",
    "cells",
    "forward",
    "checks",
    "config",
    "cost",
    "train",
    "evaluate",
    "checkpoints",
    "results",
    "heatmap",
    "report",
    "progress",
    "worker",
    "launch",
    "slurm",
    "status",
    "ablate",
    "drills",
    "matrix",
    "benchmarks",
    "benchmark",
]
ALLOWED = {"jax", "flax", "jaxtyping", "numpy", "posenc"}  # NumPy comes with jax


def imports(path):
    """The full names of all modules that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def layer(name, package):
    """The part of a package that a module's full name belongs to, if it is of that package."""
    parts = name.split(".")
    return parts[1] if parts[0] == package and len(parts) > 1 else None


@pytest.mark.parametrize(("package", "order"), [("posenc", ORDER), ("experiments", EXPERIMENTS)])
def test_imports_run_one_way(package, order):
    for path in (ROOT / package).rglob("*.py"):
        own = layer(".".join(path.relative_to(ROOT).with_suffix("").parts), package)
        if own == "__init__":
            continue
        assert own in order, f"{path} has no place in the order"
        for name in imports(path):
            other = layer(name, package)
            if other in order and other != own:
                assert order.index(other) < order.index(own), f"{path} imports {name}"


def test_the_library_knows_nothing_of_experiments_configs_and_files():
    for path in (ROOT / "posenc").rglob("*.py"):
        assert not {"experiments", "ml_collections", "absl"} & {name.split(".")[0] for name in imports(path)}, path
        assert "open(" not in path.read_text(), path


SHARED = {f"posenc.encodings.{name}" for name in ("base", "phase", "buckets", "skew", "scaling")}


def test_encodings_import_neither_attention_nor_each_other():
    for path in (ROOT / "posenc" / "encodings").glob("*.py"):
        if path.stem != "__init__":
            ours = {name.rsplit(".", 1)[0] for name in imports(path) if name.startswith("posenc")}
            part = {"posenc.encodings.t5"} if path.stem == "tupe" else set()  # its second half is T5's bias
            assert ours <= SHARED | part | {"posenc.positions", "posenc.shapes", "posenc.softmax", "posenc.sums"}, path
    assert not {n for n in imports(ROOT / "posenc" / "attention.py") if n.startswith("posenc.encodings")} - {
        "posenc.encodings.base.Encoding"
    }


def test_the_library_needs_only_jax_flax_and_jaxtyping():
    standard = set(sys.stdlib_module_names)
    for path in (ROOT / "posenc").rglob("*.py"):
        wanted = {"matplotlib"} if path.stem == "drawing" else set()  # inside its functions, where it is asked for
        assert {name.split(".")[0] for name in imports(path)} <= ALLOWED | standard | wanted, path


def test_each_file_and_function_stays_small():
    for path in [*(ROOT / "posenc").rglob("*.py"), *(ROOT / "experiments").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                documentation = len((ast.get_docstring(node) or "").splitlines())
                assert node.end_lineno - node.lineno - documentation <= 50, f"{path}: {node.name}"
    for path in (ROOT / "posenc" / "encodings").glob("*.py"):
        assert len(path.read_text().splitlines()) <= 130, path


def test_the_wheel_holds_the_library_alone(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("posenc-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"posenc"}
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "posenc").rglob("*.py")}
    assert sources <= set(names)
    metadata = zipfile.ZipFile(wheel).read(next(name for name in names if name.endswith("METADATA"))).decode()
    needed = [line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra" not in line]
    assert sorted(line.split()[1].split(">")[0].split("<")[0] for line in needed) == ["flax", "jax", "jaxtyping"]
