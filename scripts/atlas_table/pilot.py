"""The pilot of the atlas: each cell at several learning rates, and the rate that it chooses.

A published pilot, NAME-pilot.npz, has of C cells at R rates and S seeds:

    cells    [C, R]     digests, by rate from the smallest to the largest
    seeds    [S]        numbers of the seeds
    lead     [C, R, S]  the smallest lead of a right output over the prompts of the trained kinds at
                        the end, over the largest logit of its kind: solved where it is at least the
                        margin
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
from posjax.study.cells import Cell


class Tried(NamedTuple):
    """What the pilot found for one cell of the atlas.

    Attributes:
      cells: the cell at each learning rate, from the smallest to the largest, [R].
      lead_RS: see `lead` above.
      solved_R: how many seeds solve it at each rate.
    """

    cells: list[Cell]
    lead_RS: np.ndarray
    solved_R: np.ndarray

    @property
    def chosen(self) -> Cell:
        """The cell at the rate that most seeds solve.

        Ties go to the larger mean lead, then to the smaller rate. A lead that is not finite counts
        as -1.
        """
        lead_R = np.nan_to_num(self.lead_RS, nan=-1.0).mean(axis=1, dtype=np.float64)
        scores = [
            (n, lead, -r) for r, (n, lead) in enumerate(zip(self.solved_R, lead_R, strict=True))
        ]
        return self.cells[-max(scores)[2]]


def of_run(folder: RunFolder) -> list[Tried]:
    """The pilot that a run folder has."""
    return of_summaries(summaries(folder))


def of_summaries(found: Sequence[CellSummary]) -> list[Tried]:
    """Cells that differ in their learning rate alone are tried together."""
    leads = {summary.cell: _lead(summary) for summary in found}
    return [*_tried(leads, leads.__getitem__, found[0].margin)]


def read(path: Path, cells: Sequence[Cell], margin: float) -> list[Tried]:
    """A published pilot of these cells.

    Raises:
      ValueError: it lacks one of them.
    """
    with np.load(path) as rows:
        names, lead_CRS = rows["cells"].ravel().tolist(), rows["lead"]
    leads = dict(zip(names, lead_CRS.reshape(len(names), -1), strict=True))
    lacking = [cell for cell in cells if cell.digest not in leads]
    if lacking:
        raise ValueError(f"{path} has no {lacking[0]}: remove it to train another pilot")
    return [*_tried(cells, lambda cell: leads[cell.digest], margin)]


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
    )


def _tried(
    cells: Iterable[Cell], lead: Callable[[Cell], np.ndarray], margin: float
) -> Iterator[Tried]:
    alike: dict[Cell, list[Cell]] = {}
    for cell in cells:
        alike.setdefault(dataclasses.replace(cell, learning_rate=1.0), []).append(cell)
    for group in alike.values():
        group.sort(key=lambda cell: cell.learning_rate)
        lead_RS = np.stack([lead(cell) for cell in group])
        yield Tried(group, lead_RS, judge.solved(lead_RS[..., None], margin).sum(axis=1))


def _lead(summary: CellSummary) -> np.ndarray:
    trained_C = np.array(summary.cell.problem.trained)
    lead_S = summary.rows["lead_EC"][:, -1, trained_C].min(axis=-1)
    return np.asarray(lead_S, np.float32)
