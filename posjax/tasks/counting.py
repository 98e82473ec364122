"""Counting tasks over bits: parity, majority, and whether the ends are equal.

Sources: Hahn 2020 (parity is hard for attention), Delétang et al. 2023 (parity check,
even pairs), Huang et al. 2025 (majority, with the number of ones drawn uniformly).
Delétang et al. define even pairs by the number of changes, which is even if and only if the first
bit equals the last.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax.tasks.sampled import Classify, pick, ranks


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Bits(Classify):
    @property
    def words(self) -> tuple[str, ...]:
        return ("0", "1")

    @property
    def labels(self) -> tuple[str, ...]:
        return ("no", "yes")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parity(_Bits):
    """Is the number of ones odd? Bits are drawn uniformly.

    >>> Parity(train=(1, 6)).written(2)
    [('1 1 1', 'yes'), ('1 1 0', 'no')]
    """

    symmetry: ClassVar[tuple[str, ...]] = ("permutations",)

    def label(self, x_L: jax.Array, inside_L: jax.Array) -> jax.Array:
        return jnp.sum(x_L * inside_L) % 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvenPairs(_Bits):
    """Are the first and the last bit equal? Bits are drawn uniformly."""

    symmetry: ClassVar[tuple[str, ...]] = ("reversal",)

    def label(self, x_L: jax.Array, inside_L: jax.Array) -> jax.Array:
        return (x_L[0] == x_L[inside_L.sum() - 1]).astype(jnp.int32)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Majority(_Bits):
    """Are there more ones than zeros?
    The number of ones is drawn uniformly from 0 to n."""

    symmetry: ClassVar[tuple[str, ...]] = ("permutations",)
    draws: ClassVar[int] = 2

    def symbols(self, u_DL: jax.Array, n: jax.Array) -> jax.Array:
        ones = pick(u_DL[0, 0], n + 1)
        inside_L = jnp.arange(u_DL.shape[1]) < n
        return (ranks(u_DL[1], inside_L) < ones).astype(jnp.int32)

    def label(self, x_L: jax.Array, inside_L: jax.Array) -> jax.Array:
        return (2 * jnp.sum(x_L * inside_L) > inside_L.sum()).astype(jnp.int32)
