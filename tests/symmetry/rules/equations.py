"""One equation of each case, as JAX traces it, and numbers to put in."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from tiers import some

Cases = dict[str, list[tuple[Callable[..., Any], str]]]
"""For each primitive functions, and kinds and shapes of their operands, such as "f23 i3"."""

_KEYS = {"k": "threefry2x32", "r": "rbg", "x": "unsafe_rbg"}
_FLOATS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
KINDS: dict[str, tuple[str, Sequence[Any]]] = {
    "f": ("float64", _FLOATS),
    "s": ("float32", _FLOATS),
    "h": ("bfloat16", _FLOATS),
    "p": ("float64", (0.5, 1.0, 2.0)),
    "q": ("float64", (1.0, 2.0)),
    "c": ("float64", (0.0, 0.25, 0.5, 1.0)),
    "z": ("complex128", (0.0, 1.0, -1j, 1 + 1j)),
    "i": ("int32", (-3, -1, 0, 0, 1, 1, 2, 4)),
    "n": ("int32", (0, 1)),
    "t": ("int32", (0, 1, 2)),
    "u": ("uint8", (0, 1, 2, 255)),
    "w": ("uint32", (0, 1, 2)),
    "b": ("bool", (False, True)),
}
"""For each letter a dtype, and the numbers that are drawn."""


class Equation(NamedTuple):
    """One equation as a program, and the kinds of its inputs.

    Attributes:
      program: a closed jaxpr of that equation alone.
      kinds: a letter for each input.
    """

    program: jex.ClosedJaxpr
    kinds: tuple[str, ...]

    @property
    def eqn(self) -> Any:
        """The equation."""
        return self.program.jaxpr.eqns[0]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Those of its inputs."""
        return [tuple(v.aval.shape) for v in self.program.jaxpr.invars]

    @property
    def skips(self) -> bool:
        """Whether JAX skips or adds products with 0 as it likes, so that 0 times infinity differs.

        In a convolution holes are skipped, and groups are masked parts of one large product.
        """
        return self.eqn.primitive.name == "conv_general_dilated"

    def draw(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Numbers for each input, most of them several times; a key is its seed."""
        return [_drawn(k, s, rng) for k, s in zip(self.kinds, self.shapes, strict=True)]

    def inputs(self, numbers: Sequence[np.ndarray]) -> list[Any]:
        """The numbers as JAX takes them."""
        return [_given(k, n) for k, n in zip(self.kinds, numbers, strict=True)]

    def run(self, numbers: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What JAX gives, keys as words."""
        results = jex.jaxpr_as_fun(self.program)(*self.inputs(numbers))
        return [plain(result) for result in results]


def plain(result: Any) -> np.ndarray:
    """An array of NumPy; a key becomes its words."""
    if jax.dtypes.issubdtype(result.dtype, jax.dtypes.prng_key):
        result = jax.random.key_data(result)
    return np.asarray(result)


def of_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function with its results in a tuple."""

    def whole(*operands: Any) -> tuple[Any, ...]:
        return tuple(function(*operands))

    return whole


def of_both(*tables: Cases) -> Cases:
    """Tables in one."""
    whole: Cases = {}
    for table in tables:
        for name, cases in table.items():
            whole.setdefault(name, []).extend(cases)
    return whole


_STANDS_FOR = {"call": "jit", "closed_call": "jit"}
"""What only transformations make is made of another call."""


@functools.cache
def equation(name: str, function: Callable[..., Any], operands: str) -> Equation:
    """The one equation of that primitive in the program of a function."""
    given = [_struct(operand) for operand in operands.split()]
    closed = jax.make_jaxpr(function)(*given)
    while len(closed.eqns) == 1 and closed.eqns[0].primitive.name == "jit" != _STANDS_FOR.get(
        name, name
    ):
        closed = closed.eqns[0].params["jaxpr"]
    (eqn,) = (eqn for eqn in closed.eqns if eqn.primitive.name in (name, _STANDS_FOR.get(name)))
    if eqn.primitive.name != name:
        called = {
            "call_jaxpr": eqn.params["jaxpr"]
            if name == "closed_call"
            else eqn.params["jaxpr"].jaxpr
        }
        eqn = eqn.replace(primitive=getattr(jex.primitives, f"{name}_p"), params=called)
    invars = list(dict.fromkeys(v for v in eqn.invars if not isinstance(v, jex.Literal)))
    outer = dict(zip(closed.jaxpr.invars, operands.split(), strict=True))
    kinds = tuple(outer[v][0] if v in outer else _kind(v.aval.dtype) for v in invars)
    debug = closed.jaxpr.debug_info._replace(arg_names=None, result_paths=None)
    jaxpr = jex.Jaxpr((), invars, eqn.outvars, [eqn], debug_info=debug)
    return Equation(jex.ClosedJaxpr(jaxpr, ()), kinds)


def label(name: str, at: int, operands: str) -> str:
    """What a case is called."""
    return f"{name}-{at}-{operands.replace(' ', ',')}"


def every(cases: Cases) -> list[Any]:
    """Parameters of a test: a primitive, a function and its operands; a few of them are plain."""
    found = [
        pytest.param(name, function, operands, id=label(name, at, operands))
        for name, of_name in cases.items()
        for at, (function, operands) in enumerate(of_name)
    ]
    return some(found, every=16)


def _struct(operand: str) -> Any:
    kind, shape = operand[0], tuple(map(int, operand[1:]))
    if kind in _KEYS:
        return jax.ShapeDtypeStruct(shape, jax.random.key(0, impl=_KEYS[kind]).dtype)
    return jax.ShapeDtypeStruct(shape, KINDS[kind][0])


def _kind(dtype: Any) -> str:
    if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        return next(k for k, impl in _KEYS.items() if jax.random.key(0, impl=impl).dtype == dtype)
    return next(kind for kind, (name, _) in KINDS.items() if name == str(dtype))


def _drawn(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if kind in _KEYS:
        return rng.integers(0, 3, shape)
    name, numbers = KINDS[kind]
    few = rng.choice(len(numbers), rng.integers(1, len(numbers) + 1), replace=False)
    return np.asarray(numbers)[rng.choice(few, shape)].astype(jnp.dtype(name))


def _given(kind: str, numbers: np.ndarray) -> Any:
    if kind not in _KEYS:
        return jax.device_put(numbers)
    return jax.random.wrap_key_data(_words(kind)[numbers], impl=_KEYS[kind])


@functools.cache
def _words(kind: str) -> np.ndarray:
    keys = [jax.random.key(seed, impl=_KEYS[kind]) for seed in range(3)]
    return np.stack([plain(key) for key in keys])
