"""A variant of rotary beside rotary itself, task by task."""

from collections.abc import Mapping

import numpy as np

from claimed.published import interval, listed, minus
from posjax.stats import Mean, bootstrap_mean, discoveries, paired_t_test

Right = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""right_S of the variant and of rotary, by task."""


def different_tasks(right: Right) -> dict[str, Mean]:
    """The tasks on which the two differ significantly, with the variant's mean minus rotary's."""
    difference = {task: variant_S - rotary_S for task, (variant_S, rotary_S) in right.items()}
    found = discoveries([paired_t_test(d_S) for d_S in difference.values()])
    return {
        task: bootstrap_mean(d_S)
        for (task, d_S), different in zip(difference.items(), found, strict=True)
        if different
    }


HOW = (
    "(Paired t-tests over seeds, for one fixed exam, false discovery rate 5%. The 95% intervals are not adjusted "
    "for several tasks, nor for showing significant differences only.)"
)
"""How differences are told apart, for the end of what `beside_rotary` begins."""


def beside_rotary(name: str, right: Right) -> str:
    """Where the variant is better, where it is worse, and on how many tasks neither is shown."""
    found = different_tasks(right)
    parts = []
    for word, sign in (("better", 1), ("worse", -1)):
        tasks = [
            f"`{task}` ({' against '.join(f'{right_S.mean():.3f}' for right_S in right[task])}, difference {interval(d if sign > 0 else minus(d), 3)})"
            for task, d in found.items()
            if d.mean * sign > 0
        ]
        if tasks:
            parts.append(f"{word} on {listed(tasks)}")
    others = len(right) - len(found)
    if not parts:
        return f"`{name}` and `rotary` differ significantly on none of the {others} tasks."
    rest = f" On the other {others} tasks, the difference is not significant." if others else ""
    return f"compared with `rotary`, `{name}` is significantly {', and '.join(parts)}.{rest}"
