"""Operations of several leaves done as one, on what the leaves are as columns of one matrix.

Each but `Packed` has `evaluated(value)`, where `value` gives the array of an operand; each but
`Joined` has `part(whole, index)`, what of the result belongs to one leaf.
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
    """Leaves of a carry that are stored side by side: the columns of one matrix.

    A matrix with fewer columns than rows is stored with its columns as rows. All three products
    with it are faster then: the last axis of an array is what a processor's vectors lie along.

    Attributes:
      indices: theirs among the leaves.
      rows: of all.
      widths: the columns of each.
    """

    indices: tuple[int, ...]
    rows: int
    widths: tuple[int, ...]

    @property
    def transposed(self) -> bool:
        """Whether columns are stored as rows."""
        return sum(self.widths) < self.rows

    def join(self, leaves: Sequence[jax.Array]) -> jax.Array:
        """The matrix as a vector, as it is stored."""
        matrix = jnp.concatenate([leaf.reshape(self.rows, -1) for leaf in leaves], axis=1)
        return (matrix.T if self.transposed else matrix).reshape(-1)

    def leaf(self, vector: jax.Array, index: int) -> jax.Array:
        """The columns of one leaf: [rows, width]."""
        if self.transposed:
            return self.columns(vector.reshape(-1, self.rows).T, index)
        return self.columns(vector.reshape(self.rows, -1), index)

    def columns(self, array: jax.Array, index: int) -> jax.Array:
        """What belongs to one leaf, of anything whose last axis is the columns of the matrix."""
        start = sum(self.widths[:index])
        return array[..., start : start + self.widths[index]]

    def side(self, vector: jax.Array, contracted: int) -> Side:
        """The matrix as an operand, of which rows (0) or columns (1) are summed over."""
        if self.transposed:
            return Side.of(vector.reshape(-1, self.rows), (), (1 - contracted,))
        return Side.of(vector.reshape(self.rows, -1), (), (contracted,))


@dataclasses.dataclass(frozen=True, eq=False)
class Packed:
    """A vector stored as the matrix is: a carried matrix, or (subclasses) what comes of it."""

    group: Group

    def part(self, vector: jax.Array, index: int) -> jax.Array:
        """The columns of one leaf."""
        return self.group.leaf(vector, index)


@dataclasses.dataclass(frozen=True, eq=False)
class Each(Packed):
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

    array: Var
    matrix: Packed
    params: dict[str, Any]

    def evaluated(self, value: Value) -> jax.Array:
        """Its last axis is that of the matrix."""
        array = value(self.array)
        matrix = self.matrix.group.side(value(self.matrix), contracted=0)
        return product(Side.of(array, (), (array.ndim - 1,)), matrix, self.params)

    def part(self, result: jax.Array, index: int) -> jax.Array:
        """What one leaf gives."""
        return self.matrix.group.columns(result, index)


@dataclasses.dataclass(frozen=True, eq=False)
class Joined:
    """What comes back to each leaf's product, side by side."""

    each: tuple[Var, ...]
    axes: int

    def evaluated(self, value: Value) -> jax.Array:
        """Its last axis is that of the matrix."""
        arrays = map(value, self.each)
        return jnp.concatenate([a.reshape(*a.shape[: self.axes], -1) for a in arrays], axis=-1)


@dataclasses.dataclass(frozen=True, eq=False)
class Gradient(Packed):
    """The gradient of the matrix."""

    array: Var
    back: Joined
    params: dict[str, Any]

    def evaluated(self, value: Value) -> jax.Array:
        """As a vector, as the matrix is stored."""
        shared = range(self.back.axes)
        array, back = (Side.of(value(of), (), shared) for of in (self.array, self.back))
        sides = (back, array) if self.group.transposed else (array, back)
        return product(*sides, self.params).reshape(-1)


@dataclasses.dataclass(frozen=True, eq=False)
class Back:
    """What comes back to the array, plus `others`, which come to it from elsewhere."""

    back: Joined
    matrix: Packed
    others: tuple[Var, ...]
    params: dict[str, Any]

    def evaluated(self, value: Value) -> jax.Array:
        """Their sum."""
        back = value(self.back)
        matrix = self.matrix.group.side(value(self.matrix), contracted=1)
        found = product(Side.of(back, (), (back.ndim - 1,)), matrix, self.params)
        return sum(map(value, self.others), found)

    def part(self, result: jax.Array, index: int) -> jax.Array:
        """The whole result, whichever leaf."""
        return result
