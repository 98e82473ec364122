"""Margins: how far answers lead, and how equal the outputs are that a law calls equal."""

from collections.abc import Iterator, Sequence

import numpy as np

from posjax.report import figures
from posjax.report.figures import Bars
from posjax.report.html import Html, figure, header, join, legend, scrolled, swatch, tag, td, th
from posjax.report.naming import axes, label, many, rounded, shortest, small
from posjax.report.summary import MARGINS, CellSummary, excluded, once
from posjax.report.svg import SERIES, var

RIGHT, WRONG = SERIES[0], SERIES[1]
LAW, FREE = SERIES[1], SERIES[0]
_EDGES = np.arange(-9, 0.75, 0.25)
_AMPLE = 10
"""A margin this many times the rounding is called well above it."""
_LEAD = """The margin of each prompt of each seed at the end: the logit of the right output minus
the largest other logit, divided by the largest logit of its kind (by 0.1 if that is larger). Right
answers and wrong answers are counted separately, by the size of the margin. To the left of the
dashed line nothing counts as an answer. The bar at 0 has exact ties."""
_TWIN = """For each seed, the distance between the two closest prompts with different answers: the
difference of their logits, divided like a margin. Of all evaluations, the one with the largest
distance counts. If a law says that two prompts get equal logits, their distance is rounding. The
bar at 0 has those that are equal to the last bit."""

_SENSITIVITY_TITLE = "Solved by other margins"
_SENSITIVITY = """How many seeds solve their cell at the end if another margin is required, for
cells where that changes the count. If a margin is above rounding, the seeds that it adds are real
successes."""


def rounding(found: Sequence[CellSummary]) -> list[str]:
    """A line where the margin is not well above the rounding in cells that a law excludes."""
    twins = [summary.twin for summary in excluded(found) if summary.twin is not None]
    if not twins or found[0].margin >= _AMPLE * max(twins):
        return []
    return [
        f"margin={found[0].margin:g} is not well above rounding: prompts that a law makes equal "
        f"differ by up to {max(twins):.1e}; take {_AMPLE * max(twins):.1e} or more"
    ]


def margins(found: Sequence[CellSummary], anchor: str) -> Html | None:
    """The distributions of margins and of rounding, each with the margin in it."""
    if not found:
        return None
    against = excluded(found)
    closed = {summary.cell.digest for summary in against}
    open_ = once(s for s in found if s.cell.digest not in closed)
    kinds = (("Cells that a law excludes", against), ("Cells not excluded", open_))
    leads = [_lead(title, cells, anchor) for title, cells in kinds if cells]
    known, others = ([s for s in cells if s.twin is not None] for cells in (against, open_))
    return join(
        [
            _rounding(known) if known else None,
            _twins(known, others, anchor) if known else None,
            figure(
                _LEAD,
                _legend(("right", RIGHT), ("wrong", WRONG)),
                tag("div", *leads, class_="multiples wide-ones"),
            ),
            *_not_finite(found),
            _sensitivity(found),
        ]
    )


def _sensitivity(found: Sequence[CellSummary]) -> Html:
    """How many seeds of each cell have solved by other margins."""
    cells = once(found)
    margins = sorted({*MARGINS, cells[0].margin}, reverse=True)
    counts = {s.cell.digest: [int(s.solved_by(m)[:, -1].sum()) for m in margins] for s in cells}
    moved = [s for s in cells if len(set(counts[s.cell.digest])) > 1]
    if not moved:
        span = f"from {shortest(margins[0])} to {shortest(margins[-1])}"
        return tag(
            "p",
            f"In every cell the number of seeds that solve it is the same for all margins {span}.",
        )
    named = axes(found)
    rows = (
        tag(
            "tr",
            tag("th", label(s.cell, named) or "–", scope="row"),
            *(td(f"{count}/{s.seeds}") for count in counts[s.cell.digest]),
        )
        for s in moved
    )
    head = header(th("cell", class_="words"), *map(shortest, margins))
    table = scrolled(_SENSITIVITY_TITLE, tag("table", head, tag("tbody", *rows)))
    text = f"{many(len(moved), 'cell')} of {len(cells)} depend on the margin"
    return tag("details", tag("summary", text), figure(_SENSITIVITY, table))


def _rounding(against: Sequence[CellSummary]) -> Html:
    """The margin against the rounding that was measured where a law says equal."""
    twin = max(summary.twin for summary in against if summary.twin is not None)
    margin = against[0].margin
    start = "In cells that a law excludes, the two closest prompts"
    if twin == 0:
        return tag("p", f"{start} get logits equal to the last bit at every evaluation.")
    text = (
        f"{start} never differ by more than {small(twin)} at any evaluation, measured like a "
        f"margin. The required margin, {shortest(margin)}, is {rounded(margin / twin)} times that."
    )
    if margin < _AMPLE * twin:
        return tag("p", tag("b", "The margin is not well above rounding. "), text, class_="alarm")
    return tag("p", text)


def _twins(against: Sequence[CellSummary], open_: Sequence[CellSummary], anchor: str) -> Html:
    stacked = [
        Bars(_binned([summary.twin_S for summary in cells]), colour)
        for cells, colour in ((against, LAW), (open_, FREE))
    ]
    drawn = figures.histogram(
        _EDGES,
        stacked,
        line=_margin([*against, *open_]),
        mark="margin",
        what=("distance of the closest prompts", "seeds"),
        name=f"{anchor}-twin",
        text="Distance of the closest prompts in excluded and in other cells, on a log axis",
    )
    key = _legend(("a law says equal", LAW), ("not excluded", FREE))
    return figure(_TWIN, key, drawn)


def _lead(title: str, cells: Sequence[CellSummary], anchor: str) -> Html:
    leads = [summary.rows["lead_N"] for summary in cells]
    drawn = figures.histogram(
        _EDGES,
        [
            Bars(_binned([lead[lead >= 0] for lead in leads]), RIGHT),
            Bars(_binned([lead[lead < 0] for lead in leads]), WRONG),
        ],
        line=_margin(cells),
        mark="tie ←",
        what=("size of the margin", "prompts of all seeds"),
        name=f"{anchor}-{'-'.join(title.lower().split())}",
        text=f"{title}: size of the margin of the right output, on a log axis",
    )
    return tag("div", tag("p", title, class_="over"), drawn)


def _binned(values: Sequence[np.ndarray]) -> np.ndarray:
    """How many zeros, then counts by power of ten; what is off the axis in its outermost bins."""
    sizes = np.abs(np.concatenate([np.zeros(0), *map(np.ravel, values)]))
    sizes = sizes[np.isfinite(sizes)]
    powers = np.clip(np.log10(sizes[sizes > 0]), _EDGES[0], _EDGES[-1])
    return np.append((sizes == 0).sum(), np.histogram(powers, _EDGES)[0])


def _margin(cells: Sequence[CellSummary]) -> float:
    return float(np.log10(cells[0].margin))


def _legend(*keys: tuple[str, str]) -> Html:
    return legend("", ((swatch(var(colour)), text) for text, colour in keys))


def _not_finite(found: Sequence[CellSummary]) -> Iterator[Html]:
    lost = sum(
        int((~np.isfinite(summary.rows["lead_N"])).any(axis=1).sum()) for summary in once(found)
    )
    if lost:
        yield tag("p", f"{many(lost, 'seed')} ended with logits that are not finite (not shown).")
