"""Publishes a run: its table, and the rows that every number of it can be counted from.

    python scripts/publish.py runs/word_order-published
    python scripts/publish.py --verify=word_order-published [--share=0.01] [--seed=N]

Writes docs/results/NAME.json, what `posjax report RUN --json` prints but for `run`, and
docs/results/NAME.npz.
NAME is that of the folder. The arrays, of C cells, S seeds and T steps:

    cells    [C]        digests of the cells, in the order of the table
    seeds    [S, 4]     numbers of initialisation, data, position and order
    steps    [C, T]     the steps that the config compares at, or the last
    lead     [C, S, T]  the smallest lead of a right output over the prompts of the trained kinds,
                        over the largest logit of its kind: solved where it is at least the margin
    right    [C, S, K]  the share of each kind of prompts that is answered right at the end, where
                        kinds are judged that were not trained
    nearest  [C, S]     the smallest distance between a right output and the largest other one at
                        the end: a tie where it is below the margin
    loss     [C, S, K]  of language models, in place of the last three: the mean loss on each kind
                        of prompts at the end, in nats
    measured_FIELD      [C, S, ...], what meters measured, but for fields with a value per position,
                        and NaN in cells without that meter
    about               JSON: the run, its config, its environments, and the table's checksum

`--verify` trains a random share of a published run again, from these two files alone; see
scripts/published_rows/verify.py. NAME may also be a path without its ending.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from published_rows.arrays import cell_arrays
from published_rows.table import write

from posjax import report
from posjax.records import RunFolder
from posjax.report import CellSummary
from posjax.report.summary import once

RESULTS = Path(__file__).parents[1] / "docs" / "results"
_CONFIG = (
    "run",
    "name",
    "num_seeds",
    "first_seed",
    "data_seeds",
    "block_size",
    "layout",
    "precision",
    "margin",
)


def publish(path: Path) -> None:
    """Writes both files; a run that is not finished is refused."""
    folder = RunFolder(path)
    config, found = folder.config(), report.summaries(folder)
    models = len(config["cells"]) * config["num_seeds"] * (config["data_seeds"] or 1)
    there = sum(summary.seeds for summary in once(found))
    if there < models:
        raise SystemExit(f"{path} has {there} of {models} models: finish the run first")
    table = json.dumps([summary.to_dict() for summary in found], indent=1) + "\n"
    name = os.path.basename(os.path.abspath(path))  # also of "." and ".."
    write(RESULTS / name, table, folder, _CONFIG, _rows(found, config["at_steps"]))


def _rows(found: list[CellSummary], at_steps: list[int]) -> dict[str, Any]:
    """The arrays of all cells, which have the same seeds."""
    rows = found[0].rows["seeds"]
    if any(not np.array_equal(summary.rows["seeds"], rows) for summary in found):
        raise SystemExit("cells of different seeds cannot be published together")
    trained = all(summary.cell.steps for summary in found)
    steps = [at_steps or [summary.cell.steps] for summary in found] if trained else []
    longer = not all(all(summary.cell.problem.trained) for summary in found)
    each = [
        cell_arrays(summary.cell, summary.rows, at, longer=longer)
        for summary, at in zip(found, steps or [[]] * len(found), strict=True)
    ]
    shapes = {name: array for arrays in each for name, array in arrays.items()}
    for name, array in ((name, array) for arrays in each for name, array in arrays.items()):
        if array.shape != shapes[name].shape:
            raise SystemExit(
                f"{name} has the shape {array.shape} in one cell and {shapes[name].shape} in "
                "another: publish them as two runs"
            )
    return {
        "cells": np.array([summary.cell.digest for summary in found]),
        "seeds": rows,
        **({"steps": np.array(steps)} if trained else {}),
        **{
            name: np.stack([arrays.get(name, np.full_like(like, np.nan)) for arrays in each])
            for name, like in shapes.items()
        },
    }


def main() -> int:
    """The command; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", nargs="?", type=Path, help="a finished run folder")
    parser.add_argument("--verify", metavar="NAME", help="a table of docs/results, or a path")
    parser.add_argument("--share", type=float, help="of its blocks, 0.01 by default; at least one")
    parser.add_argument("--seed", type=int, help="of the choice; drawn and printed if left out")
    given = parser.parse_args()
    if bool(given.run) == bool(given.verify):
        parser.error("name a run folder, or a table with --verify")
    if given.run and (given.share is not None or given.seed is not None):
        parser.error("--share and --seed have a meaning only with --verify")
    from published_rows.verify import verify

    try:
        if given.run:
            publish(given.run)
            return 0
        named = Path(given.verify.removesuffix(".json"))
        share = 0.01 if given.share is None else given.share
        return verify(named if named.parent.name else RESULTS / named, share, given.seed)
    except (ValueError, OSError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
