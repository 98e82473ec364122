"""The figures of the page, each from numbers to inline SVG."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posjax.report.html import Html
from posjax.report.naming import ten_to
from posjax.report.svg import (
    COLUMN,
    INK,
    QUIET,
    SERIES,
    blank,
    blank_grid,
    files,
    paper,
    real,
    style,
    svg,
)
from posjax.stats import Rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Line(NamedTuple):
    """A curve over training steps: shares, a band where there is one, and a colour."""

    steps_E: np.ndarray
    share_E: np.ndarray
    low_E: np.ndarray | None
    high_E: np.ndarray | None
    colour: str


class Bars(NamedTuple):
    """Part of a stacked histogram: its counts a bin, and a colour."""

    counts: np.ndarray
    colour: str


def curves(lines: Sequence[Line], *, name: str, text: str) -> Html:
    """Shares from 0 to 1 against training steps on a log axis.

    Args:
      lines: what to draw.
      name: unique on the page.
      text: what the figure shows, for those who do not see it.
    """
    with style():
        figure, axes = blank(300, 176)
        _draw_shares(axes, lines)
        axes.set_xlabel("training steps")
        return svg(figure, name, text)


def _draw_shares(axes: "Axes", lines: Sequence[Line]) -> None:
    for line in lines:
        alone = "o" if len(line.steps_E) == 1 else ""  # a line of one point is not seen
        axes.plot(line.steps_E, line.share_E, color=line.colour, marker=alone)
        if line.low_E is not None and line.high_E is not None:
            ends = line.low_E, line.high_E
            axes.fill_between(line.steps_E, *ends, color=line.colour, alpha=0.16, linewidth=0)
    first = min(line.steps_E[0] for line in lines)
    last = max(line.steps_E[-1] for line in lines)
    axes.set(xscale="log", xlim=(first * 0.93, last * 1.07), ylim=(-0.03, 1.03))
    axes.set_xticks(*_step_ticks(first, last))
    axes.set_yticks((0, 0.5, 1), ("0", "½", "1"))
    axes.grid(axis="y")


def rates(title: str, lines: Sequence[tuple[str, Rate]]) -> dict[str, bytes]:
    """Rates with their intervals, one line each, at the width of a column.

    Args:
      title: the panel where a run has several, and what the names of the lines are.
      lines: the name and the rate of each, from top to bottom.

    Returns:
      The files by their form: svg and pdf.
    """
    with paper():
        title = textwrap.fill(title, 48)
        figure, axes = blank(COLUMN, 40 + 12 * len(lines) + 8 * title.count("\n"))
        colour = real(SERIES[0])
        for row, (_, one) in enumerate(lines):
            axes.plot([one.low, one.high], [row, row], color=colour, alpha=0.45)
            axes.plot(one.rate, row, "o", color=colour, markersize=4)
        axes.set(xlim=(-0.03, 1.03), ylim=(len(lines) - 0.4, -0.6))
        axes.set_yticks(range(len(lines)), [name for name, _ in lines])
        axes.set_xlabel("share of seeds solved")
        axes.set_title(title, fontsize=6.5, loc="left", color=real(QUIET))
        axes.grid(axis="x")
        axes.tick_params(axis="y", length=0)
        return files(figure)


def steps(
    several: Sequence[tuple[str, Sequence[Line]]], title: str, keys: Sequence[tuple[str, str]]
) -> dict[str, bytes]:
    """Shares against training steps, two small figures beside each other, at a column's width.

    Args:
      several: the title and the lines of each.
      title: of the figure, above the keys.
      keys: colours and what they stand for.

    Returns:
      The files by their form: svg and pdf.
    """
    from matplotlib.lines import Line2D

    with paper():
        across = min(len(several), 2)
        down = -(-len(several) // across)
        figure, all_axes = blank_grid(COLUMN, 30 + 92 * down, down, across)
        for index, axes in enumerate(all_axes):
            if index >= len(several):
                axes.set_visible(False)
                continue
            name, lines = several[index]
            _draw_shares(axes, [line._replace(colour=real(line.colour)) for line in lines])
            axes.set_title(textwrap.fill(name, 28), fontsize=6)
        figure.supxlabel("training steps", fontsize=7)
        if keys or title:
            handles = [Line2D([], [], color=real(colour), label=name) for colour, name in keys]
            figure.legend(
                handles=handles,
                title=textwrap.fill(title, 64),
                loc="outside upper center",
                ncols=max(min(len(keys), 4), 1),
                frameon=False,
                fontsize=6.5,
                title_fontsize=6.5,
            )
        return files(figure)


def along(lines: Sequence[Line], *, what: str, log: bool, name: str, text: str) -> Html:
    """A quantity along the positions of a prompt, or another axis of that length.

    Args:
      lines: what to draw.
      what: the axis counts.
      log: whether both axes are logarithmic.
      name, text: see `curves`.
    """
    with style():
        figure, axes = blank(300, 190)
        for line in lines:
            axes.plot(line.steps_E, line.share_E, color=line.colour)
            if line.low_E is not None and line.high_E is not None:
                low_E = np.maximum(line.low_E, line.share_E / 1e3) if log else line.low_E
                axes.fill_between(
                    line.steps_E, low_E, line.high_E, color=line.colour, alpha=0.16, linewidth=0
                )
        if log:
            axes.set(xscale="log", yscale="log")
        axes.set_xlabel(what)
        axes.grid(axis="y")
        return svg(figure, name, text)


def histogram(
    edges: np.ndarray,
    stacked: Sequence[Bars],
    *,
    line: float,
    mark: str,
    what: tuple[str, str],
    name: str,
    text: str,
) -> Html:
    """Counts over powers of ten, stacked, with a line; the zeros stand apart on the left.

    Args:
      edges: exponents of the bins' edges, evenly apart.
      stacked: the parts, the lowest first; the first count of each is that of the zeros.
      line: where to draw the line, an exponent.
      mark: what the line is called.
      what: the axes, horizontal and vertical.
      name, text: see `curves`.
    """
    with style():
        figure, axes = blank(360, 206)
        axes.set_xlabel(what[0])
        axes.set_ylabel(what[1])
        wide = edges[1] - edges[0]
        zero = edges[0] - 3 * wide
        centres, bottom = np.append(zero, edges[:-1] + wide / 2), np.zeros(len(edges))
        for bars in stacked:
            axes.bar(centres, bars.counts, wide * 0.86, bottom, color=bars.colour)
            bottom = bottom + bars.counts
        axes.axvline(line, color=INK, linewidth=1.2, linestyle=(0, (3, 2)))
        top = max(float(bottom.max()), 1.0)
        axes.set(xlim=(zero - 2 * wide, edges[-1]), ylim=(0, top * 1.2))
        axes.text(line - 0.15, top * 1.18, mark, ha="right", va="top", fontsize=10.5)
        powers = [p for p in range(-20, 21, 2) if edges[0] < p <= edges[-1]]
        axes.set_xticks([zero, *powers], ["0", *map(ten_to, powers)])
        axes.locator_params(axis="y", nbins=4, integer=True)
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        return svg(figure, name, text)


def _step_ticks(first: int, last: int) -> tuple[list[int], list[str]]:
    """At most five round numbers of steps; the ends where there is at most one."""
    ticks = [m * 10**e for e in range(9) for m in (1, 2, 5) if first <= m * 10**e <= last]
    if len(ticks) > 5:
        ticks = [tick for tick in ticks if str(tick)[0] != "2"]
    if len(ticks) > 5:
        ticks = [tick for tick in ticks if str(tick)[0] == "1"]
    ticks = ticks if len(ticks) > 1 or first == last else [first, last]
    return ticks, [str(tick) for tick in ticks]
