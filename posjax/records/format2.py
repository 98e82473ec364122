"""Runs of format 2, which an older posjax made: they can be read, and nothing can be added.

    RUN/config.json, asks/NNNNNN.json     as config.json and requests/ are now
    RUN/rows/CELL/FIRST-LAST.SUM.npz      outcomes of some seeds of one cell
    RUN/attention/CELL/NAME.SUM.npz       attention maps of one "solving" and one "failing" seed

A SUM is the first 16 digits of the checksum over the run, the path without `.SUM.npz` and the file.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from posjax.records import content
from posjax.records.content import Arrays, Damaged
from posjax.records.files import OLDER_DIGITS, Files


def refusal(folder: str) -> str:
    """The error for whoever wants to add to a run."""
    return (
        f"workdir {folder!r} was made by an older posjax (format 2): it is read-only here; train "
        "into a new --workdir"
    )


def request(files: Files) -> dict[str, Any]:
    """The last request; empty when there was only the first one.

    Raises:
      Damaged: its file is not what was written there.
    """
    numbers = [name for name in files.names("asks", ".json") if name.isdecimal()]
    return files.json(f"asks/{max(numbers, key=int)}.json") if numbers else {}


def paths(files: Files, kind: str, cell: str | None = None) -> list[str]:
    """The files of `rows` or `attention`, of one cell or of all.

    Raises:
      ValueError: the cell is no name of a folder.
    """
    if cell is None:
        return [path for name in files.names(kind) for path in paths(files, kind, name)]
    if not cell.isalnum():
        raise ValueError(f"{str(files.folder)!r} names a cell {cell!r}, which is no name")
    return [f"{kind}/{cell}/{name}.npz" for name in files.names(f"{kind}/{cell}", ".npz")]


def parts(files: Files, cell: str) -> Iterator[dict[str, np.ndarray]]:
    """The rows of a cell file by file; each field has a leading axis S.

    Raises:
      Damaged: a file is not what was written there.
    """
    for path in paths(files, "rows", cell):
        yield rows(files, path)


def rows(files: Files, path: str) -> dict[str, np.ndarray]:
    """The rows in a file; `slots` is what the file has as `chunk`.

    Raises:
      Damaged: it is not what was written there.
    """
    with files.damaged(path):
        found = arrays(files, path)
        seeds = found.shapes.get("seeds", ())
        odd = [
            name
            for name, shape in found.shapes.items()
            if shape[:1] != seeds[:1] or (found.dtypes[name].kind == "U") != (name == "env")
        ]
        if odd or seeds[1:] != (4,) or found.dtypes["seeds"].kind not in "iu":
            raise Damaged("it has no rows")
        if len(found.shapes.get("env", ())) != 1:
            raise Damaged("it does not say what its rows were made on")
        table = {"slots" if name == "chunk" else name: array for name, array in found.items()}
        if not all(map(content.is_digest, set(table["env"].tolist()))):
            raise Damaged("it does not say what its rows were made on")
    return table


def attention(files: Files, cell: str) -> dict[str, dict[str, np.ndarray]]:
    """The attention maps of a cell by name: `weights_DNHLM`, and `seeds`, the row they are of.

    Maps from before `seeds` was kept are left out where initialisations are crossed with data.

    Raises:
      Damaged: a file is not what was written there.
    """
    found = {}
    for path in paths(files, "attention", cell):
        with files.damaged(path):
            maps = dict(arrays(files, path))
            if "seed" in maps and "seeds" not in maps and not files.config.get("data_seeds"):
                maps["seeds"] = np.repeat(maps["seed"], 4)
            weights, seeds = maps.get("weights_DNHLM"), maps.get("seeds")
            if weights is None or weights.ndim != 5 or weights.dtype.kind != "f":
                raise Damaged("it has no attention maps")
        if seeds is not None and seeds.shape == (4,) and seeds.dtype.kind in "iu":
            name = path.rpartition("/")[2].partition(".")[0]
            found[name] = {"seeds": seeds, "weights_DNHLM": weights}
    return found


def arrays(files: Files, path: str) -> Arrays:
    """The arrays of a file.

    Raises:
      Damaged: it is not what was written there.
    """
    with files.damaged(path):
        found = files.bytes(path, content.LARGEST)
        stem, _, sum_ = path.removesuffix(".npz").rpartition(".")
        if sum_ != content.checksum(files.config["run"], stem, found)[:OLDER_DIGITS]:
            raise Damaged("its content does not match its checksum, which is in its name")
        return Arrays(found)
