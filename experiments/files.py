"""Files that are whole or not there, and that show it when they are not what was written."""

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from posenc.shapes import Array

SEAL = "sha256"  # the field of a sealed file that tells what is in the others


def write(path: Path, lines: Iterable[str]) -> None:
    """Writes a whole file or nothing: under another name first, then renamed."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.writelines(line + "\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o666 & ~umask())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def umask() -> int:
    """The user's file mode mask, which a temporary file does not follow."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def strict_json(row: dict[str, Any]) -> str:
    """JSON without NaN or infinity, which it does not know: they become null."""
    plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
    return json.dumps(plain, allow_nan=False)


def read_json(path: Path) -> Any:
    """A JSON file; a damaged one is a ValueError that names it."""
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error


def read_lines(path: Path) -> list[dict[str, Any]]:
    """A file of JSON lines; a damaged one is a ValueError that names it."""
    try:
        return [json.loads(line) for line in path.read_text().splitlines()]
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """Writes JSON with a digest of itself."""
    write(path, [json.dumps({**content, SEAL: seal(content)}, indent=1)])


def read_sealed(path: Path) -> dict[str, Any]:
    """What `write_sealed` wrote.

    Raises:
        ValueError: it is something else now; the message names the file.
    """
    if not path.is_file():
        raise ValueError(f"{path} is missing.")
    content = read_json(path)
    if not isinstance(content, dict) or content.pop(SEAL, None) != seal(content):
        raise ValueError(f"{path} is damaged: it is not what was written.")
    return content


def seal(content: Mapping[str, Any]) -> str:
    """A digest of JSON, however it is laid out."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def digests(folder: Path) -> dict[str, str]:
    """A digest of each file in a folder, by its path there."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def check_files(folder: Path, written: Mapping[str, str], within: str = "") -> None:
    """Raises ValueError unless the files that were written are there as they were; the message names one that is not.

    Args:
        written: what `digests` gave.
        within: of these, only those whose path begins so.
    """
    for name in (name for name in written if name.startswith(within)):
        path = folder / name
        if not path.is_file():
            raise ValueError(f"{path} is missing.")
        if hashlib.sha256(path.read_bytes()).hexdigest() != written[name]:
            raise ValueError(f"{path} is damaged: it is not what was written.")


def digest_of_arrays(tree: Any) -> str:
    """A digest of all leaves of a tree, with where they stand in it, their shapes and kinds."""
    found = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        array: Array = np.asarray(leaf)
        found.update(f"{jax.tree_util.keystr(path)} {array.dtype} {array.shape}\n".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
