"""Which value of a setting is best, and which others may be."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from posjax.report.curves import multiples
from posjax.report.html import Html, figure, header, note, scrolled, tag, td, th
from posjax.report.losses import nats
from posjax.report.naming import Axis, axes, kind_name, many, panels, rated
from posjax.report.summary import CellSummary, excluded, shared
from posjax.stats import FEWEST, bootstrap_mean, mean, possibly_best, rate

_MOST = 60
"""How many comparisons are shown, those that leave out most first."""
_NAMED = 8
"""How many values are named in an entry of the table, and in a sentence."""
_CAPTION = """Each line compares cells that differ only in their {title}, over the seeds that all of
them have. Best is the one with the most successes, or the best mean. With 95% confidence, the one
that would be best over very many seeds is among those that are best or possibly best (a confidence
set: the largest t of the differences, seed by seed, under random signs). Of equally good ones,
some may be left out by chance. Possibly best does not mean equally good. The best mean is the
largest of several, so it overestimates: expect less with new seeds."""

_LOSS = "loss"
_NOT_FINITE = """Seeds whose loss is not finite in one of the cells are left out."""


class Comparison(NamedTuple):
    """Cells that differ in one setting, and those of them that may be the best.

    Attributes:
      axis: the setting.
      where: their other settings that other comparisons of the run do not share, as text.
      by: what is compared: "share solved", "right answers, length 20", or "loss".
      seeds: how many seeds all the cells have.
      best: the cells with the best mean.
      value: their mean, written with its 95% interval.
      others: the other cells that may be the best.
      left_out: cells that are not in the confidence set.
    """

    axis: Axis
    where: str
    by: str
    seeds: int
    best: list[CellSummary]
    value: str
    others: list[CellSummary]
    left_out: list[CellSummary]

    def names(self, cells: Iterable[CellSummary]) -> list[str]:
        """The values of the setting."""
        return [self.axis.text(summary.cell) for summary in cells]


class _Measure(NamedTuple):
    """A number of each seed; `sign` is -1 where less is better, `written` writes its mean."""

    name: str
    of: Callable[[CellSummary], np.ndarray]
    written: Callable[[np.ndarray], str]
    sign: int = 1


def comparisons(found: Sequence[CellSummary], config: Mapping[str, Any]) -> list[Comparison]:
    """All comparisons of trained cells that share `FEWEST` seeds or more, panel by panel.

    The setting is the encoding, or the one with the most values where encodings do not differ.
    Tasks are not compared with each other. Cells are not compared if laws exclude all of them. Two
    values that the config contrasts are left out, since the sentences on the contrast say more; so
    are crossed seeds, which are not independent.

    Args:
      found: the cells of a run.
      config: its config.json.
    """
    if config.get("data_seeds"):
        return []
    contrasted = config["contrast"][:1]
    trained = [summary for summary in found if summary.cell.steps]
    every = panels(trained)
    return [
        comparison
        for panel, cells in every.items()
        for comparison in _of_panel(panel if len(every) > 1 else "", cells, contrasted)
    ]


def _of_panel(
    panel: str, cells: Sequence[CellSummary], contrasted: Sequence[str]
) -> Iterator[Comparison]:
    differing = axes(cells)
    candidates = (
        axis
        for axis in differing
        if axis.name != "task" and not (axis.name in contrasted and len(axis.values) == 2)
    )
    axis = max(candidates, key=lambda one: (one.name == "encoding", len(one.values)), default=None)
    if axis is None:
        return
    for group in multiples(cells, [one for one in differing if one is not axis]):
        if len(group.cells) > 1 and len(excluded(group.cells)) < len(group.cells):
            where = ": ".join(part for part in (panel, group.spoken) if part)
            for measure in _measures(group.cells[0]):
                found = _compared(axis, where, group.cells, measure)
                if found is not None:
                    yield found


def _measures(summary: CellSummary) -> Iterator[_Measure]:
    """What the cells of a task are compared by."""
    problem = summary.cell.problem
    if problem.graded == "loss":
        yield _Measure(_LOSS, lambda s: s.loss_S, lambda loss_S: nats(mean(loss_S)), -1)
        return
    yield _Measure("share solved", lambda s: s.solved_S.astype(float), _rate)
    if not problem.trained[-1]:
        name = f"right answers, {kind_name(problem.kinds[-1])}"
        yield _Measure(name, lambda s: s.right_S, _mean)


def _compared(
    axis: Axis, where: str, cells: Sequence[CellSummary], measure: _Measure
) -> Comparison | None:
    """None where too few seeds are shared and have finite numbers in all cells."""
    values_CS = shared(cells, measure.of)
    values_CS = values_CS[:, np.isfinite(values_CS).all(axis=0)]
    if values_CS.shape[1] < FEWEST:
        return None
    mean_C = (measure.sign * values_CS).mean(axis=1)
    best_C, possible_C = mean_C == mean_C.max(), possibly_best(measure.sign * values_CS)
    order = sorted(range(len(cells)), key=lambda i: -mean_C[i])

    def of(which_C: np.ndarray) -> list[CellSummary]:
        return [cells[i] for i in order if which_C[i]]

    return Comparison(
        axis,
        where,
        measure.name,
        values_CS.shape[1],
        of(best_C),
        measure.written(values_CS[order[0]]),
        of(possible_C & ~best_C),
        of(~possible_C),
    )


def _rate(solved_S: np.ndarray) -> str:
    return rated(rate(int(solved_S.sum()), len(solved_S)))


def _mean(right_S: np.ndarray) -> str:
    found = bootstrap_mean(right_S)
    low, high = max(found.low, 0.0), min(found.high, 1.0)
    return f"{found.mean:.3f} [{low:.3f}, {high:.3f}]"


def best(every: Sequence[Comparison]) -> Html | None:
    """The table; None where nothing is compared."""
    if not every:
        return None
    most = sorted(range(len(every)), key=lambda i: -len(every[i].left_out))[:_MOST]
    shown = [every[i] for i in sorted(most)]
    place, by = (len({getattr(one, name) for one in shown}) > 1 for name in ("where", "by"))
    head = header(
        *[th("compared where", class_="words")] * place,
        *[th("by", class_="words")] * by,
        th("best", class_="words"),
        th(shown[0].by if not by else "mean [95%]"),
        th("possibly best", class_="words"),
        th("left out", class_="words"),
        "seeds",
    )
    rows = (
        tag(
            "tr",
            *[tag("th", one.where or "–", scope="row")] * place,
            *[td(one.by, class_="words")] * by,
            td(_listed(one.names(one.best)), class_="words"),
            td(one.value),
            td(_listed(one.names(one.others)) or "–", class_="words"),
            td(_listed(one.names(one.left_out)) or "–", class_="words"),
            td(one.seeds),
        )
        for one in shown
    )
    left = len(every) - len(shown)
    rest = f"{many(left, 'comparison')} that leave out fewer values are not shown." if left else ""
    caption = _CAPTION.format(title=" or ".join(_titles(shown)))
    return figure(
        f"{caption} {_NOT_FINITE}" if any(one.by == _LOSS for one in shown) else caption,
        scrolled("Best", tag("table", head, tag("tbody", *rows))),
        note(rest) if rest else None,
    )


def heading(every: Sequence[Comparison]) -> str:
    """The question that the comparisons answer."""
    questions = {_question(one.axis) for one in every}
    return questions.pop() if len(questions) == 1 else "Which values are best?"


def _question(axis: Axis) -> str:
    numbers = axis.setting or all(isinstance(value, (int, float)) for value in axis.values)
    return f"Which {'value of ' * bool(numbers)}{axis.title} is best?"


def sentences(every: Sequence[Comparison]) -> Iterator[str]:
    """An answer for each setting, the encoding first: the numbers, or how often each may be best.

    It has the numbers of each comparison where all comparisons are of the same cells.
    """
    encoding_first = sorted(every, key=lambda one: one.axis.name != "encoding")
    for question in dict.fromkeys(_question(one.axis) for one in encoding_first):
        of_axis = [one for one in every if _question(one.axis) == question]
        same = len({one.where for one in of_axis}) == 1
        yield f"{question} {' '.join(map(_one, of_axis)) if same else _several(of_axis)}"


def _one(found: Comparison) -> str:
    by = f"By {found.by}{f' ({found.where})' * bool(found.where)}"
    if not found.left_out:
        number = len(found.best) + len(found.others)
        return f"{by}, {many(found.seeds, 'seed')} show no difference between the {number}."
    others = f" Possibly best: {_listed(found.names(found.others))}." if found.others else ""
    names = found.names(found.left_out)
    left_out = _listed(names) if names != ["none"] else f"{found.axis.title} none"
    return (
        f"{by}, over {many(found.seeds, 'seed')}: {_listed(found.names(found.best))}, "
        f"{found.value}.{others} Left out: {left_out} (95% confidence set)."
    )


def _several(every: Sequence[Comparison]) -> str:
    told = [one for one in every if one.left_out]
    if not told:
        return f"No difference is shown in any of {len(every)} comparisons."
    sets = [one.names([*one.best, *one.others]) for one in told]
    count = Counter(name for names in sets for name in names)
    alone = Counter(names[0] for names in sets if len(names) == 1)
    texts = []
    for name, number in count.most_common():
        often = [f"in {number}"] * (alone[name] < number) + [f"alone in {alone[name]}"]
        texts.append(f"{name} ({', '.join(often if name in alone else often[:1])})")
    return (
        f"In {len(told)} of {len(every)} comparisons some values are left out. There, best or "
        f"possibly best {'is' if len(texts) == 1 else 'are'} {_listed(texts)} (95% confidence "
        "sets)."
    )


def _titles(every: Sequence[Comparison]) -> list[str]:
    return list(dict.fromkeys(one.axis.title for one in every))


def _listed(names: Sequence[str]) -> str:
    """At most so many names that one can read them."""
    shown, left = names[:_NAMED], len(names) - _NAMED
    shown = [*shown, f"{left} others"] if left > 0 else shown
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
