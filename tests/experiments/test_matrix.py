"""Every encoding with every position scheme: what may go together, and what is said where it may not."""

import subprocess
import sys

import jax.numpy as jnp
import pytest

from experiments import matrix
from experiments.train import Trainer
from posenc import ENCODINGS, SCHEMES

TABLES = ("one_hot", "learned", "tupe", "chain")  # no row for a negative position
BLIND = ("none", "cope", "fox", "cable", "stick_breaking")


def expected(encoding, scheme):
    """Why a pair makes no sense, in a few words; empty where it does."""
    if encoding in BLIND and scheme != "in_order":
        return "does not look at positions"
    if scheme == "grid" and encoding != "axial_rope":
        return "cannot read positions.grid"
    return "reads positions from 0 on" if scheme == "augmented" and encoding in TABLES else ""


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_pair_makes_a_cell_or_is_refused_with_the_reason(encoding):
    for scheme in SCHEMES:
        reason = expected(encoding, scheme)
        if reason:
            with pytest.raises(ValueError, match=f"^{encoding} {reason}"):
                matrix.cell_of(encoding, scheme)
        else:
            assert matrix.cell_of(encoding, scheme).label("positions").startswith(scheme)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_training_step_with_every_scheme(scheme):
    assert matrix.verdict("axial_rope", scheme) == matrix.WORKS


def test_a_loss_that_is_not_finite_is_told(monkeypatch, capsys):
    class Broken(Trainer):
        def __init__(self, cell):
            super().__init__(cell)
            self.advance = lambda state, seeds, start, stop: (state, seeds * jnp.nan)

    monkeypatch.setattr(matrix, "Trainer", Broken)
    monkeypatch.setattr(sys, "argv", ["matrix", "--encodings", "rope", "none", "--schemes", "in_order", "offset"])
    with pytest.raises(SystemExit) as ended:
        matrix.main()
    assert ended.value.code == 1
    shown = capsys.readouterr().out
    assert shown.count("FAILS") == 3  # none with an offset is refused
    assert "a  the encoding does not look at positions: that scheme is nothing to it" in shown


def test_the_command_prints_the_table():
    asked = [
        sys.executable,
        "-m",
        "experiments.matrix",
        "--encodings",
        "none",
        "alibi",
        "--schemes",
        "in_order",
        "grid",
    ]
    shown = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    lines = {line.split()[0]: line.replace("│", " ").split()[1:] for line in shown.splitlines() if line.strip()}
    assert lines["none"] == ["yes", "a"]
    assert lines["alibi"] == ["yes", "b"]
    assert "b  the encoding cannot read that scheme: positions have shape (1, 2, 2); expected [tokens]" in shown
    assert "axial_rope alone reads grids" in shown
