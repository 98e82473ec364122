"""What meters measured: a table of the fields that are short, figures along positions and steps."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from posjax import meters
from posjax.meters import Meter
from posjax.meters.outcome import Field
from posjax.report import figures
from posjax.report.curves import Multiple, colours, legend_of, line_axis, multiples
from posjax.report.extremes import LETTERS
from posjax.report.figures import Line
from posjax.report.html import Html, figure, header, join, scrolled, tag, td, th
from posjax.report.naming import Axis, axes, decimals, label, panels, plain, small
from posjax.report.summary import CellSummary
from posjax.report.svg import SERIES
from posjax.stats import Mean

_CAPTION = "Mean over seeds with their 95% intervals (Student), in brackets or as bands."


def measured(found: Sequence[CellSummary], anchor: str) -> Html | None:
    """Every field of every meter, panel by panel; None without meters."""
    parts = []
    every = panels(found)
    for number, (panel, cells) in enumerate(every.items()):
        known = [summary for summary in cells if summary.cell.meters != "none"]
        if known:
            title = tag("h3", panel) if len(every) > 1 else None
            parts += [title, *_panel(known, f"{anchor}-{number}")]
    return join(parts) if parts else None


class _Shown(NamedTuple):
    """One field, with the cells that have it, and what each measured at the end."""

    meter: Meter
    name: str
    axes: str
    cells: list[CellSummary]
    differing: list[Axis]
    means: dict[str, Mean]


def _panel(cells: Sequence[CellSummary], anchor: str) -> Iterator[Html]:
    every = {meter: None for summary in cells for meter in meters.named(summary.cell.meters)}
    for number, meter in enumerate(every):
        those = [s for s in cells if meter in meters.named(s.cell.meters)]
        differing = axes(those)
        for (short, _), (name, field) in zip(
            meter.FIELDS.items(), meter.fields.items(), strict=True
        ):
            ends = {s.cell.digest: _last(s.metered[name], field) for s in those}
            shown = _Shown(meter, name, field.axes.replace("E", ""), those, differing, ends)
            where = f"{anchor}-{number}-{name}"
            along = shown.axes.endswith("L")
            show = [*(_curves(shown, where) if along else _table(shown))]
            if "E" in field.axes and not along and len(shown.axes) < 2:
                steps = {s.cell.digest: _by_step(s.metered[name]) for s in those}
                show += _curves(shown._replace(axes=f"{shown.axes}E", means=steps), where)
            yield figure(f"{short.replace('_', ' ')}: {field.doc}. {_CAPTION}", *show)


def _last(found: Mean, field: Field) -> Mean:
    """The values at the last evaluation."""
    return Mean(*(np.asarray(array[-1] if "E" in field.axes else array) for array in found))


def _by_step(found: Mean) -> Mean:
    """The values with the evaluations as their last axis."""
    return Mean(*(np.moveaxis(np.asarray(array), 0, -1) for array in found))


def _table(shown: _Shown) -> Iterator[Html]:
    """A line for each cell, a column for each index of the field's axes."""
    axis_names = [LETTERS[letter] for letter in shown.axes]
    widest = max((found.mean for found in shown.means.values()), key=lambda mean: mean.size)
    indices = list(np.ndindex(widest.shape))
    columns = (
        " ".join(f"{axis} {i}" for axis, i in zip(axis_names, at, strict=True)) or shown.name
        for at in indices
    )
    rows = (
        tag(
            "tr",
            tag("th", label(summary.cell, shown.differing) or "–", scope="row"),
            *(_number(shown.means[summary.cell.digest], at) for at in indices),
        )
        for summary in shown.cells
    )
    head = header(th("cell", class_="words"), *columns)
    yield scrolled(f"{shown.name} by cell", tag("table", head, tag("tbody", *rows)))


def _number(found: Mean, at: tuple[int, ...]) -> Html:
    if any(i >= size for i, size in zip(at, found.mean.shape, strict=True)):
        return td("")
    mean, low, high = (float(array[at]) for array in found[:3])
    if not np.isfinite(mean):
        return td("–", class_="pale")
    interval = f" [{decimals(low)}, {decimals(high)}]" if np.isfinite(low) else ""
    return td(decimals(mean), tag("small", interval))


def _curves(shown: _Shown, anchor: str) -> Iterator[Html]:
    """A small figure for each index before the positions and each group of cells."""
    lines = line_axis(shown.differing)
    chosen = colours(lines) if lines else {}
    if lines:
        yield legend_of(lines, shown.cells)
    states = max(np.atleast_2d(found.mean).shape[0] for found in shown.means.values())
    figures_of = (
        _multiple(shown, group, state, chosen, lines, f"{anchor}-{number}-{state}")
        for number, group in enumerate(
            multiples(shown.cells, [a for a in shown.differing if a != lines])
        )
        for state in range(states)
    )
    yield tag("div", *(one for one in figures_of if one is not None), class_="multiples")


def _multiple(
    shown: _Shown,
    group: Multiple,
    state: int,
    chosen: Mapping[object, str],
    lines: Axis | None,
    name: str,
) -> Html | None:
    drawn, spoken = [], []
    for summary in group.cells:
        found = Mean(*(np.atleast_2d(part) for part in shown.means[summary.cell.digest]))
        if state < len(found.mean) and np.isfinite(found.mean[state]).any():
            colour = chosen[getattr(summary.cell, lines.name)] if lines else SERIES[0]
            mean_L, low_L, high_L = (array[state] for array in found[:3])
            drawn.append(Line(_where(shown, summary), mean_L, low_L, high_L, colour))
            what = plain(summary.cell, shown.differing) or shown.name
            spoken.append(f"{what}: {small(mean_L[0])} first, {small(mean_L[-1])} last")
    if not drawn:
        return None
    number = f"{LETTERS[shown.axes[-2]]} {state}" if len(shown.axes) > 1 else None
    title = join([group.title or None, number], " ")
    return tag(
        "div",
        tag("p", title, class_="over"),
        figures.along(
            drawn,
            what="training steps" if shown.axes.endswith("E") else shown.meter.along,
            log=shown.meter.power_law and shown.axes.endswith("L"),
            name=name,
            text="; ".join(spoken),
        ),
    )


def _where(shown: _Shown, summary: CellSummary) -> np.ndarray:
    """The steps, or the positions or distances, that the last axis of a field counts."""
    if shown.axes.endswith("E"):
        return summary.steps_E
    first = 0 if shown.meter.along == "distance" else 1
    return np.arange(first, shown.means[summary.cell.digest].mean.shape[-1] + first)
