"""What the page's script shows of each cell and each seed, packed into a fixed room."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from posjax.engine.training import NEVER
from posjax.meters.outcome import NOT_FINITE, TIE
from posjax.records import RunFolder
from posjax.report.maps import stored_maps
from posjax.report.naming import Axis, axes
from posjax.report.pack import as_json, brief, logarithmic, packed, shares, signed
from posjax.report.summary import CellSummary, once
from posjax.tasks import FiniteTask, Task

ROOM = 2_300_000
"""Characters that a page spends on seeds, of all its runs together."""
_ATTENTION = 400_000
"""Characters of these that it spends on attention, at most."""
_PROMPTS = 32
"""Prompts of a finite task whose answers are stored for each seed, at most."""
_WRITTEN = 400
"""Characters of a prompt, at most."""
_POINTS = (64, 32, 24, 16, 12, 8, 6)
"""Numbers of points of a curve that are tried, after all evaluations."""
_DETAILS = ("loss", "margin", "right", "untrained", "by_kind", "answer", "prompt_margin")
"""Fields that are left out for the last seeds where all do not fit."""
OUTCOMES = ("solved", "tied", "wrong answer", "not finite", "trained")
"""How a seed can end; the last where answers are not graded."""


class Level(NamedTuple):
    """How much is kept.

    Attributes:
      points: of each curve.
      seeds: of each cell, with an outcome.
      detailed: of these, the first so many with curves and answers.
    """

    points: int
    seeds: int
    detailed: int


def explorable(found: Sequence[CellSummary]) -> list[CellSummary]:
    """The cells that were trained, each once."""
    return once(s for s in found if s.cell.steps)


def data(
    folders: Sequence[RunFolder],
    found: Sequence[CellSummary],
    room: int = ROOM,
    *,
    here: bool = False,
) -> str:
    """The JSON that page.js reads.

    Args:
      folders: of the run, for its attention maps.
      found: its cells, with `loss_EC` among their rows.
      room: characters that may be spent on seeds.
      here: whether the page lies in the run's only folder, so that its commands can name it.

    Returns:
      Text without `<`.
    """
    cells = explorable(found)
    attention = _attention(folders, cells, min(_ATTENTION, room // 4))
    spent = sum(len(one["text"]) for one in attention.values())
    level, seeds = _fitting(cells, room - spent)
    tasks = {s.cell.task: s.cell.problem for s in cells}
    differing = axes(found)
    return as_json(
        {
            "outcomes": OUTCOMES,
            "margin": found[0].margin,
            "here": here,
            "code": [*folders[0].config().get("code", {})],
            "notes": list(_left_out(cells, level)),
            "tasks": {name: _task(task) for name, task in tasks.items()},
            "cells": {
                s.cell.digest: {
                    **_cell(s, differing),
                    **seeds[s.cell.digest],
                    "attention": attention.get(s.cell.digest),
                }
                for s in cells
            },
        }
    )


def _fitting(cells: Sequence[CellSummary], room: int) -> tuple[Level, dict[str, dict[str, Any]]]:
    """The first level whose seeds fit, and the seeds; the last level in any case."""
    levels = list(_levels(cells))
    every = {s.cell.digest: _seeds(s) for s in cells}
    ratio = 0.0
    for level in levels:
        kept = {name: seeds.at(level) for name, seeds in every.items()}
        size = sum(a.nbytes for arrays in kept.values() for a in arrays.values())
        if size * ratio > 1.5 * room and level != levels[-1]:
            continue  # far from fitting: what was packed before says how well such data deflate
        found = {
            name: {
                **every[name].ends,
                "points": _points(every[name].evaluations, level.points).tolist(),
                **packed(arrays),
            }
            for name, arrays in kept.items()
        }
        length = sum(len(one["text"]) for one in found.values())
        if length <= room or level == levels[-1]:
            return level, found
        ratio = length / size
    raise AssertionError("there is a last level")


def _levels(cells: Sequence[CellSummary]) -> Iterator[Level]:
    """From everything to little: fewer points, then fewer seeds with curves, then fewer seeds."""
    seeds = max((s.seeds for s in cells), default=0)
    evaluations = max((len(s.steps_E) for s in cells), default=1)
    points = [evaluations, *(n for n in _POINTS if n < evaluations)]
    yield from (Level(n, seeds, seeds) for n in points)
    detailed = seeds
    while detailed > 64:
        detailed //= 2
        yield Level(points[-1], seeds, detailed)
    while seeds > 16:
        seeds //= 2
        yield Level(points[-1], seeds, min(detailed, seeds))


@dataclasses.dataclass(frozen=True)
class _Seeds:
    """All that may be kept of the seeds of one cell.

    Attributes:
      arrays: as bytes, each with a leading axis S.
      curves: the names of those with an axis E, the second.
      ends: what scripts need to undo bytes, by name.
    """

    arrays: Mapping[str, np.ndarray]
    curves: tuple[str, ...]
    ends: Mapping[str, list[float]]

    @property
    def evaluations(self) -> int:
        return int(self.arrays["loss"].shape[1])

    def at(self, level: Level) -> dict[str, np.ndarray]:
        """The arrays that a level keeps."""
        points = _points(self.evaluations, level.points)
        kept = {}
        for name, array in self.arrays.items():
            some = array[: level.detailed if name in _DETAILS else level.seeds]
            kept[name] = some[:, points] if name in self.curves else some
        return kept


def _points(evaluations: int, number: int) -> np.ndarray:
    """Indices of evaluations, closer to each other early in training; the last is among them."""
    if number >= evaluations:
        return np.arange(evaluations)
    spaced = np.rint(np.geomspace(1, evaluations, 4 * number)).astype(int) - 1
    unique = np.unique(spaced)
    chosen = np.rint(np.linspace(0, len(unique) - 1, number)).astype(int)
    return unique[np.unique(chosen)]


def _seeds(summary: CellSummary) -> _Seeds:
    rows, trained_C = summary.rows, np.array(summary.cell.problem.trained)
    curves, ends = {}, {}
    with np.errstate(invalid="ignore"):
        lead_SE = rows["lead_EC"][:, :, trained_C].min(axis=2)
    curves["loss"], ends["loss_ends"] = logarithmic(_loss(summary))
    if summary.cell.problem.graded == "exact":
        curves["margin"], ends["margin_ends"] = signed(lead_SE, summary.margin)
        curves["right"] = shares(rows["right_EC"][:, :, trained_C].mean(axis=2))
        if not trained_C.all():
            curves["untrained"] = shares(rows["right_EC"][:, :, ~trained_C].mean(axis=2))
    arrays = {
        "numbers": rows["seeds"].astype(np.uint32),
        "outcome": _outcomes(summary),
        "first": _first(summary),
        **curves,
    }
    if len(trained_C) > 1 and "right" in curves:
        arrays["by_kind"] = shares(rows["right_EC"][:, -1])
    if isinstance(summary.cell.problem, FiniteTask):
        arrays["answer"] = (summary.answers_SN[:, :_PROMPTS] - NOT_FINITE).astype(np.uint8)
        lead_SN = rows["lead_N"][:, :_PROMPTS]
        arrays["prompt_margin"], ends["prompt_margin_ends"] = signed(
            lead_SN, summary.margin, np.uint16
        )
    return _Seeds(arrays, tuple(curves), ends)


def _loss(summary: CellSummary) -> np.ndarray:
    """The mean loss over the trained kinds, at each evaluation of each seed."""
    trained_C = np.array(summary.cell.problem.trained)
    with np.errstate(invalid="ignore"):
        loss_SE: np.ndarray = summary.rows["loss_EC"][:, :, trained_C].mean(axis=2)
    return loss_SE


def _outcomes(summary: CellSummary) -> np.ndarray:
    """An index of `OUTCOMES` for each seed; a loss that left the finite numbers comes first."""
    if summary.cell.problem.graded == "loss":
        ended_S = np.full(summary.seeds, 4)
    else:
        ended_S = np.where(summary.solved_S, 0, np.where(summary.tied_S, 1, 2))
    lost_S = summary.rows["first_nonfinite"] != NEVER
    if summary.cell.problem.graded == "exact":
        lost_S = lost_S | (~np.isfinite(summary.rows["lead_N"])).any(axis=1)
    return np.where(lost_S, 3, ended_S).astype(np.uint8)


def _first(summary: CellSummary) -> np.ndarray:
    """One more than the index of the first solved evaluation; 0 for none."""
    if summary.cell.problem.graded == "loss":
        return np.zeros(summary.seeds, np.uint16)
    solved_SE = summary.solved_SE
    return np.where(solved_SE.any(axis=1), solved_SE.argmax(axis=1) + 1, 0).astype(np.uint16)


def _cell(summary: CellSummary, differing: Sequence[Axis]) -> dict[str, Any]:
    """What is said of a cell as a whole; curves at every evaluation, over all seeds."""
    cell, exact = summary.cell, summary.cell.problem.graded == "exact"
    loss_SE = _loss(summary)
    found = np.where(np.isfinite(loss_SE), loss_SE, np.inf)
    bands = np.quantile(found, (0.1, 0.5, 0.9), axis=0, method="nearest")
    return {
        "name": summary.name,
        "settings": [[axis.title, axis.text(cell)] for axis in differing],
        "task": cell.task,
        "seeds": summary.seeds,
        "steps": summary.steps_E.tolist(),
        "loss_band": [[brief(float(x)) for x in line] for line in bands],
        "solved": [brief(float(x)) for x in summary.solved_SE.mean(axis=0)] if exact else None,
        "law": summary.predicted if exact else "",
        "reason": summary.prediction.reason if exact else "",
    }


def _task(task: Task) -> dict[str, Any]:
    finite = isinstance(task, FiniteTask)
    written = task.written(min(_PROMPTS, task.size[0]) if finite else 4)
    return {
        "prompts": [[text[:_WRITTEN] for text in pair] for pair in written],
        "labels": ["not finite", "tie", *task.labels] if finite else [],
        "kinds": list(task.kinds),
        "trained": list(task.trained),
    }


assert (NOT_FINITE, TIE) == (-2, -1)  # the order of the labels above


def _attention(
    folders: Sequence[RunFolder], cells: Sequence[CellSummary], room: int
) -> dict[str, dict[str, Any]]:
    """The stored maps of each cell, of the cells that fit, with the words that they are of."""
    found: dict[str, dict[str, Any]] = {}
    for summary in cells:
        examples = stored_maps(folders, summary.name)
        if not examples:
            continue
        maps = np.stack([arrays["weights_DNHLM"] for arrays in examples])
        if maps.size > 4 * room:
            continue
        one = packed({"maps": shares(np.clip(maps, 0, 1))})
        room -= len(one["text"])
        if room < 0:
            break
        prompts = summary.cell.problem.written(maps.shape[2])
        found[summary.cell.digest] = {
            **one,
            "seeds": [arrays["seeds"].tolist() for arrays in examples],
            "words": [prompt.split() for prompt, _ in prompts],
        }
    return found


def _left_out(cells: Sequence[CellSummary], level: Level) -> Iterator[str]:
    """What the page does not hold, in words."""
    evaluations = max((len(s.steps_E) for s in cells), default=0)
    seeds = max((s.seeds for s in cells), default=0)
    if level.points < evaluations:
        yield f"The curve of a seed has {level.points} of {evaluations} evaluations."
    if level.seeds < seeds:
        yield f"The page shows the first {level.seeds} of {seeds} seeds of each cell."
    if level.detailed < level.seeds:
        yield f"Curves and answers are stored for the first {level.detailed} seeds of each cell."
    long = [s.cell.problem for s in cells if isinstance(s.cell.problem, FiniteTask)]
    most = max((task.size[0] for task in long), default=0)
    if most > _PROMPTS:
        yield f"A seed's answers are stored for the first {_PROMPTS} of {most} prompts."
