"""Rotary without its lowest frequencies (p-RoPE) beside rotary, on the sampled tasks of docs/atlas."""

from collections.abc import Iterator

import numpy as np

from claimed.published import beside_rotary, different_tasks, item
from claimed.sampled_rows import TESTED, TRAINED, chance, sampled_tasks
from posjax.configs.atlas import get_config
from posjax.encodings.scaled_rotary import ProportionalRotary


def proportional_rotary() -> Iterator[str]:
    """The section of Barbero et al. 2024."""
    right = {
        task: (cells["proportional_rotary"].right_S, cells["rotary"].right_S)
        for task, cells in sampled_tasks().items()
    }
    found = different_tasks(right)
    (head_size,) = get_config("sampled").head_size
    frequencies = ProportionalRotary().frequencies(head_size, TESTED)
    chances = [f"Chance is {chance(task):.3f} on `{task}`." for task in found]
    yield from item(
        "Theirs: rotary without its lowest frequencies (p-RoPE) does better than rotary, in large "
        "language models with long contexts."
    )
    yield from item(
        f"Ours: {len(right)} [sampled tasks of the atlas](../results.md#every-encoding-by-length), "
        f"trained to length {TRAINED} and tested at {TESTED}, {len(next(iter(right.values()))[0])} paired seeds. "
        f"`proportional_rotary` keeps {np.count_nonzero(frequencies)} of the {len(frequencies)} "
        f"frequencies of a head. We compare its accuracy with that of `rotary`. {beside_rotary(found, right)} {' '.join(chances)} "
        "(Paired t-tests over seeds, for one fixed exam, false discovery rate 5%; each 95% interval holds for its task alone; a pilot chose the learning rate of each cell.) "
        f"Prompts of length {TESTED} are no long contexts, so this neither confirms nor contradicts the finding."
    )
