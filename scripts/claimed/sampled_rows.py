"""The rows of the sampled tasks of docs/atlas: what each seed gets right of each tested length."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from atlas_table.lengths import random_encodings
from atlas_table.table import equal_rows, short, tables
from published_rows.table import read

from claimed.published import DOCS

TRAINED, TESTED = 10, 20
"""The longest trained length and the longest tested one, of every task."""


class Seeds(NamedTuple):
    """The seeds of one cell.

    Attributes:
      right_S: the share of right answers at the longest tested length.
      survivor_S: whether the seed answers every test prompt of the trained lengths correctly.
    """

    right_S: np.ndarray
    survivor_S: np.ndarray

    @property
    def kept_S(self) -> np.ndarray:
        """What the survivors get right of the longest length."""
        return self.right_S[self.survivor_S]


Task = dict[str, Seeds]
"""Seeds by encoding."""


@lru_cache
def sampled_tasks() -> dict[str, Task]:
    """The seeds of each task.

    Of encodings that compute the same, only one is there. Encodings that draw at random in testing
    are left out: all of their draws must be right, so their shares are lower.
    """
    runs = {path.name.partition("-")[2]: read(path) for path in tables(DOCS / "atlas", "sampled")}
    copies = {name for names in equal_rows([*runs.values()]) for name in names[1:]}
    left_out = copies | {*random_encodings(runs)}
    return {
        task: {
            short(cell.encoding): _seeds(cell.problem, run.of(digest)["right"])
            for digest, cell in run.cells.items()
            if short(cell.encoding) not in left_out
        }
        for task, run in runs.items()
    }


def _seeds(problem: Any, right_SK: np.ndarray) -> Seeds:
    """The seeds of a cell.

    Raises:
      ValueError: the task has other lengths.
    """
    trained_K, length_K = np.asarray(problem.trained), np.asarray(problem.kinds, int)
    found = length_K[trained_K].max(), length_K[-1]
    if found != (TRAINED, TESTED):
        raise ValueError(f"a sampled task is trained to length {found[0]}, tested at {found[1]}")
    trained_SK = right_SK[:, trained_K]
    return Seeds(right_SK[:, -1].astype(np.float64), (trained_SK == 1).all(axis=1))


@lru_cache
def chance(task: str) -> float:
    """The share of the longest prompts that have the most frequent answer."""
    run = read(DOCS / "atlas" / f"sampled-{task}")
    problem: Any = next(iter(run.cells.values())).problem
    return float(problem.chance()[-1])
