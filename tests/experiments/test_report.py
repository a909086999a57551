"""What a report tells of rows: of text in bits, of other tasks as exact match; means, the best seed, lengths."""

import io
import math

import pandas
import pytest
from rich.console import Console

from experiments import report, worker
from experiments.config import default_config, expand


def row(encoding, task, seed, length, metric, value):
    same = dict(cell=f"{encoding}-{task}", positions="in_order", architecture="decoder", second=None, variant="")
    costs = dict(count=8, chance=None, added_parameters=10, added_flops=0.1)
    costs |= dict(diverged=None, code="c0de", environment="beef")
    where = dict(encoding=encoding, task=task, seed=seed, length=length, trained=length <= 4)
    return same | costs | where | dict(metric=metric, value=value)


VALUES = {"rope": (0.5, 0.9, 0.7), "none": (0.6, 0.6, 0.6)}
EXACT = [
    row(encoding, "copy", seed, length, "exact_match", value / (1 + (length > 4)))
    for encoding, values in VALUES.items() for seed, value in enumerate(values) for length in (2, 4, 8)
]  # fmt: skip
BITS = [
    row(encoding, "text#abc123", seed, length, metric, value + length / 1000)
    for encoding, values in VALUES.items() for seed, value in enumerate(values) for length in (2, 4, 8)
    for metric in ("bits_per_byte", "exact_match")
]  # fmt: skip


@pytest.fixture
def made(monkeypatch, tmp_path):
    """A report of given rows: the folder, and what was printed."""

    def make(rows, metric=None):
        monkeypatch.setattr(report, "load", lambda folder: pandas.DataFrame(rows))
        printed = io.StringIO()
        report.make(tmp_path, Console(file=printed, width=200), metric)
        return tmp_path, printed.getvalue()

    return make


def test_text_is_told_in_bits_and_other_tasks_as_exact_match(made):
    folder, printed = made(EXACT + BITS)
    page = (folder / "report.md").read_text()
    exact, bits = page.split("# Bits per byte by encoding and task")
    assert exact.startswith("# Exact match by encoding and task")
    assert "text#abc123" not in exact and "copy" not in bits
    assert {path.name for path in folder.glob("*.png")} == {"accuracy_by_length.png", "bits_per_byte_by_length.png"}
    assert "Bits per byte: mean over lengths and 3 seeds" in " ".join(printed.split())


def test_fewer_bits_are_better_and_more_matches_are(made):
    for rows, metric, best in ((EXACT, "exact_match", "rope"), (BITS, "bits_per_byte", "none")):
        table = report.summarize(pandas.DataFrame(rows), metric)
        assert set(table[table["best"]]["line"]) == {best}


def test_the_best_seed_is_told_beside_the_mean(made):
    table = report.summarize(pandas.DataFrame(EXACT)).set_index(["line", "range"])
    assert table.loc[("rope", "trained"), ["mean", "top"]].tolist() == pytest.approx([0.7, 0.9])
    assert table.loc[("rope", "beyond"), ["mean", "top"]].tolist() == pytest.approx([0.35, 0.45])
    table = report.summarize(pandas.DataFrame(BITS), "bits_per_byte").set_index(["line", "range"])
    assert table.loc[("rope", "trained"), "top"] == pytest.approx(0.503)
    page = (made(EXACT)[0] / "report.md").read_text()
    best = page[page.index("The best seed alone") :]
    assert "| none | 0.60 |" in best and "| rope | 0.90 |" in best and "| rope | 0.45 |" in best
    alone = [one for one in EXACT if one["seed"] == 0]
    assert "The best seed alone" not in (made(alone)[0] / "report.md").read_text()


def test_runs_that_diverged_are_named_and_never_left_out(made):
    rows = [
        one | dict(diverged=30.0, value=0.0 if one["metric"] == "exact_match" else math.nan)
        if (one["encoding"], one["seed"]) == ("rope", 1) else one
        for one in EXACT + BITS
    ]  # fmt: skip
    folder, printed = made(rows)
    for text in (" ".join((folder / "report.md").read_text().split()), " ".join(printed.split())):
        assert text.count("1 of 6 runs diverged: their loss was no number any more.") == 2
        assert "rope on copy, seed 1 at step 30." in text
        assert "rope on text#abc123, seed 1 at step 30." in text
    table = report.summarize(report.told(pandas.DataFrame(rows))["exact_match"]).set_index(["line", "range"])
    assert table.loc[("rope", "trained"), ["mean", "seeds"]].tolist() == pytest.approx([(0.5 + 0 + 0.7) / 3, 3])
    table = report.summarize(pandas.DataFrame(rows), "bits_per_byte").set_index(["line", "range"])
    assert report.cell_text(table.loc[("rope", "trained")]) == "diverged"
    assert table.loc[("none", "trained"), "best"]
    assert "diverged" not in (made(EXACT)[0] / "report.md").read_text()


@pytest.mark.parametrize("column, words", [("code", "2 versions of the code"), ("environment", "2 kinds of machine")])
def test_rows_that_were_not_computed_alike_are_told(made, column, words):
    assert words in (made([*EXACT[:-1], EXACT[-1] | {column: "other"}])[0] / "report.md").read_text()
    assert "These rows are of" not in (made(EXACT)[0] / "report.md").read_text()


def of_two(encoding, seed, length, second, value):
    return row(encoding, "addition", seed, length, "exact_match", value) | dict(
        second=second, trained=length <= 4 and second <= 4
    )


def test_sizes_of_two_operands_have_a_map_for_each_encoding(made, monkeypatch):
    maps, original = [], report.heatmap.draw_map

    def listening(axis, rows):
        maps.append((axis, image := original(axis, rows)))
        return image

    monkeypatch.setattr(report.heatmap, "draw_map", listening)
    sizes = [(length, second) for length in (2, 4, 8) for second in (3, 6)]
    grid = [
        of_two(encoding, seed, length, second, (length + 10 * second + seed + (encoding == "rope")) / 100)
        for encoding in ("none", "rope") for seed in (0, 2) for length, second in sizes
    ]  # fmt: skip
    folder, _ = made(grid + EXACT)
    assert "accuracy_by_sizes.png" in (folder / "report.md").read_text() and (folder / "accuracy_by_sizes.png").exists()
    assert [axis.get_title() for axis, _ in maps] == ["none", "rope"]
    for added, (axis, image) in enumerate(maps):  # seed 1 in the mean
        assert image.get_array().tolist() == [
            pytest.approx([(length + 10 * second + 1 + added) / 100 for length in (2, 4, 8)]) for second in (3, 6)
        ]
        assert [label.get_text() for label in axis.get_xticklabels()] == ["2", "4", "8"]
        assert [label.get_text() for label in axis.get_yticklabels()] == ["3", "6"]
        assert [text.get_text() for text in axis.texts][:3] == [f"{33 + added + more}" for more in (0, 2, 6)]
        (frame,) = axis.patches
        assert (*frame.get_xy(), frame.get_width(), frame.get_height()) == (-0.5, -0.5, 2, 1)


@pytest.mark.parametrize("by", ["length", "sizes"])
def test_long_names_and_missing_cells_leave_room_for_the_panels(made, monkeypatch, by):
    shown = []
    monkeypatch.setattr((report if by == "length" else report.heatmap).pyplot, "close", shown.append)
    tasks = ("modular_arithmetic_brackets(modulus=7) without end", "missing_duplicate_string without end", "parity")
    rows = [
        one | dict(task=task, positions=scheme, length=length, second=second)
        for one in EXACT for task in tasks for scheme in ("in_order", "randomized(max_position=128)")
        for length, second in ((2, 2), (8, 9))
    ]  # fmt: skip
    made([one for one in rows if (one["task"], one["encoding"]) != (tasks[1], "rope")])
    axes, panels, least = (3, 3, 3.0) if by == "length" else (13, 10, 2.0)  # with empty ones and the bar of colours
    (figure,) = [one for one in shown if len(one.axes) == axes]
    assert min(axis.get_position().width for axis in figure.axes[:panels]) * figure.get_figwidth() > least  # inches


def test_one_operand_has_no_map(made):
    assert not (made(EXACT)[0] / "accuracy_by_sizes.png").exists()


def test_what_a_model_writes_by_itself_stands_beside_the_teacher_forced(made):
    written = [
        row(encoding, "copy", seed, 2, metric, value + 0.1 * seed)
        for encoding in ("none", "rope") for seed in (0, 1)
        for metric, value in zip(report.WRITTEN.values(), (0.2, 0.3), strict=True)
    ]  # fmt: skip
    teacher = [one | dict(metric="token_accuracy", value=one["value"] / 2) for one in EXACT]
    page = (made(EXACT + teacher + written)[0] / "report.md").read_text()
    assert "| encoding | exact match | generated | token accuracy | generated |" in page
    assert "| none | 0.500 | 0.250 | 0.250 | 0.350 |" in page
    assert "writes by itself" not in (made(EXACT)[0] / "report.md").read_text()


def test_means_by_length_are_in_a_table_of_at_most_twelve_lengths():
    header, body = report.by_length(pandas.DataFrame(BITS), "bits_per_byte")
    assert header == ["encoding", "2", "4", "8"]
    assert body == [["none", "0.602", "0.604", "0.608"], ["rope", "0.702", "0.704", "0.708"]]
    many = [row("rope", "copy", 0, length, "exact_match", 0.5) for length in range(1, 101)]
    header, _ = report.by_length(pandas.DataFrame(many), "exact_match")
    assert header == ["encoding", *map(str, range(1, 101, 9))]


def test_another_metric_leaves_the_report_as_it_is_and_one_that_is_not_there_is_told(made):
    folder, printed = made(EXACT + BITS, "bits_per_byte")
    assert not (folder / "report.md").exists()
    assert "Bits per byte" in printed and "Exact match" not in printed
    with pytest.raises(FileNotFoundError, match="no rows of loss; there are exact_match, bits_per_byte"):
        made(EXACT + BITS, "loss")


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("copy", "exact match 0.25 at trained lengths, 0.75 beyond them"),
        ("text", "bits per byte 2.50 at trained lengths"),
    ],
)
def test_a_finished_cell_is_told_in_the_metric_of_its_task(task, expected):
    rows = [
        dict(metric="exact_match", trained=True, value=0.0),
        dict(metric="exact_match", trained=True, value=0.5),
        dict(metric="exact_match", trained=False, value=0.75),
        dict(metric="bits_per_byte", trained=True, value=2.5),
        dict(metric="loss", trained=True, value=7.0),
    ]
    config = default_config()
    config.task.name = task
    assert worker.summary(expand(config)[0], rows, {}) == expected
