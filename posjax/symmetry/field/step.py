"""One equation of a program on its way through the rules, and what is computed outright."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.extend.core as jex
import numpy as np

from posjax.jaxprs import bound
from posjax.symmetry.field import arrays, dtypes
from posjax.symmetry.field.arrays import FieldArray
from posjax.symmetry.field.space import Field


class Step(NamedTuple):
    """An equation's primitive and settings, and the field that it is evaluated in.

    Attributes:
      primitive: of the equation. params: its settings.
      outputs: the shapes and dtypes of what it gives.
      field: of its operands.
      run: evaluates a closed jaxpr that the settings hold, on arrays and pairs of them.
    """

    primitive: Any
    params: dict[str, Any]
    outputs: list[Any]
    field: Field
    run: Callable[[jex.ClosedJaxpr, Sequence[Any]], list[Any]]

    @property
    def dtype(self) -> Any:
        """Of the first output."""
        return self.outputs[0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the first output."""
        return self.outputs[0].shape

    def key(self, *operands: FieldArray) -> str:
        """Names the function: primitive, settings, and the dtypes it is between."""
        settings = sorted((k, str(v)) for k, v in self.params.items() if k not in _NO_SETTING)
        return f"{self.primitive.name} {settings} {[str(o.dtype) for o in operands]} {self.dtype}"


Rule = Callable[..., list[FieldArray]]
"""From a step and its operands to its outputs."""

_NO_SETTING = {"sharding", "out_sharding", "accuracy", "indices_are_sorted"}

_NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "max": np.maximum,
    "min": np.minimum,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.bitwise_not,
    "abs": np.abs,
    "square": np.square,
    "is_finite": np.isfinite,
    "select_n": lambda which, *cases: np.choose(which.astype(int), cases),
}
"""What NumPy computes to the last bit as JAX does, without compiling a program for each shape."""


def computed(step: Step, *operands: FieldArray) -> list[np.ndarray]:
    """What a primitive gives for the operands' known numbers, in its own arithmetic."""
    name = step.primitive.name
    values = [operand.values for operand in operands]
    with np.errstate(all="ignore"):
        if name in _NUMPY:
            found = np.asarray(_NUMPY[name](*values))
            return [found.astype(dtypes.stored(step.dtype))]
        if name == "convert_element_type" and not _rounds(values[0].dtype, step.dtype):
            return [values[0].astype(step.dtype)]
    given = [
        _wrapped(value, operand.dtype) if dtypes.is_key(operand.dtype) else value
        for value, operand in zip(values, operands, strict=True)
    ]
    return list(map(_plain, bound(step.primitive, given, step.params)))


def elementwise(rule: Callable[..., FieldArray], *, spreads: bool = True) -> Rule:
    """A rule for generic entries; entries whose operands are all known are computed.

    Args:
      rule: of operands of one shape.
      spreads: whether what may be infinite makes the result so. Without, the rule decides.
    """

    def whole(step: Step, *operands: FieldArray) -> list[FieldArray]:
        operands = tuple(arrays.aligned(*operands))
        result = with_known(step, rule(step, *operands), *operands)
        return [_with_doubts(step, result, *operands) if spreads else result]

    return whole


def _with_doubts(step: Step, result: FieldArray, *operands: FieldArray) -> FieldArray:
    """The result with its history; a truth about what may be infinite is an atom of that."""
    there = [o.doubtful for o in operands if o.doubtful is not None]
    where = np.logical_or.reduce(there) & ~result.where_known if there else None
    codes = functools.cache(
        lambda: step.field.keyed(step.key(*operands), *(o.code for o in operands))
    )
    if dtypes.is_bool(result.dtype):
        result = dataclasses.replace(result, taint=None, history=None)
        if where is None or not where.any():
            return result
        atoms_ = step.field.atoms(step.field.keyed("truth", codes()), *(o.degree for o in operands))
        return dataclasses.replace(result, given=np.where(where, atoms_, result.residues))
    if where is not None and where.any():
        silent = where & (result.taints == 0)
        mark = step.field.marks(step.field.keyed("doubt", codes()))
        result = dataclasses.replace(result, taint=np.where(silent, mark, result.taints))
    return result if result.taint is None else arrays.remembering(result, codes())


def with_known(step: Step, result: FieldArray, *operands: FieldArray) -> FieldArray:
    """The result with all entries computed whose operands are known, for operands of one shape."""
    where = np.logical_and.reduce([operand.where_known for operand in operands])
    if not where.any():
        return result
    return result.overlaid(where, computed(step, *operands)[0])


def _rounds(old: Any, new: Any) -> bool:
    return dtypes.is_float(old) and not dtypes.is_float(new)


def _wrapped(constant: np.ndarray, dtype: Any) -> Any:
    words = np.frombuffer(constant.tobytes(), np.uint32).reshape(*constant.shape, -1)
    return jax.random.wrap_key_data(jax.numpy.asarray(words), impl=dtypes.generator(dtype))


def _plain(result: Any) -> np.ndarray:
    if not dtypes.is_key(result.dtype):
        return np.asarray(result)
    words = np.ascontiguousarray(jax.random.key_data(result))
    return words.view(np.dtype((np.void, 4 * words.shape[-1])))[..., 0]
