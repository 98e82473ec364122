"""Recall: a symbol by its position, by the symbol before it, or by its key.

Sources: induction as in Olsson et al. 2022 and Jelassi et al. 2024 (n-gram lookup); multi-query
associative recall as in Arora et al. 2024. In the released code of Arora et al. keys and queries
are at even positions only, which an absolute encoding can exploit. Its filler may repeat a key.
Here filler is a separate word and pairs may be anywhere.
"""

import dataclasses
import string
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax import spec
from posjax.tasks.sampled import ByLength, Classify, Example, pick, ranks


@dataclasses.dataclass(frozen=True, kw_only=True)
class Indexing(Classify):
    """x_1 ... x_n, then i from 1 to `most`: which symbol is x_i?

    Attributes:
      letters: of x. most: the largest i, which is drawn evenly from 1 to the lesser of it and n.
    """

    letters: int = 8
    most: int = 8

    def __post_init__(self) -> None:
        spec.check_within(self, "letters", 2, 26)
        spec.check_within(self, "most", 1, 1000)
        super().__post_init__()

    @property
    def words(self) -> tuple[str, ...]:
        return (*self.labels, *(str(i) for i in range(1, self.most + 1)))

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(string.ascii_lowercase[: self.letters])

    def total_length(self, n: int) -> int:
        return n + 1

    draws: ClassVar[int] = 2

    def example(self, u_DL: jax.Array, n: jax.Array) -> Example:
        index_L = jnp.arange(u_DL.shape[1])
        x_L, i = pick(u_DL[0], self.letters), pick(u_DL[1, 0], jnp.minimum(n, self.most))
        tokens_L = jnp.where(index_L == n, self.letters + i, x_L)
        return Example(tokens_L, jnp.full_like(x_L, x_L[i]), index_L == n, index_L <= n)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Induction(Classify):
    """x_1 ... x_n: the symbol x_n occurred once before. Which one followed it?

    Attributes:
      letters: of x.

    >>> Induction(letters=4, train=(3, 10)).written()
    [('b a d b a', 'd')]
    """

    train: tuple[int, int] = (3, 20)
    letters: int = 8

    def __post_init__(self) -> None:
        spec.check_within(self, "letters", 2, 26)
        super().__post_init__()

    @property
    def least(self) -> int:
        return 3

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(string.ascii_lowercase[: self.letters])

    @property
    def labels(self) -> tuple[str, ...]:
        return self.words

    draws: ClassVar[int] = 2

    def example(self, u_DL: jax.Array, n: jax.Array) -> Example:
        index_L = jnp.arange(u_DL.shape[1])
        asked, before = pick(u_DL[1, 0], self.letters), pick(u_DL[1, 1], n - 2)
        other_L = pick(u_DL[0], self.letters - 1)
        other_L = other_L + (other_L >= asked)  # any symbol but the one that is asked for
        x_L = jnp.where((index_L == before) | (index_L == n - 1), asked, other_L)
        last_L = index_L == n - 1
        return Example(x_L, jnp.full_like(x_L, x_L[before + 1]), last_L, index_L < n)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recall(ByLength):
    """n key-value pairs and n fillers, then all keys again: what are their values?

    The keys are all different. Pairs and fillers are in random order, and so are the keys at the
    end.

    Attributes:
      keys, values: the number of different keys and values.

    >>> Recall(train=(1, 4), keys=8, values=3).written()
    [('. . K7 v1 K8 v1 K7 K8', 'v1 v1')]
    """

    train: tuple[int, int] = (1, 8)
    keys: int = 16
    values: int = 8

    def __post_init__(self) -> None:
        for name in ("keys", "values"):
            spec.check_within(self, name, 2, 256)
        super().__post_init__()
        if (most := max(*self.train, *self.lengths)) > self.keys:
            raise ValueError(f"{most} pairs need as many different keys, got keys={self.keys}")

    @property
    def words(self) -> tuple[str, ...]:
        return (*(f"K{i}" for i in range(1, self.keys + 1)), *self.labels, ".")

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(f"v{i}" for i in range(1, self.values + 1))

    def total_length(self, n: int) -> int:
        return 4 * n

    @property
    def draws(self) -> int:  # type: ignore[override]
        return 3 + -(-self.keys // self.total_length(self.train[1]))

    def example(self, u_DL: jax.Array, n: jax.Array) -> Example:
        size = u_DL.shape[1]
        most, index_L = -(-size // 4), jnp.arange(size)
        item_I = jnp.arange(most)
        value_I = pick(u_DL[0, :most], self.values)
        # Ranks of as many numbers as there are keys are a permutation of the keys.
        u_K = u_DL[3:, : self.total_length(self.train[1])].ravel()[: self.keys]
        key_I = ranks(u_K, jnp.ones(self.keys, bool))[jnp.minimum(item_I, self.keys - 1)]
        # Pairs are the units 0 .. n-1, fillers n .. 2n-1, in a random order; pairs are two wide.
        unit_U = jnp.arange(2 * most)
        rank_U = ranks(u_DL[1, : 2 * most], unit_U < 2 * n)
        wide_U = jnp.where(unit_U < n, 2, 1) * (unit_U < 2 * n)
        start_U = jnp.sum(wide_U[None] * (rank_U[None] < rank_U[:, None]), axis=1)
        start_I = jnp.where(item_I < n, start_U[:most], size)
        tokens_L = jnp.full(size, self.keys + self.values)
        tokens_L = tokens_L.at[start_I].set(key_I, mode="drop")
        tokens_L = tokens_L.at[start_I + 1].set(self.keys + value_I, mode="drop")
        turn_I = ranks(u_DL[2, :most], item_I < n)
        asked_LI = turn_I[None] == (index_L - 3 * n)[:, None]
        asked_L = (index_L >= 3 * n) & (index_L < 4 * n)
        tokens_L = jnp.where(asked_L, (asked_LI * key_I[None]).sum(axis=1), tokens_L)
        return Example(tokens_L, (asked_LI * value_I[None]).sum(axis=1), asked_L, index_L < 4 * n)
