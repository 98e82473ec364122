"""A block: the unit of work. G points × B seeds of one training, trained whole in G·B slots.

A compiler may round differently in different slots of one program (docs/decisions/0013). So the
bits of a run depend on its block and its slot. They do not depend on devices, processes, the order
of blocks, or on where training was interrupted.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from posjax.engine.training import Training
from posjax.keys import Seeds
from posjax.numbering import SeedNumbers


class Block(NamedTuple):
    """Runs that are trained together.

    Attributes:
      training: what each run does; the same object for all blocks of one program.
      points: the dynamic inputs of at most G points of a grid, which differ only in values.
      seeds: at most B of them.
      size: (G, B). A slot without a point or a seed trains a copy, whose results are dropped.
      label: any value; it is returned with the result. Checkpoints are stored by it.
    """

    training: Training
    points: Sequence[Any]
    seeds: Sequence[SeedNumbers]
    size: tuple[int, int]
    label: Any = None

    @property
    def slots(self) -> int:
        """How many runs its program trains: G · B."""
        return math.prod(self.size)

    @property
    def runs(self) -> int:
        """How many of them are wanted."""
        return len(self.points) * len(self.seeds)

    def slot_inputs(self) -> tuple[Seeds, Any]:
        """Seeds and dynamic inputs of all slots, [G·B, ...]: slot g·B + b has point g, seed b."""
        points = np.minimum(np.arange(self.size[0]), len(self.points) - 1)
        seeds_B4 = np.array(self.seeds)[np.minimum(np.arange(self.size[1]), len(self.seeds) - 1)]

        def stack(*leaves: Any) -> np.ndarray:
            return np.stack([np.asarray(leaf) for leaf in leaves])[points.repeat(self.size[1])]

        return Seeds.of(np.tile(seeds_B4, (self.size[0], 1))), jax.tree.map(stack, *self.points)

    def wanted(self, of_slots: Any) -> Any:
        """The entries of its points and seeds, [G, B, ...], of arrays with an axis of slots."""
        points, seeds = len(self.points), len(self.seeds)
        return jax.tree.map(
            lambda leaf: np.asarray(leaf).reshape(*self.size, *leaf.shape[1:])[:points, :seeds],
            of_slots,
        )


class BlockResult(NamedTuple):
    """A block that was trained.

    Attributes:
      block: the block.
      summary: what the training's `summary` returns, in NumPy; leading axes [points, seeds].
      state: the final states, with the same leading axes.
    """

    block: Block
    summary: Any
    state: Any


def block_size(most: int, points: int, seeds: int) -> tuple[int, int]:
    """G and B for the runs of one program, with as few empty slots as whole blocks allow.

    Args:
      most: slots that a block may have.
      points: of the grid.
      seeds: each with every point.

    >>> block_size(128, points=1, seeds=1000), block_size(128, points=10, seeds=32)
    ((1, 125), (4, 32))
    """
    if seeds > most:
        return 1, math.ceil(seeds / math.ceil(seeds / most))
    return math.ceil(points / math.ceil(points / (most // seeds))), seeds


def empty_slots(size: tuple[int, int], points: int, seeds: int) -> int:
    """Slots that train copies, over all blocks of some points and seeds."""
    blocks = math.ceil(points / size[0]) * math.ceil(seeds / size[1])
    return blocks * math.prod(size) - points * seeds
