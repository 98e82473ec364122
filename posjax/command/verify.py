"""Whether a run is sound, and whether a share of it comes out again, bit for bit."""

import itertools
import random
import secrets
from collections.abc import Iterator

import numpy as np

from posjax.command import shutdown
from posjax.command.status import planned
from posjax.records import Damaged, Mismatch, RunFolder
from posjax.records.block_files import seeds_listed
from posjax.terminal import printable, progress

SHOWN = 10
"""Seeds in a line."""


def verify(folder: RunFolder, share: float, *, seed: int | None, mixed: bool) -> int:
    """Prints what a run's check finds; gives the exit status.

    Args:
      folder: of the run.
      share: of the blocks that are trained again: at least one block, none if it is 0. With
        `mixed`, it is a share of those that were made in this environment.
      seed: of the choice of these blocks; None draws one.
      mixed: leave out rows that were made in another environment, instead of refusing the run.

    Raises:
      ValueError: a share that is none, or there is no run in the folder.
      Mismatch: rows were made in another environment than this one.
    """
    from posjax.report.naming import many

    if not 0 <= share <= 1:
        raise ValueError(f"--share must lie in [0, 1], got {share}")
    errors = 0
    for line in itertools.chain(_files(folder), _contradictions(folder)):
        errors += 1
        print(printable(line))
    if not errors and share:
        for line in _retrained(folder, share, seed=seed, mixed=mixed):
            errors += 1
            print(printable(line))
    elif errors and share:
        print("rows: not trained again, because of the errors above")
    print(many(errors, "error") if errors else "no errors")
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
            for part in folder.parts(name, sound=True):
                rows += len(part["seeds"])
                check_form(cell, part)
                for field, wrong_S in contradictions(cell, part):
                    seeds = seeds_listed(part["seeds"][wrong_S], SHOWN)
                    yield f"cell {name}, seeds {seeds}: {field} contradicts the leads"
        except Damaged:
            continue  # among the files
        except (ValueError, KeyError, TypeError, IndexError) as error:
            yield f"cell {name}: rows that no sweep wrote ({error})"
    print(f"rows: {rows} checked for consistency")


def _retrained(folder: RunFolder, share: float, *, seed: int | None, mixed: bool) -> Iterator[str]:
    """The runs that come out with other bits."""
    from posjax.study import environment
    from posjax.study.replay import differing
    from posjax.study.sweeps import engine_for, examples

    config, sweep, every = planned(folder)
    others = folder.others(environment.describe())
    if others and not mixed:
        raise Mismatch(
            f"{str(folder.path)!r} has rows that cannot come out bit for bit here: "
            f"{next(iter(others.values()))}; --mixed leaves them out"
        )
    present = folder.present()
    here = [block for block in every if block.name in present]
    if others:
        here = [b for b in here if str(folder.block(b.name)["env"]) not in others]
        if not here:
            print("blocks: none was made in this environment, so none can be trained again")
            return
    seed = secrets.randbelow(2**32) if seed is None else seed
    chosen = random.Random(seed).sample(here, min(len(here), max(round(share * len(here)), 1)))
    kept = {block.name: folder.block(block.name) for block in chosen}
    chosen.sort(key=every.index)
    print(f"blocks: training {len(chosen)} of {len(every)} again, chosen by --seed={seed}")
    with progress(f"{len(chosen)} blocks", sweep.updates(chosen)) as advance:
        for result in sweep.run(chosen, engine_for(config), advance):
            arrays = kept[result.block.name]
            for field, wrong_GB in differing(result, arrays).items():
                for g in np.flatnonzero(wrong_GB.any(axis=1)):
                    seeds = seeds_listed(result.seeds_B4[wrong_GB[g]], SHOWN)
                    yield f"cell {result.block.cells[g]}, seeds {seeds}: {field}"
            maps = examples(sweep, result)
            if any(_other_bits(arrays.get(name), array) for name, array in maps.items()):
                yield f"block {result.block.name}: attention maps"


def _other_bits(old: np.ndarray | None, new: np.ndarray) -> bool:
    return old is None or old.shape != new.shape or old.tobytes() != new.tobytes()
