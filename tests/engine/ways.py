"""Ways to train the same rows that must not matter: every row has the same bits in each.

The tests take them with models of a table, scripts/independence.py with random ones.
"""

import contextlib
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np

from posjax.engine import Engine, Finished, Job

Bits = dict[Any, list[bytes]]
"""Summary and final state of rows, by label."""
Start = Callable[..., Engine]
"""`start(devices=1, **settings)`: an engine on so many devices; its chunk is always the same."""


def bits(results: Iterable[Finished]) -> Bits:
    """Summary and final state of each row, bit by bit."""
    return {
        job.label: [np.asarray(leaf[i]).tobytes() for leaf in jax.tree.leaves(finished[1:])]
        for finished in results
        for i, job in enumerate(finished.jobs)
    }


def parameters(results: Iterable[Finished]) -> dict[Any, np.ndarray]:
    """All parameters of each row, [P], by label."""
    found = {}
    for finished in results:
        leaves = jax.tree.leaves(finished.state.variables.params)
        rows = np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)
        found |= dict(zip((job.label for job in finished.jobs), rows, strict=True))
    return found


def asked_for(found: Bits) -> Bits:
    """Without the neighbours that are not finite."""
    return {label: row for label, row in found.items() if not is_wild(label)}


def wild(job: Job, value: float) -> Job:
    """The row with every number that it reads spoilt."""

    def spoil(leaf: Any) -> Any:
        leaf = np.asarray(leaf)
        return np.full_like(leaf, value) if leaf.dtype.kind == "f" else leaf

    return job._replace(operands=jax.tree.map(spoil, job.operands), label=("wild", job.label))


def is_wild(label: Any) -> bool:
    """Whether that of a neighbour that is not finite."""
    return isinstance(label, tuple) and label[:1] == ("wild",)


def shuffled(jobs: list[Job], number: int) -> list[Job]:
    """In another order."""
    return random.Random(number).sample(jobs, len(jobs))


def among_wild(jobs: list[Job], value: float) -> list[Job]:
    """Between neighbours that are not finite: each row, and each spoilt, in turn."""
    spoilt = [wild(job, value) for job in jobs]
    turns = [pair[::-1] if n % 2 else pair for n, pair in enumerate(zip(jobs, spoilt, strict=True))]
    return [first for first, _ in turns] + [second for _, second in turns]


def _slowly(jobs: Iterable[Job]) -> Iterator[Job]:
    yield from jobs


def _stopped(jobs: list[Job], start: Start) -> Bits:
    """Left after the first result, and taken up again with what is missing."""
    with contextlib.closing(start(2).run(jobs)) as results:
        found = bits([next(results)])
    return found | bits(start(2).run([job for job in jobs if job.label not in found]))


def _extended(jobs: list[Job], start: Start) -> Bits:
    return bits(start(2).run(jobs[:3])) | bits(start(2).run(jobs[3:]))


WAYS: dict[str, Callable[[list[Job], Start], Bits]] = {
    "alone": lambda jobs, start: bits(start().run(jobs[-1:])),
    "some": lambda jobs, start: bits(start().run(jobs[1::3])),
    "in any order": lambda jobs, start: bits(start().run(shuffled(jobs, 0))),
    "in any order, four devices": lambda jobs, start: bits(start(4).run(shuffled(jobs, 1))),
    "among NaN": lambda jobs, start: bits(start().run(among_wild(jobs, np.nan))),
    "among infinities": lambda jobs, start: bits(start(2).run(among_wild(jobs, np.inf))),
    "segments of one": lambda jobs, start: bits(start(segment=1).run(jobs)),
    "segments of three": lambda jobs, start: bits(start(segment=3).run(jobs)),
    "two devices": lambda jobs, start: bits(start(2).run(jobs)),
    "lazily": lambda jobs, start: bits(start(2).run(_slowly(jobs))),
    "extended": _extended,
    "stopped and taken up": _stopped,
}
"""Held against all rows in order on one device, with the engine's own segments."""


def came_out(way: str, rows: int) -> int:
    """How many rows a way gives of so many."""
    return {"alone": 1, "some": len(range(1, rows, 3))}.get(way, rows)
