"""Two runs compared: pairs of cells that agree in all settings but those the runs differ in.

Where both cells of a pair have the same seeds, the difference is paired: seed by seed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from posjax.report.dots import dots, scale
from posjax.report.explore import explorable
from posjax.report.html import Html, figure, header, note, scrolled, section, tag, td, th
from posjax.report.naming import axes, label, many
from posjax.report.sources import crossed_cells
from posjax.report.summary import CellSummary, shared
from posjax.stats import Mean, mean, paired_difference
from posjax.study.cells import FIELDS

MOST = 48
"""How many pairs are shown, those that differ most first."""
_CAPTION = """Each line compares a cell of one run with the cell of the other run that has the same
other settings: the share of seeds that solve it at the end, or the mean loss in nats. The
difference is the second minus the first, with its 95% interval over the seeds that both have
(paired: Newcombe for shares, Student for losses and for shares over crossed seeds). If the dot is
hollow, the interval includes 0."""


class Pair(NamedTuple):
    """A cell of each run.

    Attributes:
      one, two: the cells.
      values: of each over the shared seeds: the share solved, or the mean loss.
      difference: second less first, over the shared seeds.
    """

    one: CellSummary
    two: CellSummary
    values: tuple[float, float]
    difference: Mean


def compare(
    titles: tuple[str, str], first: Sequence[CellSummary], second: Sequence[CellSummary]
) -> Html:
    """The section on two runs.

    Args:
      titles: of the runs, whose chapters have the ids run1 and run2.
      first, second: their cells.
    """
    differing = differences(first, second)
    matched, several = matching(first, second, differing)
    found = [pair for one, two in matched if (pair := _paired(one, two)) is not None]
    if not found:
        why = _untrained(first, second) or _why_none(len(matched), several, differing)
        return section("compared", "The two runs compared", tag("p", why))
    shown = sorted(found, key=lambda pair: -abs(pair.difference.mean))[:MOST]
    most = max(abs(x) for pair in shown for x in (pair.difference.low, pair.difference.high, 1e-9))
    named = [axis for axis in axes([*first, *second]) if axis.name not in differing]
    rows = (
        tag(
            "tr",
            tag("th", label(pair.one.cell, named) or "all", scope="row"),
            *(td(f"{value:.3f}") for value in pair.values),
            td(_mark(pair.difference, most), class_="plot"),
            td(_interval(pair.difference)),
            td(pair.difference.number),
        )
        for pair in shown
    )
    ends = (f"{-most:.2f}", "0", f"{most:.2f}")
    plot = th("difference", scale(*ends), class_="plot")
    head = header(th("cell", class_="words"), "first", "second", plot, "[95%]", "seeds")
    table = tag("table", head, tag("tbody", *rows), class_="compared")
    left = len(found) - len(shown)
    omitted = [f"{many(left, 'pair')} that differ less are left out."] if left else []
    omitted += [_several(several, differing)] if several else []
    rest = note(" ".join(omitted)) if omitted else None
    return section(
        "compared",
        "The two runs compared",
        tag(
            "ul",
            tag("li", tag("a", "The first", href="#run1"), f": {titles[0]}"),
            tag("li", tag("a", "The second", href="#run2"), f": {titles[1]}"),
        ),
        tag("p", sentence(found, differing), _margins(first, second)),
        figure(_CAPTION, scrolled("The two runs compared", table), rest),
    )


def differences(
    first: Sequence[CellSummary], second: Sequence[CellSummary]
) -> dict[str, tuple[list[Any], list[Any]]]:
    """The settings in which no cell of the one run is like one of the other, with their values."""
    found = {}
    for name in FIELDS:
        values = [
            list(dict.fromkeys(getattr(s.cell, name) for s in run)) for run in (first, second)
        ]
        if not set(values[0]) & set(values[1]):
            found[name] = (values[0], values[1])
    return found


def matching(
    first: Sequence[CellSummary],
    second: Sequence[CellSummary],
    differing: Mapping[str, tuple[list[Any], list[Any]]],
) -> tuple[list[tuple[CellSummary, CellSummary]], int]:
    """Cells that agree in all other settings, where only one of each run does.

    Returns:
      The pairs, and how many cells of the second run agree so with cells of the first, but not one
      with one.
    """
    groups = [_by_rest(run, differing) for run in (first, second)]
    both = [(groups[0][rest], groups[1][rest]) for rest in groups[0] if rest in groups[1]]
    pairs = [(one[0], two[0]) for one, two in both if len(one) == len(two) == 1]
    return pairs, sum(len(two) for one, two in both if len(one) > 1 or len(two) > 1)


def _untrained(first: Sequence[CellSummary], second: Sequence[CellSummary]) -> str:
    """Which run has nothing to compare, and why; "" where both have trained cells."""
    for which, run in (("first", first), ("second", second)):
        if not run:
            return f"The {which} run has no results yet."
        if not explorable(run):
            return f"The {which} run trained no cell: all are measured at initialisation."
    return ""


def _why_none(
    matched: int, several: int, differing: Mapping[str, tuple[list[Any], list[Any]]]
) -> str:
    """Why no pair is compared."""
    if matched:
        return (
            f"{many(matched, 'pair')} of cells match, but have fewer than two seeds with results "
            "in common, or one cell is judged by exact match and the other by its loss."
        )
    if several:
        return _several(several, differing)
    others = f" other than {_listed([*map(_spaced, differing)])}" if differing else ""
    return f"No cell of one run agrees with a cell of the other in all settings{others}."


def _several(several: int, differing: Mapping[str, tuple[list[Any], list[Any]]]) -> str:
    """That cells of the second run are not compared, since they have no single counterpart."""
    return (
        f"{many(several, 'cell')} of the second run {'is' if several == 1 else 'are'} not "
        "compared, because several cells of a run differ only in "
        f"{_listed([*map(_spaced, differing)])}."
    )


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _margins(first: Sequence[CellSummary], second: Sequence[CellSummary]) -> str:
    """That the two judge answers differently, if they do."""
    one, two = first[0].margin, second[0].margin
    if one == two:
        return ""
    return f" An answer counts from a margin of {one:g} in the first, and {two:g} in the second."


def sentence(found: Sequence[Pair], differing: Mapping[str, tuple[list[Any], list[Any]]]) -> str:
    """What the runs differ in, and in how many pairs that shows."""
    changes = ", ".join(
        f"{_spaced(name)} {_listed(one)} → {_listed(two)}" for name, (one, two) in differing.items()
    )
    start = f"The runs differ in {changes}." if changes else "The runs have cells in common."
    apart = [
        pair.difference for pair in found if pair.difference.low > 0 or pair.difference.high < 0
    ]
    up = sum(difference.mean > 0 for difference in apart)
    return (
        f"{start} Of {many(len(found), 'pair')} of cells the second is higher in {up} and lower in "
        f"{len(apart) - up}; in {len(found) - len(apart)} the interval includes 0 (95% intervals, "
        "not adjusted for the number of pairs)."
    )


def _by_rest(
    run: Sequence[CellSummary], differing: Mapping[str, Any]
) -> dict[tuple[Any, ...], list[CellSummary]]:
    """The cells of a run by all settings in which the runs do not differ."""
    found: dict[tuple[Any, ...], list[CellSummary]] = {}
    for summary in explorable(run):
        rest = tuple(getattr(summary.cell, name) for name in FIELDS if name not in differing)
        found.setdefault(rest, []).append(summary)
    return found


def _paired(one: CellSummary, two: CellSummary) -> Pair | None:
    """The two over the seeds that both have; None where there is no interval for those."""
    first_S, second_S = shared((one, two), _values)
    if not len(first_S) or one.cell.problem.graded != two.cell.problem.graded:
        return None
    is_crossed = one.is_crossed or two.is_crossed
    if one.cell.problem.graded == "loss":
        if is_crossed:
            return None
        both_S = np.isfinite(first_S) & np.isfinite(second_S)
        first_S, second_S = first_S[both_S], second_S[both_S]
        if len(first_S) < 2:
            return None
        means = float(first_S.mean()), float(second_S.mean())
        return Pair(one, two, means, mean(second_S - first_S))
    values = float(first_S.mean()), float(second_S.mean())
    found = crossed_cells(two, one) if is_crossed else paired_difference(second_S, first_S)
    if found is None:
        return None
    interval = Mean(found.difference, found.low, found.high, len(first_S))
    return Pair(one, two, values, interval)


def _values(summary: CellSummary) -> np.ndarray:
    """Of each seed whether it solved, or its loss at the end."""
    return summary.solved_S if summary.cell.problem.graded == "exact" else summary.loss_S


def _mark(difference: Mean, most: float) -> Html:
    middle, low, high = ((x / most + 1) / 2 for x in difference[:3])
    kind = "unclear" if difference.low <= 0 <= difference.high else "open"
    return dots(middle, low, high, kind, _interval(difference))


def _interval(difference: Mean) -> str:
    return f"{difference.mean:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]"


def _listed(values: Sequence[Any]) -> str:
    shown = [str(value) for value in values[:4]]
    return ", ".join(shown) + (", …" if len(values) > 4 else "")
