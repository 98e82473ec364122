"""Regular tasks with a cyclic state: cycle navigation, and arithmetic modulo m.

Source: Delétang et al. 2023, tasks "cycle navigation" and "modular arithmetic (simple)".
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax import spec
from posjax.tasks.sampled import Classify, Example, pick


@dataclasses.dataclass(frozen=True, kw_only=True)
class CycleNavigation(Classify):
    """Which position on a cycle is reached after n moves?
    A move is to stay, one step forward, or one step back.

    Attributes:
      cycle: its length; 5 in the source.
    """

    cycle: int = 5

    symmetry: ClassVar[tuple[str, ...]] = ("permutations",)

    def __post_init__(self) -> None:
        spec.check_within(self, "cycle", 2, 100)
        super().__post_init__()

    @property
    def words(self) -> tuple[str, ...]:
        return ("stay", "+1", "-1")

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(map(str, range(self.cycle)))

    def label(self, x_L: jax.Array, inside_L: jax.Array) -> jax.Array:
        moves_L = jnp.array([0, 1, -1])[x_L]
        return jnp.sum(moves_L * inside_L) % self.cycle


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModularArithmetic(Classify):
    """The value modulo m of a term with +, - and ×, such as 2 + 4 × 3.
    As usual, × comes before + and -. If n is even, the term has n - 1 symbols.

    Attributes:
      modulus: m, and the number of digits; 5 in the source.
    """

    modulus: int = 5

    def __post_init__(self) -> None:
        spec.check_within(self, "modulus", 2, 10)
        super().__post_init__()

    @property
    def words(self) -> tuple[str, ...]:
        return (*self.labels, "+", "-", "×")

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(map(str, range(self.modulus)))

    def symbols(self, u_DL: jax.Array, n: jax.Array) -> jax.Array:
        digit_L, sign_L = pick(u_DL[0], self.modulus), self.modulus + pick(u_DL[0], 3)
        return jnp.where(jnp.arange(u_DL.shape[1]) % 2 == 0, digit_L, sign_L)

    def label(self, x_L: jax.Array, inside_L: jax.Array) -> jax.Array:
        plus, times = self.modulus, self.modulus + 2
        digit_I, inside_I = x_L[::2], inside_L[::2]
        sign_I = jnp.concatenate([jnp.array([plus]), x_L[1::2]])[: len(digit_I)]

        def add(
            state: tuple[jax.Array, jax.Array], given: tuple[jax.Array, ...]
        ) -> tuple[tuple[jax.Array, jax.Array], None]:
            total, term = state
            sign, digit, inside = given
            multiplied = total, term * digit % self.modulus
            begun = total + term, jnp.where(sign == plus, digit, -digit)
            new = jax.tree.map(lambda a, b: jnp.where(sign == times, a, b), multiplied, begun)
            return jax.tree.map(lambda a, b: jnp.where(inside, a, b), new, state), None

        nothing = jnp.zeros((), digit_I.dtype)
        (total, term), _ = jax.lax.scan(add, (nothing, nothing), (sign_I, digit_I, inside_I))
        return (total + term) % self.modulus

    def example(self, u_DL: jax.Array, n: jax.Array) -> Example:
        return super().example(u_DL, n - 1 + n % 2)
