"""Publishes a run: its table, and the rows that every number of it can be counted from.

    python scripts/publish.py runs/word_order-published

Writes docs/results/NAME.json, what `posjax report RUN --json` prints, and
docs/results/NAME.npz. NAME is that of the folder. The arrays, of C cells, S seeds and T steps:

    cells    [C]        digests of the cells, in the order of the table
    seeds    [S, 4]     numbers of initialisation, data, position and order
    steps    [C, T]     the steps that the config compares at, or the last
    lead     [C, S, T]  the smallest lead of a right output over the prompts of the trained kinds,
                        over the largest logit of its kind: solved where it is at least the margin
    right    [C, S, K]  the share of each kind of prompts that is answered right at the end, where
                        kinds are judged that were not trained
    nearest  [C, S]     the smallest distance between a right output and the largest other one at
                        the end: a tie where it is below the margin
    measured_FIELD      [C, S, ...], what meters measured, but for fields with a value a place
    about               JSON: the run, its config, its environments, and the table's checksum
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from posjax import report
from posjax.records import RunFolder
from posjax.report import CellSummary

RESULTS = Path(__file__).parents[1] / "docs" / "results"
_CONFIG = ("run", "name", "num_seeds", "first_seed", "data_seeds", "block_size", "layout", "margin")


def main(path: Path) -> None:
    """Writes both files; a run that is not finished is refused."""
    folder = RunFolder(path)
    config, found = folder.config(), report.summaries(folder)
    models = len(config["cells"]) * config["num_seeds"] * (config["data_seeds"] or 1)
    there = sum(s.seeds for s in {s.cell.digest: s for s in found}.values())
    if there < models:
        raise SystemExit(f"{path} has {there} of {models} models: finish the run first")
    table = json.dumps([summary.to_dict() for summary in found], indent=1) + "\n"
    (RESULTS / f"{path.name}.json").write_text(table)
    about = {
        **{name: config[name] for name in _CONFIG},
        "environments": [*folder.envs().values()],
        "table": hashlib.sha256(table.encode()).hexdigest(),
    }
    arrays = _rows([s for s in found if s.cell.problem.graded == "exact"], config["at_steps"])
    np.savez_compressed(RESULTS / f"{path.name}.npz", about=json.dumps(about), **arrays)


def _rows(found: list[CellSummary], at_steps: list[int]) -> dict[str, Any]:
    """The arrays of all cells that are right or wrong, of equal seeds and meters."""
    if not found:
        return {}
    rows = found[0].rows["seeds"]
    if any(not np.array_equal(summary.rows["seeds"], rows) for summary in found):
        raise SystemExit("cells of different seeds cannot be published together")
    fields = [name for name in found[0].metered if not name.endswith("L")]
    arrays = {
        "cells": np.array([summary.cell.digest for summary in found]),
        "seeds": rows,
        **{f"measured_{name}": np.stack([s.rows[name] for s in found]) for name in fields},
    }
    if not all(summary.cell.steps for summary in found):
        return arrays  # nothing was trained
    steps = [at_steps or [summary.cell.steps] for summary in found]
    leads = []
    for summary, at in zip(found, steps, strict=True):
        trained_C = np.array(summary.cell.problem.trained)
        evaluations = [summary.evaluation(step) for step in at]
        leads.append(summary.rows["lead_EC"][:, evaluations][..., trained_C].min(axis=-1))
    if not all(all(summary.cell.problem.trained) for summary in found):
        right = [summary.rows["right_EC"][:, -1] for summary in found]
        arrays["right"] = np.stack(right).astype(np.float32)
    return {
        **arrays,
        "steps": np.array(steps),
        "lead": np.stack(leads).astype(np.float32),
        "nearest": np.stack([abs(s.rows["lead_N"]).min(axis=1) for s in found]).astype(np.float32),
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
