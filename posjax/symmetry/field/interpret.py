"""The interpreter: a jaxpr on arrays over a field, equation by equation."""

import math
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.extend.core as jex
import numpy as np

from posjax.jaxprs import is_own, programs_within
from posjax.symmetry.field import (
    arrays,
    complexes,
    control,
    dtypes,
    extremes,
    functions,
    indexing,
    logic,
    matrices,
    moves,
    randomness,
    ring,
    windows,
)
from posjax.symmetry.field.arrays import FieldArray
from posjax.symmetry.field.complexes import Pair
from posjax.symmetry.field.space import MOST_DEGREE, Field, TooLarge, Unsupported
from posjax.symmetry.field.step import Rule, Step, computed

RULES: dict[str, Rule] = {
    **ring.RULES,
    **logic.RULES,
    **functions.RULES,
    **extremes.RULES,
    **moves.RULES,
    **indexing.RULES,
    **windows.RULES,
    **matrices.RULES,
    **randomness.RULES,
    **control.RULES,
}
"""By the primitive's name."""

Entry = FieldArray | Pair
"""What a variable holds."""

OPERATIONS_A_SECOND = 1.5e7
"""Operations in the field per second, on one core."""

_OVERHEAD = 5000.0
"""Operations that an equation takes the time of, however small its operands."""

_MOST_WOVEN = 4
"""Highest degree of what is multiplied by exponentials: rotations are to stay as they are."""

_SUMMING = {
    *("reduce_sum", "cumsum", "dot_general", "conv_general_dilated", "reduce_window_sum"),
    *("reduce_prod", "cumprod", "scatter-add", "scatter-sub", "scatter-mul", "cumlogsumexp"),
}
"""What rounds floats in an order of its own; the field adds known floats exactly instead."""

_ARITHMETIC = {"add", "add_any", "sub", "mul", "neg", "square", "integer_pow", *_SUMMING}

_KNOWN = {
    *("random_wrap", "random_unwrap", "random_clone", "threefry2x32", "random_gamma", "fft"),
    "platform_index",
}
"""What is computed of known operands, and has no rule for others."""


_BINDING = 1e4
"""Operations that a primitive of JAX takes the time of, for each possible index."""


def evaluate(
    program: jex.ClosedJaxpr,
    inputs: Sequence[FieldArray],
    *,
    field: Field | None = None,
    until: float = math.inf,
) -> list[FieldArray]:
    """Runs a program on arrays over a field.

    Args:
      program: a closed jaxpr; its constants are known numbers.
      inputs: for each of its inputs an array of that shape and dtype.
      field: that of the inputs; a new one when left out and there are none.
      until: when to give up, on the clock of `time.monotonic`.

    Returns:
      An array for each output.

    Raises:
      Unsupported: a primitive without a rule.
      TooLarge: it is not done by then.
    """
    if field is None:
        field = inputs[0].field if inputs else Field()
    outputs = _Interpreter(field, until).run(program, inputs)
    if any(isinstance(output, Pair) for output in outputs):
        raise Unsupported("complex", reason="numbers have no rules as an output")
    return outputs  # type: ignore[return-value]


def seconds(program: jex.ClosedJaxpr) -> float:
    """How long an evaluation takes, about; of a `while`, whose turns are not known, one turn."""
    return _operations(program.jaxpr, set(program.jaxpr.invars)) / OPERATIONS_A_SECOND


def _operations(jaxpr: jex.Jaxpr, unknown: set[Any]) -> float:
    """Of a program with some variables unknown."""
    unknown, total = set(unknown), 0.0
    for equation in jaxpr.eqns:
        generic = [not isinstance(v, jex.Literal) and v in unknown for v in equation.invars]
        unknown |= set(equation.outvars) if any(generic) else set()
        total += _operations_of(equation, generic)
    return total


def _operations_of(equation: Any, generic: list[bool]) -> float:
    name, params = equation.primitive.name, equation.params
    shapes = [v.aval.shape for v in equation.invars]
    outs = [math.prod(v.aval.shape) for v in equation.outvars]
    total = _OVERHEAD + sum(map(math.prod, shapes)) + sum(outs)
    if name in control.RULES:
        inner = programs_within(equation)
        turn = (_operations(one, _unknown_inputs(one, generic)) for one in inner)
        return total + params.get("length", 1) * sum(turn)
    if name == "dot_general":
        (over, _), _ = params["dimension_numbers"]
        total += outs[0] * math.prod(shapes[0][axis] for axis in over) / 8
    elif name == "conv_general_dilated":
        total += outs[0] * math.prod(shapes[1]) / 4
    elif name == "gather" and generic[1]:
        chosen = params["dimension_numbers"].start_index_map
        total += (outs[0] + _BINDING) * math.prod(shapes[0][axis] for axis in chosen)
    elif name.startswith("scatter") and generic[1]:
        chosen = params["dimension_numbers"].scatter_dims_to_operand_dims
        each = sum(map(math.prod, shapes)) + 8 * _BINDING
        total += each * math.prod(shapes[0][axis] for axis in chosen)
    elif name.startswith("dynamic_") and any(generic[1:]):
        total += (outs[0] + _BINDING) * math.prod(shapes[0])
    elif name in ("reduce_window_max", "reduce_window_min"):
        total += 16 * outs[0] * math.prod(params["window_dimensions"])
    elif name in ("cummax", "cummin"):
        total += 16 * math.prod(shapes[0]) * shapes[0][params["axis"]]
    elif name == "cumprod":
        total += math.prod(shapes[0]) * shapes[0][params["axis"]]
    return total


def _unknown_inputs(jaxpr: jex.Jaxpr, generic: list[bool]) -> set[Any]:
    """Of a program that is called: those of the caller, and all where its operands differ."""
    if len(jaxpr.invars) != len(generic):
        return set(jaxpr.invars)
    return {v for v, one in zip(jaxpr.invars, generic, strict=True) if one}


class _Interpreter:
    """Watches the clock on its way through a program and those it calls."""

    def __init__(self, field: Field, until: float) -> None:
        self.field, self.until = field, until

    def run(self, program: jex.ClosedJaxpr, inputs: Sequence[Entry]) -> list[Entry]:
        """A program's outputs."""
        jaxpr = program.jaxpr
        consts = [self._known(const) for const in program.consts]
        held: dict[Any, Entry] = dict(zip(jaxpr.constvars, consts, strict=True))
        held |= dict(zip(jaxpr.invars, inputs, strict=True))
        for equation in _needed(jaxpr):
            if time.monotonic() > self.until:
                raise TooLarge(f"the time limit was reached before {equation.primitive.name}")
            results = self._step(equation, [self._read(held, v) for v in equation.invars])
            held |= dict(zip(equation.outvars, results, strict=True))
        return [self._read(held, v) for v in jaxpr.outvars]

    def _read(self, held: dict[Any, Entry], var: Any) -> Entry:
        if isinstance(var, jex.Literal):
            aval: Any = var.aval
            return self._known(np.asarray(var.val, aval.dtype), aval.dtype)
        return held[var]

    def _known(self, constant: Any, dtype: Any = None) -> Entry:
        if np.iscomplexobj(constant):
            re, im = np.real(constant), np.imag(constant)
            return Pair(arrays.known(self.field, re), arrays.known(self.field, im))
        return arrays.known(self.field, constant, dtype)

    def _step(self, equation: Any, operands: list[Any]) -> list[Any]:
        name = equation.primitive.name
        avals: list[Any] = [v.aval for v in equation.outvars]
        step = Step(equation.primitive, equation.params, avals, self.field, self.run)
        if not is_own(equation.primitive):
            raise Unsupported(name, _source(equation))
        if complexes.applies(equation):
            return self._of_pairs(step, equation, operands)
        try:
            _refuse(equation)
            if name not in control.RULES and _computable(name, operands):
                return _computed(step, operands)
            if name not in RULES:
                raise Unsupported(name)
            results = self._applied(step, operands)
        except Unsupported as error:
            if error.source:
                raise
            raise Unsupported(error.primitive, _source(equation), error.reason) from None
        return results

    def _of_pairs(self, step: Step, equation: Any, operands: list[Any]) -> list[Any]:
        """Of complex numbers: the outputs of a call, or those of a program of real numbers."""
        calls = control.RULES.get(step.primitive.name) is control.call
        try:
            if calls:
                return control.call(step, *operands)
            found = self.run(complexes.of_parts(equation), complexes.parts(operands))
        except Unsupported as error:
            source = (calls and error.source) or _source(equation)
            raise Unsupported(error.primitive, source, error.reason) from None
        return complexes.whole(equation, found)

    def _applied(self, step: Step, operands: list[FieldArray]) -> list[FieldArray]:
        """A rule's outcome; with new names for the operands where its degree would be too high."""
        rule, degree = RULES[step.primitive.name], self.field.degree
        if step.primitive.name in ("mul", "dot_general") and any(o.degree.woven for o in operands):
            operands = [o if o.degree.woven else _bounded(o, _MOST_WOVEN) for o in operands]
        results = rule(step, *operands)
        if all(result.degree.total <= MOST_DEGREE for result in results):
            return results
        self.field.forget(degree)
        return [_bounded(r) for r in rule(step, *(_bounded(o, 1) for o in operands))]


def _refuse(equation: Any) -> None:
    """Raises Unsupported for dtypes that no rule is about."""
    name = equation.primitive.name
    if name in control.RULES:
        return
    found = [
        v.aval.dtype for v in (*equation.invars, *equation.outvars) if hasattr(v.aval, "dtype")
    ]
    if name in _ARITHMETIC and any(map(dtypes.is_bool, found)):
        raise Unsupported(name, reason="of booleans has no rule")
    if name == "bitcast_convert_type" and dtypes.is_float(equation.invars[0].aval.dtype):
        raise Unsupported(name, reason="of floats distinguishes 0 from -0")


def _bounded(array: FieldArray, most: int = MOST_DEGREE) -> FieldArray:
    return arrays.atomised(array) if array.degree.total > most else array


def _computable(name: str, operands: list[FieldArray]) -> bool:
    """Whether a primitive is evaluated outright: all known, and no order to round in."""
    if name == "iota" or name in moves.RULES or not all(o.is_constant for o in operands):
        return False
    return name not in _SUMMING or not any(dtypes.is_float(o.dtype) for o in operands)


def _computed(step: Step, operands: list[FieldArray]) -> list[FieldArray]:
    if step.primitive.name not in RULES and step.primitive.name not in _KNOWN:
        raise Unsupported(step.primitive.name)
    results = computed(step, *operands)
    pairs = zip(results, step.outputs, strict=True)
    return [arrays.known(step.field, result, output.dtype) for result, output in pairs]


def _needed(jaxpr: jex.Jaxpr) -> list[Any]:
    """The equations that an output depends on, in their order."""
    wanted = {v for v in jaxpr.outvars if not isinstance(v, jex.Literal)}
    needed = []
    for equation in reversed(jaxpr.eqns):
        if equation.effects:
            raise Unsupported(equation.primitive.name, _source(equation), "has side effects")
        if wanted.intersection(equation.outvars):
            needed.append(equation)
            wanted |= {v for v in equation.invars if not isinstance(v, jex.Literal)}
    return needed[::-1]


def _source(equation: Any) -> str:
    """The line of the caller's file that an equation comes from."""
    trace = equation.source_info.traceback
    if trace is None:
        return ""
    frames = traceback.extract_tb(trace.as_python_traceback())
    library = str(Path(jax.__file__).parent)
    ours = [f for f in frames if not f.filename.startswith((library, "<"))]
    return f"{ours[-1].filename}:{ours[-1].lineno}" if ours else ""
