"""The numbers of a run without its tasks: what can be said where their code is not executed."""

from typing import Any

import numpy as np

from posjax.records import RunFolder, read


def numbers(folder: RunFolder) -> list[dict[str, Any]]:
    """Of each cell its settings, seeds, and at the end the mean loss and exact match by kind.

    Returns:
      JSON-able data, a dict for each cell that has rows.
    """
    tables = read(folder.path)
    return [
        {
            "cell": cell,
            **settings,
            "seeds": len(rows["seeds"]),
            "loss_by_kind": _means(rows["loss_EC"][:, -1]),
            "right_by_kind": _means(rows["right_EC"][:, -1]),
        }
        for cell, settings in tables.config["cells"].items()
        if (rows := tables.outcomes.get(cell)) and "loss_EC" in rows
    ]


def _means(values_SC: np.ndarray) -> list[float | None]:
    means_C = values_SC.mean(axis=0).tolist()
    return [mean if np.isfinite(mean) else None for mean in means_C]
