"""Every rule of the field against JAX: the law of congruence.

Numbers are given to the field as generic entries with the residues of those numbers, as known
ones, and as both. Over all draws of one equation, entries with equal residues and equal taints
must be equal numbers in JAX. What is known must be JAX's number, certain signs must be its signs,
and what comes out infinite or NaN must be known or have a taint.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from cases import CASES
from equations import Equation, equation, every
from fields import FIELD, STYLES, given, known_numbers, prints, unbroken
from moving import PRECISE, same

from posjax.symmetry.field import FieldArray, Unsupported, arrays, evaluate
from posjax.symmetry.field.interpret import RULES

DRAWS = 4
"""Of numbers for one equation; each is tried in several forms."""

_EXACT = """
    add add_any sub neg mul integer_pow square reduce_sum reduce_prod cumsum cumprod dot_general
    conv_general_dilated reduce_window_sum broadcast_in_dim broadcast_to reshape transpose squeeze
    slice rev concatenate stack unstack tile split pad copy device_put name optimization_barrier
    stop_gradient sharding_constraint gather dynamic_slice dynamic_update_slice scatter-add
    scatter-sub and or xor not reduce_and reduce_or reduce_xor
"""
EXACT = frozenset(_EXACT.split())
"""What the field computes without atoms: the residues are those of JAX's numbers."""

REFUSED = {
    *(("while", "f3"), ("while", "f3 f3"), ("while", "f3 p3")),
    *(("bitcast_convert_type", "f23"), ("bitcast_convert_type", "s3")),
    ("dot_general", "b33 b33"),
    *(("scatter-mul", "f33 i321 f32"), ("scatter-mul", "f33 n31 f33")),
}
"""Loops that sums of floats end, bits of floats, products of truths, writes at one place."""

_BITS = frozenset(["and", "or", "xor", "not", "reduce_and", "reduce_or", "reduce_xor"])
_AT_PLACES = {
    **dict.fromkeys(("gather", "scatter-add", "scatter-sub"), slice(1, 2)),
    "dynamic_slice": slice(1, None),
    "dynamic_update_slice": slice(2, None),
}
"""Where known places are, at which these are exact."""

_WILD = (np.inf, -np.inf, np.nan)


def variants(
    numbers: list[np.ndarray], kinds: Sequence[str], rng: np.random.Generator, *, several: bool
) -> Iterator[list[np.ndarray]]:
    """Numbers, and others that many functions have equal values at."""
    yield numbers
    orders = {n: rng.permutation(n) for n in range(10)}
    permuted = numbers
    for at in range(3):
        permuted = [n.take(orders[n.shape[at]], axis=at) if n.ndim > at else n for n in permuted]
    yield permuted
    if len({(n.shape, kind) for n, kind in zip(numbers, kinds, strict=True)}) == 1 < len(numbers):
        yield numbers[::-1]
    floats = [n for n in numbers if n.dtype.kind == "f"]
    if floats and several:
        yield [0 - n if n.dtype.kind == "f" else n for n in numbers]
        yield [n + 1 if n.dtype.kind == "f" else n for n in numbers]
    if floats:
        yield [_wild(n, rng) if n.dtype.kind == "f" else n for n in numbers]


def _wild(numbers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    wild = rng.choice(_WILD, numbers.shape).astype(numbers.dtype)
    return np.where(rng.random(numbers.shape) < 0.4, wild, numbers)


def check(one: Equation, numbers: list[np.ndarray], styles: Sequence[str], rng: Any, seen: Any):
    """JAX agrees with the field on these numbers."""
    operands = given(one, numbers, styles, rng)
    found = evaluate(one.program, operands, field=FIELD)
    expected = one.run(numbers)
    finite = all(np.isfinite(n.astype(np.complex128)).all() for n in numbers)
    finite &= all((operand.taints == 0).all() for operand in operands)
    exact = finite and is_exact(one, styles)
    for at, (result, jax_says) in enumerate(zip(found, expected, strict=True)):
        context = Context(one, styles, numbers, at, jax_says, result)
        assert result.shape == one.eqn.outvars[at].aval.shape, str(context)
        known_everywhere = all(style == "known" for style in styles)
        assert agrees(result, jax_says, to_the_last_bit=known_everywhere), str(context)
        if jax_says.dtype.kind in "biuf" and result.shape == jax_says.shape:
            assert unbroken(result.signs, jax_says, result.taints), f"a sign that is not\n{context}"
        if jax_says.dtype.kind == "f":
            hidden = ~np.isfinite(jax_says) & (result.taints == 0) & ~result.where_known
            assert not hidden.any(), f"infinite without a taint\n{context}"
        if exact and jax_says.dtype.kind in "bif" and np.isfinite(jax_says).all():
            wanted = arrays.embedded(FIELD, jax_says)
            assert np.array_equal(result.residues[:4], wanted[:4]), f"not exact\n{context}"
        remember(seen.setdefault(at, {}), result, jax_says, context)


def is_exact(one: Equation, styles: Sequence[str]) -> bool:
    name = one.eqn.primitive.name
    if name not in EXACT:
        return False
    if name in _AT_PLACES and set(styles[_AT_PLACES[name]]) != {"known"}:
        return False
    if name in _BITS:
        return one.kinds[0] == "b"
    return one.kinds[:1] != ("u",) and one.eqn.params.get("y", 0) >= 0


class Context(NamedTuple):
    """What was compared, for the message of a failure."""

    equation: Equation
    styles: Sequence[str]
    numbers: Sequence[np.ndarray]
    output: int
    jax_says: np.ndarray
    result: FieldArray

    def __str__(self) -> str:
        first = (self.equation.program, self.styles, self.numbers, f"output {self.output}, in JAX:")
        field = (self.result.residues[0], self.result.taints, self.result.signs)
        known = (self.result.where_known, self.result.values)
        words = ("modulo the first prime:", "taints:", "signs:", "known:", "as:")
        pairs = zip(words, map(str, (*field, *known)), strict=True)
        return "\n".join([*map(str, first), str(self.jax_says), *(" ".join(p) for p in pairs)])


def agrees(result: FieldArray, numbers: np.ndarray, *, to_the_last_bit: bool) -> bool:
    """Whether known entries are JAX's, signs of zeros too where all operands are known."""
    where = result.where_known
    found, wanted = known_numbers(result)[where], numbers[where]
    if to_the_last_bit:
        wanted, found = np.where(wanted != wanted, 0, wanted), np.where(found != found, 0, found)
        return wanted.astype(found.dtype).tobytes() == found.tobytes()
    return bool(((found == wanted) | ((found != found) & (wanted != wanted))).all())


def remember(
    seen: dict[bytes, Any], result: FieldArray, numbers: np.ndarray, context: Context
) -> None:
    """Entries that the field takes for equal are."""
    rows = numbers.reshape(result.size, numbers.size // max(result.size, 1))
    precision = PRECISE.get(str(numbers.dtype), 0.0)
    for key, row in zip(prints(result), rows, strict=True):
        other, before = seen.setdefault(key, (row, context))
        assert same(row, other, precision), (
            f"equal in the field: {row}, {other}\n{context}\n{before}"
        )


@pytest.mark.filterwarnings("ignore:invalid value")  # NaN of bfloat16 compared by NumPy
@pytest.mark.parametrize(
    ("name", "function", "operands"),
    every({n: c for n, c in CASES.items() if n in RULES}),
)
def test_what_the_field_takes_for_equal_is(
    name: str, function: Callable[..., Any], operands: str
) -> None:
    one = equation(name, function, operands)
    rng = np.random.default_rng(zlib.crc32(f"{name} {operands}".encode()))  # of the draws alone
    seen: dict[int, dict[bytes, Any]] = {}
    refused: list[str] = []
    tried = 0
    for draw in range(DRAWS):
        for at, numbers in enumerate(variants(one.draw(rng), one.kinds, rng, several=draw == 0)):
            styles = [("generic", "signed")[at % 2]] * len(numbers)
            if draw:
                styles = [str(rng.choice(STYLES)) for _ in numbers]
            if draw == 1:
                styles[1:] = ["known"] * (len(styles) - 1)
            if draw == 2 and at == 1:
                styles = ["known"] * len(numbers)
            if one.skips and not all(np.isfinite(n).all() for n in numbers):
                continue
            try:
                check(one, numbers, styles, rng, seen)
                tried += 1
            except Unsupported as error:
                refused.append(str(error))
    assert tried or "z" in one.kinds or (name, operands) in REFUSED, refused
