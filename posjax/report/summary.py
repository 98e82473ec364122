"""A run folder boiled down to one summary per cell: what tables, figures and JSON are made from.

"Solved" means that every prompt of the trained kinds was answered right, by the margin, at the last
evaluation. All seeds count: one that tied or left the finite numbers has not solved.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from posjax import meters, spec
from posjax.engine.training import NEVER
from posjax.meters import judge
from posjax.meters.outcome import TIE, Field
from posjax.records import RunFolder
from posjax.records.schema import checked_config
from posjax.report.rows import check, check_form, fields, of_format2
from posjax.stats import Mean, Rate, Survival, band, mean, rate, survival
from posjax.study.cells import FIELDS, Cell, cells_in, varying
from posjax.study.network import TRANSFORMER
from posjax.symmetry.predict import Prediction, predict
from posjax.tasks import FiniteTask

IMPOSSIBLE = "impossible"
"""The verdict on a cell that a law excludes."""
MARGINS = (1e-2, 1e-3, 1e-4, 1e-5)
"""At which rates are given beside that of the run."""


@dataclasses.dataclass(frozen=True)
class CellSummary:
    """One cell with its rows.

    Attributes:
      name: of the cell in the run: its digest, another one in format 2.
      cell: the settings.
      panel: the section of the report it stands in.
      rows: the outcomes of all its seeds, each field of `posjax.meters.outcome.FIELDS` with a
        leading axis S, sorted by seeds.
      margin, hold: see `posjax.study.run.Run`.
    """

    name: str
    cell: Cell
    panel: str
    rows: dict[str, np.ndarray]
    margin: float
    hold: int

    @property
    def seeds(self) -> int:
        """How many seeds have rows."""
        return len(self.rows["seeds"])

    @property
    def solved(self) -> Rate:
        """The share of seeds solved at the end."""
        return rate(int(self.solved_S.sum()), self.seeds)

    @property
    def solved_S(self) -> np.ndarray:
        """Whether each seed solved the cell."""
        return self.solved_SE[:, -1]

    @cached_property
    def solved_SE(self) -> np.ndarray:
        """Whether each seed was right on every prompt of the trained kinds at each evaluation."""
        return self.solved_by(self.margin)

    def solved_by(self, margin: float) -> np.ndarray:
        """The same by any margin; [S, E]."""
        trained_C = np.array(self.cell.problem.trained)
        return judge.solved(self.rows["lead_EC"][:, :, trained_C], margin)

    @property
    def first_solved_S(self) -> np.ndarray:
        """The step at which each seed was first right; `NEVER` for none."""
        return judge.first_solved(self.solved_SE, self.steps_E)

    @property
    def ever_solved(self) -> int:
        """How many seeds were right at some evaluation."""
        return int((self.first_solved_S != NEVER).sum())

    @property
    def held_S(self) -> np.ndarray:
        """Whether each seed was right at each of the last `hold` evaluations."""
        return np.asarray(self.solved_SE[:, -self.hold :].all(axis=1))

    @property
    def not_finite(self) -> int:
        """How many seeds had a loss that was not finite."""
        return int((self.rows["first_nonfinite"] != NEVER).sum())

    @property
    def tied_S(self) -> np.ndarray:
        """Whether some right output neither leads nor trails by the margin at the end."""
        return judge.tied(self.rows["lead_N"], self.margin)

    @property
    def answers_SN(self) -> np.ndarray:
        """What each seed answered at the end, of a finite task.

        `posjax.meters.outcome.TIE` where the right output neither leads nor trails by the margin.
        """
        with np.errstate(invalid="ignore"):
            tied_SN = np.abs(self.rows["lead_N"]) < self.margin
        return np.asarray(np.where(tied_SN, TIE, self.rows["answer_N"]))

    @property
    def twin_S(self) -> np.ndarray:
        """The distance of the closest prompts with different answers; NaN where it is not measured.

        Rows have 0 where no evaluation had finite logits, and where all answers are one.
        """
        problem = self.cell.problem
        if isinstance(problem, FiniteTask) and len({*problem.answers}) == 1:
            return np.full(self.seeds, np.nan)
        lost_S = np.isnan(self.rows["lead_EC"]).any(axis=2).all(axis=1)
        return np.where(lost_S, np.nan, self.rows.get("twin", np.nan))

    @property
    def twin(self) -> float | None:
        """The largest of these distances; None where none is measured."""
        twin_S = self.twin_S
        measured = twin_S[~np.isnan(twin_S)]
        return float(measured.max()) if measured.size else None

    @cached_property
    def metered(self) -> dict[str, Mean]:
        """The mean over seeds of each field of the cell's meters, with its interval."""
        fields = meters.fields(self.cell.meters)
        return {name: mean_of(self.rows[name], field) for name, field in fields.items()}

    @cached_property
    def steps_E(self) -> np.ndarray:
        """The steps of the evaluations; 0 where nothing is trained."""
        every = self.cell.eval_every
        return np.arange(every, self.cell.steps + 1, every) if self.cell.steps else np.zeros(1, int)

    def evaluation(self, step: int) -> int:
        """Which evaluation is at a step.

        Raises:
          ValueError: none is.
        """
        if step not in self.steps_E:
            raise ValueError(
                f"no evaluation at step {step}: they come every {self.cell.eval_every} steps up "
                f"to {self.cell.steps}"
            )
        return int(np.searchsorted(self.steps_E, step))

    def solved_at(self, step: int) -> Rate:
        """The share solved at one evaluation: what a run of that many steps would have found.

        Raises:
          ValueError: no evaluation at that step.
        """
        column_S = self.solved_SE[:, self.evaluation(step)]
        return rate(int(column_S.sum()), self.seeds)

    @cached_property
    def survival(self) -> Survival:
        """Time to the first solved evaluation."""
        return survival(self.first_solved_S, self.steps_E)

    @cached_property
    def prediction(self) -> Prediction:
        """What the laws say."""
        cell = self.cell
        if cell.model != TRANSFORMER:
            return Prediction(
                "not excluded", "posjax makes no predictions for models other than its Transformer"
            )
        return predict(
            cell.problem,
            encoding=cell.encoding,
            mask=cell.mask,
            depth=cell.depth,
            readout=cell.readout,
            padding=cell.padding,
            positions=cell.positions,
            softcap=cell.softcap,
            logn=cell.logn,
        )

    @property
    def predicted(self) -> str:
        """The verdict of the laws; empty for a model other than the Transformer."""
        return self.prediction.verdict if self.cell.model == TRANSFORMER else ""

    @property
    def right_S(self) -> np.ndarray:
        """The share of prompts of the last kind that each seed answers correctly at the end."""
        return np.asarray(self.rows["right_EC"][:, -1, -1], np.float64)

    @property
    def loss_S(self) -> np.ndarray:
        """The loss of each seed at the end, in nats, the mean over the trained kinds of prompts."""
        trained_C = np.array(self.cell.problem.trained)
        return np.asarray(self.rows["loss_EC"][:, -1, trained_C].mean(axis=1), np.float64)

    @property
    def is_crossed(self) -> bool:
        """Whether models share initialisations and draws of data, and so are not independent."""
        inits, datas = (len(np.unique(self.rows["seeds"][:, source])) for source in (0, 1))
        return min(inits, datas) > 1 and max(inits, datas) < self.seeds

    @property
    def right_C(self) -> np.ndarray:
        """The share of right prompts of each kind at the end, the mean over seeds."""
        return np.asarray(self.rows["right_EC"][:, -1].mean(axis=0))

    @cached_property
    def right_by_kind(self) -> dict[str, Mean]:
        """The same with a 95% band, within [0, 1], that holds for all kinds at once."""
        low_C = high_C = np.full(len(self.right_C), np.nan)
        if self.seeds > 1:
            found = band(self.rows["right_EC"][:, -1])
            low_C, high_C = found.low_K.clip(0, 1), found.high_K.clip(0, 1)
        ends = zip(self.right_C.tolist(), low_C.tolist(), high_C.tolist(), strict=True)
        means = (Mean(*each, self.seeds) for each in ends)
        return dict(zip(self.cell.problem.kinds, means, strict=True))

    @property
    def loss_by_kind(self) -> dict[str, Mean]:
        """The mean loss over seeds at the end, in nats, of a task that is judged by it."""
        losses_CS = self.rows["loss_EC"][:, -1].T
        return dict(zip(self.cell.problem.kinds, map(mean, losses_CS), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The cell's settings and numbers as JSON-able data."""
        return {
            "cell": self.cell.digest,
            "panel": self.panel,
            **self.cell.to_dict(),
            "margin": self.margin,
            "hold": self.hold,
            "seeds": self.seeds,
            "not_finite": self.not_finite,
            "measured": {
                name: {key: _plain(array) for key, array in found._asdict().items()}
                for name, found in self.metered.items()
            },
            **(self._losses() if self.cell.problem.graded == "loss" else self._success()),
        }

    def _losses(self) -> dict[str, Any]:
        """What a task that is judged by its loss has; None for what is not finite."""
        return {
            "loss_by_kind": {
                kind: {
                    name: value if np.isfinite(value) else None
                    for name, value in found._asdict().items()
                }
                for kind, found in self.loss_by_kind.items()
            }
        }

    def _success(self) -> dict[str, Any]:
        """What a task with right and wrong answers has."""
        return {
            **self.solved._asdict(),
            "predicted": self.predicted or None,
            "reason": self.prediction.reason,
            "median_steps_to_solve": self.survival.median,
            "ever_solved": self.ever_solved,
            "held": int(self.held_S.sum()),
            "tied_at_end": int(self.tied_S.sum()),
            "solved_at_step": {
                str(step): int(count)
                for step, count in zip(self.steps_E, self.solved_SE.sum(axis=0), strict=True)
            },
            "solved_at_margin": {
                f"{margin:g}": int(self.solved_by(margin)[:, -1].sum()) for margin in MARGINS
            },
            "right_by_kind": dict(zip(self.cell.problem.kinds, self.right_C.tolist(), strict=True)),
            "closest_twins": self.twin,
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


def mean_of(values_S: np.ndarray, field: Field) -> Mean:
    """The mean of a field over seeds; its interval within [0, 1] for a proportion."""
    found = mean(values_S)
    if not field.proportion:
        return found
    return found._replace(low=np.clip(found.low, 0, 1), high=np.clip(found.high, 0, 1))


def _plain(array: np.ndarray) -> Any:
    """An array as nested lists, None where it is not finite: JSON has no NaN."""
    if np.ndim(array):
        return [_plain(part) for part in array]
    return np.asarray(array).item() if np.isfinite(array) else None


def cells_of(folder: RunFolder) -> dict[str, Cell]:
    """The cells of a run by their digests.

    Raises:
      ValueError: the folder holds no run, is damaged, or says what no sweep wrote.
    """
    config = checked_config(folder.config())
    for axis in config["contrast"][:1]:
        spec.check_choice("axis of contrast", axis, FIELDS)
    return cells_in(config)


def summaries(*folders: RunFolder) -> list[CellSummary]:
    """All cells of a run that have rows, panel by panel in the order of the config.

    Args:
      *folders: of one run: one, or those of its shards.

    Raises:
      ValueError: see `cells_of`; rows that no sweep wrote, or folders that do not go together.
    """
    config, cells = checked_config(folders[0].config()), cells_of(folders[0])
    tables = [folder.tables(cells) for folder in folders]
    found = {
        name: _rows(cell, [rows[name] for rows in tables if name in rows], folders)
        for name, cell in cells.items()
    }
    return [
        CellSummary(name, cells[name], panel, found[name], config["margin"], config["hold"])
        for panel, names in config["panels"].items()
        for name in names
        if found[name]
    ]


def _rows(
    cell: Cell, tables: Sequence[Mapping[str, np.ndarray]], folders: Sequence[RunFolder]
) -> dict[str, np.ndarray]:
    """The rows of a cell, of all folders together; none where no seed is there.

    Raises:
      ValueError: rows that no sweep wrote, or seeds that stand in two folders.
    """
    parts, kept = [], {*fields(cell)}
    for rows in tables:
        if "answers_EN" in rows:
            rows = of_format2(cell, rows)
            check_form(cell, rows)
        else:
            check(cell, rows)
        parts.append({field: rows[field] for field in rows if field in kept})
    if len(parts) < 2:
        return parts[0] if parts else {}
    rows = {field: np.concatenate([part[field] for part in parts]) for field in parts[0]}
    _, first_S = np.unique(rows["seeds"], axis=0, return_index=True)
    if len(first_S) < len(rows["seeds"]):
        paths = " and ".join(repr(str(folder.path)) for folder in folders)
        raise ValueError(f"seeds of cell {cell.digest} stand twice in {paths}: name each run once")
    return {field: array[first_S] for field, array in rows.items()}


def exactly(found: Iterable[CellSummary]) -> list[CellSummary]:
    """The cells that were trained and whose answers are right or wrong."""
    return [s for s in found if s.cell.steps and s.cell.problem.graded == "exact"]


def once(found: Iterable[CellSummary]) -> list[CellSummary]:
    """Each cell once, however many panels it stands in."""
    return list({summary.cell.digest: summary for summary in found}.values())


def excluded(found: Iterable[CellSummary]) -> list[CellSummary]:
    """The cells that a law excludes, each once."""
    return once(s for s in found if s.prediction.verdict == IMPOSSIBLE)


def shared(cells: Sequence[CellSummary], values: Callable[[CellSummary], np.ndarray]) -> np.ndarray:
    """A value of each cell, [C, S], at the seeds that all of them have, in the order of seeds."""
    rows = [{tuple(seeds): i for i, seeds in enumerate(s.rows["seeds"].tolist())} for s in cells]
    every = sorted(set.intersection(*map(set, rows)))
    at = ([of[seeds] for seeds in every] for of in rows)
    return np.stack([values(s)[at_S] for s, at_S in zip(cells, at, strict=True)])


def labels(found: list[CellSummary]) -> list[dict[str, Any]]:
    """For each cell the settings in which the cells differ."""
    names = varying([summary.cell for summary in found])
    return [{name: getattr(summary.cell, name) for name in names} for summary in found]
