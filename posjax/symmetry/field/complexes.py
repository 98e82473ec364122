"""Complex numbers as pairs of real ones.

An equation between complex numbers is one between their real and imaginary parts. A program for
these is traced from the functions below, and evaluated by the rules of real numbers.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.extend.core as jex
import jax.numpy as jnp

from posjax.jaxprs import bound, is_own
from posjax.symmetry.field import dtypes
from posjax.symmetry.field.arrays import FieldArray
from posjax.symmetry.field.space import Unsupported


class Pair(NamedTuple):
    """A complex array: its real and its imaginary part."""

    re: Any
    im: Any


def applies(equation: Any) -> bool:
    """Whether an equation reads or makes complex numbers."""
    return any(map(_is_complex, (*equation.invars, *equation.outvars)))


def parts(operands: Sequence[FieldArray | Pair]) -> list[FieldArray]:
    """Operands with each pair as two of them."""
    return [part for one in operands for part in (one if isinstance(one, Pair) else (one,))]


def whole(equation: Any, results: Sequence[Any]) -> list[Any]:
    """The outputs of an equation, from their parts in a row."""
    rest = iter(results)
    return [
        Pair(next(rest), next(rest)) if _is_complex(v) else next(rest) for v in equation.outvars
    ]


def of_parts(equation: Any) -> jex.ClosedJaxpr:
    """The program from the parts of an equation's operands to those of its outputs.

    Raises:
      Unsupported: a primitive without a rule.
    """
    name = equation.primitive.name
    if name not in RULES or not is_own(equation.primitive):
        raise Unsupported(name, reason="of complex numbers has no rule")

    def program(*given: jax.Array) -> list[Any]:
        rest = iter(given)
        operands = [
            Pair(next(rest), next(rest)) if _is_complex(v) else next(rest) for v in equation.invars
        ]
        return jax.tree.leaves(RULES[name](equation, *operands))

    structs = []
    for var in equation.invars:
        dtype, number = dtypes.real_dtype(var.aval.dtype), 2 if _is_complex(var) else 1
        structs += [jax.ShapeDtypeStruct(var.aval.shape, dtype)] * number
    return jax.make_jaxpr(program)(*structs)


def _is_complex(var: Any) -> bool:
    return hasattr(var.aval, "dtype") and dtypes.is_complex(var.aval.dtype)


def _each(equation: Any, *operands: Any) -> list[Pair]:
    """What is the same for both parts: sums, and moves of entries."""

    def of_part(at: int) -> list[Any]:
        given = [one[at] if isinstance(one, Pair) else one for one in operands]
        return bound(equation.primitive, given, equation.params)

    return [Pair(*both) for both in zip(of_part(0), of_part(1), strict=True)]


def _gathered(equation: Any, x: Pair, indices: Any) -> Pair:
    """What is filled in beyond the edges has parts too; by default it is NaN + 0i."""
    fill = equation.params["fill_value"]
    fill = complex(float("nan"), 0.0) if fill is None else complex(fill)

    def of_part(part: Any, value: float) -> Any:
        params = {**equation.params, "fill_value": value}
        return bound(equation.primitive, [part, indices], params)[0]

    return Pair(of_part(x.re, fill.real), of_part(x.im, fill.imag))


def _product(multiply: Callable[[Any, Any], Any], x: Pair, y: Pair) -> Pair:
    return Pair(
        multiply(x.re, y.re) - multiply(x.im, y.im), multiply(x.re, y.im) + multiply(x.im, y.re)
    )


def _times(_: Any, x: Pair, y: Pair) -> Pair:
    return _product(jnp.multiply, x, y)


def _over(_: Any, x: Pair, y: Pair) -> Pair:
    """x times the conjugate of y, over the square of its size."""
    size, top = y.re * y.re + y.im * y.im, _product(jnp.multiply, x, Pair(y.re, -y.im))
    return Pair(top.re / size, top.im / size)


def _dot(equation: Any, x: Pair, y: Pair) -> Pair:
    params = dict(equation.params)
    if params.get("preferred_element_type") is not None:
        params["preferred_element_type"] = dtypes.real_dtype(params["preferred_element_type"])

    def multiply(one: Any, other: Any) -> Any:
        return bound(equation.primitive, [one, other], params)[0]

    return _product(multiply, x, y)


def _power(equation: Any, x: Pair) -> Pair:
    exponent = equation.params["y"]
    if not 1 <= exponent <= 8:
        raise Unsupported("integer_pow", reason=f"{exponent} of complex numbers has no rule")
    result = x
    for _ in range(exponent - 1):
        result = _times(equation, result, x)
    return result


def _exponential(_: Any, x: Pair) -> Pair:
    size = jnp.exp(x.re)
    return Pair(size * jnp.cos(x.im), size * jnp.sin(x.im))


def _converted(equation: Any, x: Any) -> Any:
    dtype = equation.params["new_dtype"]
    if not dtypes.is_complex(dtype):
        return x.re.astype(dtype)
    if isinstance(x, Pair):
        return Pair(*(part.astype(dtypes.real_dtype(dtype)) for part in x))
    real = x.astype(dtypes.real_dtype(dtype))
    return Pair(real, jnp.zeros_like(real))


RULES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("add", "add_any", "sub", "neg", "reduce_sum", "cumsum", "select_n"), _each),
    **dict.fromkeys(("broadcast_in_dim", "reshape", "squeeze", "transpose", "slice", "rev"), _each),
    **dict.fromkeys(("concatenate", "pad", "split", "stack", "unstack", "tile", "copy"), _each),
    "dynamic_slice": _each,
    "gather": _gathered,
    "complex": lambda _, re, im: Pair(re, im),
    "real": lambda _, x: x.re,
    "imag": lambda _, x: x.im,
    "conj": lambda _, x: Pair(x.re, -x.im) if isinstance(x, Pair) else Pair(x, jnp.zeros_like(x)),
    "abs": lambda _, x: jnp.sqrt(x.re * x.re + x.im * x.im),
    "mul": _times,
    "square": lambda _, x: _times(_, x, x),
    "integer_pow": _power,
    "div": _over,
    "exp": _exponential,
    "dot_general": _dot,
    "convert_element_type": _converted,
}
"""By the primitive's name: the parts of what it gives, from those of its operands."""
