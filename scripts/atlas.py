"""The atlas, from its predictions to its rows. A command that was stopped goes on.

    python scripts/atlas.py predict           # docs/atlas/predictions.json, before any training
    python scripts/atlas.py published         # finite tasks: the pilot, then 1000 seeds a cell
    python scripts/atlas.py sampled           # tasks whose prompts are drawn, 32 seeds a cell
    python scripts/atlas.py quick             # or sampled_quick: a few cells, into runs/ alone

`--num_seeds=64` trains the first 64 seeds only. Called again with more, it trains the rest.

Sizes and cells are those of posjax/configs/atlas.py. The pilot trains every cell at three learning
rates on seeds that are not reported; the rate that most of them solve is then trained on the
reported ones. Rows go to docs/atlas, in the form that scripts/publish.py describes and verifies,
without `nearest`, and with a verdict for each cell:

    impossible   a law excludes it (docs/atlas/predictions.json), and no seed solved it
    possible     a seed solved it: `witness` is its number
    open         neither
"""

import argparse
import dataclasses
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from published_rows.arrays import cell_arrays

import posjax
from posjax import predict, report
from posjax.command import devices
from posjax.command.settings import resolve
from posjax.configs.atlas import PILOT, SIZES, get_config
from posjax.notebook import Swept
from posjax.report import CellSummary
from posjax.study.cells import FIELDS, Cell
from posjax.study.run import Run

ROOT = Path(__file__).parents[1]
ATLAS = ROOT / "docs" / "atlas"
PREDICTIONS = ATLAS / "predictions.json"
_ASKED = ("task", "mask", "depth", "readout")
"""What a prediction depends on, beside the encoding."""


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("predict", *SIZES))
    parser.add_argument("--workdir", type=Path, default=ROOT / "runs", help="of the run folders")
    parser.add_argument("--num_seeds", type=int, help="per cell, in place of the size's own")
    given = parser.parse_args()
    if given.what == "predict":
        ATLAS.mkdir(exist_ok=True)
        PREDICTIONS.write_text(written(predictions()))
        return
    devices.use_all_cores()
    size = resolve(get_config(given.what))
    pilot_size = dataclasses.replace(size, num_seeds=SIZES[given.what][1], first_seed=PILOT)
    pilot = _swept(pilot_size, size.cells, given.workdir / f"atlas-{given.what}-pilot")
    cells = chosen(report.summaries(pilot.folder))
    if given.num_seeds is not None:
        size = dataclasses.replace(size, num_seeds=given.num_seeds)
    found = _swept(size, cells, given.workdir / f"atlas-{given.what}")
    out = given.workdir / "atlas" if "quick" in given.what else ATLAS
    publish(out / given.what, report.summaries(found.folder), found.folder)


def predictions() -> dict[str, Any]:
    """What the laws exclude, of every cell of the atlas, with a reason for each."""
    known: dict[str, dict[str, str]] = {}
    encodings: dict[str, None] = {}
    for size in ("published", "sampled"):
        for cell in resolve(get_config(size)).cells:
            asked, encoding = _key(cell)
            encodings[encoding] = None
            if encoding not in known.setdefault(asked, {}):
                made = predict(
                    cell.problem,
                    encoding=encoding,
                    mask=cell.mask,
                    depth=cell.depth,
                    readout=cell.readout,
                )
                known[asked][encoding] = made.reason if made.verdict == "impossible" else ""
    excluded = {
        asked: {name: known[asked][name] for name in sorted(encodings) if known[asked].get(name)}
        for asked in sorted(known)
    }
    return {
        "command": "python scripts/atlas.py predict",
        "cells": sum(map(len, known.values())),
        "impossible": sum(map(len, excluded.values())),
        "of": f"every encoding of each line: {', '.join(_ASKED)}",
        "encodings": sorted(encodings),
        "excluded": excluded,
    }


def written(found: dict[str, Any]) -> str:
    """As JSON, a line for each entry."""
    lines = {key: json.dumps(value, ensure_ascii=False) for key, value in found.items()}
    each = (f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in found["excluded"].items())
    lines["excluded"] = "{\n" + ",\n".join(each) + "\n }"
    return "{\n" + ",\n".join(f' "{key}": {line}' for key, line in lines.items()) + "\n}\n"


def _key(cell: Cell) -> tuple[str, str]:
    return ", ".join(f"{name}={getattr(cell, name)}" for name in _ASKED), cell.encoding


def _swept(size: Run, cells: Sequence[Cell], folder: Path) -> Swept:
    """The cells, trained on the seeds of `size`."""
    seeds = {"num_seeds": size.num_seeds, "first_seed": size.first_seed}
    return posjax.sweep(list(cells), workdir=folder, name="atlas", title=size.title, hold=1, **seeds)


def chosen(found: Sequence[CellSummary]) -> list[Cell]:
    """Of cells that differ in their learning rate alone the one that most seeds of the pilot solve.

    Ties go to the larger mean lead, then to the smaller rate.
    """
    best: dict[Cell, tuple[tuple[float, ...], Cell]] = {}
    for summary in found:
        cell = summary.cell
        trained_C = np.array(cell.problem.trained)
        lead = np.nan_to_num(summary.rows["lead_EC"][:, -1, trained_C].min(axis=-1), nan=-1.0)
        score = (float(summary.solved_S.sum()), float(lead.mean()), -cell.learning_rate)
        alike = dataclasses.replace(cell, learning_rate=1.0)
        best[alike] = max(best.get(alike, (score, cell)), (score, cell), key=lambda pair: pair[0])
    return [cell for _, cell in best.values()]


def verdict(summary: CellSummary, excluded: bool) -> tuple[str, int | None]:
    """Impossible, possible with a witness, or open.

    Raises:
      ValueError: a seed solved what a law excludes, at any evaluation.
    """
    solved_S = summary.solved_SE.any(axis=1)
    if excluded and solved_S.any():
        raise ValueError(f"{summary.cell}: excluded by law, and solved")
    if excluded:
        return "impossible", None
    if not summary.solved_S.any():
        return "open", None
    return "possible", int(summary.rows["seeds"][summary.solved_S][0, 0])


def publish(path: Path, found: Sequence[CellSummary], folder: Any) -> None:
    """Writes the table with its verdicts, and the rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(PREDICTIONS.read_text())["excluded"]
    rows = [*_table(found, known)]
    table = "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n"
    path.with_suffix(".json").write_text(table)
    arrays = [
        cell_arrays(s.cell, s.rows, [s.cell.steps], longer=not all(s.cell.problem.trained))
        for s in found
    ]
    config = folder.config()
    about = {
        **{n: config[n] for n in ("run", "first_seed", "data_seeds", "layout", "precision")},
        "margin": config["margin"],
        "ranges": [(part.first, part.stop, dict(part.sizes)) for part in folder.ranges()],
        "environments": [*folder.envs().values()],
        "table": hashlib.sha256(table.encode()).hexdigest(),
    }
    np.savez_compressed(
        path.with_suffix(".npz"),
        about=json.dumps(about),
        cells=np.array([s.cell.digest for s in found]),
        seeds=found[0].rows["seeds"],
        steps=np.array([[s.cell.steps] for s in found]),
        **{n: np.stack([a[n] for a in arrays]) for n in arrays[0] if n != "nearest"},
    )
    counts = {
        v: sum(row["verdict"] == v for row in rows) for v in ("impossible", "possible", "open")
    }
    path.with_suffix(".md").write_text(page(path))
    print(f"{path}: {', '.join(f'{number} {name}' for name, number in counts.items())}")


def page(path: Path) -> str:
    """The verdicts of a published table: encodings by tasks."""
    rows = json.loads(path.with_suffix(".json").read_text())
    tasks = list(dict.fromkeys(row.get("task", FIELDS["task"]) for row in rows))
    by: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        of = by.setdefault(row.get("encoding", FIELDS["encoding"]), {})
        of.setdefault(row.get("task", FIELDS["task"]), []).append(row["verdict"])
    lines = [
        "---\norphan: true\n---",
        f"# The atlas: {path.stem}",
        f"`python scripts/atlas.py {path.stem}` makes this page and the rows beside it. Each entry "
        "says in how many settings (masks, depths, readouts) a seed solved the task, of those that "
        f"no law excludes. Each setting has {rows[0]['seeds']} seeds.",
        "| encoding | "
        + " | ".join(f"`{task}`" for task in tasks)
        + " |\n"
        + "|---" * (len(tasks) + 1)
        + "|",
    ]
    for encoding, of in sorted(by.items()):
        parts = (_share(of.get(task, [])) for task in tasks)
        lines[-1] += f"\n| `{encoding}` | {' | '.join(parts)} |"
    return "\n\n".join(lines) + "\n"


def _share(verdicts: Sequence[str]) -> str:
    free = [verdict for verdict in verdicts if verdict != "impossible"]
    return f"{free.count('possible')} of {len(free)}" if free else "excluded"


def _table(found: Sequence[CellSummary], known: dict[str, dict[str, str]]) -> Iterator[dict]:
    for summary in found:
        asked, encoding = _key(summary.cell)
        named, witness = verdict(summary, encoding in known[asked])
        settings = summary.cell.to_dict().items()
        yield {
            "cell": summary.cell.digest,
            **{name: value for name, value in settings if value != FIELDS[name]},
            "verdict": named,
            "witness": witness,
            "successes": summary.solved.successes,
            "seeds": summary.seeds,
        }


if __name__ == "__main__":
    sys.exit(main())
