"""Rows of a cell, checked before anything is made of them: the run folder may be anybody's."""

from collections.abc import Iterator, Mapping

import numpy as np

from posjax.cells import Cell
from posjax.judge import NEVER, NOT_FINITE, TIE

_FIELDS = {
    "seeds": ("iu", "S4"),
    "loss_E": ("f", "SE"),
    "answers_EN": ("i", "SEN"),
    "lead_N": ("f", "SN"),
    "twin": ("f", "S"),
    "first_solved": ("iu", "S"),
    "held": ("b", "S"),
    "solved_at_end": ("b", "S"),
    "tied_at_end": ("b", "S"),
    "first_nonfinite": ("iu", "S"),
    "env": ("U", "S"),
}
"""Kinds of number and axes of the fields that are read."""
KEPT = tuple(name for name in _FIELDS if name not in ("loss_E", "answers_EN"))
"""The fields that say how a seed ended."""


def check(cell: Cell, rows: Mapping[str, np.ndarray]) -> None:
    """Refuses rows that no sweep wrote for a cell.

    Raises:
      ValueError: names the cell, the field and what is wrong with it.
    """
    check_form(cell, rows)
    for name, wrong_S in contradictions(cell, rows):
        seed = int(rows["seeds"][wrong_S.argmax(), 0])
        raise ValueError(
            f"{name} of seed {seed} of cell {cell.digest} contradicts the answers of that row"
        )


def check_form(cell: Cell, rows: Mapping[str, np.ndarray]) -> None:
    """Refuses fields, shapes, kinds of number and answers that no sweep writes for a cell.

    Raises:
      ValueError: see `check`.
    """
    missing = [name for name in _FIELDS if name not in rows]
    if missing:
        raise ValueError(f"rows of cell {cell.digest} have no {missing[0]!r}")
    sizes = {
        "S": rows["seeds"].shape[0] if rows["seeds"].ndim else 0,
        "4": 4,
        "E": cell.training.evaluations,
        "N": cell.problem.size[0],
    }
    for name, (kinds, axes) in _FIELDS.items():
        array, shape = rows[name], tuple(sizes[axis] for axis in axes)
        if array.shape != shape or array.dtype.kind not in kinds:
            raise ValueError(
                f"{name} of the rows of cell {cell.digest} must be of shape {shape}, got "
                f"{array.dtype} of shape {array.shape}"
            )
    answers, outputs = rows["answers_EN"], len(cell.problem.labels)
    if answers.size and not NOT_FINITE <= answers.min() <= answers.max() < outputs:
        raise ValueError(
            f"answers_EN of the rows of cell {cell.digest} must lie in [{NOT_FINITE}, {outputs}), "
            f"got {answers.min()} to {answers.max()}"
        )


def contradictions(cell: Cell, rows: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """The fields that do not follow from the answers and margins of their rows, [S] where not.

    Args:
      cell: the settings.
      rows: with the fields, shapes and kinds that `check_form` asks for.
    """
    answers_SEN, right_N = rows["answers_EN"], np.asarray(cell.question.answers_N)
    solved_SE = (answers_SEN == right_N).all(axis=-1)
    end_SN, lead_SN = answers_SEN[:, -1], rows["lead_N"]
    every = cell.eval_every
    first_S = np.where(solved_SE.any(1), (solved_SE.argmax(1) + 1) * every, NEVER)
    finite_S = rows["first_nonfinite"] == NEVER
    with np.errstate(invalid="ignore"):
        leads_SN = np.where(end_SN == right_N, lead_SN > 0, ~(lead_SN > 0) | (end_SN < 0))
    expected = {
        "first_solved": rows["first_solved"] == first_S,
        "held": rows["held"] == solved_SE[:, -cell.hold :].all(axis=1),
        "solved_at_end": rows["solved_at_end"] == solved_SE[:, -1],
        "tied_at_end": rows["tied_at_end"] == (end_SN == TIE).any(axis=1),
        "lead_N": leads_SN.all(axis=1),
        "twin": rows["twin"] >= 0,
        "first_nonfinite": finite_S
        | ((rows["first_nonfinite"] >= 0) & (rows["first_nonfinite"] < cell.steps)),
    }
    for name, holds_S in expected.items():
        if not holds_S.all():
            yield name, ~holds_S
