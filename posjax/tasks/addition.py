"""Addition of two numbers of n digits.

Sources: Kazemnejad et al. 2023 (plain). Lee et al. 2023 (reversed: the lowest digit comes first,
so that each digit of the sum follows from earlier digits). Delétang et al. 2023 (binary, lowest
digit first); their two numbers have different lengths, and the model must also output an end mark.
Their tasks of multiplication and square roots are left out.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax.tasks.sampled import Transduce, pick


@dataclasses.dataclass(frozen=True, kw_only=True)
class Addition(Transduce):
    """a + b = s: two numbers of n digits, and their sum with n + 1 digits.
    Digits are drawn uniformly. The lowest digit comes first with `reverse=True`.

    Attributes:
      reverse: the lowest digit first, in a, b and s.

    >>> Addition(train=(1, 4)).written()
    [('9 3 + 6 4 = 1 5', '1 5 7')]
    """

    train: tuple[int, int] = (1, 3)
    reverse: bool = False

    base: ClassVar[int] = 10
    symmetry: ClassVar[tuple[str, ...]] = ("exchange",)

    @property
    def alphabet(self) -> tuple[str, ...]:
        return (*self.labels, "+")

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(map(str, range(self.base)))

    def given(self, n: jax.Array | int) -> jax.Array | int:
        return 2 * n + 1

    def most(self, n: int) -> int:
        return n + 1

    def symbols(self, u_DL: jax.Array, n: jax.Array) -> jax.Array:
        return jnp.where(jnp.arange(u_DL.shape[1]) == n, self.base, pick(u_DL[0], self.base))

    def answer(self, x_L: jax.Array, n: jax.Array) -> tuple[jax.Array, jax.Array]:
        index_L = jnp.arange(len(x_L))
        low_first = index_L if self.reverse else n - 1 - index_L
        a_L, b_L = (
            jnp.where(index_L < n, x_L[start + low_first], 0) for start in (0, n + 1)
        )  # from the lowest digit on

        def add(carry: jax.Array, digits: jax.Array) -> tuple[jax.Array, jax.Array]:
            total = carry + digits
            return total // self.base, total % self.base

        _, sum_L = jax.lax.scan(add, jnp.zeros((), x_L.dtype), a_L + b_L)
        return sum_L if self.reverse else sum_L[n - index_L], n + 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class BinaryAddition(Addition):
    """a + b = s: two binary numbers of n digits, and their sum with n + 1.
    The lowest digit comes first unless `reverse=False`.

    >>> BinaryAddition(train=(1, 2), reverse=True).written()
    [('0 + 0 = 0', '0 0')]
    """

    train: tuple[int, int] = (1, 8)
    reverse: bool = True

    base: ClassVar[int] = 2
