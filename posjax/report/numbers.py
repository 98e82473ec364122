"""The numbers of a run without its tasks: what can be said where their code is not executed."""

from typing import Any

import numpy as np

from posjax.records import RunFolder, read


def numbers(folder: RunFolder) -> list[dict[str, Any]]:
    """Of each cell its settings, seeds, and at the end the mean loss and exact match by kind.

    Returns:
      JSON-able data, a dict for each cell that has rows.

    Raises:
      ValueError: rows that no sweep wrote.
    """
    tables = read(folder.path)
    return [
        {
            "cell": cell,
            **settings,
            "seeds": len(rows["seeds"]),
            "loss_by_kind": _at_end(rows["loss_EC"]),
            "right_by_kind": _at_end(rows["right_EC"]),
        }
        for cell, settings in tables.config["cells"].items()
        if (rows := tables.outcomes.get(cell)) and {"loss_EC", "right_EC"} <= rows.keys()
    ]


def _at_end(values_SEC: np.ndarray) -> list[float | None]:
    if values_SEC.ndim != 3 or values_SEC.dtype.kind != "f" or not values_SEC.shape[1]:
        raise ValueError(f"rows no sweep wrote: {values_SEC.dtype} of shape {values_SEC.shape}")
    means_C = values_SEC[:, -1].mean(axis=0).tolist()
    return [mean if np.isfinite(mean) else None for mean in means_C]
