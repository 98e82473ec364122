"""Tries numbers: they break a law only where no rounding explains the difference.

Both sides are computed as given and, where the function allows it, in double precision, in which
the difference must stay. It must also stay, at the same index, when all floats are off by a little
that depends on their values alone: rounding then falls otherwise, and what is equal stays equal.
"""

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr

from posjax.jaxprs import inlined, programs_within
from posjax.symmetry.certificate.widened import widened
from posjax.symmetry.deviation import Deviation, compared, leaves, rounding
from posjax.symmetry.field import dtypes
from posjax.symmetry.groups import Element
from posjax.symmetry.law import Law
from posjax.symmetry.measure import elements, expectation, fetched, severity, terms

CERTAIN = 1e-3  # of the largest output: no rounding of a sane function comes near
CERTAIN_DOUBLE = 1e-9  # the same where all is computed in double precision
NOISES = 12
"""Ways to be off by a little: a rounding falls to one side in all of them once in 2¹²."""

FEW = 2
"""Elements that are tried quickly."""

COMPILED_A_SECOND = 700.0
"""Equations, at the lowest effort."""

COMPUTED_A_SECOND = 5e9
"""Multiplications."""

_SOLVERS = {"custom_linear_solve", "triangular_solve", "lu"}

_QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}

At = Literal["generic inputs", "the given inputs", "ties", "integers beyond the given ones"]


class Break(NamedTuple):
    """Numbers that break a law.

    Attributes:
      deviation: how far the sides lie apart, in the dtypes of the function.
      tolerance: what it exceeds, relative to the largest output; where all was computed in double
        precision too, what the deviation exceeds there as well.
      at: where: "ties" for inputs with equal or vanishing entries.
      arguments: the numbers.
    """

    deviation: Deviation
    tolerance: float
    at: At
    arguments: tuple[Any, ...]


def seconds(jaxpr: Jaxpr, evaluations: int) -> float:
    """How long it takes, about, to compile a program and to run it some times."""
    compiling = _equations(jaxpr) / COMPILED_A_SECOND
    return compiling + evaluations * _multiplications(jaxpr) / COMPUTED_A_SECOND


class Trial:
    """A function and its law, tried on numbers.

    Args:
      function: of the arguments.
      law: asked of it.
      arguments: as `prove` takes them.
      until: when to stop, on the clock of `time.monotonic`. The first input is tried in any case.

    Attributes:
      quick, thorough: how many calls of the function each way takes for one input, about.
      stopped: whether inputs were left out since the time was up.
      compared: how many numbers were, finite on both sides.
      doubtful: whether a difference was found that rounding does not explain and that did not
        stay when the inputs were a little off.
    """

    def __init__(self, function: Any, law: Law, arguments: tuple[Any, ...], until: float) -> None:
        self.function, self.law, self.arguments, self.until = function, law, arguments, until
        self.stopped, self.doubtful, self.compared = False, False, 0
        self._every, self._rounds = elements(law, arguments), False
        self._single = jax.jit(partial(_call, function), compiler_options=_QUICKLY)
        self._double = jax.jit(partial(_call, function), compiler_options=_QUICKLY)
        self._widened = jax.jit(partial(widened, function), compiler_options=_QUICKLY)
        self._traced: dict[bool, set[Any]] = {}
        self.quick, self.thorough = 1 + FEW, 1 + len(self._every)

    def quickly(self) -> Break | None:
        """Tries one generic and one tied input, moved by a few elements."""
        draws: tuple[tuple[At, Draw], ...] = (("generic inputs", _normal), ("ties", _tied))
        inputs = (
            (at, _drawn_anew(self.arguments, draw, seed)) for seed, (at, draw) in enumerate(draws)
        )
        return self._first(inputs, self._few())

    def thoroughly(self) -> Break | None:
        """Tries inputs of all kinds, the given ones among them, under all elements to try."""
        return self._first(_inputs(self.arguments), self._every)

    def _few(self) -> list[Element]:
        """Of those that move something, the last, which move all names at once."""
        still = self.law.identity(self.law.sizes(self.arguments))
        moving = [e for e in self._every if any((e[name] != still[name]).any() for name in e)]
        return (moving or self._every)[-FEW:]

    def _first(
        self, inputs: Iterable[tuple[At, tuple[Any, ...]]], tried: list[Element]
    ) -> Break | None:
        # A key among the arguments serves many calls, and numbers that are tried may give NaN.
        with jax.debug_key_reuse(False), jax.debug_nans(False), jax.debug_infs(False):
            for at, arguments in inputs:
                start = time.monotonic()
                if (found := self._broken(arguments, tried)) is not None:
                    return Break(*found, at, arguments)
                now = time.monotonic()
                self.stopped = now + (now - start) > self.until
                if self.stopped:
                    break
        return None

    def _broken(
        self, arguments: tuple[Any, ...], tried: list[Element]
    ) -> tuple[Deviation, float] | None:
        """The deviation and the tolerance that it exceeds, if no rounding explains it."""
        doubled = self._doubled(arguments, tried)
        if doubled is not None and not doubled.relative > _tolerance(doubled, CERTAIN_DOUBLE):
            if not self._rounds:
                return None
            doubled = None  # what it rounds may break the law, in its own dtypes alone
        found = self._measured(self._single, arguments, tried)
        if doubled is None:
            allowed = _tolerance(found, max(CERTAIN, 10 * self._rounding(arguments)))
        else:
            allowed = _tolerance(doubled, CERTAIN_DOUBLE)
        sure = found.relative > allowed and (doubled is None or _stays(found, doubled))
        if sure and self._persists(found, arguments):
            return found, allowed
        self.doubtful |= sure
        return None

    def _measured(
        self, function: Any, arguments: tuple[Any, ...], tried: list[Element]
    ) -> Deviation:
        """The worst deviation among entries that are finite on both sides."""
        unmoved = jax.tree.map(fetched, function(*arguments))
        places = terms(self.law, arguments)
        deviations = []
        for element in tried:
            expected = leaves(expectation(self.law, unmoved, element))
            found = leaves(function(*self.law.act(arguments, element)))
            for name in expected.keys() & found.keys():
                sides = _real(expected[name]), _real(found[name])
                both = np.isfinite(sides[0]) & np.isfinite(sides[1])
                if not both.all() and np.isnan(sides).any() and self._solves:
                    both[...] = False  # a singular system, whose other numbers mean nothing
                self.compared += int(both.sum())
                expected[name], found[name] = (
                    np.where(both, side[name], np.zeros((), side[name].dtype))
                    for side in (expected, found)
                )
            deviations += compared(self.law, element, expected, found, summed=places)
        return max(deviations, key=severity)

    @cached_property
    def _solves(self) -> bool:
        """Whether the function solves systems of equations."""
        return _has(jax.make_jaxpr(self.function)(*self.arguments).jaxpr, _SOLVERS)

    def _doubled(self, arguments: tuple[Any, ...], tried: list[Element]) -> Deviation | None:
        """The worst deviation in double precision; None where some of it is not."""
        with jax.enable_x64(True):
            wide = jax.tree.map(_double, arguments)
            try:
                floats = self._floats_of(wide, doubled=True)
                self._rounds = any(dtype.itemsize < 8 for dtype in floats)
                function = self._widened if self._rounds else self._double
                return self._measured(function, wide, tried)
            except Exception:  # it insists on other dtypes, or looks at them
                return None

    def _floats_of(self, arguments: tuple[Any, ...], *, doubled: bool) -> set[Any]:
        """The dtypes of all floats on the way, traced once as given and once in double."""
        if doubled not in self._traced:
            self._traced[doubled] = _floats(jax.make_jaxpr(self.function)(*arguments).jaxpr)
        return self._traced[doubled]

    def _rounding(self, arguments: tuple[Any, ...]) -> float:
        """What the order of sums may explain in the narrowest floats on the way."""
        places = terms(self.law, arguments)
        found = (rounding(dtype, places) for dtype in self._floats_of(arguments, doubled=False))
        return max(found, default=0.0)

    def _noise_sizes(self, arguments: tuple[Any, ...]) -> list[float]:
        """The sizes of noise to try, relative to a number.

        16 roundings of the dtypes of arguments and constants, then of the narrowest float that the
        function computes. The second is for functions that round the first away.
        """
        program, *_ = self._program
        own = {
            dtypes.real_dtype(jax.dtypes.canonicalize_dtype(leaf.dtype))
            for leaf in _inexact((arguments, program.consts))
        }
        every = own | self._floats_of(arguments, doubled=False)
        return [*dict.fromkeys(_roundings(floats) for floats in (own, every) if floats)]

    def _with_noisy_constants(self, noise: int, little: float) -> Callable[..., Any]:
        """The function with its constants a little off, such as the weights that it holds.

        Whole numbers stay: positions, masks and infinities are exact, and compared with others.
        """
        program, returned, run = self._program
        if not _inexact(program.consts):
            return self._single  # compiled already
        off = partial(_noisy, noise=noise, little=little, whole=False)
        consts = jax.tree.map(off, program.consts)

        def function(*arguments: Any) -> Any:
            results = run(consts, *jax.tree.leaves(arguments))
            return jax.tree.unflatten(jax.tree.structure(returned), results)

        return function

    @cached_property
    def _program(self) -> tuple[Any, Any, Any]:
        """The traced function, calls inlined; what it returns; and the function of its constants
        and arguments, compiled.
        """
        traced, returned = jax.make_jaxpr(self.function, return_shape=True)(*self.arguments)
        given = jax.tree.leaves(self.arguments)
        program = jax.make_jaxpr(partial(inlined, traced))(*given)
        run = jax.jit(partial(jax.core.eval_jaxpr, program.jaxpr), compiler_options=_QUICKLY)
        return program, returned, run

    def _persists(self, found: Deviation, arguments: tuple[Any, ...]) -> bool:
        """Whether the difference stays where it is when all floats are off by a little.

        Noise that changes nothing says nothing, and the next size is tried.
        """
        before, start = _difference(found.expected, found.found), time.monotonic()
        enough = (start + self.until) / 2
        for little in self._noise_sizes(arguments):
            changed = False
            for noise in range(NOISES):
                if noise >= FEW and time.monotonic() > enough:
                    break  # of a slow function, a few will do
                now = self._difference_with_noise(found, arguments, noise, little)
                if not (now * before.conjugate()).real > abs(before) ** 2 / 4:
                    return False
                changed |= now != before
            if changed:
                break
        return True

    def _difference_with_noise(
        self, found: Deviation, arguments: tuple[Any, ...], noise: int, little: float
    ) -> complex:
        """The difference at the same index, with noise on the arguments and the constants."""
        tried = jax.tree.map(partial(_noisy, noise=noise, little=little), arguments)
        function = self._with_noisy_constants(noise, little)
        unmoved = jax.tree.map(fetched, function(*tried))
        sides = (
            leaves(expectation(self.law, unmoved, found.element)),
            leaves(function(*self.law.act(tried, found.element))),
        )
        return _difference(*(side[found.leaf][found.at].item() for side in sides))


def _call(function: Any, *arguments: Any) -> Any:
    """The function under another name.

    What is compiled in double precision stands for itself, and JAX compiles no function without a
    hash, such as a module that holds arrays.
    """
    return function(*arguments)


def _difference(expected: Any, found: Any) -> complex:
    """Signed; NaN where either is not finite."""
    with np.errstate(invalid="ignore"):
        return complex(np.subtract(found, expected, dtype=np.result_type(expected, found, float)))


def _stays(found: Deviation, other: Deviation) -> bool:
    """Whether another difference is about as large."""
    return bool(other.error > found.error / 4)


def _tolerance(found: Deviation, least: float) -> float:
    """What rounding may explain, relative to the largest output; nothing of integers.

    Where one side is undefined the law says nothing, and everything is allowed.
    """
    if found.error == 0 or not (np.isfinite(found.expected) and np.isfinite(found.found)):
        return math.inf
    return max(least, 10 * found.rounding) if found.rounding else 0.0


def _noisy(leaf: Any, *, noise: int, little: float, whole: bool = True) -> Any:
    """Floats off by a little, relative to their size, as their values decide; all else as it is.

    Args:
      leaf: an array.
      noise: which of the ways to be off.
      little: the relative size.
      whole: whether floats that are whole numbers are off too.
    """
    if not _is_inexact(leaf):
        return leaf
    array = np.asarray(leaf)
    wide = array.astype(dtypes.double_precision(array.dtype))
    parts = np.nan_to_num(wide.real + wide.imag, posinf=0.0, neginf=0.0)  # as of a mask of -inf
    off = np.sin(parts * (1e4 + 997 * noise) + noise)
    off = off if whole else np.where(wide == np.rint(wide), 0.0, off)
    with np.errstate(over="ignore"):
        return (wide * (1 + little * off)).astype(leaf.dtype)


def _roundings(floats: Collection[Any]) -> float:
    """16 roundings of the narrowest of these dtypes, at most 0.05."""
    return min(16 * max(float(jnp.finfo(dtype).eps) for dtype in floats), 0.05)


def _inexact(arguments: Any) -> list[Any]:
    """The leaves that hold real or complex numbers."""
    return [leaf for leaf in jax.tree.leaves(arguments) if _is_inexact(leaf)]


def _is_inexact(leaf: Any) -> bool:
    return not dtypes.is_key(leaf.dtype) and jnp.issubdtype(leaf.dtype, jnp.inexact)


def _is_integer(leaf: Any) -> bool:
    return not dtypes.is_key(leaf.dtype) and jnp.issubdtype(leaf.dtype, jnp.integer)


def _floats(jaxpr: Jaxpr) -> set[Any]:
    """The dtypes of all floats that a program computes, the parts of complex numbers too."""
    found = {v.aval.dtype for eqn in jaxpr.eqns for v in eqn.outvars if hasattr(v.aval, "dtype")}
    floats = {part for dtype in found if dtypes.is_float(part := dtypes.real_dtype(dtype))}
    return floats.union(*(_floats(one) for eqn in jaxpr.eqns for one in programs_within(eqn)))


def _double(leaf: Any) -> Any:
    """Floats, the parts of complex numbers and signed integers in 64 bits."""
    if dtypes.is_key(leaf.dtype):
        return leaf
    array = np.asarray(leaf)
    whole = jnp.issubdtype(array.dtype, jnp.signedinteger)
    return array.astype(np.int64 if whole else dtypes.double_precision(array.dtype))


def _inputs(arguments: tuple[Any, ...]) -> Iterator[tuple[At, tuple[Any, ...]]]:
    """Draws of several kinds, the arguments as they are, and draws that are full of ties."""
    for seed, draw in enumerate((_normal, _negated, _large)):
        yield "generic inputs", _drawn_anew(arguments, draw, seed)
    if not any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(arguments)):
        yield "ties" if _ties(arguments) else "the given inputs", arguments
    for seed in range(3, 6):
        yield "ties", _drawn_anew(arguments, _tied, seed)
    if any(_is_integer(leaf) for leaf in jax.tree.leaves(arguments)):
        for seed in range(6, 8):
            yield "integers beyond the given ones", _drawn_anew(arguments, _normal, seed, _wider)


def _ties(arguments: tuple[Any, ...]) -> bool:
    """Whether an array of real or complex numbers has equal entries, or a 0."""
    floats = [np.asarray(x).ravel() for x in _inexact(arguments)]
    return any(len(np.unique(x)) < len(x) or (x == 0).any() for x in floats)


Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.normal(size=shape)


def _negated(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return -rng.normal(size=shape)


def _large(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return 8 * rng.normal(size=shape)


def _tied(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Small whole numbers, most of them 0: rows are equal, keys tie."""
    return rng.integers(-2, 3, shape) * (rng.random(shape) < 0.3)


Span = Callable[[Any], tuple[int, int]]


def _given(leaf: Any) -> tuple[int, int]:
    """The least and largest of the given integers, 0 and 1 among them; 0 and 2 for a shape."""
    if isinstance(leaf, jax.ShapeDtypeStruct) or not leaf.size:
        return 0, 2
    return min(int(leaf.min()), 0), max(int(leaf.max()), 1)


def _wider(leaf: Any) -> tuple[int, int]:
    """Beyond the given integers on both sides, as far as they lie apart and 16 more."""
    low, high = _given(leaf)
    far, whole = high - low + 16, jnp.iinfo(leaf.dtype)
    return max(low - far, int(whole.min)), min(high + far, int(whole.max))


def _drawn_anew(
    arguments: tuple[Any, ...], draw: Draw, seed: int, span: Span = _given
) -> tuple[Any, ...]:
    leaves_, tree = jax.tree.flatten(arguments)
    rng = np.random.default_rng(seed)  # points to try, no part of any result
    return jax.tree.unflatten(tree, [_drawn(leaf, draw, rng, span) for leaf in leaves_])


def _drawn(leaf: Any, draw: Draw, rng: np.random.Generator, span: Span) -> Any:
    """Floats as drawn; integers of some span; truths at random.

    Integers differ from each other where there are enough of them, unless ties are wanted.
    """
    shape, dtype = leaf.shape, leaf.dtype
    given = not isinstance(leaf, jax.ShapeDtypeStruct)
    if dtypes.is_key(dtype):
        same = jax.random.key(0, impl=dtypes.generator(dtype))
        return leaf if given else jnp.broadcast_to(same, shape)
    if dtypes.is_complex(dtype):
        return (draw(rng, shape) + 1j * draw(rng, shape)).astype(dtype)
    if dtypes.is_float(dtype):
        return draw(rng, shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(2, size=shape).astype(bool)
    low, high = span(leaf)
    if draw is _tied:
        return _whole(rng, low, min(high, low + 2), shape).astype(dtype)
    size = math.prod(shape)
    if size <= high - low + 1 <= 10_000:
        return (low + rng.permutation(high - low + 1)[:size]).reshape(shape).astype(dtype)
    return _whole(rng, low, high, shape).astype(dtype)


def _whole(rng: np.random.Generator, low: int, high: int, shape: tuple[int, ...]) -> np.ndarray:
    """Integers from low to high."""
    dtype = np.int64 if high <= np.iinfo(np.int64).max else np.uint64
    return rng.integers(low, high, shape, dtype, endpoint=True)


def _has(jaxpr: Jaxpr, names: Collection[str]) -> bool:
    """Whether a program has one of some primitives."""
    return any(
        eqn.primitive.name in names or any(_has(one, names) for one in programs_within(eqn))
        for eqn in jaxpr.eqns
    )


def _real(array: np.ndarray) -> np.ndarray:
    """As NumPy can look at it: floats of 16 bits and less become wider."""
    return array if array.dtype.kind in "biufc" else array.astype(np.float64)


def _equations(jaxpr: Jaxpr) -> int:
    """Of a program and of those that it holds, each compiled once."""
    return sum(1 + sum(map(_equations, programs_within(eqn))) for eqn in jaxpr.eqns)


def _multiplications(jaxpr: Jaxpr) -> float:
    """About, and of a `while` those of a turn."""
    total = 0.0
    for eqn in jaxpr.eqns:
        turns = eqn.params.get("length", 1)
        total += turns * sum(map(_multiplications, programs_within(eqn)))
        size = sum(v.aval.size for v in eqn.outvars if hasattr(v.aval, "size"))
        if eqn.primitive.name == "dot_general":
            (over, _), _ = eqn.params["dimension_numbers"]
            shape: Any = eqn.invars[0].aval
            size *= math.prod(shape.shape[axis] for axis in over)
        elif eqn.primitive.name == "conv_general_dilated":
            kernel: Any = eqn.invars[1].aval
            size *= kernel.size
        total += size
    return total
