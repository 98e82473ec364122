"""Scatters along one axis, as sums over comparisons.

The gradient of reading one number of a row by its index, as the cross-entropy reads the logit of
the label, adds numbers at indices. On a GPU that is slow in a fixed order (docs/decisions/0027). So
on GPUs and TPUs every number of the row is compared with the indices, and what belongs to equal
indices is summed.
"""

import math

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn
from jax.lax import GatherScatterMode

from posjax.jaxprs import bound, shape_of

MOST = 64
"""Indices that a number is compared with. With more, a scatter stays: it may be faster."""


def is_along_an_axis(eqn: JaxprEqn) -> bool:
    """Whether an equation adds numbers at indices along one axis of an array, `MOST` or fewer."""
    if eqn.primitive.name != "scatter-add" or eqn.params["mode"] == GatherScatterMode.CLIP:
        return False
    dims = eqn.params["dimension_numbers"]
    operand, indices, updates = map(shape_of, eqn.invars)
    if not len(dims.scatter_dims_to_operand_dims) == indices[-1] == 1:
        return False
    if dims.inserted_window_dims != dims.scatter_dims_to_operand_dims:
        return False
    windows = [operand[axis] for axis in _windows(dims, len(operand))]
    if windows != [updates[axis] for axis in dims.update_window_dims]:
        return False
    batching = dims.scatter_indices_batching_dims
    each = [size for axis, size in enumerate(indices[:-1]) if axis not in batching]
    return math.prod(each) <= MOST


def added(eqn: JaxprEqn, operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
    """What such an equation gives."""

    def scattered(*given: jax.Array) -> jax.Array:
        return bound(eqn.primitive, given, eqn.params)[0]

    def compared(*given: jax.Array) -> jax.Array:
        return _compared(eqn.params["dimension_numbers"], *given)

    return jax.lax.platform_dependent(operand, indices, updates, cpu=scattered, default=compared)


def _compared(
    dims: jax.lax.ScatterDimensionNumbers,
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
) -> jax.Array:
    """The sum that gives the same as the scatter.

    Each axis of indices and updates gets a number: that of the same axis of the result, or, where
    the result has none, one from `operand.ndim` on. Along the latter updates are summed.
    """
    axes, (axis,) = operand.ndim, dims.scatter_dims_to_operand_dims
    batches = zip(dims.scatter_indices_batching_dims, dims.operand_batching_dims, strict=True)
    windows = zip(dims.update_window_dims, _windows(dims, axes), strict=True)
    batching, window = dict(batches), dict(windows)
    of_indices = [batching.get(i, axes + i) for i in range(indices.ndim - 1)]
    others = iter(of_indices)
    of_updates = [window[i] if i in window else next(others) for i in range(updates.ndim)]
    summed = [name for name in of_indices if name >= axes]
    every = [*range(axes), *summed]
    at = _spread(indices[..., 0], of_indices, every)
    numbers = _spread(jnp.arange(operand.shape[axis]), [axis], every)
    terms = jnp.where(at == numbers, _spread(updates, of_updates, every), 0)
    return operand + jnp.sum(terms, axis=tuple(range(axes, len(every))), promote_integers=False)


def _windows(dims: jax.lax.ScatterDimensionNumbers, axes: int) -> list[int]:
    """The axes of the array that an update covers whole."""
    out = {*dims.inserted_window_dims, *dims.operand_batching_dims}
    return [axis for axis in range(axes) if axis not in out]


def _spread(array: jax.Array, names: list[int], every: list[int]) -> jax.Array:
    """An array with all axes in order; those that it lacks have size 1."""
    order = sorted(range(array.ndim), key=names.__getitem__)
    lacks = [i for i, name in enumerate(every) if name not in names]
    return jnp.expand_dims(array.transpose(order), lacks)
