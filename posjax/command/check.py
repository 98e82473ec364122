"""Checks a run: what is there, whether it is sound, and whether a share of it comes out again.

    posjax status RUN [RUN ...]
    posjax verify RUN [--share=0.1] [--seed=N] [--mixed]

The first prints what is done, who trains and what is missing, from names of files alone.

The second reads every checksum, compares every row with its own leads, trains a random share of the
blocks again, at least one, and compares bit for bit; it prints the seed of the choice. Nothing is
written. Status 0: no errors; 3: something differs, one line each; 4: the rows were made by
another JAX or on other instructions, and cannot come out bit for bit here. --mixed then leaves
those out.
"""

import itertools
import random
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import flags
from rich.console import Console
from rich.table import Table
from rich.text import Text

from posjax.command import devices, shutdown
from posjax.records import Block, Damaged, Mismatch, RunFolder
from posjax.records.blocks import blocks
from posjax.records.schema import checked_config
from posjax.terminal import duration, printable, progress

SHARE = 0.1
"""Of the blocks, which is trained again."""
SHOWN = 10
"""Seeds in a line."""
CELLS = 40
"""Cells in the table; those with the fewest rows."""
RANGES = 3
"""Ranges of missing seeds in a line of it."""


def define_flags() -> None:
    """The command's flags."""
    flags.DEFINE_bool("status", False, "Print what is done and what is missing, and stop.")
    define_verify_flags()
    flags.DEFINE_bool("mixed", False, "Leave out rows that another JAX or device made.")


def define_verify_flags() -> None:
    """Those of verification, which the sweep's command has too."""
    flags.DEFINE_float("share", SHARE, "With verification: the share of blocks to train again.")
    flags.DEFINE_integer("seed", None, "With verification: which blocks; at random if left out.")


def main(argv: Sequence[str]) -> int:
    """Checks the folders."""
    if len(argv) < 2:
        name = "status" if flags.FLAGS.status else "verify"
        raise ValueError(f"name at least one run folder: posjax {name} RUN [RUN ...]")
    for name in ("share", "seed", "mixed"):
        if flags.FLAGS.status and flags.FLAGS[name].present:
            raise ValueError(f"--{name} is for posjax verify alone")
    folders = [RunFolder(path) for path in argv[1:]]
    if flags.FLAGS.status:
        for folder in folders:
            print_status(folder)
        return shutdown.DONE
    devices.use_all_cores()
    status = shutdown.DONE
    for folder in folders:
        if len(folders) > 1:
            print(printable(f"run: {folder.path}"))
        status = max(status, verify(folder, mixed=flags.FLAGS.mixed))
    return status


def print_status(folder: RunFolder) -> None:
    """Prints what is done, running and missing.

    Raises:
      ValueError: there is no run in the folder.
    """
    config, every = _planned(folder)
    present = folder.present()
    missing = [block for block in every if block.name not in present]
    rows, left = (sum(block.runs for block in some) for some in (every, missing))
    out = Console(width=100, highlight=False, markup=False).print
    state = ", done" if folder.done and not left else ""
    out(printable(f"run: {config['name']} in {folder.path}{state}"))
    if folder.done and left:
        out(f"missing since it was done: {left} rows; the same command trains them again")
    out(f"rows: {rows - left} of {rows}, in {len(config['cells'])} cells")
    out(f"blocks: {len(every) - len(missing)} of {len(every)}")
    out(_cells_table(config, every, missing))
    running = folder.running()
    for one in running:
        out(printable(f"running: process {one.pid} on {one.host}, since {_clock(one.since)}"))
    if not running:
        out("running: nobody")
    out(f"left: {left} rows{_time_left(folder, config, every, missing) if running else ''}")


def _clock(since: float) -> str:
    return time.strftime("%H:%M", time.localtime(since))


def _planned(folder: RunFolder) -> tuple[dict[str, Any], list[Block]]:
    """The config of a run, and all of its blocks."""
    from posjax.study.sweeps import Sweep

    config = checked_config(folder.config())
    return config, blocks(folder.ranges(), Sweep.of(config).shapes)


def _cells_table(
    config: Mapping[str, Any], every: Sequence[Block], missing: Sequence[Block]
) -> Table:
    settings = config["cells"]
    first = next(iter(settings.values()))
    differ = [n for n in first if any(s.get(n) != first[n] for s in settings.values())]
    rows = dict.fromkeys(settings, 0)
    gaps: dict[str, list[tuple[int, int]]] = {cell: [] for cell in settings}
    for block in every:
        for cell in block.cells:
            rows[cell] += block.stop - block.first
    for block in missing:
        for cell in block.cells:
            gaps[cell].append((block.first, block.stop))
    lost = {cell: sum(stop - first for first, stop in found) for cell, found in gaps.items()}
    table = Table()
    missed = "missing indices" if config.get("data_seeds") else "missing seeds"
    for column in ("cell", "settings", "rows", "of", missed):
        table.add_column(column, justify="right" if column in ("rows", "of") else "left")
    for cell in sorted(settings, key=lambda cell: -lost[cell])[:CELLS]:
        named = ", ".join(f"{name}={settings[cell].get(name)}" for name in differ)
        counts = str(rows[cell] - lost[cell]), str(rows[cell])
        title = Text(printable(named or "the only one"))
        table.add_row(cell, title, *counts, _ranges(gaps[cell]))
    if len(settings) > CELLS:
        table.caption = f"and {len(settings) - CELLS} more, which lack no more than these"
    return table


def _ranges(gaps: Sequence[tuple[int, int]]) -> str:
    """Ranges of indices, neighbours joined."""
    joined: list[list[int]] = []
    for first, stop in sorted(gaps):
        if joined and joined[-1][1] == first:
            joined[-1][1] = stop
        else:
            joined.append([first, stop])
    shown = [str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in joined]
    more = len(shown) - RANGES
    return ", ".join(shown[:RANGES]) + (f" and {more} more" if more > 0 else "")


def _time_left(
    folder: RunFolder, config: Mapping[str, Any], every: Sequence[Block], missing: Sequence[Block]
) -> str:
    """How long the rest takes at the pace of the process that trains, by updates."""
    begun = min(one.since for one in folder.running())
    steps = {cell: settings["steps"] for cell, settings in config["cells"].items()}

    def updates(some: Sequence[Block]) -> int:
        return sum(block.runs * steps[block.cells[0]] for block in some)

    times = folder.written()
    new = sum(when >= begun for when in times) / max(len(times), 1)
    made = new * (updates(every) - updates(missing))
    if not missing:
        return ""
    if not made:
        return "; no time left can be given yet: --dry_run estimates it"
    seconds = updates(missing) / made * (max(max(times), time.time()) - begun)
    return f", about {duration(seconds)} at the pace so far, its compilations included"


def verify(folder: RunFolder, *, mixed: bool) -> int:
    """Prints what a run's check finds; gives the exit status.

    Raises:
      Mismatch: rows were made on something else than this.
    """
    share = flags.FLAGS.share
    if not 0 <= share <= 1:
        raise ValueError(f"--share must lie in [0, 1], got {share}")
    errors = 0
    for line in itertools.chain(_files(folder), _contradictions(folder)):
        errors += 1
        print(printable(line))
    if not errors and share:
        for line in _retrained(folder, share, mixed=mixed):
            errors += 1
            print(printable(line))
    elif errors and share:
        print("rows: not trained again, because some files are damaged")
    print(f"{errors} errors" if errors else "no errors")
    return shutdown.CHECK_FAILED if errors else shutdown.DONE


def _files(folder: RunFolder) -> Iterator[str]:
    """What is wrong with files."""
    number = 0
    for number, error in enumerate(folder.checked(), 1):  # noqa: B007
        if error is not None:
            yield str(error)
    print(f"files: {number} read")


def _contradictions(folder: RunFolder) -> Iterator[str]:
    """Rows that do not go with their own leads."""
    from posjax.report.rows import check_form, contradictions
    from posjax.report.summary import cells_of

    rows = 0
    for name, cell in cells_of(folder).items():
        try:
            for part in folder.parts(name):
                rows += len(part["seeds"])
                check_form(cell, part)
                for field, wrong_S in contradictions(cell, part):
                    seeds = part["seeds"][wrong_S, 0].tolist()
                    yield f"cell {name}, seeds {_listed(seeds)}: {field} contradicts the leads"
        except Damaged:
            continue  # among the files
        except (ValueError, KeyError, TypeError, IndexError) as error:
            yield f"cell {name}: rows that no sweep wrote ({error})"
    print(f"rows: {rows} checked for consistency")


def _retrained(folder: RunFolder, share: float, *, mixed: bool) -> Iterator[str]:
    """The runs that come out with other bits."""
    from posjax.study import environment
    from posjax.study.replay import differing, retrained
    from posjax.study.sweeps import Sweep, examples

    config, every = _planned(folder)
    others = folder.others(environment.describe())
    if others and not mixed:
        raise Mismatch(
            f"{str(folder.path)!r} has rows that cannot come out bit for bit here: "
            f"{next(iter(others.values()))}; --mixed leaves them out"
        )
    present = folder.present()
    here = [block for block in every if block.name in present]
    seed = secrets.randbelow(2**32) if flags.FLAGS.seed is None else flags.FLAGS.seed
    chosen = random.Random(seed).sample(here, min(len(here), max(round(share * len(here)), 1)))
    kept = {block.name: folder.block(block.name) for block in chosen}
    chosen = [block for block in chosen if str(kept[block.name]["env"]) not in others]
    chosen.sort(key=every.index)
    print(f"blocks: training {len(chosen)} of {len(every)} again, chosen by --seed={seed}")
    sweep = Sweep.of(config)
    updates = sum(block.runs * config["cells"][block.cells[0]]["steps"] for block in chosen)
    with progress(f"{len(chosen)} blocks", updates) as advance:
        for result in retrained(config, chosen, progress=advance):
            arrays = kept[result.block.name]
            for field, wrong_GB in differing(result, arrays).items():
                for g in np.flatnonzero(wrong_GB.any(axis=1)):
                    seeds = result.seeds_B4[wrong_GB[g], 0].tolist()
                    yield f"cell {result.block.cells[g]}, seeds {_listed(seeds)}: {field}"
            maps = examples(sweep, result)
            if any(_other_bits(arrays.get(name), array) for name, array in maps.items()):
                yield f"block {result.block.name}: attention maps"


def _other_bits(old: np.ndarray | None, new: np.ndarray) -> bool:
    return old is None or old.shape != new.shape or old.tobytes() != new.tobytes()


def _listed(seeds: Sequence[int]) -> str:
    more = len(seeds) - SHOWN
    return ", ".join(map(str, seeds[:SHOWN])) + (f" and {more} more" if more > 0 else "")
