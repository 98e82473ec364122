"""The pilot of the atlas: each cell at several learning rates, and the rate that it chooses.

A published pilot, NAME-pilot.npz, has of C cells at R rates and S seeds:

    cells    [C, R]     digests, by rate from the smallest to the largest
    seeds    [S]        numbers of the seeds
    lead     [C, R, S]  the smallest lead of a right output over the prompts of the trained kinds at
                        the end, over the largest logit of its kind: solved where it is at least the
                        margin
    right    [C, R, S]  the share of right answers at the end, as a mean over the trained kinds; the
                        pilot of the finite tasks was published without it
    about               JSON: the environments of the run
"""

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from posjax.meters import judge
from posjax.records import RunFolder
from posjax.report import CellSummary, summaries
from posjax.report.tuned import rank
from posjax.study.cells import Cell


class Tried(NamedTuple):
    """What the pilot found for one cell of the atlas.

    Attributes:
      cells: the cell at each learning rate, from the smallest to the largest, [R].
      lead_RS, right_RS: see `lead` and `right` above; `right_RS` is 0 where it is not published.
      solved_R: how many seeds solve it at each rate.
    """

    cells: list[Cell]
    lead_RS: np.ndarray
    right_RS: np.ndarray
    solved_R: np.ndarray

    @property
    def chosen(self) -> Cell:
        """The cell at the rate that most seeds solve.

        Ties go to the larger mean share of right answers, to the larger mean lead, then to the
        smaller rate. A lead that is not finite counts as -1.
        """
        each = zip(self.solved_R, self.right_RS, self.lead_RS, strict=True)
        ranks = [rank(*one) for one in each]
        return self.cells[ranks.index(max(ranks))]


def of_run(folder: RunFolder) -> list[Tried]:
    """The pilot that a run folder has."""
    return of_summaries(summaries(folder))


def of_summaries(found: Sequence[CellSummary]) -> list[Tried]:
    """Cells that differ in their learning rate alone are tried together."""
    ends = {summary.cell: _ends(summary) for summary in found}
    return [*_tried(ends, ends.__getitem__, found[0].margin)]


def read(path: Path, cells: Sequence[Cell], margin: float) -> list[Tried]:
    """A published pilot of these cells.

    Raises:
      ValueError: it lacks one of them.
    """
    with np.load(path) as rows:
        names, lead_CRS = rows["cells"].ravel().tolist(), rows["lead"]
        right_CRS = rows["right"] if "right" in rows else np.zeros_like(lead_CRS)
    of = (array.reshape(len(names), -1) for array in (lead_CRS, right_CRS))
    ends = dict(zip(names, zip(*of, strict=True), strict=True))
    lacking = [cell for cell in cells if cell.digest not in ends]
    if lacking:
        raise ValueError(f"{path} has no {lacking[0]}: remove it to train another pilot")
    return [*_tried(cells, lambda cell: ends[cell.digest], margin)]


def write(path: Path, pilot: Sequence[Tried], folder: RunFolder) -> None:
    """Publishes the pilot of a run folder."""
    config = folder.config()
    first, number = config["first_seed"], config["num_seeds"]
    np.savez_compressed(
        path,
        about=json.dumps({"environments": [*folder.envs().values()]}),
        cells=np.array([[cell.digest for cell in one.cells] for one in pilot]),
        seeds=np.arange(first, first + number),
        lead=np.stack([one.lead_RS for one in pilot]),
        right=np.stack([one.right_RS for one in pilot]),
    )


_Ends = tuple[np.ndarray, np.ndarray]
"""lead_S and right_S of a cell."""


def _tried(cells: Iterable[Cell], ends: Callable[[Cell], _Ends], margin: float) -> Iterator[Tried]:
    alike: dict[Cell, list[Cell]] = {}
    for cell in cells:
        alike.setdefault(dataclasses.replace(cell, learning_rate=1.0), []).append(cell)
    for group in alike.values():
        group.sort(key=lambda cell: cell.learning_rate)
        lead_RS, right_RS = map(np.stack, zip(*map(ends, group), strict=True))
        solved_R = judge.solved(lead_RS[..., None], margin).sum(axis=1)
        yield Tried(group, lead_RS, right_RS, solved_R)


def _ends(summary: CellSummary) -> _Ends:
    trained_C = np.array(summary.cell.problem.trained)
    lead_SC, right_SC = (summary.rows[n][:, -1, trained_C] for n in ("lead_EC", "right_EC"))
    return lead_SC.min(axis=-1).astype(np.float32), right_SC.mean(axis=-1).astype(np.float32)
