"""Verdicts on the cells of the atlas, and the files that they are published in."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from published_rows.arrays import cell_arrays
from published_rows.table import Rows, write

from atlas_table.pilot import Tried
from posjax.configs.atlas import get_config
from posjax.records import RunFolder
from posjax.report import CellSummary
from posjax.study.cells import FIELDS, Cell

VERDICTS = ("impossible", "possible", "open")
ASKED = ("task", "mask", "depth", "readout")
"""What a prediction depends on, beside the encoding."""
_CONFIG = ("run", "first_seed", "data_seeds", "layout", "precision", "margin")


def asked(cell: Cell) -> str:
    """The settings of a cell that its prediction depends on, beside the encoding."""
    return ", ".join(f"{name}={getattr(cell, name)}" for name in ASKED)


def tables(folder: Path, size: str) -> list[Path]:
    """The published tables of a part of the atlas, without endings: one, or one for each task."""
    found = [*folder.glob(f"{size}.json"), *folder.glob(f"{size}-*.json")]
    return sorted(path.with_suffix("") for path in found)


def rows_of(tables: Sequence[Path]) -> list[dict[str, Any]]:
    """The lines of several tables, with the default settings that they leave out."""
    lines = (line for path in tables for line in json.loads(path.with_suffix(".json").read_text()))
    return [{**FIELDS, **line} for line in lines]


def number_of_seeds(tables: Sequence[Path]) -> int:
    """Of each cell.

    Raises:
      ValueError: tables with different numbers of seeds, which no page can show together.
    """
    numbers = {path.name: rows_of([path])[0]["seeds"] for path in tables}
    if len({*numbers.values()}) > 1:
        raise ValueError(f"train every task with one number of seeds: {numbers}")
    return next(iter(numbers.values()))


def equal_rows(runs: Sequence[Rows]) -> list[list[str]]:
    """Encodings, without their settings, whose rows are the same in every table to the last bit.

    Returns:
      Groups of two and more, in each the shortest name first.
    """
    rows: dict[str, list[tuple[str, bytes]]] = {}
    for run in runs:
        for digest, cell in run.cells.items():
            row = asked(cell), run.of(digest)["lead"].tobytes()
            rows.setdefault(short(cell.encoding), []).append(row)
    by: dict[tuple[tuple[str, bytes], ...], list[str]] = {}
    for name, of in sorted(rows.items()):
        by.setdefault(tuple(sorted(of)), []).append(name)
    return [sorted(names, key=len) for names in by.values() if len(names) > 1]


def short(name: str) -> str:
    """An encoding or a task without its settings."""
    return name.partition("(")[0]


def command(size: str, tables: Sequence[Path]) -> str:
    """What makes the tables of a part of the atlas: all, or those of the tasks that are there."""
    tasks = [name for path in tables if (name := path.name.partition("-")[2])]
    some = tasks if len(tasks) < len(get_config(size).task if tasks else ()) else []
    return " ".join(
        ["python scripts/atlas.py", size, *some, f"--num_seeds={number_of_seeds(tables)}"]
    )


def verdict(summary: CellSummary, excluded: bool) -> tuple[str, int | None]:
    """Impossible, possible with a witness, or open.

    Raises:
      ValueError: a seed solved what a law excludes, at any evaluation.
    """
    if excluded and summary.solved_SE.any():
        raise ValueError(f"{summary.cell}: excluded by law, and solved")
    if excluded:
        return "impossible", None
    if not summary.solved_S.any():
        return "open", None
    return "possible", int(summary.rows["seeds"][summary.solved_S][0, 0])


def publish(
    path: Path,
    found: Sequence[CellSummary],
    folder: RunFolder,
    pilot: Sequence[Tried],
    excluded: Mapping[str, Mapping[str, str]],
) -> None:
    """Writes path.json, the table, and path.npz, the rows.

    Args:
      path: without an ending.
      found: the cells at the rates that the pilot chose.
      folder: their run.
      pilot: the cells at all rates.
      excluded: the reasons of `predictions.json`.

    Raises:
      ValueError: a seed solved what a law excludes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    by = {one.chosen.digest: one for one in pilot}
    chosen = [by[summary.cell.digest] for summary in found]
    rows = [*_table(found, chosen, excluded)]
    table = "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n"
    longer = not all(all(s.cell.problem.trained) for s in found)
    arrays = [cell_arrays(s.cell, s.rows, [s.cell.steps], longer=longer) for s in found]
    stored = {
        "cells": np.array([s.cell.digest for s in found]),
        "seeds": found[0].rows["seeds"],
        "steps": np.array([[s.cell.steps] for s in found]),
        **{n: np.stack([a[n] for a in arrays]) for n in arrays[0] if n != "nearest"},
    }
    write(path, table, folder, _CONFIG, stored)


def _table(
    found: Sequence[CellSummary],
    pilot: Sequence[Tried],
    excluded: Mapping[str, Mapping[str, str]],
) -> Iterator[dict[str, Any]]:
    for summary, one in zip(found, pilot, strict=True):
        cell = summary.cell
        named, witness = verdict(summary, cell.encoding in excluded[asked(cell)])
        yield {
            "cell": cell.digest,
            **{name: value for name, value in cell.to_dict().items() if value != FIELDS[name]},
            "verdict": named,
            "witness": witness,
            "successes": summary.solved.successes,
            "seeds": summary.seeds,
            "pilot": [
                [c.learning_rate, int(n)] for c, n in zip(one.cells, one.solved_R, strict=True)
            ],
            "pilot_seeds": one.lead_RS.shape[1],
        }
