"""Pictures of encodings: what each hook does to positions alone, and what a query then sees of the keys behind it.

An encoding is asked through its hooks, as attention asks it, so that any can be drawn: one from the table, one with
trained parameters, a user's own. Where content matters, it is random: queries, keys and embeddings are drawn from a
normal distribution, and attention weights are means over many such draws, against the same share for all visible keys:
on a scale of log2, 0 is what no encoding at all gives, 1 is twice as much, -1 half.
"""

import dataclasses
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from posenc.building import make
from posenc.encodings.base import Encoding
from posenc.shapes import Array
from posenc.visibility import visibility

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DRAWS = 256  # of random content
END = 6.0  # of the scale for attention weights: 64 times as much as an even share, or as little
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
DASHES = ("-", "--", "-.", ":")


@dataclasses.dataclass(frozen=True)
class Panel:
    """One part of a picture, as numbers.

    Attributes:
        title: what it shows.
        x, y: names of the axes.
        values: ``[rows, columns]``; a map of them, or a line for each row.
        at: where the columns stand.
        lines: the name of each line; None for a map.
        least: how far the scale reaches at least, on both sides of 0, so that noise does not fill it.
    """

    title: str
    x: str
    y: str
    values: np.ndarray
    at: np.ndarray
    lines: tuple[str, ...] | None = None
    least: float = 0.0


class Asked:
    """An encoding with the content and the positions that it is asked about.

    Args:
        encoding: any.
        heads, head_dim, width: the sizes it was built for.
        tokens: positions 0 .. tokens-1.
    """

    def __init__(self, encoding: Encoding, heads: int, head_dim: int, width: int, tokens: int):
        self.encoding, self.heads, self.tokens = encoding, heads, tokens
        self.positions = jnp.arange(tokens)
        keys = jax.random.split(jax.random.key(0), 3)
        shape = (DRAWS, tokens, heads, head_dim)
        self.q, self.k = (jax.random.normal(key, shape) for key in keys[:2])
        self.x = jax.random.normal(keys[2], (DRAWS, tokens, width))
        self.visible = visibility(tokens, causal=not encoding.bidirectional)
        self.both = (self.positions, self.positions)

    def logits(self) -> tuple[Array, Array]:
        """The logits of random queries and keys before and after the hook of that name, ``[b, h, q, k]``."""
        q, k = self.encoding.queries_keys(self.q, self.k, *self.both)
        before = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        bias, steps = self.encoding.bias(*self.both), self.encoding.steps(self.x, self.positions)
        before = before if bias is None else before + bias
        if steps is not None:
            totals = jnp.moveaxis(jnp.cumsum(steps, axis=1), 1, 2)
            before = before + totals[:, :, :, None] - totals[:, :, None, :]
        return before, self.encoding.logits(before, q, k, *self.both, self.visible)

    def weights(self) -> Array:
        """Attention weights, a mean over the draws of content, log2 against an even share, ``[h, q, k]``."""
        mean = self.encoding.weights(self.logits()[1], self.visible).mean(axis=0)
        share = mean * self.visible.sum(axis=-1, keepdims=True)[0]
        return jnp.where(self.visible[0], jnp.clip(jnp.log2(share), -END, END), jnp.nan)


def panels(encoding: Encoding, *, heads: int = 4, head_dim: int = 16, width: int | None = None, tokens: int = 64):
    """What there is to see of an encoding, as numbers: a list of `Panel`.

    Args:
        encoding: any; the sizes are those it was built for, `width` being heads times head_dim where it is None.
        tokens: how many positions are drawn.
    """
    asked = Asked(encoding, heads, head_dim, width or heads * head_dim, tokens)
    parts = {"embeddings": of_embeddings, "queries_keys": of_turning, "bias": of_bias, "steps": of_steps,
             "logits": of_logits, "values": of_values}  # fmt: skip
    hooks = [hook for hook in (*parts, "weights") if encoding.overrides(hook)]
    found = [panel for hook in hooks if hook in parts for panel in parts[hook](asked)]
    return found if hooks == ["embeddings"] else found + of_weights(asked)


def of_embeddings(asked: Asked) -> list[Panel]:
    """What is added, and how alike two positions are by it."""
    added = asked.encoding.embeddings(jnp.zeros_like(asked.x[:1]), asked.positions)[0]
    alike = added @ added.T
    starts = sorted({0, asked.tokens // 4, asked.tokens // 2})
    by_distance = np.full((len(starts), asked.tokens), np.nan)
    for row, start in zip(by_distance, starts, strict=True):
        row[: asked.tokens - start] = alike[start, start:]
    names = tuple(f"from position {start}" for start in starts)
    places = np.arange(asked.tokens)
    return [
        Panel("added to the embeddings", "position", "channel", np.asarray(added.T), places),
        Panel("dot product of two positions", "distance", "", by_distance, places, names),
    ]


def of_turning(asked: Asked) -> list[Panel]:
    """A query whose channels are all 1 before, and its product with such a key by distance."""
    ones = jnp.ones_like(asked.q[:1])
    q, k = asked.encoding.queries_keys(ones, ones, *asked.both)
    if jnp.array_equal(q, jnp.broadcast_to(q[:, :1], q.shape)):
        return []  # scaled, and not by position
    product = jnp.einsum("qhd,khd->hqk", q[0], k[0]) * q.shape[-1] ** -0.5
    return [
        Panel("a query of ones, turned", "position", "channel", np.asarray(q[0, :, 0].T), np.arange(asked.tokens)),
        by_distance("its product with a key of ones", product),
    ]


def of_bias(asked: Asked) -> list[Panel]:
    """The bias of the first head as a map, and of all heads by distance."""
    bias = asked.encoding.bias(*asked.both)
    if bias is None:
        return []
    return [matrix(asked, "bias, first head", bias[0]), by_distance("bias by distance", bias[0])]


def of_steps(asked: Asked) -> list[Panel]:
    """What running totals add to the logits, a mean over random embeddings."""
    steps = asked.encoding.steps(asked.x, asked.positions)
    if steps is None:
        return []
    totals = jnp.cumsum(steps.mean(axis=0), axis=0).T
    return [by_distance("difference of totals, mean", totals[:, :, None] - totals[:, None, :])]


def of_logits(asked: Asked) -> list[Panel]:
    """What is done to the logits of one random text."""
    before, after = asked.logits()
    return [matrix(asked, "change of logits, one random text", after[0] - before[0])]


def of_values(asked: Asked) -> list[Panel]:
    """The size of what positions add to the output of a query that sees one key alone."""
    eye = jnp.eye(asked.tokens)[:, None, None, :]  # b 1 q k: text b shows its key b alone, to the last query
    weights = jnp.broadcast_to(eye, (asked.tokens, asked.heads, 1, asked.tokens))
    v = jnp.zeros((asked.tokens, asked.tokens, *asked.q.shape[2:]))
    added = asked.encoding.values(v[:, :1], weights, v, asked.positions[-1:], asked.positions)[:, 0]
    size = jnp.linalg.norm(added, axis=-1).T  # h k
    return [lines_of("size of what is added to a value", size)]


def of_weights(asked: Asked) -> list[Panel]:
    """What queries see, whatever the content."""
    weights = asked.weights()
    return [
        dataclasses.replace(matrix(asked, "attention of the first head, log2", weights), least=END),
        dataclasses.replace(by_distance("what the last query sees, log2", weights), least=2.0),
    ]


def matrix(asked: Asked, title: str, values: Array) -> Panel:
    """Queries by keys of the first head, empty where nothing is to be seen."""
    shown = np.where(asked.visible[0, 0], np.asarray(values[0]), np.nan)
    return Panel(title, "key", "query", shown, np.arange(asked.tokens))


def by_distance(title: str, values: Array) -> Panel:
    """Of ``[h, q, k]`` the row of the last query that has any, for each head."""
    last = int(np.flatnonzero(np.isfinite(values).any(axis=(0, 2))).max(initial=0))
    return lines_of(title, values[:, last, : last + 1])


def lines_of(title: str, values: Array) -> Panel:
    """Of ``[h, k]`` a line for each head, the nearest key first."""
    names = tuple(f"head {head}" for head in range(len(values)))
    return Panel(title, "distance", "", np.asarray(values[:, ::-1]), np.arange(values.shape[1]), names)


def draw(
    encoding: Encoding | str,
    *,
    heads: int = 4,
    head_dim: int = 16,
    width: int | None = None,
    tokens: int = 64,
    trained: int | None = None,
) -> "Figure":
    """A picture of an encoding: what each of its hooks does, and what a query then sees. Needs matplotlib.

    Args:
        encoding: any, of the given sizes; a name is built with its defaults.
        heads, head_dim, width: sizes; `width` is heads times head_dim where it is None.
        tokens: how many positions are drawn.
        trained: a length, marked by a line: what lies beyond it was never seen in training.

    Returns:
        A figure of matplotlib, to be shown or saved.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: an unknown name.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("posenc.draw needs matplotlib: pip install 'posenc[draw]', or matplotlib itself.") from error
    width = width or heads * head_dim
    if isinstance(encoding, str):
        encoding = make(encoding, width=width, heads=heads, head_dim=head_dim, rngs=nnx.Rngs(0))
    found = panels(encoding, heads=heads, head_dim=head_dim, width=width, tokens=tokens)
    figure = Figure(figsize=(3.4 * len(found), 3.1), layout="constrained")
    for axis, panel in zip(np.ravel(figure.subplots(1, len(found))), found, strict=True):
        (draw_map if panel.lines is None else draw_lines)(figure, axis, panel)
        if trained is not None:
            axis.axvline(trained - 0.5, color="0.4", linewidth=1, linestyle=":")
            if panel.y == "query":
                axis.axhline(trained - 0.5, color="0.4", linewidth=1, linestyle=":")
        axis.locator_params(axis="x", integer=True)
        if panel.lines is None:
            axis.locator_params(axis="y", integer=True)
        axis.set_title(panel.title, fontsize=10)
        axis.set_xlabel(panel.x)
        axis.set_ylabel(panel.y)
    figure.suptitle(f"{type(encoding).__name__}, {encoding.kind}", fontsize=11)
    return figure


def draw_map(figure: "Figure", axis: "Axes", panel: Panel) -> None:
    """A map: white is 0 where values have both signs; grey, where there is no value."""
    from matplotlib import colormaps

    finite = panel.values[np.isfinite(panel.values)]
    most = max(float(np.abs(finite).max(initial=0)), panel.least) or 1.0
    signed = bool((finite < 0).any())
    colors = colormaps["RdBu_r" if signed else "viridis"].with_extremes(bad="0.85")
    shown = axis.imshow(panel.values, cmap=colors, vmin=-most if signed else 0, vmax=most, aspect="auto",
                        interpolation="nearest")  # fmt: skip
    figure.colorbar(shown, ax=axis, shrink=0.85)


def draw_lines(figure: "Figure", axis: "Axes", panel: Panel) -> None:
    """A line for each row; one that stands for all heads where they are alike."""
    alike = all(np.allclose(row, panel.values[0], equal_nan=True) for row in panel.values)
    rows = panel.values[:1] if alike and len(panel.values) > 1 else panel.values
    names = ("all heads",) if alike and len(panel.values) > 1 else panel.lines or ()
    for i, (row, name) in enumerate(zip(rows, names, strict=True)):
        axis.plot(panel.at, row, label=name, color=COLORS[i % len(COLORS)], linestyle=DASHES[i % len(DASHES)])
    axis.set_xlim(panel.at[0], panel.at[-1])
    if panel.least:
        low, high = axis.get_ylim()
        axis.set_ylim(min(low, -panel.least), max(high, panel.least))
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=7, frameon=False)
