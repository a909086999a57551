"""From rows to a table, `report.md` and `accuracy_by_length.png`.

    python -m experiments.report results/quickstart

Text is told in bits per byte, in `bits_per_byte_by_length.png`, all else as exact match. Where two operands have each
size with each there is `accuracy_by_sizes.png` too. With `--metric=token_accuracy`, `loss` or another one the table and
`token_accuracy_by_length.png` are of that, and `report.md` stays as it is.
"""

import argparse
import math
import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import matplotlib
import pandas
import scipy.stats
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments import heatmap
from experiments.files import write
from experiments.results import load
from experiments.tasks import TASKS
from posenc import ENCODINGS

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.ticker import MaxNLocator

CONFIDENCE = 0.95
TITLES = {
    "exact_match": "Exact match",
    "bits_per_byte": "Bits per byte",
    "bits_per_byte_sliding": "Bits per byte, sliding window",
    "token_accuracy": "Token accuracy",
    "loss": "Loss",
    "generated_exact_match": "Exact match of what is generated",
    "generated_token_accuracy": "Token accuracy of what is generated",
}
WRITTEN = {"exact_match": "generated_exact_match", "token_accuracy": "generated_token_accuracy"}
UNITS = {name: title.lower() for name, title in TITLES.items()} | {"loss": "nats per answer token"}
LESS = {"loss": 2, "bits_per_byte": 3, "bits_per_byte_sliding": 3}  # is better; with so many digits
MOST_LENGTHS = 12  # in a table
MOST_TOLD = 8  # runs that diverged, by name
TITLE = 38  # letters in a line; a longer one would run into its neighbour's
ADDED = "What each encoding adds"
# Okabe and Ito's colours, apart in grey too; markers and dashes tell the lines apart without any colour, and no two of
# many lines have the same of all three.
COLORS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#999999")
DASHES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (8, 2)), (0, (2, 3)))
STYLES = [
    dict(color=color, marker="osD^vP*X"[(i + turn) % 8], linestyle=DASHES[(i + turn) % 8])
    for turn in range(8)
    for i, color in enumerate(COLORS)
]


def make(folder: str | Path, console: Console | None = None, metric: str | None = None) -> None:
    """Shows the tables, and writes the pictures into the results folder; unless a metric is asked for, `report.md` too.

    Raises:
        FileNotFoundError: there are no rows, or none of this metric.
    """
    folder, rows, pages = Path(folder), load(folder), []
    if metric is not None and metric not in set(rows["metric"]):
        raise FileNotFoundError(f"{folder} has no rows of {metric}; there are {', '.join(rows['metric'].unique())}.")
    for one, part in told(rows).items() if metric is None else ((metric, rows),):
        table = summarize(part, one)
        show(table, costs(part), one, remarks(part), console or Console())
        draw(part, folder / picture(one), one)
        if len(both := of_two(part, one)):
            heatmap.draw(both, folder / picture(one, "sizes"), UNITS[one])
        pages.append(markdown(table, part, one))
    if metric is None:
        write(folder / "report.md", "\n".join(pages).splitlines())


def told(rows: pandas.DataFrame) -> dict[str, pandas.DataFrame]:
    """The metrics that a report is of, with the rows of their tasks: bits per byte of text, exact match of all else."""
    text = rows["task"].isin(rows.loc[rows["metric"] == "bits_per_byte", "task"])
    parts = {"exact_match": rows[~text], "bits_per_byte": rows[text]}
    return {metric: part for metric, part in parts.items() if len(part)}


def picture(metric: str, by: str = "length") -> str:
    """The file name of a picture."""
    return f"accuracy_by_{by}.png" if metric == "exact_match" else f"{metric}_by_{by}.png"


def of_two(rows: pandas.DataFrame, metric: str) -> pandas.DataFrame:
    """The rows of a metric that are of two operands whose sizes are told."""
    rows = chosen(rows, metric)
    return rows[rows["second"].notna()] if metric not in LESS else rows[:0]


def chosen(rows: pandas.DataFrame, metric: str) -> pandas.DataFrame:
    """The rows of a metric, with a `line` for what is compared and a `panel` for what on."""
    rows = rows[rows["metric"] == metric].copy()
    if metric in LESS:  # a run that diverged is the worst there is, and no mean may leave it out
        rows.loc[rows["diverged"].notna(), "value"] = math.inf
    many_schemes = rows["positions"].nunique() > 1
    many_architectures = rows["architecture"].nunique() > 1
    rows["line"] = rows["encoding"]
    if many_schemes:
        rows["line"] += ", " + rows["positions"]
    rows.loc[rows["variant"] != "", "line"] += ", " + rows["variant"]
    rows["panel"] = rows["task"] + (", " + rows["architecture"] if many_architectures else "")
    places = (
        rows["encoding"].map(lambda label: place(label, ENCODINGS)),
        rows["task"].map(lambda label: place(label, TASKS)),
    )
    return rows.assign(row=places[0], column=places[1]).sort_values(["column", "panel", "row", "line", "length"])


def place(label: str, table: Mapping[str, object]) -> int:
    """Where a name, with or without options behind it, stands in its table; unknown ones come last."""
    names, name = list(table), re.split(r"\W", label)[0]
    return names.index(name) if name in names else len(names)


def summarize(rows: pandas.DataFrame, metric: str = "exact_match") -> pandas.DataFrame:
    """For each line, panel and range: mean over lengths and seeds, half the interval over seeds, number of seeds.

    Columns: line, panel, range ("trained" or "beyond"), mean, half (NaN with one seed), seeds, top (the best seed),
    best (within its column, to the digits shown), digits.
    """
    rows = chosen(rows, metric)
    rows["range"] = rows["trained"].map({True: "trained", False: "beyond"})
    keys = ["line", "panel", "range"]
    per_seed = rows.groupby([*keys, "seed"], sort=False, dropna=False)["value"].mean()
    first, digits = ("min" if metric in LESS else "max"), LESS.get(metric, 2)
    table = per_seed.groupby(keys, sort=False, dropna=False).agg(["mean", interval, "count", first]).reset_index()
    table = table.rename(columns={"interval": "half", "count": "seeds", first: "top"})
    best = table.groupby(["panel", "range"])["mean"].transform(first)
    return table.assign(best=table["mean"].round(digits) == best.round(digits), digits=digits)


def interval(values: pandas.Series) -> float:
    """Half the width of Student's t interval for the mean of a few seeds; NaN for a single one, or if one diverged."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return math.nan
    return float(scipy.stats.sem(values) * scipy.stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1))


def cell_text(row: pandas.Series) -> str:
    """0.98 ± 0.02, with a star where it is the best. An interval wider than the whole scale is just that."""
    half, digits = row["half"], row["digits"]
    if math.isinf(row["mean"]):
        return "diverged"
    spread = "" if math.isnan(half) else " ± >1" if half > 1 else f" ± {half:.{digits}f}"
    return f"{row['mean']:.{digits}f}{spread}{' *' if row['best'] else ''}"


def top_text(row: pandas.Series) -> str:
    """0.99: the best seed."""
    return f"{row['top']:.{row['digits']}f}"


def grid(
    table: pandas.DataFrame, where: str, text: Callable[[pandas.Series], str] = cell_text
) -> tuple[list[str], list[list[str]]]:
    """Header and lines of one half of the table, "trained" or "beyond", encodings by tasks, as text."""
    table = table[table["range"] == where]
    texts = table.assign(text=table.apply(text, axis=1)).set_index(["line", "panel"])["text"]
    panels = list(table["panel"].unique())
    body = [[line, *(texts.get((line, panel), "") for panel in panels)] for line in table["line"].unique()]
    return ["encoding", *panels], body


def note(table: pandas.DataFrame, best: str, metric: str = "exact_match") -> str:
    """What the numbers are; `best` says how the best ones are marked."""
    seeds = sorted(table["seeds"].unique())
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return (
        f"{TITLES[metric]}: mean over lengths and {count} seeds, ± Student's t {CONFIDENCE:.0%} interval over seeds. "
        f"{best}: the best of its column, to the digits shown."
    )


def remarks(rows: pandas.DataFrame) -> list[str]:
    """What a reader of the tables has to know: runs that diverged, and rows that were not all computed alike."""
    told = []
    runs = rows.drop_duplicates(["cell", "seed"])
    away = runs[runs["diverged"].notna()]
    if len(away):
        each = [
            f"{run.encoding} on {run.task}, seed {run.seed} at step {run.diverged:.0f}" for run in away.itertuples()
        ]
        more = f", and {len(each) - MOST_TOLD} more" if len(each) > MOST_TOLD else ""
        told += [
            f"{len(away)} of {len(runs)} runs diverged: their loss was no number any more. They count as wrong: "
            f"{'; '.join(each[:MOST_TOLD])}{more}."
        ]
    for column, what in (("code", "versions of the code"), ("environment", "kinds of machine or of packages")):
        if (count := rows[column].nunique()) > 1:
            told += [f"These rows are of {count} {what}: small differences may come from there."]
    return told


def halves(
    table: pandas.DataFrame, text: Callable[[pandas.Series], str] = cell_text
) -> dict[str, tuple[list[str], list[list[str]]]]:
    """The halves of the table that have lines, each under its title."""
    titles = {"trained": "At trained lengths", "beyond": "Beyond them"}
    return {titles[where]: grid(table, where, text) for where in titles if (table["range"] == where).any()}


def by_length(rows: pandas.DataFrame, metric: str) -> tuple[list[str], list[list[str]]]:
    """Header and lines of means over seeds, encodings by lengths, for each panel; of many lengths, some."""
    rows = chosen(rows, metric)
    means = rows.groupby(["panel", "line", "length"], sort=False)["value"].mean()
    lengths, several = sorted(rows["length"].unique()), rows["panel"].nunique() > 1
    lengths = lengths[:: -(-len(lengths) // MOST_LENGTHS)]
    body = []
    for panel, line in dict.fromkeys(zip(rows["panel"], rows["line"], strict=True)):
        values = [means.get((panel, line, length), math.nan) for length in lengths]
        texts = ["" if math.isnan(value) else f"{value:.{LESS.get(metric, 2)}f}" for value in values]
        body.append([f"{line}, {panel}" if several else line, *texts])
    return ["encoding", *map(str, lengths)], body


def both_ways(rows: pandas.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Header and lines of what is right teacher-forced and generated, as text; those alone that have both."""
    metrics = [one for pair in WRITTEN.items() for one in pair]
    parts = {metric: chosen(rows, metric).groupby(["panel", "line"], sort=False)["value"].mean() for metric in metrics}
    several = rows["task"].nunique() > 1
    body = [
        [f"{line}, {panel}" if several else line, *(f"{parts[metric][panel, line]:.3f}" for metric in metrics)]
        for panel, line in parts[WRITTEN["exact_match"]].index
    ]
    return ["encoding", "exact match", "generated", "token accuracy", "generated"], body


def costs(rows: pandas.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Header and lines of the table of what each encoding adds, as text; least to most over all tasks."""
    body = []
    for line, group in chosen(rows, "exact_match").groupby("line", sort=False):
        ends = [group[["added_parameters", "added_flops"]].agg(end) for end in ("min", "max")]
        parameters = [f"{end['added_parameters']:,.0f}" for end in ends]
        flops = [f"{100 * end['added_flops']:+.1f} %" for end in ends]
        body.append([str(line), *(" to ".join(dict.fromkeys(pair)) for pair in (parameters, flops))])
    return ["encoding", "parameters", "forward FLOPs"], body


def show(
    table: pandas.DataFrame,
    added: tuple[list[str], list[list[str]]],
    metric: str,
    remarks: list[str],
    console: Console,
) -> None:
    """The tables, in a terminal."""
    for title, (header, body) in {**halves(table), ADDED: added}.items():
        shown = Table(title=title, title_justify="left", title_style="bold", show_edge=False)
        for i, name in enumerate(header):
            shown.add_column(escape(name), justify="right" if i else "left")
        for line in body:
            shown.add_row(*(f"[bold]{escape(text)}[/bold]" if text.endswith("*") else escape(text) for text in line))
        console.print("", shown)
    console.print("\n" + "\n".join([note(table, "*", metric), *remarks]), highlight=False)


def markdown(table: pandas.DataFrame, rows: pandas.DataFrame, metric: str = "exact_match") -> str:
    """`report.md`, or the part of it that is about a metric."""
    parts = [f"# {TITLES[metric]} by encoding and task"]
    for title, (header, body) in halves(table).items():
        parts += [f"{title}:", pipes(header, body)]
    parts += [note(table, "Bold", metric), *remarks(rows)]
    parts += [f"{ADDED}, at the longest trained length:", pipes(*costs(rows))]
    parts += [f"![{TITLES[metric]} by length]({picture(metric)})"]
    if len(of_two(rows, metric)):
        parts += [
            f"![{TITLES[metric]} by sizes]({picture(metric, 'sizes')})",
            "By the sizes of both operands, in per cent; the frame is around those that were trained.",
        ]
    parts += [
        f"{rows['cell'].nunique()} cells, {len(rows)} rows. Lines are means over seeds, bands reach from the lowest "
        "seed to the highest, the trained lengths are shaded, and dots mark the best blind guess."
    ]
    parts += ["Mean over seeds by length:", pipes(*by_length(rows, metric))]
    if metric == "exact_match" and (rows["metric"] == WRITTEN["exact_match"]).any():
        parts += ["Teacher-forced, and as the model writes by itself, over all lengths:", pipes(*both_ways(rows))]
    if table["seeds"].max() > 1:
        parts += ["The best seed alone, as some papers have it; the mean is the fairer figure."]
        for title, lines in halves(table, top_text).items():
            parts += [f"{title}:", pipes(*lines)]
    return "\n\n".join(parts) + "\n"


def pipes(header: list[str], body: list[list[str]]) -> str:
    """A table in Markdown; what ends with a star is bold."""
    lines = [header, ["---", *("---:" for _ in header[1:])]]
    lines += [[f"**{text[:-2]}**" if text.endswith(" *") else text for text in line] for line in body]
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


def draw(rows: pandas.DataFrame, path: Path, metric: str = "exact_match") -> None:
    """One panel for each task, a line with a band for each encoding."""
    rows = chosen(rows, metric)
    panels, lines = list(rows["panel"].unique()), list(rows["line"].unique())
    columns = min(3, len(panels))
    figure, axes = pyplot.subplots(
        math.ceil(len(panels) / columns), columns, squeeze=False, sharey=True, layout="constrained",
        figsize=(1.2 + 4.2 * columns, 0.6 + 3.4 * math.ceil(len(panels) / columns)),
    )  # fmt: skip
    for panel, axis in zip(panels, axes.flat, strict=False):
        draw_panel(axis, rows[rows["panel"] == panel], lines)
        axis.set_title(textwrap.fill(panel, TITLE), fontsize=11)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis in axes[:, 0]:
        axis.set_ylabel(UNITS[metric])
    handles = {h.get_label(): h for axis in axes.flat for h in axis.get_lines() if not h.get_label().startswith("_")}
    labels = [textwrap.fill(label, int((figure.get_figwidth() - 0.6) / 0.085)) for label in handles]
    lines = [line for label in labels for line in label.splitlines()]
    entry = 0.6 + 0.085 * max(map(len, lines))  # inches, of the longest label with its line
    columns = max(1, min(len(handles), int(figure.get_figwidth() / entry)))
    figure.set_figheight(figure.get_figheight() + 0.25 * (math.ceil(len(lines) / columns) - 1))
    figure.legend(handles.values(), labels, loc="outside lower center", ncols=columns, frameon=False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def draw_panel(axis, rows: pandas.DataFrame, lines: list[str]) -> None:
    """The curves of one task over the shaded trained range, and the chance level."""
    trained = rows.loc[rows["trained"], "length"]
    if len(trained):
        axis.axvspan(trained.min(), trained.max(), color="0.9", zorder=0)
    for i, line in enumerate(lines):
        there = rows[(rows["line"] == line) & rows["value"].map(math.isfinite)]
        seeds = there.groupby("length")["value"].agg(["mean", "min", "max"])
        if seeds.empty:  # a band of nothing stands in the figure's corner, and takes the room of the panels
            continue
        style = STYLES[i % len(STYLES)]
        axis.plot(seeds.index, seeds["mean"], label=line, markersize=5, linewidth=1.5, clip_on=False, **style)
        axis.fill_between(seeds.index, seeds["min"], seeds["max"], color=style["color"], alpha=0.15, linewidth=0)
    chance = rows.groupby("length")["chance"].max().dropna()
    if len(chance):
        axis.plot(chance.index, chance, color="0.35", linestyle=":", linewidth=1.2, label="chance", zorder=1)
    metric = rows["metric"].iloc[0]
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    if metric not in LESS:
        axis.set_ylim(0, 1.02)
    elif metric == "loss":
        axis.set_ylim(0, None)
    else:  # contexts double
        axis.set_xscale("log", base=2)
        axis.set_xticks(sorted(rows["length"].unique()), map(str, sorted(rows["length"].unique())))
        axis.minorticks_off()
    axis.set_xlabel("length")
    axis.spines[["top", "right"]].set_visible(False)


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes table, report.md and picture again, from rows alone.")
    parser.add_argument("folder", help="a results folder")
    parser.add_argument("--metric", choices=TITLES)
    try:
        asked = parser.parse_args()
        make(asked.folder, metric=asked.metric)
    except FileNotFoundError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
