"""From rows to a table, `report.md` and `accuracy_by_length.png`.

python -m experiments.report results/quickstart
"""

import argparse
import math
import sys
from pathlib import Path

import matplotlib
import pandas
import scipy.stats
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments.results import load

matplotlib.use("Agg")
from matplotlib import pyplot

CONFIDENCE = 0.95
METRIC = "exact_match"
PICTURE = "accuracy_by_length.png"
# Okabe and Ito's colours, apart in grey too; markers and dashes tell the lines apart without any colour.
STYLES = [
    dict(color=color, marker=marker, linestyle=dash)
    for color, marker, dash in zip(
        ("#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#999999"),
        "osD^vP*X",
        ("-", "--", "-.", (0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (8, 2)), (0, (2, 3))),
        strict=True,
    )
]


def make(folder: str | Path, console: Console | None = None) -> None:
    """Shows the table, and writes `report.md` and the picture into the results folder."""
    folder, rows = Path(folder), load(folder)
    table = summarize(rows)
    show(table, console or Console())
    draw(rows, folder / PICTURE)
    (folder / "report.md").write_text(markdown(table, rows))


def exact_match(rows: pandas.DataFrame) -> pandas.DataFrame:
    """The rows of the exact match, with a `line` for what is compared and a `panel` for what on."""
    rows = rows[rows["metric"] == METRIC].copy()
    many_schemes = rows["positions"].nunique() > 1
    many_architectures = rows["architecture"].nunique() > 1
    rows["line"] = rows["encoding"]
    if many_schemes:
        rows["line"] += ", " + rows["positions"]
    rows.loc[rows["variant"] != "", "line"] += ", " + rows["variant"]
    rows["panel"] = rows["task"] + (", " + rows["architecture"] if many_architectures else "")
    return rows


def summarize(rows: pandas.DataFrame) -> pandas.DataFrame:
    """For each line, panel and range: mean over lengths and seeds, half the interval over seeds, number of seeds.

    Columns: line, panel, range ("trained" or "beyond"), mean, half (NaN with one seed), seeds, best (within its
    column, to the digits shown).
    """
    rows = exact_match(rows)
    rows["range"] = rows["trained"].map({True: "trained", False: "beyond"})
    keys = ["line", "panel", "range"]
    per_seed = rows.groupby([*keys, "seed"], sort=False, dropna=False)["value"].mean()
    table = per_seed.groupby(keys, sort=False, dropna=False).agg(["mean", interval, "count"]).reset_index()
    table = table.rename(columns={"interval": "half", "count": "seeds"})
    best = table.groupby(["panel", "range"])["mean"].transform("max")
    return table.assign(best=table["mean"].round(2) == best.round(2))


def interval(values: pandas.Series) -> float:
    """Half the width of Student's t interval for the mean of a few seeds; NaN for a single one."""
    if len(values) < 2:
        return math.nan
    return float(scipy.stats.sem(values) * scipy.stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1))


def cell_text(row: pandas.Series) -> str:
    """0.98 ± 0.02, with a star where it is the best. An interval wider than the whole scale is just that."""
    half = row["half"]
    spread = "" if math.isnan(half) else " ± >1" if half > 1 else f" ± {half:.2f}"
    return f"{row['mean']:.2f}{spread}{' *' if row['best'] else ''}"


def grid(table: pandas.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Header and lines of the table, encodings by tasks, as text."""
    table = table.assign(text=table.apply(cell_text, axis=1))
    columns = [(panel, where) for panel in table["panel"].unique() for where in ("trained", "beyond")]
    columns = [c for c in columns if ((table["panel"] == c[0]) & (table["range"] == c[1])).any()]
    texts = table.set_index(["line", "panel", "range"])["text"]
    body = [[line, *(texts.get((line, *column), "") for column in columns)] for line in table["line"].unique()]
    return ["encoding", *(f"{panel}: {where}" for panel, where in columns)], body


def note(table: pandas.DataFrame) -> str:
    """What the numbers are."""
    seeds = sorted(table["seeds"].unique())
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return (
        f"Exact match at the trained lengths and beyond them: mean over lengths and {count} seeds, ± Student's t "
        f"{CONFIDENCE:.0%} interval over seeds. * the best of its column, to the digits shown."
    )


def show(table: pandas.DataFrame, console: Console) -> None:
    """The table, in a terminal."""
    header, body = grid(table)
    shown = Table(show_edge=False, header_style="bold")
    for i, title in enumerate(header):
        shown.add_column(escape(title).replace(": ", "\n"), justify="right" if i else "left")
    for line in body:
        shown.add_row(*(f"[bold]{escape(text)}[/bold]" if text.endswith("*") else escape(text) for text in line))
    console.print(shown)
    console.print(note(table), highlight=False)


def markdown(table: pandas.DataFrame, rows: pandas.DataFrame) -> str:
    """`report.md`."""
    header, body = grid(table)
    lines = [header, ["---", *("---:" for _ in header[1:])]]
    lines += [[f"**{text}**" if text.endswith("*") else text for text in line] for line in body]
    text = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return (
        f"# Exact match by encoding and task\n\n{text}\n\n{note(table)}\n\n![Exact match by length]({PICTURE})\n\n"
        f"{rows['cell'].nunique()} cells, {len(rows)} rows. Lines are means over seeds, bands reach from the lowest "
        "seed to the highest, the trained lengths are shaded, and dots mark the best blind guess.\n"
    )


def draw(rows: pandas.DataFrame, path: Path) -> None:
    """One panel for each task, a line with a band for each encoding."""
    rows = exact_match(rows)
    panels, lines = list(rows["panel"].unique()), list(rows["line"].unique())
    columns = min(3, len(panels))
    figure, axes = pyplot.subplots(
        math.ceil(len(panels) / columns), columns, squeeze=False, sharey=True, layout="constrained",
        figsize=(1.2 + 4.2 * columns, 0.6 + 3.4 * math.ceil(len(panels) / columns)),
    )  # fmt: skip
    for panel, axis in zip(panels, axes.flat, strict=False):
        draw_panel(axis, rows[rows["panel"] == panel], lines)
        axis.set_title(panel)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis in axes[:, 0]:
        axis.set_ylabel("exact match")
    handles = {h.get_label(): h for axis in axes.flat for h in axis.get_lines() if not h.get_label().startswith("_")}
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=min(8, len(handles)), frameon=False
    )
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def draw_panel(axis, rows: pandas.DataFrame, lines: list[str]) -> None:
    """The curves of one task over the shaded trained range, and the chance level."""
    trained = rows.loc[rows["trained"], "length"]
    if len(trained):
        axis.axvspan(trained.min(), trained.max(), color="0.9", zorder=0)
    for i, line in enumerate(lines):
        seeds = rows[rows["line"] == line].groupby("length")["value"].agg(["mean", "min", "max"])
        style = STYLES[i % len(STYLES)]
        axis.plot(seeds.index, seeds["mean"], label=line, markersize=5, linewidth=1.5, clip_on=False, **style)
        axis.fill_between(seeds.index, seeds["min"], seeds["max"], color=style["color"], alpha=0.15, linewidth=0)
    chance = rows.groupby("length")["chance"].max()
    axis.plot(chance.index, chance, color="0.35", linestyle=":", linewidth=1.2, label="chance", zorder=1)
    axis.set_ylim(0, 1.02)
    axis.set_xlabel("length")
    axis.spines[["top", "right"]].set_visible(False)


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes table, report.md and picture again, from rows alone.")
    parser.add_argument("folder", help="a results folder")
    try:
        make(parser.parse_args().folder)
    except FileNotFoundError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
