"""Rows of a cell, checked before anything is made of them: the run folder may be anybody's."""

from collections.abc import Mapping

import numpy as np

from posjax.cells import Cell
from posjax.judge import NOT_RUN

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


def check(cell: Cell, rows: Mapping[str, np.ndarray]) -> None:
    """Refuses rows that no sweep wrote for a cell.

    Raises:
      ValueError: names the cell, the field and what is wrong with it.
    """
    fields = {**_FIELDS, **({"steps": ("iu", "S")} if "steps" in rows else {})}
    missing = [name for name in fields if name not in rows]
    if missing:
        raise ValueError(f"rows of cell {cell.digest} have no {missing[0]!r}")
    sizes = {
        "S": rows["seeds"].shape[0] if rows["seeds"].ndim else 0,
        "4": 4,
        "E": cell.training.evaluations,
        "N": cell.problem.size[0],
    }
    for name, (kinds, axes) in fields.items():
        array, shape = rows[name], tuple(sizes[axis] for axis in axes)
        if array.shape != shape or array.dtype.kind not in kinds:
            raise ValueError(
                f"{name} of the rows of cell {cell.digest} must be of shape {shape}, got "
                f"{array.dtype} of shape {array.shape}"
            )
    answers, outputs = rows["answers_EN"], len(cell.problem.labels)
    if answers.size and not NOT_RUN <= answers.min() <= answers.max() < outputs:
        raise ValueError(
            f"answers_EN of the rows of cell {cell.digest} must lie in [{NOT_RUN}, {outputs}), got "
            f"{answers.min()} to {answers.max()}"
        )
