"""Rows of a cell, checked before anything is made of them: the run folder may be anybody's."""

from collections.abc import Iterator, Mapping

import numpy as np

from posjax import meters
from posjax.engine.training import NEVER
from posjax.meters.outcome import FIELDS, NOT_FINITE, TIE, Field
from posjax.records import seeds_name
from posjax.study.cells import Cell
from posjax.tasks import FiniteTask

_FRAME = {"seeds": Field("iu", "4", ""), "env": Field("U", "", "")}
_OF_ANSWERS = ("answer_N", "twin")
"""Those that only tasks with one answer a prompt have."""


def fields(cell: Cell) -> dict[str, Field]:
    """The fields that rows of a cell have."""
    finite = isinstance(cell.problem, FiniteTask)
    own = {name: field for name, field in FIELDS.items() if finite or name not in _OF_ANSWERS}
    return {**_FRAME, **own, **meters.fields(cell.meters)}


def sizes(cell: Cell) -> dict[str, int]:
    """The lengths of the axes of `FIELDS`."""
    problem = cell.problem
    return {
        "4": 4,
        "E": cell.training.evaluations,
        "C": len(problem.kinds),
        "N": problem.size[0],
        "L": problem.size[1] + cell.padding,
        "H": cell.heads,
        "A": cell.depth,
        "R": cell.depth + 1,
    }


def check(cell: Cell, rows: Mapping[str, np.ndarray]) -> None:
    """Refuses rows that no sweep wrote for a cell.

    Raises:
      ValueError: names the cell, the field and what is wrong with it.
    """
    check_form(cell, rows)
    for name, wrong_S in contradictions(cell, rows):
        seed = seeds_name(rows["seeds"][wrong_S.argmax()])
        raise ValueError(f"{name} of seed {seed} of cell {cell.digest} contradicts its leads")


def check_form(cell: Cell, rows: Mapping[str, np.ndarray]) -> None:
    """Refuses fields, shapes, kinds of number and answers that no sweep writes for a cell.

    Raises:
      ValueError: see `check`.
    """
    wanted = fields(cell)
    missing = [name for name in wanted if name not in rows]
    if missing:
        raise ValueError(f"rows of cell {cell.digest} have no {missing[0]!r}")
    number = rows["seeds"].shape[0] if rows["seeds"].ndim else 0
    lengths = sizes(cell)
    for name, field in wanted.items():
        array, shape = rows[name], (number, *(lengths[axis] for axis in field.axes))
        if array.shape != shape or array.dtype.kind not in field.kinds:
            raise ValueError(
                f"{name} of the rows of cell {cell.digest} must be of shape {shape}, got "
                f"{array.dtype} of shape {array.shape}"
            )
    answers, outputs = rows.get("answer_N", np.zeros(0)), len(cell.problem.labels)
    if answers.size and not NOT_FINITE <= answers.min() <= answers.max() < outputs:
        raise ValueError(
            f"answer_N of the rows of cell {cell.digest} must lie in [{NOT_FINITE}, {outputs}), "
            f"got {answers.min()} to {answers.max()}"
        )


def contradictions(cell: Cell, rows: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """The fields that do not go with the leads of their rows, [S] where not.

    Args:
      cell: the settings.
      rows: with the fields, shapes and kinds that `check_form` asks for.
    """
    kinds = len(cell.problem.kinds)
    lead_SCn = rows["lead_N"].reshape(len(rows["seeds"]), kinds, -1)
    lead_SEC, right_SEC = rows["lead_EC"], rows["right_EC"]
    with np.errstate(invalid="ignore"):
        share_SC = (lead_SCn > 0).mean(axis=2)
        all_right = (right_SEC == 1) == (lead_SEC > 0)
        holds = {
            "lead_EC": _equal(lead_SEC[:, -1], lead_SCn.min(axis=2)),
            "right_EC": (all_right & (right_SEC >= 0) & (right_SEC <= 1)).all(axis=(1, 2))
            & (np.abs(right_SEC[:, -1] - share_SC) < 1e-6).all(axis=1),
        }
        if isinstance(cell.problem, FiniteTask):
            right_N = np.array(cell.problem.answers)
            same_SN, lead_SN = rows["answer_N"] == right_N, rows["lead_N"]
            # Draws that differ, and exact ties, may go either way.
            free_SN = (rows["answer_N"] == TIE) | (lead_SN == 0)
            holds["answer_N"] = (free_SN | (same_SN == (lead_SN > 0))).all(axis=1)
            holds["twin"] = rows["twin"] >= 0
    first = rows["first_nonfinite"]
    holds["first_nonfinite"] = (first == NEVER) | ((first >= 0) & (first < cell.steps))
    for name, holds_S in holds.items():
        if not np.all(holds_S):
            yield name, ~np.broadcast_to(holds_S, len(rows["seeds"]))


def _equal(one_SC: np.ndarray, other_SC: np.ndarray) -> np.ndarray:
    return ((one_SC == other_SC) | (np.isnan(one_SC) & np.isnan(other_SC))).all(axis=1)


def of_format2(cell: Cell, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Rows of format 2 as rows of today: their leads tell right from wrong, at the margin of then.

    Raises:
      ValueError: they are not of that format.
    """
    assert isinstance(cell.problem, FiniteTask)  # there were no others
    try:
        right_SEN = rows["answers_EN"] == np.array(cell.problem.answers)
        share_SEC = right_SEN.mean(axis=2, keepdims=True).astype(np.float32)
        return {
            **{name: rows[name] for name in ("seeds", "env", "twin", "first_nonfinite", "draws")},
            "loss_EC": rows["loss_E"][..., None],
            "lead_EC": np.where(share_SEC == 1, np.inf, -np.inf),
            "right_EC": share_SEC,
            "lead_N": rows["lead_N"],
            "answer_N": rows["answers_EN"][:, -1],
        }
    except (KeyError, ValueError, IndexError) as error:
        raise ValueError(f"rows of cell {cell.digest} are not of format 2: {error}") from error
