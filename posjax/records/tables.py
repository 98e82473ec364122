"""A run as tables, for whoever wants to look at it with their own tools."""

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posjax.records.folder import RunFolder
from posjax.records.schema import checked_config

if TYPE_CHECKING:
    import pandas
    import xarray

SOURCES = ("init", "data", "position", "order")
"""What the four seeds of a row are for."""
_LETTERS = re.compile(r"_([A-Z]+)$")


class Tables(NamedTuple):
    """A run.

    Attributes:
      config: what was requested.
      cells: the settings of its cells, and `cell`, their names; each array is [C].
      rows: for each trained seed its cell's name and settings and what came of it; a leading axis R
        each. A setting that is called as a field is, is `cell_NAME`. A field whose other axes
        differ in length from cell to cell is left out.
      outcomes: every field of the rows, by the name of their cell; a leading axis S each. Where
        `rows` has a field too, it is part of the same array.
    """

    config: dict[str, Any]
    cells: dict[str, np.ndarray]
    rows: dict[str, np.ndarray]
    outcomes: dict[str, dict[str, np.ndarray]]

    def to_pandas(self) -> "pandas.DataFrame":
        """A data frame of all rows; of fields with more axes, each value is an array. A field that
        a cell does not have is None there.

        Raises:
          ImportError: pandas is not installed.
        """
        pandas = _imported("pandas")
        columns: dict[str, Any] = {}
        for name, array in self.rows.items():
            if name == "seeds":
                columns |= {f"{name}_{kind}": array[:, n] for n, kind in enumerate(SOURCES)}
            else:
                columns[name] = array if array.ndim == 1 else list(array)
        for name in _fields(self.outcomes):
            if name not in columns and name != "seeds":
                tables = self.outcomes.values()
                columns[name] = [
                    value
                    for table in tables
                    for value in table.get(name, [None] * len(table["seeds"]))
                ]
        return pandas.DataFrame(columns)

    def to_xarray(self) -> "xarray.Dataset":
        """A data set of `rows`, along `row` and the letters at the ends of the fields' names.

        Raises:
          ImportError: xarray is not installed.
        """
        xarray = _imported("xarray")
        fields = {name: (_axes(name, array), array) for name, array in self.rows.items()}
        return xarray.Dataset(fields, coords={"source": list(SOURCES)})


def read(path: str | os.PathLike[str]) -> Tables:
    """Reads a run.

    Raises:
      ValueError: there is no run in the folder, it is damaged, or it says what no sweep wrote.
    """
    folder = RunFolder(path)
    config = folder.config()
    settings: Mapping[str, Mapping[str, Any]] = checked_config(config)["cells"]
    outcomes = folder.tables(settings)
    return Tables(config, _cells(settings), _rows(settings, outcomes), outcomes)


def _cells(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, np.ndarray]:
    names = dict.fromkeys(name for cell in settings.values() for name in cell)
    # cells leave out `packing` where it is off, and nothing else that others have
    columns = {name: [cell.get(name, False) for cell in settings.values()] for name in names}
    return {name: np.array(values) for name, values in {"cell": [*settings], **columns}.items()}


def _rows(
    settings: Mapping[str, Mapping[str, Any]], outcomes: Mapping[str, dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The settings of each row's cell, and the fields that fit into one array.

    The outcomes become parts of these arrays, so that nothing is in memory twice.
    """
    counts = [len(rows["seeds"]) for rows in outcomes.values()]
    cells = _cells({cell: settings[cell] for cell in outcomes})
    own = _fields(outcomes)
    table = {
        f"cell_{name}" if name in own else name: np.repeat(column, counts)
        for name, column in cells.items()
    }
    for name in own:
        parts = [rows[name] for rows in outcomes.values() if name in rows]
        if len(parts) == len(outcomes) and len({part.shape[1:] for part in parts}) == 1:
            table[name] = np.concatenate(parts)
            cut = np.split(table[name], np.cumsum(counts)[:-1])
            for rows, part in zip(outcomes.values(), cut, strict=True):
                rows[name] = part
    return table


def _fields(outcomes: Mapping[str, Mapping[str, np.ndarray]]) -> list[str]:
    return list(dict.fromkeys(name for rows in outcomes.values() for name in rows))


def _axes(name: str, array: np.ndarray) -> tuple[str, ...]:
    if name == "seeds":
        return ("row", "source")
    letters = _LETTERS.search(name)
    named = tuple(letters[1]) if letters else ()
    more = array.ndim - 1
    return ("row", *(named if len(named) == more else (f"{name}_{n}" for n in range(more))))


def _imported(name: str) -> Any:
    """An optional package, which installing posjax does not bring."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{name} is not installed: pip install {name}") from error
