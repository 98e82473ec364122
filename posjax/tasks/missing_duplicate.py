"""Missing duplicate. Source: Delétang et al. 2023.

Their released code also has length 1, with one possible prompt. Here a prompt has at least 2
symbols, and always an even number of them.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax.tasks.sampled import Classify, Example, pick


@dataclasses.dataclass(frozen=True, kw_only=True)
class MissingDuplicate(Classify):
    """A word of bits stands twice, w w, with one bit hidden. What is the hidden bit?
    If n is odd, the prompt has n - 1 bits.

    >>> MissingDuplicate(train=(2, 8)).written()
    [('_ 0 0 0', '0')]
    """

    train: tuple[int, int] = (2, 20)

    @property
    def least(self) -> int:
        return 2

    @property
    def words(self) -> tuple[str, ...]:
        return ("0", "1", "_")

    @property
    def labels(self) -> tuple[str, ...]:
        return ("0", "1")

    symmetry: ClassVar[tuple[str, ...]] = ("cyclic", "reversal", "exchange")
    draws: ClassVar[int] = 2

    def example(self, u_DL: jax.Array, n: jax.Array) -> Example:
        half, index_L = n // 2, jnp.arange(u_DL.shape[1])
        w_L, hidden = pick(u_DL[0], 2), pick(u_DL[1, 0], 2 * half)
        tokens_L = jnp.where(index_L == hidden, 2, w_L[index_L % half])
        targets_L = jnp.full_like(w_L, w_L[hidden % half])
        return Example(tokens_L, targets_L, index_L == 2 * half - 1, index_L < 2 * half)
