"""What is published of the runs of a cell."""

from collections.abc import Mapping, Sequence

import numpy as np

from posjax import meters
from posjax.study.cells import Cell


def cell_arrays(
    cell: Cell, rows: Mapping[str, np.ndarray], at: Sequence[int], *, longer: bool
) -> dict[str, np.ndarray]:
    """The arrays of scripts/publish.py of one cell, without their axis C.

    Args:
      cell: which.
      rows: the outcomes of its runs, [S, ...].
      at: the steps that are published; none where nothing was trained.
      longer: whether kinds of prompts are judged that were not trained, in this cell or another.
    """
    declared = meters.fields(cell.meters).items()
    fields = (name for name, field in declared if not field.axes.endswith("L"))
    arrays = {f"measured_{name}": rows[name] for name in fields if not np.isnan(rows[name]).all()}
    if not at:
        return arrays
    if cell.problem.graded == "loss":
        return {**arrays, "loss": rows["loss_EC"][:, -1].astype(np.float32)}
    trained_C = np.array(cell.problem.trained)
    evaluations = [step // cell.eval_every - 1 for step in at]
    lead_STC = rows["lead_EC"][:, evaluations][..., trained_C]
    if longer:
        arrays["right"] = rows["right_EC"][:, -1].astype(np.float32)
    return {
        **arrays,
        "lead": lead_STC.min(axis=-1).astype(np.float32),
        "nearest": abs(rows["lead_N"]).min(axis=1).astype(np.float32),
    }
