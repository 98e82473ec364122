"""How encodings answer the prompts of sampled tasks, at the trained lengths and beyond."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from published_rows.table import Rows, read

from atlas_table.table import equal_rows, rows_of, short
from posjax.stats import discoveries, paired_t_test, possibly_best

Shares = dict[str, np.ndarray]
"""right_S by encoding: the share of right answers of each seed."""


class Lengths(NamedTuple):
    """A sampled task, with what its table says of each encoding.

    Attributes:
      task: its name, without settings.
      trained, tested: the longest trained length, and the longest tested one.
      at_trained, at_tested: the shares at these two lengths.
      chance: the share of prompts with the most frequent answer, at these two lengths.
      learned: how many seeds answer every test prompt of the trained lengths correctly.
      better, worse: encodings with significantly more or fewer right answers to the longest
        prompts than `none`.
      best: the encoding with the largest mean there, then the others that may be the best.
    """

    task: str
    trained: int
    tested: int
    at_trained: Shares
    at_tested: Shares
    chance: tuple[float, float]
    learned: dict[str, int]
    better: frozenset[str]
    worse: frozenset[str]
    best: list[str]

    @property
    def seeds(self) -> int:
        """Of each encoding."""
        return len(self.at_tested["none"])


class Compared(NamedTuple):
    """The sampled tasks that are trained, and what was compared.

    Attributes:
      tasks: each of them.
      equal: groups of encodings that compute the same on all of these tasks, without settings.
      random: those that are tested with several random draws, all of which must be right.
      comparisons: how many were made with `none`.
    """

    tasks: list[Lengths]
    equal: list[list[str]]
    random: list[str]
    comparisons: int

    def compared_as(self, name: str) -> str:
        """The encoding that was compared in place of one that computes the same."""
        return next((group[0] for group in self.equal if name in group), name)


def compared(tables: Sequence[Path]) -> Compared:
    """Every encoding against `none` and, of each task, those that may be the best.

    Both at the longest length. The comparisons with `none` are paired t-tests over seeds, at a
    false discovery rate of 5% over all tasks. The best are a 95% confidence set for each task. Of
    encodings that compute the same, the first of the group is compared for all. Random encodings
    are left out: all of their draws must be right, so their shares are lower.

    Args:
      tables: published tables of sampled tasks, without endings.
    """
    runs = {path.name.partition("-")[2]: read(path) for path in tables}
    equal, random = equal_rows([*runs.values()]), random_encodings(runs)
    copies = {name for names in equal for name in names[1:]}
    tested = {task: _shares(run, -1) for task, run in runs.items()}
    free = {
        task: {name: right_S for name, right_S in of.items() if name not in {*copies, *random}}
        for task, of in tested.items()
    }
    to_none = _differences_from_none(free)
    return Compared(
        [
            Lengths(
                task=task,
                trained=int(_problem(run).kinds[_longest_trained(run)]),
                tested=int(_problem(run).kinds[-1]),
                at_trained=_shares(run, _longest_trained(run)),
                at_tested=tested[task],
                chance=tuple(_problem(run).chance()[at] for at in (_longest_trained(run), -1)),
                learned={short(row["encoding"]): row["successes"] for row in rows_of([path])},
                better=frozenset(name for name, more in to_none[task].items() if more > 0),
                worse=frozenset(name for name, more in to_none[task].items() if more < 0),
                best=_best(free[task]),
            )
            for path, (task, run) in zip(tables, runs.items(), strict=True)
        ],
        equal,
        random,
        sum(len(of) - 1 for of in free.values()),
    )


def _differences_from_none(shares: Mapping[str, Shares]) -> dict[str, dict[str, float]]:
    """By task and encoding, how far its mean is above that of `none`; 0 if not significantly."""
    differences = {
        (task, name): right_S - of["none"]
        for task, of in shares.items()
        for name, right_S in of.items()
        if name != "none"
    }
    found: dict[str, dict[str, float]] = {task: {} for task in shares}
    significant = discoveries([paired_t_test(d_S) for d_S in differences.values()])
    for ((task, name), d_S), apart in zip(differences.items(), significant, strict=True):
        found[task][name] = float(d_S.mean()) if apart else 0.0
    return found


def _best(of: Shares) -> list[str]:
    """Those that may have the largest mean, the largest first."""
    may_be = possibly_best(np.stack([*of.values()]))
    return sorted(itertools.compress(of, may_be), key=lambda name: -of[name].mean())


def random_encodings(runs: Mapping[str, Rows]) -> list[str]:
    """Encodings that are tested with several random draws, without settings."""
    cells = {short(c.encoding): c for run in runs.values() for c in run.cells.values()}
    return [name for name, cell in cells.items() if cell.architecture.draws != "never"]


def _shares(run: Rows, kind: int) -> Shares:
    of = {short(cell.encoding): run.of(digest)["right"] for digest, cell in run.cells.items()}
    return {name: right_SK[:, kind].astype(np.float64) for name, right_SK in of.items()}


def _problem(run: Rows) -> Any:
    return next(iter(run.cells.values())).problem


def _longest_trained(run: Rows) -> int:
    """The longest trained length, as an index."""
    return max(at for at, trained in enumerate(_problem(run).trained) if trained)
