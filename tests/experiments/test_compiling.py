"""Compiled programs are kept where the user wants them, and only for the processor that they are made for."""

from pathlib import Path

import jax
import pytest

from experiments import compiling


@pytest.fixture
def told(monkeypatch):
    """What JAX is told, in place of telling it."""
    settings = {}
    monkeypatch.setattr(jax.config, "update", lambda name, value: settings.update({name: value}))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    return settings


def test_programs_are_kept_by_default(told, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiling.keep_programs()
    assert Path(told["jax_compilation_cache_dir"]).parent == tmp_path / "posenc"


@pytest.mark.parametrize("chosen", ["", "/somewhere/else"])
def test_a_user_who_has_decided_is_left_alone(told, monkeypatch, chosen):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", chosen)
    compiling.keep_programs()
    assert not told


def test_another_processor_has_another_folder(monkeypatch):
    here = compiling.folder()
    assert here == compiling.folder()
    monkeypatch.setattr(compiling, "processor", lambda: "another one")
    assert compiling.folder() != here
