"""The benchmark measures what it says, in turns, and goes on where it was stopped."""

import argparse
import io
import json
import sys

import numpy as np
import pytest

from experiments import benchmark
from experiments.benchmarks import cell, encodings, memory, peers, timing
from tests.experiments.test_train import tiny_cell


def test_cases_take_turns_and_the_first_round_is_not_counted():
    order = []
    seconds = timing.in_turns({name: lambda n, name=name: order.append((name, n)) for name in "ab"}, rounds=2)
    assert order == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert [len(times) for times in seconds.values()] == [2, 2]


def test_a_ratio_is_taken_within_each_round():
    assert timing.ratio([2.0, 30.0, 4.0], [1.0, 10.0, 1.0]) == 3.0  # a busy machine was busy for both
    assert timing.rate([0.5, 1.0, 9.0]) == 2 * timing.SIZE**3


def test_work_is_that_of_the_matrix_products_of_a_step():
    one = cell.cell("rope")
    w, h, b, layers = 64, 256, 128, 5
    expected = 0
    for length in (3, 40):
        t = length + 1
        projections, mlp, products = 4 * t * w * w, 2 * t * w * h, 2 * t * t * w
        expected += 3 * b * layers * 2 * (projections + mlp + products)  # a gradient costs two forward passes
    assert cell.operations(one, np.array([3, 40])) == expected


def test_peers_take_the_lengths_of_our_steps():
    lengths = cell.drawn(cell.Trainer(cell.cell("rope")), 200)
    assert lengths.min() >= 1
    assert lengths.max() <= 40
    assert len(set(lengths.tolist())) > 30


def test_our_cell_trains_and_is_tested():
    trainer = cell.Trainer(tiny_cell(evaluate__lengths=(4,)))
    case, took, evaluate = cell.ours_of(trainer, 2)
    case(0)
    case(1)
    assert took > 0
    assert evaluate() > 0


def test_a_peer_answers_each_line_with_the_seconds_of_its_steps(monkeypatch, capsys):
    taken = []
    for name, tests in (("able", lambda: True), ("unable", lambda: None)):
        monkeypatch.setitem(peers.PEERS, name, lambda tests=tests: (taken.append, tests))
        monkeypatch.setattr(sys, "stdin", io.StringIO('[3, 5]\n[7]\n"evaluate"\n'))
        peers.main(name)
        ready, first, second, tested = map(json.loads, capsys.readouterr().out.splitlines())
        assert (ready, len(first), len(second)) == ("ready", 2, 1)
        assert (tested is None) == (name == "unable")
    assert taken == [3, 5, 7] * 2


def test_memory_is_measured_and_a_failure_is_a_row():
    small = memory.peak("rope", "training", 64)
    assert small["mib"] >= 0
    assert small["seconds"] > 0
    assert "nope" in memory.elsewhere("nope", "training", 64)["failure"]


def test_the_table_shows_each_row_whole_also_where_rows_differ(capsys):
    one = {"command": "memory", "encoding": "a_name_of_some_length", "mib": 4213.8, "seconds": 1.234}
    other = {"command": "memory", "encoding": "rope", "mib": float("nan"), "failure": "out of memory", "seconds": None}
    benchmark.Console(width=80).print(benchmark.table([one, other]))
    lines = [line.replace("│", " ").split() for line in capsys.readouterr().out.splitlines()]
    assert ["a_name_of_some_length", "4214", "1.23"] in lines
    assert ["rope", "nan", "out", "of", "memory"] in lines


@pytest.mark.parametrize("name", ["learned", "shaw"])
def test_the_model_of_the_cost_table_takes_a_step(name):
    given = argparse.Namespace(tokens=16, batch=1, dtype="bfloat16", attention="auto")
    encodings.step(name, given)(0)


def test_the_command_writes_rows_and_goes_on_where_it_was_stopped(tmp_path, monkeypatch, capsys):
    path = tmp_path / "deep" / "rows.jsonl"
    words = ["encodings", "--encodings", "none", "--tokens", "16", "--batch", "1", "--rounds", "1", "--rows", str(path)]
    monkeypatch.setattr(sys, "argv", ["benchmark", *words])
    benchmark.main()
    assert "to none" in capsys.readouterr().out
    first = path.read_text()
    monkeypatch.setattr(encodings, "in_turns", None)  # nothing is left to measure
    benchmark.main()
    assert path.read_text() == first
    (row,) = map(json.loads, first.splitlines())
    assert row["encoding"] == "none"
    assert 0.2 < row["to_none"] < 5
