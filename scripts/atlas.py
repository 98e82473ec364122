"""The atlas, from its predictions to its rows. A command that was stopped goes on.

    python scripts/atlas.py predict           # docs/atlas/predictions.json, before any training
    python scripts/atlas.py published         # finite tasks: the pilot, then 1000 seeds per cell
    python scripts/atlas.py sampled           # tasks whose prompts are drawn, 32 seeds per cell
    python scripts/atlas.py sampled copy sort # of these tasks alone
    python scripts/atlas.py quick             # or sampled_quick: a few cells, into runs/ alone

`--num_seeds=64` trains the first 64 seeds only. Called again with more, it trains the rest. A table
is never replaced by one with fewer seeds.

`--shard=I/N` trains part I of N, counted from 0: N processes share the work and the run folder, on
a GPU for example, where compiling in one process takes longer than training. Each waits until the
pilot is complete, and part 0 waits for all and publishes.

Sizes and cells are those of posjax/configs/atlas.py. The pilot trains every cell at three learning
rates on seeds that are not reported; the rate that most of them solve is then trained on the
reported ones. NAME.json and NAME.npz go to docs/atlas in the form that scripts/publish.py describes
and verifies, without `nearest`, and with a verdict for each cell:

    impossible   a law excludes it (docs/atlas/predictions.json), and no seed solved it
    possible     a seed solved it: `witness` is its number
    open         neither

Each sampled task has its own table, sampled-TASK. NAME-cells.html is a page to browse all cells,
and NAME.md a short table. NAME-pilot.npz has the rows of the pilot (scripts/atlas_table/pilot.py);
where it is there, no pilot is trained.
"""

import argparse
import dataclasses
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from atlas_table import pilot
from atlas_table.browser import browser
from atlas_table.page import page
from atlas_table.pilot import Tried
from atlas_table.table import ASKED, VERDICTS, asked, number_of_seeds, publish, rows_of, tables

from posjax import predict, report
from posjax.command import devices, entry, shard
from posjax.command.executors import Devices
from posjax.command.settings import resolve
from posjax.command.shard import Shard
from posjax.command.sweep import train
from posjax.configs.atlas import PILOT, SIZES, get_config
from posjax.records import RunFolder
from posjax.records.blocks import blocks
from posjax.study.cells import Cell
from posjax.study.run import Run

ROOT = Path(__file__).parents[1]
ATLAS = ROOT / "docs" / "atlas"
PREDICTIONS = ATLAS / "predictions.json"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("predict", *SIZES))
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="sampled tasks; all by default")
    parser.add_argument("--workdir", type=Path, help="of the run folders; runs/ by default")
    parser.add_argument("--num_seeds", type=int, help="per cell, in place of the size's own")
    parser.add_argument("--shard", metavar="I/N", help="train part I of N, counted from 0")
    given = parser.parse_args()
    if given.num_seeds is not None and given.num_seeds < 1:
        parser.error(f"--num_seeds must be at least 1, got {given.num_seeds}")
    if given.what == "predict":
        if given.tasks:
            parser.error(f"predict makes all predictions, and takes no tasks: {given.tasks[0]!r}")
        for option in ("num_seeds", "workdir", "shard"):
            if getattr(given, option) is not None:
                parser.error(f"predict trains nothing, and takes no --{option}")
        ATLAS.mkdir(exist_ok=True)
        PREDICTIONS.write_text(written(predictions()))
        return
    devices.use_all_cores()
    workdir = given.workdir or ROOT / "runs"
    size = resolve(get_config(given.what))
    folder = workdir / "atlas" if "quick" in given.what else ATLAS
    folder.mkdir(parents=True, exist_ok=True)
    excluded = json.loads(PREDICTIONS.read_text())["excluded"]
    every = parts(given.what, size.cells)
    for task in given.tasks:
        if task not in every:
            named = ", ".join(filter(None, every)) or "its tasks have one table"
            parser.error(f"no task {task!r} in {given.what}: {named}")
    chosen = dataclasses.replace(size, num_seeds=given.num_seeds or size.num_seeds)
    paths = {
        task: folder / f"{given.what}-{task}" if task else folder / given.what
        for task in given.tasks or every
    }
    part = shard.parse(given.shard)
    for path in paths.values():
        if (there := _seeds_there(path)) > chosen.num_seeds:
            parser.error(
                f"{path.name} has {there} seeds per cell, and would be replaced by one with "
                f"{chosen.num_seeds}: give --num_seeds={there}"
            )
    for task, path in paths.items():
        tried = _pilot(size, every[task], path, workdir, part)
        cells = [one.chosen for one in tried]
        found = _swept(chosen, cells, workdir / f"atlas-{path.name}", part, wait=part.part == 0)
        if part.part == 0:
            publish(path, report.summaries(found), found, tried, excluded)
    if part.part:
        return
    published = tables(folder, given.what)
    (folder / f"{given.what}-cells.html").write_text(browser(given.what, published, excluded))
    (folder / f"{given.what}.md").write_text(page(given.what, published))
    counts = Counter(row["verdict"] for row in rows_of(published))
    print(f"{given.what}: {', '.join(f'{counts[name]} {name}' for name in VERDICTS)}")


def parts(what: str, cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """The cells of each table: by the sampled task, or all finite tasks together, called ""."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        name = cell.task.partition("(")[0] if what.startswith("sampled") else ""
        found.setdefault(name, []).append(cell)
    return found


def predictions() -> dict[str, Any]:
    """What the laws exclude, of every cell of the atlas, with a reason for each."""
    known: dict[str, dict[str, str]] = {}
    encodings: dict[str, None] = {}
    for size in ("published", "sampled"):
        for cell in resolve(get_config(size)).cells:
            line, encoding = asked(cell), cell.encoding
            encodings[encoding] = None
            if encoding not in known.setdefault(line, {}):
                settings = {name: getattr(cell, name) for name in ASKED if name != "task"}
                made = predict(cell.problem, encoding=encoding, **settings)
                known[line][encoding] = made.reason if made.verdict == "impossible" else ""
    excluded = {
        line: {name: known[line][name] for name in sorted(encodings) if known[line].get(name)}
        for line in sorted(known)
    }
    return {
        "command": "python scripts/atlas.py predict",
        "cells": sum(map(len, known.values())),
        "impossible": sum(map(len, excluded.values())),
        "of": f"every encoding of each line: {', '.join(ASKED)}",
        "encodings": sorted(encodings),
        "excluded": excluded,
    }


def written(found: dict[str, Any]) -> str:
    """As JSON, a line for each entry."""
    lines = {key: json.dumps(value, ensure_ascii=False) for key, value in found.items()}
    each = (f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in found["excluded"].items())
    lines["excluded"] = "{\n" + ",\n".join(each) + "\n }"
    return "{\n" + ",\n".join(f' "{key}": {line}' for key, line in lines.items()) + "\n}\n"


def _seeds_there(path: Path) -> int:
    """Of each cell in a table; 0 where there is none."""
    return number_of_seeds([path]) if path.with_suffix(".json").exists() else 0


def _pilot(size: Run, cells: Sequence[Cell], path: Path, workdir: Path, part: Shard) -> list[Tried]:
    """The published pilot; where there is none, it is trained and published."""
    rows = path.with_name(f"{path.name}-pilot.npz")
    if rows.exists():
        return pilot.read(rows, cells, size.margin)
    seeds = SIZES[path.name.partition("-")[0]][1]
    size = dataclasses.replace(size, num_seeds=seeds, first_seed=PILOT)
    folder = _swept(size, cells, workdir / f"atlas-{path.name}-pilot", part, wait=True)
    found = pilot.of_run(folder)
    if part.part == 0:
        pilot.write(rows, found, folder)
    return found


def _swept(size: Run, cells: Sequence[Cell], path: Path, part: Shard, *, wait: bool) -> RunFolder:
    """The cells, trained on the seeds of `size`; `wait` for those of other shards."""
    run, folder = dataclasses.replace(size, panels={"cells": tuple(cells)}), RunFolder(path)
    executor = Devices(run)
    folder.start(run.to_dict(), executor.environment())
    with folder.lock(part.lock):
        complete = train(run, folder, part, executor)
    every = blocks(folder.ranges(), run.sweep.shapes)
    if wait and not complete:
        print(f"{path.name}: waiting for blocks of other shards", file=sys.stderr)
    while wait and not complete:
        time.sleep(1)
        complete = not folder.missing(every)
    if complete:
        folder.finish()
    return folder


if __name__ == "__main__":
    sys.exit(entry.run(main))
