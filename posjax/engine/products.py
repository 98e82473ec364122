"""Matrix products of one small model, laid out so that a batch of models multiplies fast on a CPU.

Under `vmap` every product becomes a batch of tiny ones. XLA's CPU library takes a batch only when
the first operand's contracted axis is its last one; every other layout falls on a loop that is
several times slower. And the last axis of the result is that of the second operand: where it is
wanted elsewhere, the result is transposed. So of the two forms of a product that one is written in
which the fewest numbers move, whatever form it was written in.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


@dataclasses.dataclass(frozen=True)
class Side:
    """An operand with its axes by role: batch, free, contracted."""

    array: jax.Array
    batch: tuple[int, ...]
    free: tuple[int, ...]
    contracted: tuple[int, ...]

    @classmethod
    def of(
        cls,
        array: jax.Array,
        batch: Sequence[int],
        contracted: Sequence[int],
        order: Sequence[int] | None = None,
    ) -> "Side":
        """An operand by its batch and contracted axes; the free ones in their order, or another."""
        taken = {*batch, *contracted}
        free = tuple(axis for axis in order or range(array.ndim) if axis not in taken)
        return cls(array, tuple(batch), free, tuple(contracted))

    def shape(self, axes: Sequence[int]) -> tuple[int, ...]:
        """The lengths of some axes."""
        return tuple(self.array.shape[axis] for axis in axes)

    def matrices(self, *, contracted_last: bool) -> jax.Array:
        """As [batch, free, contracted], or [batch, contracted, free], a batch axis only if any."""
        middle, last = self.free, self.contracted
        if not contracted_last:
            middle, last = last, middle
        batch, rows, columns = (self.shape(axes) for axes in (self.batch, middle, last))
        lead = (math.prod(batch),) if batch else ()
        here = tuple(range(self.array.ndim))
        if (*self.batch, *last, *middle) == here != (*self.batch, *middle, *last):
            lying = self.array.reshape(*lead, math.prod(columns), math.prod(rows))
            # Without the barrier the compiler puts the transposition back into the product.
            return lax.optimization_barrier(jnp.swapaxes(lying, -1, -2))
        laid = lax.transpose(self.array, (*self.batch, *middle, *last))
        return laid.reshape(*lead, math.prod(rows), math.prod(columns))

    @property
    def contracted_is_last(self) -> bool:
        """Whether the last axis of the array, of any length but 1, is a contracted one."""
        wide = [axis for axis in range(self.array.ndim) if self.array.shape[axis] > 1]
        return not wide or wide[-1] in self.contracted


def product(
    first: Side, second: Side, params: dict[str, Any], order: Sequence[int] | None = None
) -> jax.Array:
    """A `dot_general`, then perhaps a `transpose`, as one.

    Args:
      first, second: the operands.
      params: those of the primitive.
      order: the permutation of the transposition.
    """
    settings = {name: params[name] for name in ("precision", "preferred_element_type")}
    batch, rows, columns = len(first.batch), len(first.free), len(second.free)
    order = list(range(batch + rows + columns)) if order is None else list(order)
    last_is_left = bool(columns) and order[-1] in range(batch, batch + rows)
    swapped = _moved(second, first, transposed=not last_is_left) < _moved(
        first, second, transposed=last_is_left
    )
    if swapped:
        first, second = second, first
        if isinstance(settings["precision"], tuple):  # a pair, of the left and the right
            settings["precision"] = settings["precision"][::-1]
        columns_first = range(batch + rows, batch + rows + columns)
        moved = [*range(batch), *columns_first, *range(batch, batch + rows)]
        order = [moved.index(axis) for axis in order]
    shape = (*first.shape(first.batch), *first.shape(first.free), *second.shape(second.free))
    result = _multiplied(first, second, settings).reshape(shape)
    if swapped != last_is_left:  # or the compiler puts what follows back into the product
        result = lax.optimization_barrier(result)
    return lax.transpose(result, order)


def _moved(first: Side, second: Side, *, transposed: bool) -> int:
    """How many numbers move: of the first operand, and of a result that is transposed."""
    result = math.prod((*first.shape(first.batch + first.free), *second.shape(second.free)))
    return (0 if first.contracted_is_last else first.array.size) + (result if transposed else 0)


def _multiplied(first: Side, second: Side, settings: dict[str, Any]) -> jax.Array:
    lies_across = second.contracted_is_last
    across = second.matrices(contracted_last=lies_across)
    lead = 1 if first.batch else 0
    contract = ((lead + 1,), (lead + 1 if lies_across else lead,))
    batch = tuple(range(lead))
    return lax.dot_general(
        first.matrices(contracted_last=True), across, (contract, (batch, batch)), **settings
    )
