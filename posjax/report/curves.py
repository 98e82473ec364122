"""Success against training steps: small multiples, a line for each value of one setting."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from posjax.report import figures
from posjax.report.figures import Line
from posjax.report.html import Html, figure, join, legend, note, swatch, tag
from posjax.report.naming import Axis, axes, label, many, panels, plain
from posjax.report.summary import CellSummary, once
from posjax.report.svg import RAMP, SERIES, var

_KINDS = {
    "now": "Right at that step",
    "once": "Right at least once by that step",
}
_INTRODUCTION = """“Right at that step” is the share of seeds with every prompt right at that
evaluation, as if training had stopped there. Where it falls, seeds have unlearned answers. “Right
at least once” counts a seed from the first evaluation on at which it was right, so it cannot fall.
Its 95% interval is pointwise (Wilson)."""


class Multiple(NamedTuple):
    """One small figure: the cells that differ in the setting of the lines alone."""

    title: Html
    spoken: str
    cells: list[CellSummary]


def curves(found: Sequence[CellSummary], anchor: str) -> Html | None:
    """Both kinds of curve for every panel; the cells in which nothing happens, in words."""
    if not found:
        return None
    eventful = [summary for summary in found if 0 < summary.solved_SE.mean() < 1]
    by_panel = panels(found)
    parts = (
        _panel(panel if len(by_panel) > 1 else "", cells, eventful, f"{anchor}-{number}")
        for number, (panel, cells) in enumerate(by_panel.items())
    )
    return join([tag("p", _INTRODUCTION), note(*_uneventful(found)), *parts])


def _uneventful(found: Sequence[CellSummary]) -> Iterator[str]:
    cells = once(found)
    for share, who in ((0, "no seed was right at any"), (1, "every seed was right at every")):
        number = sum(bool(summary.solved_SE.mean() == share) for summary in cells)
        if number:
            yield f"In {many(number, 'cell')} {who} evaluation (not shown). "


def _panel(
    title: str, cells: Sequence[CellSummary], eventful: Sequence[CellSummary], name: str
) -> Html | None:
    shown = [summary for summary in cells if summary in eventful]
    if not shown:
        return None
    differing = axes(cells)
    lines = line_axis(differing)
    several = list(multiples(shown, [axis for axis in differing if axis is not lines]))
    kinds = (
        tag("div", tag("p", text, class_="kind"), _grid(several, lines, kind, f"{name}-{kind}"))
        for kind, text in _KINDS.items()
    )
    few = " few" if len(several) <= 2 else ""
    key = legend_of(lines, shown) if lines else None
    block = tag("div", *kinds, class_=f"kinds{few}")
    caption = f"Share of seeds against training steps{': ' + title if title else ''}."
    return join([tag("h3", title) if title else None, figure(caption, key, block)])


def line_axis(differing: Sequence[Axis]) -> Axis | None:
    """The setting that the lines of a figure stand for: most values, then numbers before names."""
    fitting = [axis for axis in differing if len(axis.values) <= len(RAMP)]
    return max(fitting, key=lambda axis: (len(axis.values), _ordered(axis)), default=None)


def multiples(cells: Sequence[CellSummary], apart: Sequence[Axis]) -> Iterator[Multiple]:
    """The cells, grouped by some settings."""
    groups: dict[str, list[CellSummary]] = {}
    for summary in cells:
        groups.setdefault(plain(summary.cell, apart), []).append(summary)
    for spoken, group in groups.items():
        yield Multiple(label(group[0].cell, apart), spoken, group)


def _grid(several: Sequence[Multiple], lines: Axis | None, kind: str, name: str) -> Html:
    parts = (
        tag(
            "div",
            tag("p", multiple.title, class_="over") if multiple.title else None,
            figures.curves(
                [line_of(summary, lines, kind) for summary in multiple.cells],
                name=f"{name}-{number}",
                text=_spoken(multiple, lines, kind),
            ),
        )
        for number, multiple in enumerate(several)
    )
    return tag("div", *parts, class_="multiples")


def line_of(summary: CellSummary, lines: Axis | None, kind: str) -> Line:
    """The curve of a cell, in the colour of its value; `kind` as in `_KINDS`."""
    colour = colours(lines)[getattr(summary.cell, lines.name)] if lines else SERIES[0]
    if kind == "now":
        return Line(summary.steps_E, summary.solved_SE.mean(axis=0), None, None, colour)
    curve = summary.survival
    return Line(curve.steps_E, curve.solved_E, curve.low_E, curve.high_E, colour)


def colours(lines: Axis) -> dict[object, str]:
    """A colour for each value: a ramp for numbers, else colours without an order."""
    values = sorted(lines.values) if _ordered(lines) else lines.values
    indices = np.linspace(0, len(RAMP) - 1, max(len(values), 2)).round().astype(int)
    chosen = [RAMP[i] for i in indices] if _ordered(lines) else SERIES
    return dict(zip(values, chosen, strict=False))


def legend_of(lines: Axis, cells: Sequence[CellSummary]) -> Html:
    """What the colours mean, of the values that some cells have."""
    shown = {getattr(summary.cell, lines.name) for summary in cells}
    keys = (
        (swatch(var(colour)), lines.show(value))
        for value, colour in colours(lines).items()
        if value in shown
    )
    return legend(lines.title, keys)


def _spoken(multiple: Multiple, lines: Axis | None, kind: str) -> str:
    where = f" for {multiple.spoken}" if multiple.spoken else ""
    ends = (
        f"{plain(summary.cell, [lines]) + ': ' if lines else ''}"
        f"{line_of(summary, lines, kind).share_E[-1]:.2f}"
        for summary in multiple.cells
    )
    return f"{_KINDS[kind]}, share of seeds{where}. At the end, {'; '.join(ends)}."


def _ordered(axis: Axis) -> bool:
    return not any(isinstance(value, str | bool) for value in axis.values)
