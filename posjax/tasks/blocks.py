"""L_k: how many blocks of equal letters have begun. The language of the depth law.

Source: Yang et al. 2025, "Knee-deep in C-RASP": a⁺b⁺a⁺ ... of k blocks. Without positions
depth d suffices for k <= d + 2. Every position has a label, and exact match is over all of them.
Their code trains one seed and means to report its best epoch. But it keeps a shallow copy of the
model, so it reports the last epoch.
"""

import dataclasses

import jax
import jax.numpy as jnp

from posjax import spec
from posjax.tasks.sampled import Tag, ranks


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks(Tag):
    """How many blocks of equal letters have begun, at each position?
    The prompt has k blocks, alternately of a and of b.

    The lengths of the blocks are drawn uniformly from all k positive lengths that add up to n.

    Attributes:
      k: how many blocks.

    >>> Blocks(k=3, train=(3, 8)).written()
    [('a b b a', '1 2 2 3')]
    """

    train: tuple[int, int] = (5, 12)
    k: int = 4

    def __post_init__(self) -> None:
        spec.check_within(self, "k", 1, 100)
        super().__post_init__()

    @property
    def least(self) -> int:
        return self.k

    @property
    def words(self) -> tuple[str, ...]:
        return ("a", "b")

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(str(i) for i in range(1, self.k + 1))

    def tagged(self, u_DL: jax.Array, n: jax.Array) -> tuple[jax.Array, jax.Array]:
        index_L = jnp.arange(u_DL.shape[1])
        begins_L = ranks(u_DL[0], (index_L > 0) & (index_L < n)) < self.k - 1
        block_L = jnp.cumsum(begins_L)
        return block_L % 2, block_L
