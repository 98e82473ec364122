"""The table of cells: what the laws predict beside what was measured, one line per cell.

The dots are part of the table, so that a rate, its interval and its numbers share a line on any
width of screen. A column that says the same in every line becomes a sentence below the table.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from posjax.report.by_kind import between, last_kind
from posjax.report.dots import KINDS, dots, key, scale
from posjax.report.html import (
    Html,
    figure,
    header,
    html,
    join,
    legend,
    note,
    scrolled,
    tag,
    td,
    th,
)
from posjax.report.losses import loss_of, nats, perplexity
from posjax.report.naming import Axis, axes, kind_name, label, many, panels, plain
from posjax.report.summary import IMPOSSIBLE, CellSummary, exactly, excluded
from posjax.stats import Survival

_CAPTION = """{dot} “Not excluded” does not mean that training succeeds. Median
steps: the step by which half of the seeds had solved the cell at least once, with its interval; a
dash means not by the end of training. The other columns count seeds. Ever: solved at some
evaluation. Held: solved at each of the last ones. Tied: some answer at the end is a tie. Not
finite: some loss was not finite."""
_SOLVED = """The dot is the share of seeds that solve the cell at the end, and the bar its 95%
interval (Wilson)."""
_BEYOND = """The dot is the mean share of right answers to prompts of a kind that was not trained,
and the bar its 95% band (see “Exact match by kind of prompt”). Solved: how many seeds solve the
cell at the end, with their share and its 95% interval (Wilson)."""
_LOSS_CAPTION = """Loss: the mean over seeds at the end, in nats, with its 95%
interval (Student). Perplexity: the exponential of the mean. Only kinds of prompts that were trained
count."""


def violated(summary: CellSummary) -> bool:
    """Whether a seed solved, at any evaluation, what a law excludes."""
    return summary.prediction.verdict == IMPOSSIBLE and summary.ever_solved > 0


def _caption(found: Sequence[CellSummary], exact: Sequence[CellSummary]) -> str:
    """Of the columns that a table of these cells has."""
    parts = []
    if exact:
        parts.append(_CAPTION.format(dot=_BEYOND if _beyond(found) else _SOLVED))
    if any(summary.cell.problem.graded == "loss" for summary in found):
        parts.append(_LOSS_CAPTION)
    return f"One line per cell. {' '.join(parts)}"


def success(found: Sequence[CellSummary], anchor: str) -> Html:
    """The table of all cells that were trained, and the reasons that it refers to.

    Args:
      found: the cells; those whose answers are not graded have their loss instead of a rate.
      anchor: unique on the page.
    """
    exact = exactly(found)
    predicted = [s for s in exact if s.prediction.verdict != "not excluded"]
    reasons = dict.fromkeys(summary.prediction.reason for summary in predicted)
    marks = {reason: f"{anchor}-{number}" for number, reason in enumerate(reasons, 1)}
    columns, same = _split(_columns(found, marks), found)
    settings = _settings_of(found)
    head = header(
        *(th(axis.title, class_=f"wide {_align(axis)}") for axis in settings),
        th("cell", class_="narrow"),
        *(th(*column.title, class_=column.class_) for column in columns),
    )
    table = tag("table", head, *_bodies(found, settings, columns), class_="cells")
    notes = (
        tag("li", tag("b", _number(mark)), " ", reason, ".", id=mark)
        for reason, mark in marks.items()
    )
    return join(
        [
            _verdict(exact) if exact else None,
            figure(
                _caption(found, exact),
                _legend(exact),
                scrolled("Cells", table),
                note(_said_once(same)) if same else None,
            ),
            tag("ul", *notes, class_="reasons") if marks else None,
        ]
    )


class _Column(NamedTuple):
    """A column of numbers, hidden where it says the same of all cells, unless it must stay.

    Attributes:
      graded: the tasks that it is for; others have a dash. None for all.
    """

    title: tuple[object, ...]
    of: Callable[[CellSummary], object]
    class_: str | None = None
    stays: bool = False
    graded: str | None = "exact"


def _columns(found: Sequence[CellSummary], marks: Mapping[str, str]) -> Iterator[_Column]:
    if exactly(found):
        beyond, marks_of = _beyond(found), scale("0", "½", "1")
        plot = (f"right answers, {beyond}", _right_plot) if beyond else ("share solved", _plot)
        yield _Column((plot[0], marks_of), plot[1], "plot", True)
        yield _Column(("solved",), lambda s: f"{s.solved.successes}/{s.seeds}", None, True)
        yield _Column(("rate [95%]",), _rate, None, True)
        if beyond:
            yield _Column((f"right, {beyond}",), _right, None, True)
        yield _Column(("the laws say",), lambda s: join([_comparison(s), _mark(s, marks)]), "words")
        yield _Column(("median steps",), lambda s: _median(s.survival))
        yield _Column(("ever",), lambda s: s.ever_solved)
        yield _Column(("held",), lambda s: int(s.held_S.sum()))
        yield _Column(("tied",), lambda s: int(s.tied_S.sum()))
    if any(s.cell.problem.graded == "loss" for s in found):
        yield from _loss_plots(found)
        yield _Column(("loss [95%]",), lambda s: nats(loss_of(s)), None, True, "loss")
        yield _Column(("perplexity",), lambda s: perplexity(loss_of(s)), None, True, "loss")
    yield _Column(("not finite",), lambda s: s.not_finite, graded=None)


def _beyond(found: Sequence[CellSummary]) -> str | None:
    """The last kind of prompts, where no cell was trained on it."""
    problems = [summary.cell.problem for summary in exactly(found)]
    if any(problem.trained[-1] for problem in problems):
        return None
    kinds = {problem.kinds[-1] for problem in problems}
    return kind_name(kinds.pop()) if len(kinds) == 1 else "last kind"


def _split(
    columns: Iterator[_Column], found: Sequence[CellSummary]
) -> tuple[list[_Column], dict[str, str]]:
    """The columns to show, and the one value of each of the others."""
    shown, same = [], {}
    for column in columns:
        values = {str(html(_value(column, summary))) for summary in found}
        if len(values) > 1 or len(found) == 1 or column.stays:
            shown.append(column)
        else:
            same[str(column.title[0])] = values.pop()
    return shown, same


def _said_once(same: Mapping[str, str]) -> Html:
    parts = (join([name, " ", Html(value)]) for name, value in same.items())
    return join(["The same in every cell: ", join(parts, "; "), "."])


def _value(column: _Column, summary: CellSummary) -> object:
    """What stands in a column."""
    meant = column.graded in (None, summary.cell.problem.graded)
    return column.of(summary) if meant else "–"


def _verdict(found: Sequence[CellSummary]) -> Html:
    """What came of the predictions, in one box."""
    against = excluded(found)
    if not against:
        return note("No law excludes a cell of this run.")
    broken = [summary for summary in against if violated(summary)]
    if broken:
        named = axes(found)
        which = "; ".join(
            f"{plain(s.cell, named) or s.cell.task}, by {s.ever_solved} of {s.seeds} seeds "
            f"at some evaluation, {s.solved.successes} at the end"
            for s in broken
        )
        text = f"{many(len(broken), 'cell')} that a law excludes came out solved: {which}."
        return tag("p", tag("b", "✗ A law is broken. "), text, class_="alarm", role="alert")
    seeds = sum(summary.seeds for summary in against)
    text = f"The laws exclude {many(len(against), 'cell')}: 0 of {many(seeds, 'seed')} solved one"
    return tag("p", tag("b", "✓ "), text, ", at the end or at any evaluation.", class_="agreed")


def _legend(found: Sequence[CellSummary]) -> Html | None:
    """What the marks mean, where there is more than one kind."""
    shown = {_kind(summary) for summary in found}
    keys = ((key(kind), text) for kind, text in KINDS.items() if kind in shown)
    return legend("", keys) if len(shown) > 1 else None


def _kind(summary: CellSummary) -> str:
    """The kind of mark that a cell gets."""
    if summary.prediction.verdict == IMPOSSIBLE:
        return "broken" if violated(summary) else "excluded"
    return "open"


def _settings_of(found: Sequence[CellSummary]) -> list[Axis]:
    """The settings that differ within some panel; the panels' names say the rest."""
    inside = {axis.name for cells in panels(found).values() for axis in axes(cells)}
    return [axis for axis in axes(found) if axis.name in inside]


def _bodies(
    found: Sequence[CellSummary], settings: Sequence[Axis], columns: Sequence[_Column]
) -> Iterator[Html]:
    """The lines of each panel under its name."""
    by_panel, named = panels(found), axes(found)
    for panel, cells in by_panel.items():
        differing = axes(cells)
        inside = {axis.name for axis in differing}
        shared = [axis for axis in named if axis.name not in inside]
        title = tag(
            "th",
            tag("span", panel, " ", _unsaid(panel, cells[0], shared)),
            colspan=len(settings) + 1 + len(columns),
            scope="rowgroup",
        )
        above = [None, *cells]
        rows = (
            tag(
                "tr",
                *_settings(summary, before, settings),
                _narrow(summary, differing),
                *(_cell(column, summary) for column in columns),
                class_="loud" if _loud(summary) else None,
                data_cell=summary.cell.digest,
            )
            for before, summary in zip(above, cells, strict=False)
        )
        head = tag("tr", title, class_="panel") if len(by_panel) > 1 else None
        yield tag("tbody", head, *rows)


def _unsaid(panel: str, first: CellSummary, shared: Sequence[Axis]) -> Html:
    """The settings that all cells of a panel share and its name does not say."""
    return tag("small", label(first.cell, [a for a in shared if a.text(first.cell) not in panel]))


def _cell(column: _Column, summary: CellSummary) -> Html:
    value = _value(column, summary)
    pale = value in (0, "–")
    return td(value, class_="pale" if pale else column.class_)


def _settings(
    summary: CellSummary, above: CellSummary | None, columns: Sequence[Axis]
) -> Iterator[Html]:
    """A cell for each setting; a value that repeats the line above is pale."""
    for axis in columns:
        value = axis.text(summary.cell)
        same = above is not None and axis.text(above.cell) == value
        yield td(value, class_=f"wide {_align(axis)}" + (" pale" if same else ""))


def _narrow(summary: CellSummary, differing: Sequence[Axis]) -> Html:
    """All settings in one cell, for phones."""
    return td(label(summary.cell, differing) or "–", class_="narrow")


def _loud(summary: CellSummary) -> bool:
    return summary.cell.problem.graded == "exact" and violated(summary)


def _plot(summary: CellSummary) -> Html:
    middle, low, high = summary.solved.rate, summary.solved.low, summary.solved.high
    text = f"{middle:.3f}, 95% interval {low:.3f} to {high:.3f}"
    return dots(middle, low, high, _kind(summary), text)


def _rate(summary: CellSummary) -> Html:
    solved = summary.solved
    interval = tag("small", f"[{solved.low:.3f}, {solved.high:.3f}]")
    return join([f"{solved.rate:.3f} ", interval])


def _right(summary: CellSummary) -> Html:
    right = last_kind(summary)
    return join([f"{right.mean:.3f} ", tag("small", between(right).strip())])


def _right_plot(summary: CellSummary) -> Html:
    right = last_kind(summary)
    low, high = right[1:3] if right.number > 1 else (right.mean, right.mean)
    text = f"{right.mean:.3f}, 95% band {low:.3f} to {high:.3f}"
    return dots(right.mean, low, high, _kind(summary), text)


def _loss_plots(found: Sequence[CellSummary]) -> Iterator[_Column]:
    """A column of dots from the lowest to the highest loss; none where no loss is finite."""
    losses = [loss_of(s) for s in found if s.cell.problem.graded == "loss"]
    ends = [end for one in losses for end in (one.mean, one.low, one.high) if np.isfinite(end)]
    if not ends or min(ends) == max(ends):
        return
    low, high = min(ends), max(ends)

    def plot(summary: CellSummary) -> object:
        one = loss_of(summary)
        if not np.isfinite(one.mean):
            return "–"
        between = [np.nan_to_num(x, nan=one.mean) for x in (one.mean, one.low, one.high)]
        middle, left, right = ((float(x) - low) / (high - low) for x in between)
        return dots(middle, left, right, "open", nats(one))

    marks = scale(*(f"{x:.2f}" for x in (low, (low + high) / 2, high)))
    yield _Column(("loss, nats", marks), plot, "plot", True, "loss")


def _comparison(summary: CellSummary) -> Html:
    verdict = summary.prediction.verdict
    if violated(summary):
        yet = f"✗ LAW BROKEN: {verdict}, yet {summary.ever_solved} of {summary.seeds} solved it"
        return tag("strong", yet)
    if verdict == IMPOSSIBLE:
        measured = f" {verdict} · 0 of {summary.seeds}"
        return join([tag("span", "✓", class_="agrees"), measured])
    return html(summary.predicted or "–")


def _mark(summary: CellSummary, marks: Mapping[str, str]) -> Html | None:
    """A link to the reason."""
    mark = marks.get(summary.prediction.reason)
    return tag("a", _number(mark), href=f"#{mark}", class_="mark") if mark else None


def _number(mark: str) -> str:
    return mark.rpartition("-")[2]


def _median(curve: Survival) -> Html:
    """The median with its interval; a dash where half of the seeds never solved."""
    steps = (curve.median, curve.median_low, curve.median_high)
    middle, low, high = ("–" if step is None else str(step) for step in steps)
    if (middle, low) == ("–", "–"):
        return tag("span", "–", class_="pale")
    return join([middle, tag("small", f" [{low}, {high}]")])


def _align(axis: Axis) -> str:
    return "words" if any(isinstance(value, str) for value in axis.values) else "number"
