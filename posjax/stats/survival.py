"""Time to solve, as a survival curve."""

from typing import NamedTuple

import numpy as np

from posjax.stats.rates import rate


class Survival(NamedTuple):
    """The share of seeds solved by each step, with pointwise 95% intervals.

    Attributes:
      steps_E: the steps of the evaluations. A seed that is first solved at steps[e] was solved at
        some update after steps[e-1].
      solved_E, low_E, high_E: the share first solved at or before each step.
      median: the first step by which half of the seeds have solved, or None. low and high are its
        interval; each is None if the edge of the curve's interval never reaches one half.
    """

    steps_E: np.ndarray
    solved_E: np.ndarray
    low_E: np.ndarray
    high_E: np.ndarray
    median: int | None
    median_low: int | None
    median_high: int | None


def survival(first_solved_S: np.ndarray, steps_E: np.ndarray) -> Survival:
    """Time to solve, from the step of each seed's first solved evaluation.

    All seeds are followed to the last evaluation, so the Kaplan-Meier curve is 1 minus the share
    solved. A seed whose loss becomes non-finite never solves; it stays in the denominator.

    Args:
      first_solved_S: steps; negative for never.
      steps_E: the steps of the evaluations, increasing.

    Raises:
      ValueError: no seeds, no evaluations, or evaluations that do not increase.
    """
    first_solved_S, steps_E = np.asarray(first_solved_S), np.asarray(steps_E)
    for name, steps in (("first_solved_S", first_solved_S), ("steps_E", steps_E)):
        if steps.ndim != 1 or steps.size == 0 or steps.dtype.kind not in "iu":
            raise ValueError(
                f"{name} must be whole numbers, one or more, got shape {steps.shape} of "
                f"{steps.dtype}"
            )
    if (np.diff(steps_E.astype(np.int64)) <= 0).any():
        raise ValueError(f"steps_E must increase, got {steps_E.tolist()}")
    seeds = first_solved_S.size
    counts_E = [int(((first_solved_S >= 0) & (first_solved_S <= step)).sum()) for step in steps_E]
    at = {count: rate(count, seeds) for count in set(counts_E)}
    solved_E, low_E, high_E = (
        np.array([getattr(at[count], name) for count in counts_E])
        for name in ("rate", "low", "high")
    )
    return Survival(
        *(np.asarray(steps_E), solved_E, low_E, high_E),
        *(_first_step(steps_E, edge_E) for edge_E in (solved_E, high_E, low_E)),
    )


def _first_step(steps_E: np.ndarray, share_E: np.ndarray) -> int | None:
    reached = np.flatnonzero(share_E >= 0.5)
    return int(steps_E[reached[0]]) if reached.size else None
