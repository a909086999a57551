"""The drills notice what they are made to notice; one of them runs here, the others by hand."""

import sys

import pytest

from experiments import drills
from experiments.drills import Found, compared
from tests.experiments.test_results import finish, make_cell

WHOLE = Found(["a", "b", "c"], ["curve"], ["1", "2"])


@pytest.mark.parametrize(
    "other, words",
    [
        (WHOLE, "0 of 3 rows lost, 0 doubled, 0 digests changed"),
        (WHOLE._replace(rows=["a", "c"]), "1 of 3 rows lost, 0 doubled"),
        (WHOLE._replace(rows=["a", "b", "b", "c"]), "0 of 3 rows lost, 1 doubled"),
        (WHOLE._replace(numbers=["1", "3"]), "1 digests changed"),
        (WHOLE._replace(curves=["other"]), "0 digests changed"),
    ],
)
def test_a_sweep_is_as_it_should_be_only_if_nothing_differs(other, words):
    told, same = compared(WHOLE, other)
    assert words in told
    assert same == (other is WHOLE)


def test_everything_published_is_found_as_often_as_it_is_there(tmp_path):
    finish(tmp_path, make_cell(encoding__name="rope"), [0, 1])
    finish(tmp_path, make_cell(encoding__name="rope"), [1, 2])
    rows, curves, numbers = drills.found(tmp_path)
    assert (len(rows), len(set(rows)), len(curves), len(numbers)) == (48, 36, 4, 2)


def test_a_drill_is_run_and_told(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["drills", "nan"])
    with pytest.raises(SystemExit) as ended:
        drills.main()
    shown = " ".join(capsys.readouterr().out.split())
    assert "2 cells, ['diverged', 'done']; the report names them: True" in shown
    assert (ended.value.code, "NOT as it should be" in shown) == (False, False)
