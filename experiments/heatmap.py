"""Heat maps of tasks with two operands: the sizes of both, each with each, and how well that goes."""

import itertools
import math
import textwrap
from pathlib import Path

import matplotlib
import pandas

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.patches import Rectangle

TITLE = 30  # letters in a line; a longer one would run into its neighbour's
FIGURES = 100  # the most squares of a map that have their number written on them


def draw(rows: pandas.DataFrame, path: Path, unit: str) -> None:
    """A map for each line and panel: means over seeds, with a frame around what was trained.

    Args:
        rows: of one metric, a share, with line, panel, length, second, trained and value.
        path: of the picture.
        unit: of the values.
    """
    maps = {key: rows[(rows["panel"] == key[0]) & (rows["line"] == key[1])] for key in pairs(rows)}
    columns = min(4, len(maps))
    lines = math.ceil(len(maps) / columns)
    figure, axes = pyplot.subplots(
        lines, columns, squeeze=False, layout="constrained", figsize=(1.4 + 3.2 * columns, 0.5 + 3.3 * lines)
    )
    for ((panel, line), part), axis in zip(maps.items(), axes.flat, strict=False):
        image = draw_map(axis, part)
        title = line if rows["panel"].nunique() == 1 else f"{line}, {panel}"
        axis.set_title(textwrap.fill(title, TITLE), fontsize=9)
    for axis in axes.flat[len(maps) :]:
        axis.set_axis_off()
    figure.suptitle(", ".join(rows["panel"].unique()) if rows["panel"].nunique() == 1 else None)
    figure.colorbar(image, ax=axes, label=unit, shrink=0.8)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def pairs(rows: pandas.DataFrame) -> list[tuple[str, str]]:
    """Panels and lines, in the order of the rows."""
    return list(dict.fromkeys(zip(rows["panel"], rows["line"], strict=True)))


def draw_map(axis, rows: pandas.DataFrame):
    """The first operand from left to right, the second one upwards."""
    table = rows.pivot_table(index="second", columns="length", values="value", aggfunc="mean")
    image = axis.imshow(table, origin="lower", vmin=0, vmax=1, cmap="cividis", aspect="auto")
    axis.set_xticks(range(table.shape[1]), [f"{length:.0f}" for length in table.columns])
    axis.set_yticks(range(table.shape[0]), [f"{length:.0f}" for length in table.index])
    axis.set_xlabel("digits of the first operand")
    axis.set_ylabel("of the second")
    if table.size <= FIGURES:
        for y, x in itertools.product(*map(range, table.shape)):
            value = table.iat[y, x]
            shade = "black" if value > 0.5 else "white"
            axis.text(x, y, f"{100 * value:.0f}", ha="center", va="center", fontsize=7, color=shade)
    trained = rows.pivot_table(index="second", columns="length", values="trained", aggfunc="all").astype(bool)
    across, up = trained.any(axis=0).to_numpy().nonzero()[0], trained.any(axis=1).to_numpy().nonzero()[0]
    if len(across):
        corner, sizes = (across[0] - 0.5, up[0] - 0.5), (len(across), len(up))
        axis.add_patch(Rectangle(corner, *sizes, fill=False, edgecolor="#D55E00", linewidth=2, clip_on=False))
    return image
