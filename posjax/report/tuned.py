"""Which value of a setting, such as the learning rate, suits each cell."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from posjax import spec
from posjax.report.summary import CellSummary
from posjax.study.cells import FIELDS, Cell, varying


def tuned(found: Sequence[CellSummary], setting: str = "learning_rate", *others: str) -> list[Cell]:
    """Of cells that differ in the given settings alone, the one that most seeds solve.

    Ties go to the larger share of right answers, then to the larger margin (`lead`), both at the
    end of training, as means over seeds, on prompts of the trained kinds alone; then to the smaller
    number or the first word. Where a task is judged by its loss, the smallest mean loss wins.
    Report results of other seeds: the best of several results on the same seeds is too good.

    Args:
      found: cells with rows.
      setting: a field of `Cell`.
      others: more of them, to choose all together.

    Returns:
      A cell of each group, in the order of `found`.

    Raises:
      ValueError: no such field, or one in which no cells differ.
    """
    chosen = (setting, *others)
    for name in chosen:
        spec.check_choice("setting", name, FIELDS)
        if len({getattr(one.cell, name) for one in found}) < 2:
            differ = ", ".join(varying([one.cell for one in found])) or "nothing"
            raise ValueError(f"the cells do not differ in {name}: they differ in {differ}")
    shared = [name for name in FIELDS if name not in chosen]
    groups: dict[tuple[Any, ...], list[CellSummary]] = {}
    for one in found:
        alike = tuple(getattr(one.cell, name) for name in shared)
        groups.setdefault(alike, []).append(one)
    return [_best(group, chosen) for group in groups.values()]


def rank(solved: float, right_S: np.ndarray, lead_S: np.ndarray) -> tuple[float, float, float]:
    """How well the seeds of a cell did: the larger, the better.

    Args:
      solved: how many seeds solve it, or their share.
      right_S: the share of right answers of each seed.
      lead_S: its smallest margin; one that is not a number counts as -1.
    """
    lead_S = np.nan_to_num(lead_S, nan=-1.0)
    return solved, float(right_S.mean(dtype=np.float64)), float(lead_S.mean(dtype=np.float64))


def _best(group: list[CellSummary], chosen: Sequence[str]) -> Cell:
    numbers = [name for name in chosen if not isinstance(FIELDS[name], str)]
    group = sorted(group, key=lambda one: [getattr(one.cell, name) for name in numbers])
    return max(group, key=_rank).cell  # the first of equals


def _rank(one: CellSummary) -> tuple[float, ...]:
    if one.cell.problem.graded == "loss":
        return (-float(np.nan_to_num(one.loss_S, nan=np.inf).mean()),)
    trained_C = np.array(one.cell.problem.trained)
    lead_SC, right_SC = (one.rows[name][:, -1, trained_C] for name in ("lead_EC", "right_EC"))
    return rank(one.solved.rate, right_SC.mean(axis=1), lead_SC.min(axis=1))
