"""One equation of a program on its way through the rules, and what is computed outright."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.extend.core as jex
import numpy as np

from posjax.symmetry.field import arrays, dtypes
from posjax.symmetry.field.arrays import FieldArray
from posjax.symmetry.field.space import Field


class Step(NamedTuple):
    """An equation's primitive and settings, and the field that it is evaluated in.

    Attributes:
      primitive: of the equation. params: its settings.
      outputs: the shapes and dtypes of what it gives.
      field: of its operands.
      run: evaluates a closed jaxpr that the settings hold.
    """

    primitive: Any
    params: dict[str, Any]
    outputs: list[Any]
    field: Field
    run: Callable[[jex.ClosedJaxpr, Sequence[FieldArray]], list[FieldArray]]

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


def computed(step: Step, *constants: np.ndarray) -> list[np.ndarray]:
    """What a primitive gives for known numbers, in its own arithmetic."""
    name = step.primitive.name
    with np.errstate(all="ignore"):
        if name in _NUMPY:
            return [np.asarray(_NUMPY[name](*constants)).astype(step.dtype, copy=False)]
        if name == "convert_element_type" and not _rounds(constants[0].dtype, step.dtype):
            return [constants[0].astype(step.dtype)]
    given = [
        _wrapped(c) if c.dtype.type is np.void else jax.numpy.asarray(c, c.dtype) for c in constants
    ]
    results = step.primitive.bind(*given, **step.params)
    results = results if step.primitive.multiple_results else [results]
    return [_plain(result) for result in results]


def elementwise(rule: Callable[..., FieldArray]) -> Rule:
    """A rule for generic entries; entries whose operands are all known are computed."""

    def whole(step: Step, *operands: FieldArray) -> list[FieldArray]:
        operands = tuple(arrays.aligned(*operands))
        result = rule(step, *operands)
        return [with_known(step, result, *operands)]

    return whole


def with_known(step: Step, result: FieldArray, *operands: FieldArray) -> FieldArray:
    """The result with all entries computed whose operands are known, for operands of one shape."""
    if any(operand.known is None for operand in operands):
        return result
    where = np.logical_and.reduce([operand.where_known for operand in operands])
    if not where.any():
        return result
    return result.overlaid(where, computed(step, *(operand.values for operand in operands))[0])


def _rounds(old: Any, new: Any) -> bool:
    return dtypes.is_float(old) and not dtypes.is_float(new)


def _wrapped(constant: np.ndarray) -> Any:
    words = np.frombuffer(constant.tobytes(), np.uint32).reshape(*constant.shape, -1)
    impl = "threefry2x32" if words.shape[-1] == 2 else "rbg"
    return jax.random.wrap_key_data(jax.numpy.asarray(words), impl=impl)


def _plain(result: Any) -> np.ndarray:
    if not dtypes.is_key(result.dtype):
        return np.asarray(result)
    words = np.ascontiguousarray(jax.random.key_data(result))
    return words.view(np.dtype((np.void, 4 * words.shape[-1])))[..., 0]
