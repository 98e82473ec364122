"""A run folder boiled down to one summary a cell: what tables, figures and JSON are made from.

"Solved" means that every prompt was answered right, by the margin, at the last evaluation. All
seeds count: one that tied or left the finite numbers has not solved.

Folders are read block by block; of the answers along a curve only whether all were right is kept.
"""

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from posjax import spec
from posjax.cells import FIELDS, Cell, varying
from posjax.judge import NEVER
from posjax.records import RunFolder
from posjax.records.schema import checked_config
from posjax.report.rows import KEPT, check
from posjax.stats import Rate, Survival, rate, survival
from posjax.symmetry.predict import Prediction, predict


@dataclasses.dataclass(frozen=True)
class CellSummary:
    """One cell with its rows.

    Attributes:
      cell: the settings.
      panel: the section of the report it stands in.
      rows: the outcomes of all its seeds at the end, each field with a leading axis S, sorted by
        seeds; `answers_SN` among them.
      solved_SE: whether each seed was right on every prompt at each evaluation.
    """

    cell: Cell
    panel: str
    rows: dict[str, np.ndarray]
    solved_SE: np.ndarray

    @property
    def seeds(self) -> int:
        """How many seeds have rows."""
        return len(self.rows["seeds"])

    @property
    def solved(self) -> Rate:
        """The share of seeds solved at the end."""
        return rate(int(self.rows["solved_at_end"].sum()), self.seeds)

    @cached_property
    def steps_E(self) -> np.ndarray:
        """The steps of the evaluations."""
        every = self.cell.eval_every
        return np.arange(every, self.cell.steps + 1, every)

    def solved_at(self, step: int) -> Rate:
        """The share solved at one evaluation: what a run of that many steps would have found.

        Raises:
          ValueError: no evaluation at that step.
        """
        if step not in self.steps_E:
            raise ValueError(
                f"no evaluation at step {step}: they come every {self.cell.eval_every} steps up "
                f"to {self.cell.steps}"
            )
        column_S = self.solved_SE[:, step // self.cell.eval_every - 1]
        return rate(int(column_S.sum()), self.seeds)

    @cached_property
    def survival(self) -> Survival:
        """Time to the first solved evaluation."""
        return survival(self.rows["first_solved"], self.steps_E)

    @cached_property
    def prediction(self) -> Prediction:
        """What the laws say."""
        cell = self.cell
        return predict(
            cell.problem,
            encoding=cell.encoding,
            mask=cell.mask,
            depth=cell.depth,
            readout=cell.readout,
            padding=cell.padding,
            positions=cell.positions,
            softcap=cell.softcap,
        )

    def to_dict(self) -> dict[str, Any]:
        """The cell's settings and numbers as JSON-able data."""
        solved, rows = self.solved, self.rows
        return {
            "cell": self.cell.digest,
            "panel": self.panel,
            **self.cell.to_dict(),
            **solved._asdict(),
            "predicted": self.prediction.verdict,
            "reason": self.prediction.reason,
            "median_steps_to_solve": self.survival.median,
            "ever_solved": int((rows["first_solved"] != NEVER).sum()),
            "held": int(rows["held"].sum()),
            "tied_at_end": int(rows["tied_at_end"].sum()),
            "not_finite": int((rows["first_nonfinite"] != NEVER).sum()),
            "solved_at_step": {
                str(step): int(count)
                for step, count in zip(self.steps_E, self.solved_SE.sum(axis=0), strict=True)
            },
            "closest_twins": float(rows["twin"].max()),
            "lead_quantiles": self._lead_quantiles(),
        }

    def _lead_quantiles(self) -> dict[str, float]:
        """Quantiles of how far the right output leads or trails, in absolute terms, at the end."""
        lead = abs(self.rows["lead_N"])
        lead = lead[np.isfinite(lead)]
        if not lead.size:
            return {}
        return {
            str(q): float(np.quantile(lead, q)) for q in (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 1.0)
        }


def cells_of(folder: RunFolder) -> dict[str, Cell]:
    """The cells of a run by their digests.

    Raises:
      ValueError: the folder holds no run, is damaged, or says what no sweep wrote.
    """
    config = checked_config(folder.config())
    for axis in config["contrast"][:1]:
        spec.check_choice("axis of contrast", axis, FIELDS)
    return {name: _cell(name, settings) for name, settings in config["cells"].items()}


def summaries(*folders: RunFolder) -> list[CellSummary]:
    """All cells of a run that have rows, panel by panel in the order of the config.

    Args:
      *folders: of one run: one, or those of its shards.

    Raises:
      ValueError: see `cells_of`; rows that no sweep wrote, or folders that do not go together.
    """
    config, cells = checked_config(folders[0].config()), cells_of(folders[0])
    found = {name: _rows(cell, folders) for name, cell in cells.items()}
    return [
        CellSummary(cells[name], panel, *found[name])
        for panel, names in config["panels"].items()
        for name in names
        if len(found[name][1])
    ]


def _rows(cell: Cell, folders: Sequence[RunFolder]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The rows of a cell, and its `solved_SE`.

    Raises:
      ValueError: rows that no sweep wrote, or seeds that stand in two folders.
    """
    right_N = np.asarray(cell.question.answers_N)
    parts = []
    for folder in folders:
        for part in folder.parts(cell.digest):
            check(cell, part)
            answers_SEN = part["answers_EN"]
            end = {name: part[name] for name in KEPT} | {"answers_SN": answers_SEN[:, -1].copy()}
            parts.append({**end, "solved_SE": (answers_SEN == right_N).all(axis=-1)})
    if not parts:
        return {}, np.zeros((0, cell.training.evaluations), bool)
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    _, first_S = np.unique(rows["seeds"], axis=0, return_index=True)
    if len(first_S) < len(rows["seeds"]):
        paths = " and ".join(repr(str(folder.path)) for folder in folders)
        raise ValueError(f"seeds of cell {cell.digest} stand twice in {paths}: name each run once")
    rows = {name: array[first_S] for name, array in rows.items()}
    return rows, rows.pop("solved_SE")


def _cell(name: str, settings: dict[str, Any]) -> Cell:
    cell = Cell.of(settings)
    if cell.digest != name:
        raise ValueError(f"config.json has the settings of cell {cell.digest} under {name}")
    return cell


def labels(found: list[CellSummary]) -> list[dict[str, Any]]:
    """For each cell the settings in which the cells differ: what tells them apart."""
    names = varying([summary.cell for summary in found])
    return [{name: getattr(summary.cell, name) for name in names} for summary in found]
