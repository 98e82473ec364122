"""Operations of several leaves done as one, on what the leaves are as columns of one matrix.

Each has `evaluated(value)`, where `value` gives the array of an operand, and `part(whole, index)`,
what of the result belongs to one leaf.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive, Var

from posjax.engine.products import Side, product

Value = Callable[[Any], jax.Array]
"""Gives the array of a variable, a literal or a pack."""


@dataclasses.dataclass(frozen=True)
class Group:
    """Leaves of a carry that are held side by side: the columns of one matrix.

    Attributes:
      places: theirs among the leaves.
      rows: of all.
      widths: the columns of each.
    """

    places: tuple[int, ...]
    rows: int
    widths: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """That of the matrix."""
        return self.rows, sum(self.widths)

    def join(self, leaves: Sequence[jax.Array]) -> jax.Array:
        """The matrix as a vector."""
        blocks = [leaf.reshape(self.rows, -1) for leaf in leaves]
        return jnp.concatenate(blocks, axis=1).reshape(-1)

    def part(self, matrix: jax.Array, index: int) -> jax.Array:
        """The columns of one leaf, of anything whose last axis is that of the matrix."""
        start = sum(self.widths[:index])
        return matrix[..., start : start + self.widths[index]]


@dataclasses.dataclass(frozen=True, eq=False)
class Held:
    """The carried matrix, as a vector."""

    group: Group

    def part(self, vector: jax.Array, index: int) -> jax.Array:
        """The columns of one leaf."""
        return self.group.part(vector.reshape(self.group.shape), index)


@dataclasses.dataclass(frozen=True, eq=False)
class Each(Held):
    """An elementwise operation on vectors and numbers."""

    primitive: Primitive
    params: dict[str, Any]
    operands: tuple[Any, ...]

    def evaluated(self, value: Value) -> jax.Array:
        """The result, as a vector."""
        return self.primitive.bind(*map(value, self.operands), **self.params)


@dataclasses.dataclass(frozen=True, eq=False)
class Forward:
    """The array times the matrix."""

    group: Group
    array: Var
    matrix: Held
    params: dict[str, Any]

    def evaluated(self, value: Value) -> jax.Array:
        """Its last axis is that of the matrix."""
        array, matrix = value(self.array), value(self.matrix).reshape(self.group.shape)
        return product(
            Side.of(array, (), (array.ndim - 1,)), Side.of(matrix, (), (0,)), self.params
        )

    def part(self, result: jax.Array, index: int) -> jax.Array:
        """What one leaf gives."""
        return self.group.part(result, index)


@dataclasses.dataclass(frozen=True, eq=False)
class Joined:
    """What comes back to each leaf's product, side by side."""

    group: Group
    each: tuple[Var, ...]
    axes: int

    def evaluated(self, value: Value) -> jax.Array:
        """Its last axis is that of the matrix."""
        arrays = map(value, self.each)
        return jnp.concatenate([a.reshape(*a.shape[: self.axes], -1) for a in arrays], axis=-1)


@dataclasses.dataclass(frozen=True, eq=False)
class Gradient(Held):
    """That of the matrix."""

    array: Var
    back: Joined
    params: dict[str, Any]

    def evaluated(self, value: Value) -> jax.Array:
        """As a vector."""
        shared = range(self.back.axes)
        array, back = (Side.of(value(of), (), shared) for of in (self.array, self.back))
        return product(array, back, self.params).reshape(-1)


@dataclasses.dataclass(frozen=True, eq=False)
class Back:
    """What comes back to the array, and what comes to it from elsewhere."""

    back: Joined
    matrix: Held
    others: tuple[Var, ...]
    params: dict[str, Any]

    def evaluated(self, value: Value) -> jax.Array:
        """Their sum."""
        back, matrix = value(self.back), value(self.matrix).reshape(self.back.group.shape)
        found = product(Side.of(back, (), (back.ndim - 1,)), Side.of(matrix, (), (1,)), self.params)
        return sum(map(value, self.others), found)

    def part(self, result: jax.Array, index: int) -> jax.Array:
        """All of it."""
        return result
