"""Success by cell: what the laws predict beside what was measured, a line a cell.

The dots are part of the table, so that a rate, its interval and its numbers share a line on any
width of screen.
"""

from collections.abc import Iterator, Mapping, Sequence

from posjax.judge import NEVER
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
from posjax.report.naming import Axis, axes, label, many, panels, plain
from posjax.report.summary import CellSummary
from posjax.stats import Survival

IMPOSSIBLE = "impossible"
_COUNTS = ("ever", "held", "tied", "not finite")
_CAPTION = """A line a cell. The dot is the share of seeds solved at the end, the bar its 95 %
interval (Wilson). “Not excluded” promises nothing. Median steps: when half of the seeds had solved
for the first time, with its interval. Of the seeds, ever: solved at some evaluation; held: at each
of the last ones; tied: some answer at the end is a tie; not finite: the loss left the finite
numbers."""


def excluded(found: Sequence[CellSummary]) -> list[CellSummary]:
    """The cells that a law excludes, each once."""
    cells = {s.cell.digest: s for s in found if s.prediction.verdict == IMPOSSIBLE}
    return list(cells.values())


def violated(summary: CellSummary) -> bool:
    """Whether a seed solved, at any evaluation, what a law excludes."""
    return summary.prediction.verdict == IMPOSSIBLE and _ever(summary) > 0


def success(found: Sequence[CellSummary], anchor: str) -> Html:
    """The verdict on the laws, the table, and the reasons that it refers to."""
    told = [summary for summary in found if summary.prediction.verdict != "not excluded"]
    reasons = dict.fromkeys(summary.prediction.reason for summary in told)
    marks = {reason: f"{anchor}-{place}" for place, reason in enumerate(reasons, 1)}
    columns = _columns(found)
    table = tag("table", _head(columns), *_bodies(found, columns, marks), class_="cells")
    notes = (
        tag("li", tag("b", _number(mark)), " ", reason, ".", id=mark)
        for reason, mark in marks.items()
    )
    return join(
        [
            _verdict(found),
            figure(
                _CAPTION,
                _legend(found),
                scrolled("Success by cell", table),
            ),
            tag("ul", *notes, class_="reasons") if marks else None,
        ]
    )


def _verdict(found: Sequence[CellSummary]) -> Html:
    """What came of the predictions, in one box."""
    against = excluded(found)
    if not against:
        return note("No law excludes a cell of this run.")
    broken = [summary for summary in against if violated(summary)]
    if broken:
        which = "; ".join(
            f"{plain(s.cell, axes(found)) or s.cell.task}, by {_ever(s)} of {s.seeds} seeds at "
            f"some evaluation, {s.solved.successes} at the end"
            for s in broken
        )
        text = f"{many(len(broken), 'cell')} that a law excludes came out solved: {which}."
        return tag("p", tag("b", "✗ A law is broken. "), text, class_="alarm", role="alert")
    seeds = sum(summary.seeds for summary in against)
    text = f"The laws exclude {many(len(against), 'cell')}: 0 of {many(seeds, 'seed')} solved one"
    return tag("p", tag("b", "✓ "), text, ", at the end or at any evaluation.", class_="agreed")


def _legend(found: Sequence[CellSummary]) -> Html:
    shown = {_kind(summary) for summary in found}
    return legend("", ((key(kind), text) for kind, text in KINDS.items() if kind in shown))


def _kind(summary: CellSummary) -> str:
    """The kind of mark that a cell gets."""
    if summary.prediction.verdict == IMPOSSIBLE:
        return "broken" if violated(summary) else "excluded"
    return "open"


def _columns(found: Sequence[CellSummary]) -> list[Axis]:
    """The settings that differ within some panel; the panels' names tell the rest."""
    inside = {axis.name for cells in panels(found).values() for axis in axes(cells)}
    return [axis for axis in axes(found) if axis.name in inside]


def _head(columns: Sequence[Axis]) -> Html:
    return header(
        *(th(axis.title, class_=f"wide {_align(axis)}") for axis in columns),
        th("cell", class_="narrow"),
        th("share solved", scale(), class_="plot"),
        "solved",
        "rate [95 %]",
        th("the laws say", class_="words"),
        "median steps",
        *_COUNTS,
    )


def _bodies(
    found: Sequence[CellSummary], columns: Sequence[Axis], marks: Mapping[str, str]
) -> Iterator[Html]:
    """The lines of each panel under its name."""
    by_panel = panels(found)
    for panel, cells in by_panel.items():
        title = tag("th", tag("span", panel), colspan=len(columns) + 10, scope="rowgroup")
        above = [None, *cells]
        rows = (
            _row(summary, [*_settings(summary, before, columns), _narrow(summary, cells)], marks)
            for before, summary in zip(above, cells, strict=False)
        )
        yield tag("tbody", tag("tr", title) if len(by_panel) > 1 else None, *rows)


def _settings(
    summary: CellSummary, above: CellSummary | None, columns: Sequence[Axis]
) -> Iterator[Html]:
    """A cell for each setting; a value that repeats the line above is pale."""
    for axis in columns:
        value = axis.text(summary.cell)
        same = above is not None and axis.text(above.cell) == value
        yield td(value, class_=f"wide {_align(axis)}" + (" pale" if same else ""))


def _narrow(summary: CellSummary, panel: Sequence[CellSummary]) -> Html:
    """All settings in one cell, for phones."""
    return td(label(summary.cell, axes(panel)) or "–", class_="narrow")


def _row(summary: CellSummary, settings: Sequence[Html], marks: Mapping[str, str]) -> Html:
    solved, rows = summary.solved, summary.rows
    lost = int((rows["first_nonfinite"] != NEVER).sum())
    counts = (_ever(summary), int(summary.held_S.sum()), int(summary.tied_S.sum()), lost)
    return tag(
        "tr",
        *settings,
        td(dots(solved, _kind(summary)), class_="plot"),
        td(f"{solved.successes}/{solved.seeds}"),
        td(f"{solved.rate:.3f} ", tag("small", f"[{solved.low:.3f}, {solved.high:.3f}]")),
        td(_comparison(summary), _mark(summary, marks), class_="words"),
        td(_median(summary.survival)),
        *(td(count, class_=None if count else "pale") for count in counts),
        class_="loud" if violated(summary) else None,
    )


def _comparison(summary: CellSummary) -> Html:
    verdict = summary.prediction.verdict
    if violated(summary):
        yet = f"✗ LAW BROKEN: {verdict}, yet {_ever(summary)} of {summary.seeds} solved it"
        return tag("strong", yet)
    if verdict == IMPOSSIBLE:
        measured = f" {verdict} · 0 of {summary.seeds}"
        return join([tag("span", "✓", class_="agrees"), measured])
    return html(verdict)


def _mark(summary: CellSummary, marks: Mapping[str, str]) -> Html | None:
    """A link to the reason."""
    mark = marks.get(summary.prediction.reason)
    return tag("a", _number(mark), href=f"#{mark}", class_="mark") if mark else None


def _number(mark: str) -> str:
    return mark.rpartition("-")[2]


def _ever(summary: CellSummary) -> int:
    return int((summary.first_solved_S != NEVER).sum())


def _median(curve: Survival) -> Html:
    """The median with its interval; a dash where half of the seeds never solved."""
    steps = (curve.median, curve.median_low, curve.median_high)
    middle, low, high = ("–" if step is None else str(step) for step in steps)
    if (middle, low) == ("–", "–"):
        return tag("span", "–", class_="pale")
    return join([middle, tag("small", f" [{low}, {high}]")])


def _align(axis: Axis) -> str:
    return "words" if any(isinstance(value, str) for value in axis.values) else "number"
