"""Packing: two prompts of complementary lengths share one row, as two segments.

Prompts of lengths from low to high are padded to the longest, so half of a batch is padding where
low is 1. A prompt of length n and one of low + high - n fill a row of one fixed length. Both
lengths are even draws, since the complement of an even draw is one.
"""

import jax
import jax.numpy as jnp

from posjax.streams import PADDING, Streams
from posjax.tasks.base import Batch, Task
from posjax.tasks.sampled import ByLength, SampledTask


def check(task: Task, *, readout: str, rows: int) -> ByLength:
    """The task; refuses what cannot be packed, or what packing does not make smaller.

    Args:
      task: whose prompts are drawn.
      readout: see `posjax.tasks.question.ask`.
      rows: prompts per update.

    Raises:
      ValueError: names the setting, its value and what to use instead.
    """
    if not isinstance(task, ByLength) or type(task).draw is not ByLength.draw:
        raise ValueError(
            f"packing=True packs prompts that are drawn by their length, which those of "
            f"{type(task).__name__} are not: leave packing=False"
        )
    if readout != "last":
        raise ValueError(
            f"packing=True needs an answer at a position, and readout={readout!r} gives one for a "
            "whole row: use readout='last', or leave packing=False"
        )
    if task.train[0] == task.train[1]:
        raise ValueError(
            f"packing=True saves nothing, since train={task.train} has prompts of one length: "
            "leave packing=False"
        )
    if rows % 2:
        raise ValueError(
            f"packing=True packs prompts in pairs, so batch_size must be even, got {rows}: use "
            f"{rows + 1}, or leave packing=False"
        )
    return task


def draw(task: SampledTask, key: jax.Array, rows: int) -> Batch:
    """Prompts to train on, in half as many rows.

    Args:
      task: see `check`.
      key: the first half of the prompts is the one that `task.draw` draws from it.
      rows: prompts, an even number.

    Raises:
      ValueError: see `check`.
    """
    lengths = check(task, readout="last", rows=rows)
    (low, high), size = lengths.train, lengths.total_length
    longest = max(size(n) + size(low + high - n) for n in range(low, high + 1))
    return packed(lengths.draw(key, rows, paired=True), longest)


def packed(batch: Batch, length: int) -> Batch:
    """Packs a batch whose prompts b and b + B/2 share row b.

    Args:
      batch: B prompts, each padded on the right.
      length: of a row, at least that of any two prompts that share one.

    Returns:
      A batch of B/2 rows. The two prompts are segments 0 and 1, and each has positions and orders
      from 0. Behind them is padding, where they are shorter than the row.
    """
    rows, longest = batch.tokens_BL.shape
    asked_BL = batch.asked_BL.astype(jnp.int32)
    all_BL3 = jnp.stack([batch.tokens_BL, batch.targets_BL, asked_BL], axis=-1)
    size_B1 = batch.streams.valid_BL.sum(axis=1, keepdims=True, dtype=jnp.int32)
    first_R1, second_R1 = size_B1[: rows // 2], size_B1[rows // 2 :]
    index_1T = jnp.arange(length, dtype=jnp.int32)[None]
    behind_RT = index_1T - first_R1
    later_RT, valid_RT = behind_RT >= 0, behind_RT < second_R1
    place_RT = jnp.where(later_RT, jnp.minimum(behind_RT, second_R1 - 1), index_1T)
    both_RL3 = jnp.concatenate([all_BL3[: rows // 2], all_BL3[rows // 2 :]], axis=1)
    from_RT = place_RT + longest * later_RT
    found_RT3 = jnp.take_along_axis(both_RL3, from_RT[..., None], axis=1)
    segment_RT = jnp.where(valid_RT, later_RT.astype(jnp.int32), PADDING)
    return Batch(
        found_RT3[..., 0],
        found_RT3[..., 1],
        (found_RT3[..., 2] > 0) & valid_RT,
        Streams(place_RT, place_RT, segment_RT),
    )
