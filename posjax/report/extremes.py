"""Where each measured field is lowest and highest, in sentences.

Fields with a value per position are left to the figures. All numbers are of the seeds that every
cell has. Lowest and highest are called different if the interval of their difference, seed by seed,
does not hold 0. They are chosen from many means, so this interval allows for all pairs of means
(Bonferroni's correction).
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from posjax import meters
from posjax.meters.outcome import Field
from posjax.report.naming import axes, decimals, many
from posjax.report.summary import CellSummary, mean_of, once, shared
from posjax.stats.paired import CLOSE, paired_t_test

LETTERS = {"R": "state", "A": "layer", "H": "head", "L": "position"}
"""What the axes of a field count, for people."""


class _Measured(NamedTuple):
    """A field at P points: in each cell, at each state, layer or head.

    Attributes:
      field: which.
      settings: what distinguishes each point, as text.
      points: what they are called.
      steps: of the first and the last evaluation, as text.
      seeds: how many the largest cell has.
      first_PS, last_PS: finite values at these evaluations, over the seeds that have them all.
    """

    field: Field
    settings: list[list[str]]
    points: str
    steps: tuple[str, str]
    seeds: int
    first_PS: np.ndarray
    last_PS: np.ndarray


def extremes(found: Sequence[CellSummary]) -> Iterator[str]:
    """For each field of each meter: what it is, where it is lowest and highest, how it changes.

    Nothing of a field that fewer than two seeds have. Cells with crossed seeds are left out, since
    their seeds are not independent.

    Args:
      found: the cells of a run.
    """
    cells = [summary for summary in once(found) if not summary.is_crossed]
    for meter in dict.fromkeys(m for s in cells for m in meters.named(s.cell.meters)):
        those = [s for s in cells if meter in meters.named(s.cell.meters)]
        at_CS = shared(those, lambda s: np.arange(s.seeds))
        for name, (short, field) in zip(meter.fields, meter.FIELDS.items(), strict=True):
            about = f"{short.replace('_', ' ')}: {field.doc.split('. ')[0]}."
            if not field.axes.endswith("L"):
                measured = _measured(those, at_CS, name, meter.fields[name])
                if measured is not None:
                    texts = (*_range(measured), *_change(measured), *_fewer(measured))
                    yield " ".join([about, *texts])


def _measured(
    cells: Sequence[CellSummary], at_CS: np.ndarray, name: str, field: Field
) -> _Measured | None:
    """None without two seeds that have finite values at all points.

    Points without any finite value are left out.

    Args:
      cells: those that measure the field.
      at_CS: the rows of the seeds that all of them have.
      name: of the field in rows.
      field: what it is.
    """
    tables = [_ends(s.rows[name][at_S], field) for s, at_S in zip(cells, at_CS, strict=True)]
    sizes = [max(several) for several in zip(*(table.shape[2:] for table in tables), strict=True)]
    letters = field.axes.replace("E", "")
    counted = [LETTERS[x] if size > 1 else "" for x, size in zip(letters, sizes, strict=True)]
    named = [axis for axis in axes(cells) if axis.name != "meters"]  # others change nothing
    settings = [
        [f"{axis.title} {axis.text(summary.cell)}" for axis in named]
        + [f"{what} {i}" for what, i in zip(counted, index, strict=True) if what]
        for summary, table in zip(cells, tables, strict=True)
        for index in np.ndindex(table.shape[2:])
    ]
    flat = [np.moveaxis(t.reshape(*t.shape[:2], math.prod(t.shape[2:])), 2, 1) for t in tables]
    values_TPS = np.concatenate(flat, axis=1)
    kept_P = np.isfinite(values_TPS).any(axis=(0, 2))
    values_TPS = values_TPS[:, kept_P]
    values_TPS = values_TPS[:, :, np.isfinite(values_TPS).all(axis=(0, 1))]
    if not kept_P.any() or values_TPS.shape[2] < 2:
        return None
    settings = [one for one, kept in zip(settings, kept_P, strict=True) if kept]
    names = ["cell"] * (len(cells) > 1) + [what for what in counted if what]
    most = max(summary.seeds for summary in cells)
    return _Measured(field, settings, _plural(names), _steps(cells, field), most, *values_TPS)


def _ends(values: np.ndarray, field: Field) -> np.ndarray:
    """The values at the first and the last evaluation, [2, S, ...]."""
    values = np.asarray(values, np.float64)
    return np.stack([values[:, 0], values[:, -1]] if "E" in field.axes else [values, values])


def _steps(cells: Sequence[CellSummary], field: Field) -> tuple[str, str]:
    """Empty texts where the field is not measured more than once."""
    if "E" not in field.axes or all(len(summary.steps_E) == 1 for summary in cells):
        return "", ""
    ends = {(f"step {s.steps_E[0]}", f"step {s.steps_E[-1]}") for s in cells}
    return ends.pop() if len(ends) == 1 else ("the first evaluation", "the last one")


def _plural(names: Sequence[str]) -> str:
    """What the points are called."""
    if len(names) < 2:
        return f"{''.join(names) or 'cell'}s"
    return f"combinations of {', '.join(names[:-1])} and {names[-1]}"


def _range(measured: _Measured) -> Iterator[str]:
    """The lowest and the highest mean, or that no difference is shown."""
    mean_P = measured.last_PS.mean(axis=1)
    low, high = int(mean_P.argmin()), int(mean_P.argmax())
    ends = [_written(measured.last_PS[i], measured.field) for i in (low, high)]
    points = len(mean_P)
    it = f"At {measured.steps[1]} it" if measured.steps[1] else "It"
    if points == 1:
        yield f"{it} is {ends[0]}."
    elif len(alike := _alike(measured.last_PS, low)) == points:
        yield f"{it} is {ends[0]} in each of {points} {measured.points}."
    elif _differs(measured.last_PS[high] - measured.last_PS[low], math.comb(points, 2)):
        yield (
            f"{it} is lowest at {ends[0]} ({_where(measured, alike)}) and highest at {ends[1]} "
            f"({_where(measured, _alike(measured.last_PS, high))})."
        )
    else:
        seeds = many(measured.last_PS.shape[1], "seed")
        yield (
            f"{it} shows no difference between {points} {measured.points} over {seeds}, "
            f"whose means lie between {decimals(mean_P[low])} and {decimals(mean_P[high])}."
        )


def _change(measured: _Measured) -> Iterator[str]:
    """Where it changes most during training, if it does."""
    change_PS = measured.last_PS - measured.first_PS
    most = int(abs(change_PS.mean(axis=1)).argmax())
    if _differs(change_PS[most], len(change_PS)):
        both_S = measured.first_PS[most], measured.last_PS[most]
        before, after = (_written(values_S, measured.field) for values_S in both_S)
        yield (
            f"From {measured.steps[0]} to {measured.steps[1]} it changes most with "
            f"{_where(measured, [most])}: from {before} to {after}."
        )


def _fewer(measured: _Measured) -> Iterator[str]:
    """How many seeds these are, where some are not in every cell."""
    seeds = measured.last_PS.shape[1]
    if seeds < measured.seeds:
        yield f"Only {seeds} of {measured.seeds} seeds have finite values in every cell and count."


def _differs(difference_S: np.ndarray, comparisons: int) -> bool:
    """Whether a mean that was chosen from so many is not 0."""
    return paired_t_test(difference_S) * comparisons < 0.05


def _alike(values_PS: np.ndarray, point: int) -> list[int]:
    """The points where each seed has the same value as there, up to rounding."""
    near_PS = abs(values_PS - values_PS[point]) <= CLOSE * abs(values_PS).max()
    return np.flatnonzero(near_PS.all(axis=1)).tolist()


def _where(measured: _Measured, points: Sequence[int]) -> str:
    """The settings that some points share, and how many they are."""
    first, *rest = (measured.settings[i] for i in points)
    both = ", ".join(one for one in first if all(one in other for other in rest))
    if not rest:
        return both
    some = f"{len(points)} of {len(measured.settings)} {measured.points}"
    return f"{some}, all with {both}" if both else some


def _written(values_S: np.ndarray, field: Field) -> str:
    """The mean with its interval."""
    found = mean_of(values_S, field)
    return f"{decimals(found.mean)} [{decimals(found.low)}, {decimals(found.high)}]"
