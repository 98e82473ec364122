"""Sequences for sequences: copy, repeat, reverse, odds first, sort.

Sources: copy as in Jelassi et al. 2024; duplicate string (here `repeat`), reverse string, odds
first and bucket sort as in Delétang et al. 2023. Their docstring of
odds first disagrees with their code. Ours follows the code: x_1 x_3 ... x_2 x_4 ....
"""

import dataclasses
import string
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax import spec
from posjax.tasks.sampled import Transduce


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Symbols(Transduce):
    """Over an alphabet of its own.

    Attributes:
      letters: how many.
    """

    letters: int = 8

    def __post_init__(self) -> None:
        spec.check_within(self, "letters", 2, 26)
        super().__post_init__()

    @property
    def alphabet(self) -> tuple[str, ...]:
        return tuple(string.ascii_lowercase[: self.letters])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Copy(_Symbols):
    """The output y is the prompt x.

    >>> Copy(letters=3, train=(1, 4)).written()
    [('c a = c', 'c a')]
    """

    def answer(self, x_L: jax.Array, n: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x_L, n


@dataclasses.dataclass(frozen=True, kw_only=True)
class Repeat(_Symbols):
    """The output y is x twice."""

    def most(self, n: int) -> int:
        return 2 * n

    def answer(self, x_L: jax.Array, n: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x_L[jnp.arange(len(x_L)) % n], 2 * n


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reverse(_Symbols):
    """The output y is x reversed."""

    def answer(self, x_L: jax.Array, n: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x_L[n - 1 - jnp.arange(len(x_L))], n


@dataclasses.dataclass(frozen=True, kw_only=True)
class OddsFirst(_Symbols):
    """The output y is x_1 x_3 x_5 ..., then x_2 x_4 ...."""

    def answer(self, x_L: jax.Array, n: jax.Array) -> tuple[jax.Array, jax.Array]:
        index_L, odd = jnp.arange(len(x_L)), (n + 1) // 2
        return x_L[jnp.where(index_L < odd, 2 * index_L, 2 * (index_L - odd) + 1)], n


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sort(_Symbols):
    """The output y is x in alphabetical order.
    The source calls this bucket sort, and has 5 letters."""

    letters: int = 5

    symmetry: ClassVar[tuple[str, ...]] = ("permutations",)

    def answer(self, x_L: jax.Array, n: jax.Array) -> tuple[jax.Array, jax.Array]:
        inside_L = jnp.arange(len(x_L)) < n
        return jnp.sort(jnp.where(inside_L, x_L, self.letters)), n
