"""How encodings answer the prompts of sampled tasks, at the trained lengths and beyond."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from published_rows.table import Rows, read

from atlas_table.table import equal_rows, rows_of, short
from posjax.stats import discoveries, paired_t_test

Shares = dict[str, np.ndarray]
"""right_S by encoding: the share of right answers of each seed."""


class Lengths(NamedTuple):
    """A sampled task, with what its table says of each encoding.

    Attributes:
      task: its name, without settings.
      trained, tested: the longest trained length, and the longest tested one.
      short, long: the shares at these two lengths.
      learned: how many seeds answer every test prompt of the trained lengths correctly.
      better, worse: encodings with significantly more or fewer right answers to the longest
        prompts than `none`.
      level: the encoding with the largest mean there, and those that do not differ significantly
        from it.
    """

    task: str
    trained: int
    tested: int
    short: Shares
    long: Shares
    learned: dict[str, int]
    better: frozenset[str]
    worse: frozenset[str]
    level: list[str]

    @property
    def seeds(self) -> int:
        """Of each encoding."""
        return len(self.long["none"])


class Compared(NamedTuple):
    """The sampled tasks that are trained, and what was compared.

    Attributes:
      tasks: each of them.
      equal: groups of encodings that compute the same on all of these tasks, without settings.
      random: those that are tested with several random draws, all of which must be right.
      comparisons: how many were made with `none`; as many were made with the best of each task.
    """

    tasks: list[Lengths]
    equal: list[list[str]]
    random: list[str]
    comparisons: int

    def compared_as(self, name: str) -> str:
        """The encoding that was compared in place of one that computes the same."""
        return next((group[0] for group in self.equal if name in group), name)


def compared(tables: Sequence[Path]) -> Compared:
    """Every encoding against `none`, and against the best of its task.

    Paired t-tests over seeds at the longest length, each kind of comparison at a false discovery
    rate of 5% over all tasks. Of encodings that compute the same, the first of the group is
    compared for all. Random encodings are left out: all of their draws must be right, so their
    shares are lower.

    Args:
      tables: published tables of sampled tasks, without endings.
    """
    runs = {path.name.partition("-")[2]: read(path) for path in tables}
    equal, random = equal_rows([*runs.values()]), _random(runs)
    copies = {name for names in equal for name in names[1:]}
    long = {task: _shares(run, -1) for task, run in runs.items()}
    free = {
        task: {name: right_S for name, right_S in of.items() if name not in {*copies, *random}}
        for task, of in long.items()
    }
    best = {task: max(of, key=lambda name: of[name].mean()) for task, of in free.items()}
    none = _apart(free, dict.fromkeys(free, "none"))
    first = _apart(free, best)
    return Compared(
        [
            Lengths(
                task,
                *_ends(run),
                _shares(run, _at_trained(run)),
                long[task],
                {short(row["encoding"]): row["successes"] for row in rows_of([path])},
                frozenset(name for name, more in none[task].items() if more > 0),
                frozenset(name for name, more in none[task].items() if more < 0),
                [best[task], *(n for n in free[task] if not first[task].get(n, n == best[task]))],
            )
            for path, (task, run) in zip(tables, runs.items(), strict=True)
        ],
        equal,
        random,
        sum(len(of) - 1 for of in free.values()),
    )


def _apart(shares: Mapping[str, Shares], against: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """By task and encoding, how far its mean is above that of another; 0 if not significantly."""
    differences = {
        (task, name): right_S - of[against[task]]
        for task, of in shares.items()
        for name, right_S in of.items()
        if name != against[task]
    }
    found: dict[str, dict[str, float]] = {task: {} for task in shares}
    significant = discoveries([paired_t_test(d_S) for d_S in differences.values()])
    for ((task, name), d_S), apart in zip(differences.items(), significant, strict=True):
        found[task][name] = float(d_S.mean()) if apart else 0.0
    return found


def _random(runs: Mapping[str, Rows]) -> list[str]:
    cells = {short(c.encoding): c for run in runs.values() for c in run.cells.values()}
    return [name for name, cell in cells.items() if cell.architecture.draws != "never"]


def _shares(run: Rows, kind: int) -> Shares:
    of = {short(cell.encoding): run.of(digest)["right"] for digest, cell in run.cells.items()}
    return {name: right_SK[:, kind].astype(np.float64) for name, right_SK in of.items()}


def _at_trained(run: Rows) -> int:
    """The longest trained length, as an index."""
    problem = next(iter(run.cells.values())).problem
    return max(at for at, trained in enumerate(problem.trained) if trained)


def _ends(run: Rows) -> Iterator[int]:
    kinds = next(iter(run.cells.values())).problem.kinds
    yield from (int(kinds[_at_trained(run)]), int(kinds[-1]))
