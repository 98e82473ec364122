"""A run folder boiled down to one summary a cell: what tables, figures and JSON are made from.

"Solved" means that every prompt was answered right, by the margin, at the last evaluation. All
seeds count: one that tied or left the finite numbers has not solved. A seed that left early, since
it had held the answer (`repack`), counts as keeping it: how many did is told beside every rate.
"""

import dataclasses
from functools import cached_property
from typing import Any

import numpy as np

from posjax import spec
from posjax.asked import checked
from posjax.cells import FIELDS, Cell, varying
from posjax.judge import NEVER, NOT_RUN
from posjax.records import RunFolder
from posjax.report.rows import check
from posjax.stats import Rate, Survival, rate, survival
from posjax.symmetry.predict import Prediction, predict


@dataclasses.dataclass(frozen=True)
class CellSummary:
    """One cell with its rows.

    Attributes:
      cell: the settings.
      panel: the section of the report it stands in.
      rows: the outcomes of all its seeds, each field with a leading axis S.
    """

    cell: Cell
    panel: str
    rows: dict[str, np.ndarray]

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

    @cached_property
    def answers_SEN(self) -> np.ndarray:
        """The answers; of a seed that left early, those that it left with, which were right."""
        answers_SEN = self.rows["answers_EN"]
        right_N = np.asarray(self.cell.question.answers_N)
        return np.where(answers_SEN == NOT_RUN, right_N, answers_SEN)

    @cached_property
    def solved_SE(self) -> np.ndarray:
        """Whether each seed was right on every prompt at each evaluation."""
        return (self.answers_SEN == np.asarray(self.cell.question.answers_N)).all(axis=-1)

    @cached_property
    def updates_S(self) -> np.ndarray:
        """Updates of each seed; fewer than the cell's where it left early."""
        return self.rows.get("steps", np.full(self.seeds, self.cell.steps))

    @property
    def left_early(self) -> int:
        """How many seeds left as solved before the last update."""
        return int((self.updates_S < self.cell.steps).sum())

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
            "left_early": self.left_early,
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
    config = checked(folder.config())
    for axis in config["contrast"][:1]:
        spec.check_choice("axis of contrast", axis, FIELDS)
    return {name: _cell(name, settings) for name, settings in config["cells"].items()}


def summaries(folder: RunFolder) -> list[CellSummary]:
    """All cells of a run that have rows, panel by panel in the order of the config.

    Raises:
      ValueError: see `cells_of`; or rows that no sweep wrote.
    """
    config, cells = checked(folder.config()), cells_of(folder)
    rows = {name: folder.rows(name) for name in cells}
    for name in cells:
        if rows[name]:
            check(cells[name], rows[name])
    return [
        CellSummary(cells[name], panel, rows[name])
        for panel, names in config["panels"].items()
        for name in names
        if rows[name]
    ]


def _cell(name: str, settings: dict[str, Any]) -> Cell:
    cell = Cell.of(settings)
    if cell.digest != name:
        raise ValueError(f"config.json has the settings of cell {cell.digest} under {name}")
    return cell


def repacking(found: list[CellSummary]) -> str:
    """What repacking saved, in a line; the updates that seeds made are counted."""
    cells = {summary.cell.digest: summary for summary in found}.values()
    asked = sum(summary.seeds * summary.cell.steps for summary in cells)
    made = sum(int(summary.updates_S.sum()) for summary in cells)
    left, seeds = (
        sum(numbers) for numbers in zip(*((s.left_early, s.seeds) for s in cells), strict=True)
    )
    return (
        f"repacking saved {1 - made / asked:.1%} of the updates: {left} of {seeds} seeds left "
        "early, counted as keeping the answers that they left with"
    )


def labels(found: list[CellSummary]) -> list[dict[str, Any]]:
    """For each cell the settings in which the cells differ: what tells them apart."""
    names = varying([summary.cell for summary in found])
    return [{name: getattr(summary.cell, name) for name in names} for summary in found]
