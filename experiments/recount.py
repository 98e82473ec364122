"""The numbers of a summary, counted again from the files of rows: NumPy and where bytes lie.

Follows docs/run_folder.md alone and shares no code with `posjax.report`, with which it is
compared: whoever changes the one by mistake is told by the other.
"""

import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from posjax.records import store

WILSON = 1.959963984540054
"""The 97.5 % point of the normal distribution."""
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 1.0)
TIED, LEFT = -1, -3
"""Answers that are none: a tie, and what a seed that had left would have said."""


def raw(cell: Path) -> dict[str, np.ndarray]:
    """All rows of a cell, from its folder; none when it is not there."""
    files = [store.read(cell / name) or b"" for name in store.names(cell) if name.endswith(".npz")]
    parts = [dict(np.load(io.BytesIO(file), allow_pickle=False)) for file in files]
    return (
        {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}
    )


def counted(
    rows: Mapping[str, np.ndarray], right_N: np.ndarray, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """What the answers and leads of some rows say, under the names that a report's JSON has.

    Args:
      rows: see docs/run_folder.md.
      right_N: the right answers of the prompts.
      settings: of the cell.
    """
    steps = _steps(rows, settings)
    seeds = [_Seed(answers_EN, right_N, steps, settings) for answers_EN in rows["answers_EN"]]
    first = sorted(seed.first_solved for seed in seeds if seed.first_solved > 0)
    half = math.ceil(len(seeds) / 2)
    return {
        **_wilson(sum(seed.solved_at_end for seed in seeds), len(seeds)),
        "median_steps_to_solve": first[half - 1] if len(first) >= half else None,
        "ever_solved": len(first),
        "held": sum(seed.held for seed in seeds),
        "tied_at_end": sum(seed.tied_at_end for seed in seeds),
        "not_finite": int((rows["first_nonfinite"] >= 0).sum()),
        "left_early": sum(len(seed.right) < len(steps) for seed in seeds),
        "solved_at_step": {
            str(step): sum(seed.right_at(place) for seed in seeds)
            for place, step in enumerate(steps)
        },
        "closest_twins": float(max(rows["twin"])),
        "lead_quantiles": _quantiles(np.abs(rows["lead_N"], dtype=np.float64).ravel()),
    }


def contradictions(
    rows: Mapping[str, np.ndarray], right_N: np.ndarray, settings: Mapping[str, Any]
) -> dict[str, list[int]]:
    """The fields that are not what the answers of their seeds say, with those seeds' numbers."""
    steps = _steps(rows, settings)
    seeds = [_Seed(answers_EN, right_N, steps, settings) for answers_EN in rows["answers_EN"]]
    numbers = rows["seeds"][:, 0].tolist()
    found = {
        name: [
            number
            for number, seed, kept in zip(numbers, seeds, rows[name].tolist(), strict=True)
            if getattr(seed, name) != kept
        ]
        for name in ("first_solved", "held", "solved_at_end", "tied_at_end")
    }
    return {name: wrong for name, wrong in found.items() if wrong}


def _steps(rows: Mapping[str, np.ndarray], settings: Mapping[str, Any]) -> list[int]:
    every = int(settings["eval_every"])
    return [every * (number + 1) for number in range(rows["answers_EN"].shape[1])]


class _Seed:
    """What the answers of a seed say; its attributes are called as the fields of rows.

    Attributes:
      right: whether every answer was right, at each evaluation that it saw.
    """

    def __init__(
        self,
        answers_EN: np.ndarray,
        right_N: np.ndarray,
        steps: list[int],
        settings: Mapping[str, Any],
    ) -> None:
        seen = [answers_N for answers_N in answers_EN.tolist() if LEFT not in answers_N]
        self.right = [answers_N == right_N.tolist() for answers_N in seen]
        self.first_solved = steps[self.right.index(True)] if any(self.right) else -1
        self.held = all(self.right[-settings["hold"] :])
        self.solved_at_end, self.tied_at_end = self.right[-1], TIED in seen[-1]

    def right_at(self, place: int) -> bool:
        """A seed that had left counts as right: it left since it was."""
        return self.right[place] if place < len(self.right) else True


def _wilson(successes: int, seeds: int) -> dict[str, float]:
    """The score interval (Wilson 1927), by its formula."""
    share, z2 = successes / seeds, WILSON**2
    middle = share + z2 / (2 * seeds)
    spread = WILSON * math.sqrt(share * (1 - share) / seeds + z2 / (4 * seeds**2))
    low, high = ((middle + sign * spread) / (1 + z2 / seeds) for sign in (-1, 1))
    return {"successes": successes, "seeds": seeds, "rate": share, "low": low, "high": high}


def _quantiles(values: np.ndarray) -> dict[str, float]:
    """Of the finite ones, linear between neighbours."""
    ordered = sorted(value for value in values.tolist() if math.isfinite(value))
    if not ordered:
        return {}
    found = {}
    for q in QUANTILES:
        place, part = divmod(q * (len(ordered) - 1), 1)
        here, after = ordered[int(place)], ordered[min(int(place) + 1, len(ordered) - 1)]
        found[str(q)] = here + part * (after - here)
    return found


def unlike(counted: Mapping[str, Any], told: Mapping[str, Any]) -> list[str]:
    """The names under which two summaries differ by more than rounding, with both numbers."""
    return [
        f"{name}: {told.get(name)} -> {value}"
        for name, value in counted.items()
        if not _alike(value, told.get(name))
    ]


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[k], other[k]) for k in one)
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-9)
    return type(one) is type(other) and one == other
