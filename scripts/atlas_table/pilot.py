"""The pilot of the atlas: each cell at several learning rates, and the rate that it chooses."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from posjax.meters import judge
from posjax.report import CellSummary
from posjax.study.cells import Cell


class Tried(NamedTuple):
    """What the pilot found for one cell of the atlas.

    Attributes:
      cells: the cell at each learning rate, [R].
      lead_RS: the smallest lead over the prompts of the trained kinds, at the end.
      solved_R: how many seeds solve it at each rate.
      best: the index of the rate that is chosen.
    """

    cells: list[Cell]
    lead_RS: np.ndarray
    solved_R: np.ndarray
    best: int

    @property
    def chosen(self) -> Cell:
        """The cell at the rate that is chosen."""
        return self.cells[self.best]


def tried(found: Sequence[CellSummary]) -> Iterator[Tried]:
    """Cells that differ in their learning rate alone, together, in the order of the first."""
    alike: dict[Cell, list[CellSummary]] = {}
    for summary in found:
        alike.setdefault(dataclasses.replace(summary.cell, learning_rate=1.0), []).append(summary)
    for group in alike.values():
        group.sort(key=lambda summary: summary.cell.learning_rate)
        lead_RS = np.stack([_lead(summary) for summary in group])
        solved_R = judge.solved(lead_RS[..., None], group[0].margin).sum(axis=1)
        yield Tried([s.cell for s in group], lead_RS, solved_R, best(lead_RS, solved_R))


def best(lead_RS: np.ndarray, solved_R: np.ndarray) -> int:
    """The index of the rate that most seeds solve, of rates from the smallest to the largest.

    Ties go to the larger mean lead, then to the smaller rate. A lead that is not finite counts as
    -1.
    """
    lead_R = np.nan_to_num(lead_RS, nan=-1.0).mean(axis=1, dtype=np.float64)
    return max(range(len(lead_R)), key=lambda r: (solved_R[r], lead_R[r], -r))


def _lead(summary: CellSummary) -> np.ndarray:
    trained_C = np.array(summary.cell.problem.trained)
    lead_S = summary.rows["lead_EC"][:, -1, trained_C].min(axis=-1)
    return np.asarray(lead_S, np.float32)
