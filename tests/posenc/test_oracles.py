"""The encodings against what other packages, and the authors' own code, give for the same numbers.

The numbers lie in tests/oracles/golden, so that nothing but this project is needed. `pytest -m oracle` makes them anew
where the packages are installed, and where the environment variable ORACLE_AUTHORS says where repositories lie.
"""

import os
from pathlib import Path

import numpy as np
import pytest

import posenc
import tests.oracles.authors
import tests.oracles.packages  # noqa: F401
from tests.oracles import compared, difference, error, ours
from tests.oracles.cases import GOLDEN, digest, load, save
from tests.oracles.sources import SOURCES

FILES = sorted(GOLDEN.glob("*.npz"))
TOLERANCE = 2e-5  # logits of size 1 to 10 in float32; no file needs more
WITHOUT: dict[str, str] = {}  # name of an encoding: why nothing outside can be compared with it


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_ours_gives_what_the_outside_gives(path):
    golden = load(path)
    assert golden.cases
    assert golden.path == path
    for case in golden.cases:
        assert error(golden.encoding, case) <= TOLERANCE, case.title


def test_every_encoding_is_held_to_something_outside():
    held = {load(path).encoding for path in FILES}
    assert held | WITHOUT.keys() == posenc.ENCODINGS.keys()
    assert not held & WITHOUT.keys()
    assert all(WITHOUT.values())


def test_every_file_has_a_source_and_every_source_a_file():
    assert [path.stem for path in FILES] == sorted(source.name for source in SOURCES)
    for source in SOURCES:
        golden = load(GOLDEN / f"{source.name}.npz")
        assert (golden.encoding, golden.source) == (source.encoding, source.label)
        assert golden.version == source.version() if source.repository else golden.version


def test_compared_lists_the_sources_of_an_encoding():
    listed = compared("alibi")
    assert len(listed) == 3
    assert all(np.isfinite(worst) and worst <= TOLERANCE for _, worst in listed)
    assert any("transformers_bloom" in source for source, _ in listed)


def test_a_changed_number_breaks_the_digest(tmp_path, monkeypatch):
    golden = load(GOLDEN / "none-torch.npz")
    monkeypatch.setattr("tests.oracles.cases.GOLDEN", tmp_path)
    path = save(golden.encoding, golden.source, golden.version, list(golden.cases))
    assert load(path).digest == golden.digest
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["0.expected.out"] = arrays["0.expected.out"] + np.float32(1e-6)
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="does not have the digest"):
        load(path)
    assert digest("a", {"x": np.zeros(2, np.float32)}) != digest("a", {"x": np.zeros((1, 2), np.float32)})


def test_a_wrong_number_is_seen():
    golden = load(GOLDEN / "t5-transformers.npz")
    given = ours("t5", golden.cases[0], promise=False)
    given["bias"] = given["bias"].copy()
    given["bias"][0, 0, 0, 0] += 1e-3
    assert difference(golden.cases[0], given) > TOLERANCE


@pytest.mark.oracle
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_the_outside_still_gives_it(source):
    pytest.importorskip("torch")
    for package in (*source.needs, *(() if source.repository else (source.origin,))):
        installed(package)
    authors = os.environ.get("ORACLE_AUTHORS")
    if source.repository and authors is None:
        pytest.skip(f"needs {source.repository}")
    golden = load(GOLDEN / f"{source.name}.npz")
    made = source.run(Path(authors) if authors else None)
    assert [case.title for case in made] == [case.title for case in golden.cases]
    for new, kept in zip(made, golden.cases, strict=True):
        assert (new.hook, new.options, new.parts) == (kept.hook, kept.options, kept.parts)
        for group in ("parameters", "inputs", "expected"):
            mine, theirs = getattr(new, group), getattr(kept, group)
            assert mine.keys() == theirs.keys()
            for name in mine:
                np.testing.assert_allclose(mine[name], theirs[name], rtol=0, atol=1e-5, err_msg=f"{new.title}: {name}")


def installed(package: str) -> None:
    """Skips the test where a package is not installed, importable as a whole or not."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        version(package)
    except PackageNotFoundError:
        pytest.skip(f"needs {package}")
