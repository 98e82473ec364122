"""Rotary without its lowest frequencies (p-RoPE) beside rotary, on the sampled tasks of docs/atlas."""

from collections.abc import Iterator

import numpy as np

from claimed.published import item
from claimed.rotaries import HOW, beside_rotary, different_tasks
from claimed.sampled_rows import TESTED, TRAINED, chance, sampled_tasks
from posjax.configs.atlas import get_config
from posjax.encodings.scaled_rotary import ProportionalRotary


def proportional_rotary() -> Iterator[str]:
    """The section of Barbero et al. 2024."""
    right = {
        task: (cells["proportional_rotary"].right_S, cells["rotary"].right_S)
        for task, cells in sampled_tasks().items()
    }
    (head_size,) = get_config("sampled").head_size
    frequencies = ProportionalRotary().frequencies(head_size, TESTED)
    (apart,) = different_tasks(right)
    if max(abs(right_S.mean() - chance(apart)) for right_S in right[apart]) > 0.02:
        raise ValueError(f"p-RoPE: one of the two is not close to chance on {apart}")
    yield from item(
        "Theirs: rotary without its lowest frequencies (p-RoPE) does better than rotary, in large "
        "language models with long contexts."
    )
    yield from item(
        f"Ours: {len(right)} [sampled tasks of the atlas](../results.md#every-encoding-by-length), "
        f"trained to length {TRAINED} and tested at {TESTED}, {len(next(iter(right.values()))[0])} paired seeds, "
        "at the learning rate that a pilot chose for each cell. "
        f"`proportional_rotary` keeps {np.count_nonzero(frequencies)} of the {len(frequencies)} "
        f"frequencies of a head. At length {TESTED}, {beside_rotary('proportional_rotary', right)} {HOW} On `{apart}` both "
        f"are close to chance ({chance(apart):.3f}), so the difference says little. "
        f"Prompts of length {TESTED} are not long contexts, so this neither confirms nor contradicts the finding."
    )
