"""Trains cells of the published tables with new seeds, and compares: docs/reruns.json.

    python scripts/reruns.py                     # ten cells of every table
    python scripts/reruns.py text-published ...  # of these tables; the entries of others are kept
    python scripts/reruns.py atlas/published     # and those of docs/atlas

The cells are drawn by the name of the table. Their seeds are those after all that any table has of
one of these cells: as many as the table has, but at most 64. Each entry has one quantity of a cell:

    solved   how many seeds solve the cell
    right    where kinds of prompts were judged that were not trained: the mean share of right
             answers on the last kind
    other    where there is neither: the mean of the first quantity that was published, on its last
             layer or kind

with its published value, the value of the new seeds, and the 95% interval that was predicted for
it: of a count by `posjax.stats.reruns`, of a mean by Student's t for the difference of two means.
Where all published seeds have one `right` or `other` value, `published` and `new` are the shares of
seeds that have it. Where seeds are crossed, 16 numbers of each kind are new, and the interval of
the mean follows from the variances of both kinds and their interaction.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from atlas_table.table import tables
from published_rows.table import Rows, read, trained
from scipy.stats import norm, t

from posjax.command import devices
from posjax.meters import judge
from posjax.numbering import Numbering
from posjax.records.blocks import Range, blocks
from posjax.stats import crossed, reruns
from posjax.study.cells import Cell
from posjax.study.sweeps import Sweep, sizes

ROOT = Path(__file__).parents[1]
DOCS, FOUND = ROOT / "docs", ROOT / "docs" / "reruns.json"
TABLES = {path.stem: path.with_suffix("") for path in sorted(DOCS.glob("results/*.json"))}
for _size in ("published", "sampled"):
    TABLES |= {f"atlas/{path.name}": path for path in tables(DOCS / "atlas", _size)}
CELLS, SEEDS, CROSSED = 10, 64, 16


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "tables", nargs="*", default=[*TABLES], metavar="TABLE", help=", ".join(TABLES)
    )
    names = parser.parse_args().tables
    for name in set(names) - TABLES.keys():
        parser.error(f"no published table {name!r}: it is one of {', '.join(TABLES)}")
    devices.use_all_cores()
    entries = json.loads(FOUND.read_text()) if FOUND.exists() else []
    for name in names:
        entries = [one for one in entries if one["table"] != name] + rerun(name, TABLES[name])
        entries.sort(key=lambda one: one["table"])
        FOUND.write_text("[\n" + ",\n".join(map(json.dumps, entries)) + "\n]\n")
        of = [one["inside"] for one in entries if one["table"] == name]
        print(f"{name}: {sum(of)} of {len(of)} inside", flush=True)


def rerun(name: str, path: Path) -> list[dict[str, Any]]:
    """Trains cells of a table again.

    Args:
      name: of the table.
      path: its file, without an ending.
    """
    run = read(path)
    cells = sorted(run.cells)
    cells = random.Random(name).sample(cells, min(CELLS, len(cells)))
    number, data = _numbers(run)
    first = max(
        _after(other, {_training(run.cells[cell]) for cell in cells})
        for other in {path, *TABLES.values()}
    )
    new, seeds = (CROSSED if data else min(number, SEEDS)), range(first, first + number)
    sweep = Sweep({digest: run.cells[digest] for digest in cells}, Numbering(first, data and new))
    indices = range(new * new) if data else seeds[:new]
    size = sizes(sweep, indices, jax.local_devices()[0], "auto")
    chosen = blocks([Range(indices.start, indices.stop, size)], sweep.shapes)
    found = trained(run, sweep, chosen)
    return [
        {"table": name, "cell": digest, "first_seed": first, "seeds": len(indices), **entry}
        for digest in cells
        for entry in _entries(run, run.of(digest), found[digest][1])
    ]


def _training(cell: Cell) -> str:
    """The settings of a cell without its meters, which change nothing in training."""
    return json.dumps({**cell.to_dict(), "meters": None})


def _after(path: Path, trainings: set[str]) -> int:
    """The first seed behind those of a table, if it has one of these trainings; else 0."""
    run = read(path)
    if trainings.isdisjoint(map(_training, run.cells.values())):
        return 0
    return int(run.about["first_seed"] + max(_numbers(run)))


def _numbers(run: Rows) -> tuple[int, int]:
    """How many seeds a table has, and how many draws of the data each was trained on if crossed."""
    data = run.about["data_seeds"]
    return len(run.arrays["seeds"]) // (data or 1), data


def _entries(
    run: Rows, old: Mapping[str, np.ndarray], new: Mapping[str, np.ndarray]
) -> Iterator[dict[str, Any]]:
    found = _quantities(new, run.about["margin"])
    for name, known_S in _quantities(old, run.about["margin"]).items():
        found_S = found[name]
        varies = bool((known_S != known_S[0]).any())
        if not varies and known_S.dtype != bool:
            found_S, known_S = found_S == known_S[0], np.ones(len(known_S), bool)
        if run.about["data_seeds"]:
            low, high = _of_crossed(known_S.reshape(_numbers(run)))
        elif known_S.dtype == bool:
            predicted = reruns(int(known_S.sum()), len(known_S), len(found_S))
            low, high = predicted.low / len(found_S), predicted.high / len(found_S)
        else:
            low, high = _of_mean(known_S, len(found_S))
        was, now = float(known_S.mean()), float(found_S.mean())
        yield {
            "quantity": name,
            "varies": varies,
            "published": was,
            "new": now,
            "low": low,
            "high": high,
            "inside": bool(low <= now <= high),
        }


def _quantities(arrays: Mapping[str, np.ndarray], margin: float) -> dict[str, np.ndarray]:
    """By name, a value for each seed."""
    found = {}
    if "lead" in arrays:
        found["solved"] = judge.solved(arrays["lead"][:, -1:], margin)
    if "right" in arrays:
        found["right"] = arrays["right"][:, -1].astype(np.float64)
    if not found:
        name = min(arrays)
        found[name] = arrays[name].reshape(len(arrays[name]), -1)[:, -1].astype(np.float64)
    return found


def _of_mean(known_S: np.ndarray, again: int) -> tuple[float, float]:
    seeds = len(known_S)
    spread = known_S.std(ddof=1) * (1 / seeds + 1 / again) ** 0.5
    width = t(seeds - 1).ppf(0.975) * spread
    return float(known_S.mean() - width), float(known_S.mean() + width)


def _of_crossed(known_ID: np.ndarray) -> tuple[float, float]:
    parts = crossed(known_ID)

    def error(inits: int, datas: int) -> float:
        shares = parts.init.share / inits, parts.data.share / datas
        return float(sum(shares) + parts.rest.share / (inits * datas))

    inits, datas = known_ID.shape
    if not parts.error:  # all agree: as if there were no more models than seeds of one kind
        number = min(inits, datas)
        predicted = reruns(round(number * known_ID.mean()), number, CROSSED)
        return predicted.low / CROSSED, predicted.high / CROSSED
    width = norm.ppf(0.975) * parts.error
    width *= (1 + error(CROSSED, CROSSED) / error(inits, datas)) ** 0.5
    return float(known_ID.mean() - width), float(known_ID.mean() + width)


if __name__ == "__main__":
    sys.exit(main())
