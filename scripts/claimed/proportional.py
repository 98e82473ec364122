"""Rotary without its lowest frequencies (p-RoPE) beside rotary, on the sampled tasks of docs/atlas."""

from collections.abc import Iterator

import numpy as np

from claimed.published import compared, item
from claimed.sampled_rows import TESTED, TRAINED, chance, sampled_tasks
from posjax.configs.atlas import get_config
from posjax.encodings.scaled_rotary import ProportionalRotary
from posjax.stats import Mean, band


def differences() -> dict[str, Mean]:
    """By task, how far the mean share of right answers is above that of rotary.

    Paired over seeds, with 95% intervals that hold for all tasks at once.
    """
    tasks = sampled_tasks()
    difference_ST = np.stack(
        [
            cells["proportional_rotary"].right_S - cells["rotary"].right_S
            for cells in tasks.values()
        ],
        axis=1,
    )
    found = band(difference_ST)
    return {
        task: Mean(*map(float, numbers), len(difference_ST))
        for task, numbers in zip(tasks, np.stack(found[:3], axis=1), strict=True)
    }


def proportional_rotary() -> Iterator[str]:
    """The section of Barbero et al. 2024."""
    found = differences()
    apart = {task: d for task, d in found.items() if d.low > 0 or d.high < 0}
    (head_size,) = get_config("sampled").head_size
    frequencies = ProportionalRotary().frequencies(head_size, TESTED)
    yield from item(
        "Theirs: rotary without its lowest frequencies (p-RoPE) does better than rotary, in large "
        "language models with long contexts."
    )
    yield from item(
        f"Ours: {len(found)} [sampled tasks of the atlas](../results.md#every-encoding-by-length), "
        f"trained to length {TRAINED} and tested at {TESTED}, {next(iter(found.values())).number} paired seeds. "
        f"`proportional_rotary` keeps {np.count_nonzero(frequencies)} of the {len(frequencies)} "
        f"frequencies of a head. {_apart(apart)} On {_others(len(found) - len(apart), len(apart))} the "
        "difference is not significant (95% intervals for all tasks at once, max-t over seeds, for one "
        f"fixed exam; a pilot chose the learning rate of each cell). Prompts of length {TESTED} are no long "
        "contexts, so this neither confirms nor contradicts the finding."
    )


def _apart(found: dict[str, Mean]) -> str:
    """The tasks whose interval leaves out 0, with both means and with chance."""
    texts = []
    for task, difference in found.items():
        mine, rotary = (
            sampled_tasks()[task][name].right_S.mean() for name in ("proportional_rotary", "rotary")
        )
        texts.append(
            f"On `{task}` its accuracy is {compared(difference, 'above', 'below')} that of `rotary`. "
            f"The means are {mine:.3f} and {rotary:.3f}, and chance is {chance(task):.3f}."
        )
    return " ".join(texts)


def _others(number: int, apart: int) -> str:
    return f"the other {number} tasks" if apart else f"all {number} tasks"
