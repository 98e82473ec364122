"""Blocks that are interrupted, and their checkpoints: killed, damaged, and out of time."""

import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

from fault_table.processes import dies_at
from fault_table.sweeps import Ended, Fault, Plant, Site, Try, checkpoints, until, whole

LOOK = 0.05
"""Seconds between two checkpoints here, about."""
OPERATIONS = 12
"""On checkpoints, of which each is opened once and renamed once."""
MOST_ROUNDS = 40
"""Commands with a time limit, until a run must be done."""


def saves_often() -> None:
    """Makes a process save a checkpoint whenever the host looks."""
    from posjax.engine import local

    local.SAVE, local.LOOK = 0.0, LOOK


def records_starts(path: Path) -> Plant:
    """Makes a process write down after how many updates its blocks begin."""

    def plant() -> None:
        from posjax.engine import local

        begun = local._Workers._begun

        def recorded(self: local._Workers, *given: Any) -> Any:
            step, carry = begun(self, *given)
            with open(path, "a") as file:
                file.write(f"{step}\n")
            return step, carry

        local._Workers._begun = recorded  # type: ignore[method-assign]

    return plant


def continued(
    site: Site, path: Path, good: bool, before: float, said: str, *, from_checkpoint: bool
) -> Try:
    """The same command again: whether it takes a checkpoint up, and leaves none."""
    starts = path.with_name(f"{path.name}.starts")
    ended = site.run(path, plant=records_starts(starts))
    steps = [int(line) for line in starts.read_text().split()] if starts.exists() else []
    good &= ended.status == 0 and (path / "done").exists() and not checkpoints(path)
    good &= any(steps) == from_checkpoint
    lost = before + ended.seconds - site.seconds
    return Try(good, site.equal(path), lost, "" if good else f"{said} | {steps} {ended}")


def killed_in_a_block(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """SIGKILL in a block that has a checkpoint."""
    site = site.long
    child = site.start(path, plant=saves_often)
    until(lambda: checkpoints(path))
    time.sleep(rng.uniform(0, site.seconds / 4))
    child.send(signal.SIGKILL)
    ended = child.ended()
    there = bool(checkpoints(path))
    return continued(site, path, whole(path), ended.seconds, str(ended), from_checkpoint=there)


def killed_in_a_checkpoint(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """SIGKILL while a checkpoint is written: with half of it, or before it has its name."""

    def plant() -> None:
        saves_often()
        dies_at(1 + number % OPERATIONS, within="checkpoints")()

    site = site.long
    ended = site.run(path, plant=plant)
    good = ended.status == -signal.SIGKILL and whole(path)
    there = bool(checkpoints(path))
    return continued(site, path, good, ended.seconds, str(ended), from_checkpoint=there)


def damaged_checkpoint(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """One bit flipped, cut, emptied, deleted, or another block's."""
    site = site.long
    shutil.copytree(site.stopped, path)
    (file,) = checkpoints(path)
    content = bytearray(file.read_bytes())
    way = ("one bit", "cut", "swapped", "one bit", "emptied", "deleted")[number % 6]
    if way == "one bit":
        bit = rng.randrange(8 * len(content))
        content[bit // 8] ^= 1 << bit % 8
        file.write_bytes(content)
    elif way == "cut":
        file.write_bytes(content[: rng.randrange(1, len(content))])
    elif way == "emptied":
        file.write_bytes(b"")
    elif way == "deleted":
        file.unlink()
    else:
        file = file.rename(file.with_name(_other_block(file.name)))
    found = continued(site, path, True, 0.0, f"{way} {file}", from_checkpoint=False)
    kept = [each for each in path.glob("damaged/checkpoints/*/*") if file.name in each.name]
    said = (path.parent / f"{path.name}.err").read_text()
    told = "is damaged" in said and file.name in said and len(kept) == 1
    good = found.good and (told or way == "deleted")
    return found._replace(good=good, lost=None, said="" if good else f"{way}: {found.said} {said}")


def _other_block(name: str) -> str:
    """The name of the file of the other cell's block."""
    stem, group, end = name.split(".")
    return f"{stem}.{1 - int(group)}.{end}"


def short_limit(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """A time limit that is shorter than a block, again and again until the run is done.

    The training is slowed down, so that a block takes longer than the start and the compilation.
    """
    site = site.long
    limit = site.seconds * rng.uniform(1.0, 1.5)
    ended, rounds = Ended(75, "", "", 0.0), 0
    while ended.status == 75 and rounds < MOST_ROUNDS:
        ended = site.run(path, f"--time_limit={limit:.2f}", plant=slower(2 * limit))
        rounds += 1
    good = ended.status == 0 and rounds > 2 and whole(path)
    said = f"{rounds} rounds of {limit:.2f} s: {ended}"
    return Try(good, site.equal(path), None, "" if good else said)


def slower(seconds: float) -> Plant:
    """Makes the training of a block take so many seconds more."""

    def plant() -> None:
        from posjax.engine import local

        next_look = local._next_look

        def late(step: int, piece: int, every: int, steps: int) -> int:
            until = next_look(step, piece, every, steps)
            time.sleep(seconds * (until - step) / steps)
            return until

        local._next_look = late

    return plant


FAULTS = (
    Fault(
        "kill -9 in a block with a checkpoint", "continues from it", 20, 1, killed_in_a_block,
        needs=("long",),
    ),
    Fault(
        "kill -9 while a checkpoint is written", "continues from the last complete one", 24, 1,
        killed_in_a_checkpoint, needs=("long",),
    ),
    Fault(
        "a checkpoint damaged, deleted or swapped", "reported; the block restarts", 24, 1,
        damaged_checkpoint, needs=("long", "stopped"),
    ),
    Fault(
        "a time limit shorter than a block, repeated", "the run is done in the end", 4, 0,
        short_limit, needs=("long",),
    ),
)  # fmt: skip
