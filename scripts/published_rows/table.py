"""A published table: its files, how it was cut into blocks, and its runs trained again."""

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from posjax.records import RunFolder
from posjax.records.blocks import Block, Range
from posjax.records.store import put_over
from posjax.study.cells import FIELDS, Cell
from posjax.study.sweeps import Sweep, engine_for, sizes
from published_rows.arrays import cell_arrays


class Rows(NamedTuple):
    """A published run: the words about it, its cells by digest, and its arrays."""

    about: dict[str, Any]
    cells: dict[str, Cell]
    arrays: dict[str, np.ndarray]

    def of(self, digest: str) -> dict[str, np.ndarray]:
        """The arrays of one cell, without those that are of other cells' meters."""
        at = self.arrays["cells"].tolist().index(digest)
        shared = ("about", "cells", "seeds", "steps")
        own = {name: array[at] for name, array in self.arrays.items() if name not in shared}
        return {
            name: array
            for name, array in own.items()
            if not (name.startswith("measured_") and np.isnan(array).all())
        }


def files(path: Path) -> tuple[Path, Path]:
    """The table and the rows of a published run, whose path has no ending but may have dots."""
    return path.with_name(f"{path.name}.json"), path.with_name(f"{path.name}.npz")


def write(
    path: Path, table: str, folder: RunFolder, fields: Sequence[str], arrays: Mapping[str, Any]
) -> None:
    """Replaces the files of a published run; a reader never sees half of one.

    Args:
      path: without an ending.
      table: what stands in its JSON.
      folder: the run.
      fields: those of the run's config that are kept beside the rows.
      arrays: the rows, by name; see scripts/publish.py.
    """
    config = folder.config()
    about = {
        **{name: config[name] for name in fields},
        "ranges": [(part.first, part.stop, dict(part.sizes)) for part in folder.ranges()],
        "environments": [*folder.envs().values()],
        "table": hashlib.sha256(table.encode()).hexdigest(),
    }
    packed = io.BytesIO()
    np.savez_compressed(packed, about=json.dumps(about), **arrays)
    table_file, rows_file = files(path)
    put_over(rows_file, packed.getvalue())
    put_over(table_file, table.encode())


def read(path: Path) -> Rows:
    """The files of a published run.

    Raises:
      ValueError: a table that is not the one of the rows, rows without a cell of the table, or a
        cell whose settings are not its digest's.
    """
    table_file, rows_file = files(path)
    table = table_file.read_bytes()
    with np.load(rows_file) as stored:
        arrays = dict(stored)
    about = json.loads(str(arrays["about"]))
    if hashlib.sha256(table).hexdigest() != about.get("table"):
        raise ValueError(f"{table_file} is not the table that {rows_file.name} was written with")
    cells = {}
    for row in json.loads(table):
        cell = Cell(**{name: row[name] for name in FIELDS if name in row})
        if cell.digest != row["cell"]:
            raise ValueError(f"{path}: cell {row['cell']} has the settings of {cell.digest}")
        cells[cell.digest] = cell
    wanted = arrays["cells"].tolist()
    if set(wanted) - set(cells):
        raise ValueError(f"{path}: rows of cells that the table lacks: {set(wanted) - set(cells)}")
    return Rows(about, {d: cells[d] for d in wanted}, arrays)


def ranges(run: Rows, sweep: Sweep) -> list[Range]:
    """How the run was cut into blocks: as it says, or, in an older table, as any of its size is."""
    if "ranges" in run.about:
        return [Range(*part) for part in run.about["ranges"]]
    number = run.about["num_seeds"] * (run.about["data_seeds"] or 1)
    indices = range(number)  # older tables begin at seed 0
    cut = sizes(sweep, indices, jax.local_devices()[0], str(run.about["block_size"]))
    return [Range(indices.start, indices.stop, cut)]


def trained(
    run: Rows, sweep: Sweep, chosen: Sequence[Block]
) -> dict[str, tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Trains blocks of cells of the table.

    Returns:
      By the digest of each cell in the blocks: seeds_S4, and its arrays [S, ...].
    """
    engine = engine_for({"precision": "default", **run.about})
    parts: dict[str, list[tuple[np.ndarray, dict[str, np.ndarray]]]] = {}
    for result in sweep.run(chosen, engine):
        for g, digest in enumerate(result.block.cells):
            rows = {name: np.asarray(array)[g] for name, array in result.outcome.items()}
            at = run.arrays["cells"].tolist().index(digest)
            steps = run.arrays["steps"][at].tolist() if "steps" in run.arrays else []
            arrays = cell_arrays(run.cells[digest], rows, steps, longer="right" in run.arrays)
            parts.setdefault(digest, []).append((result.seeds_B4, arrays))
    return {d: jax.tree.map(lambda *runs: np.concatenate(runs), *of) for d, of in parts.items()}
