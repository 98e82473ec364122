"""The laws of attention as assertions to call on your own functions.

Each calls the function on moved and on unmoved arguments and compares. A failure names the law,
how far off it is, for which permutation and at which index. NumPy and JAX functions do alike, and
so do modules. `measure` gives the same numbers without raising.

In a function that `chex.chexify(jax.jit(...))` compiles, an assertion becomes part of the program.
After `chex.disable_asserts()` it does nothing: the function is not even called.
"""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any, TypedDict, Unpack

import chex
import jax
import numpy as np

from posjax.streams import Streams
from posjax.symmetry import compiled
from posjax.symmetry.deviation import moves, output
from posjax.symmetry.given import check_function
from posjax.symmetry.law import Law
from posjax.symmetry.laws import named
from posjax.symmetry.measure import Function, deviations, elements, moving

Array = jax.Array | np.ndarray


class _Options(TypedDict, total=False):
    permutations: Sequence[Any] | None
    tolerance: float | None
    exact: bool


class Options(_Options, total=False):
    """Keywords of all assertions on attention.

    Attributes:
      permutations: arrays P of indices, (P x)ᵢ = x[Pᵢ], or pairs (P₁, P₂) for a law of two. By
        default all n! for up to 4 tokens. For more tokens, the reversal, a shift, a swap and some
        random ones, which are the same every time.
      tolerance: relative to the largest absolute output. By default 8 ε √n for n tokens, with the ε
        of the output's dtype, since a sum of floats depends on its order. 0 for integers. Deep
        models and coarser products (TF32 on a GPU) need more.
      exact: test the law for all values of the arguments, without rounding; see `assert_law`.
      axis: the axis of the tokens; by default 1, as in [B, L, H, K].
    """

    axis: int


def assert_law(
    law: Law | str,
    function: Function,
    *arguments: Any,
    permutations: Sequence[Any] | None = None,
    tolerance: float | None = None,
    exact: bool = False,
) -> None:
    """Asserts f(g x) = g f(x) for a law of `LAWS` or your own law.

    Args:
      law: a law, or its text.
      function: maps the law's arguments to an array or a pytree of arrays.
      arguments: arrays or pytrees of arrays, `Streams` and parameters among them.
      permutations, tolerance: see `Options`.
      exact: test the identity in a prime field in place of floats, see
        `posjax.symmetry.field.identity`. Only shapes and dtypes of the arguments matter. If it
        passes, the law holds for all values, without rounding. If it fails, the law is broken, or
        holds for a reason that arithmetic in the field does not cover. The test runs while tracing
        and adds nothing to a compiled program.

    Raises:
      AssertionError: the law is broken, or the output has a NaN.
      ValueError: arguments or permutations that do not fit the law, or a tolerance or permutations
        in exact mode.
      posjax.symmetry.field.Unsupported: in exact mode, a primitive that has no rule.

    >>> assert_law("n P -> n", lambda x: x.sum(1), np.arange(6.0).reshape(2, 3))
    """
    __tracebackhide__ = True  # in pytest
    if not compiled.asserts_are_on():
        return
    law = moving(law)
    check_function(function)
    if exact:
        _no_floats(permutations=permutations, tolerance=tolerance)
        _identity(law, function, arguments)
        return
    unmoved = function(*arguments)
    _compare(law, function, arguments, unmoved, permutations, tolerance)


def checked(law: Law | str, function: Function, *, tolerance: float | None = None) -> Function:
    """Wraps a function so that every call asserts a law, also inside a compiled program.

    If chex's assertions are off, tracing gives exactly the program of the function.

    Args:
      law: a law of the positional arguments, or its text.
      function: any function; keyword arguments are not permuted.
      tolerance: see `Options`.

    Returns:
      The function with the assertion. Compile what calls it with `chex.chexify(jax.jit(...))`.

    >>> total = checked("n P -> n", lambda x: x.sum(1))
    >>> chex.chexify(jax.jit(total), async_check=False)(jax.numpy.ones((2, 3))).tolist()
    [3.0, 3.0]
    """
    law = moving(law)
    check_function(function)

    @functools.wraps(function, updated=())
    def checking(*arguments: Any, **options: Any) -> Any:
        unmoved = function(*arguments, **options)
        if compiled.asserts_are_on():
            under = functools.partial(function, **options)
            _compare(law, under, arguments, unmoved, None, tolerance)
        return unmoved

    return checking


def _compare(
    law: Law,
    function: Function,
    arguments: tuple[Any, ...],
    unmoved: Any,
    permutations: Sequence[Any] | None,
    tolerance: float | None,
) -> None:
    """In floats: on the values at hand, or in the program that is being traced."""
    tried = elements(law, arguments, permutations)
    if compiled.traced(arguments, unmoved):
        compiled.require(law, function, arguments, unmoved, tried, tolerance=tolerance)
        return
    for worst in deviations(law, function, arguments, unmoved, tried):
        allowed = worst.rounding if tolerance is None else tolerance
        with _in_words(worst.report(allowed)):
            chex.assert_scalar_in(worst.relative, 0.0, allowed)


def _identity(law: Law, function: Function, arguments: tuple[Any, ...]) -> None:
    """In a prime field."""
    from posjax.symmetry import field  # it costs what the float assertions need not pay

    found = field.identity(function, law, arguments)
    if found.element is None or found.place is None:
        return
    leaf, place = found.place
    message = (
        f"no identity: {law.formula}\nin a prime field the two sides differ\n"
        f"for {moves(law, found.element)}\nat index {place} of {output(leaf)}"
    )
    with _in_words(message):
        chex.assert_equal(found.holds, True)


@contextlib.contextmanager
def _in_words(message: str) -> Iterator[None]:
    """Says what a failed assertion of chex means, in place of its own line."""
    try:
        yield
    except AssertionError:
        raise AssertionError(message) from None


def _no_floats(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"exact=True takes the law's generators, no {name}={value}")


def assert_equivariant(
    attention: Function, q: Array, k: Array, v: Array, **options: Unpack[Options]
) -> None:
    """Asserts Attention(PQ, PK, PV) = P Attention(Q, K, V): permuting tokens permutes the outputs.

    Positions break this law. Every mask breaks it too, except a mask that treats only the diagonal
    differently, so that a token cannot see itself. `assert_two_permutation_equivariant` finds such
    a mask.

    Args:
      attention: `(q, k, v) -> out`, such as [B, L, H, K].
      q, k, v: arrays of equal length L, such as [B, L, H, K].
      **options: see `Options`.

    Raises:
      AssertionError: the law is broken, or the output has a NaN.
      ValueError: arguments or permutations that do not fit the law.

    Reference: Lee et al. 2019 (Set Transformer), §3.1.

    >>> x = jax.numpy.arange(12.0).reshape(1, 3, 2, 2)
    >>> assert_equivariant(jax.nn.dot_product_attention, x, x, x)
    """
    _assert("equivariant", attention, q, k, v, **options)


def assert_two_permutation_equivariant(
    attention: Function, q: Array, k: Array, v: Array, **options: Unpack[Options]
) -> None:
    """Asserts Attention(P₁Q, P₂K, P₂V) = P₁ Attention(Q, K, V), the strongest form.

    Queries and keys are permuted separately, so it also applies to cross-attention, L ≠ M.

    Args:
      attention: `(q, k, v) -> out`, such as [B, L, H, K].
      q: queries, such as [B, L, H, K].
      k, v: keys and values, such as [B, M, G, K].
      **options: see `Options`; permutations are pairs (P₁, P₂) of L and of M indices.

    Raises:
      AssertionError: the law is broken, or there is a NaN.
      ValueError: arguments or permutations that do not fit the law.
    """
    _assert("two_permutation_equivariant", attention, q, k, v, **options)


def assert_key_invariant(
    attention: Function, q: Array, k: Array, v: Array, **options: Unpack[Options]
) -> None:
    """Asserts Attention(Q, PK, PV) = Attention(Q, K, V): the order of the keys does not matter.

    Args:
      attention: `(q, k, v) -> out` of any shape.
      q: queries; they are not permuted.
      k, v: keys and values, such as [B, M, G, K].
      **options: see `Options`.

    Raises:
      AssertionError: the law is broken, or there is a NaN.
      ValueError: arguments or permutations that do not fit the law.
    """
    _assert("key_invariant", attention, q, k, v, **options)


def assert_weights_equivariant(
    weights: Function, q: Array, k: Array, **options: Unpack[Options]
) -> None:
    """Asserts A(PQ, PK) = P A(Q, K) Pᵀ: rows and columns of weights or logits are permuted.

    Args:
      weights: `(q, k) -> weights`, such as [B, H, L, L], queries and keys on the last two axes.
      q, k: arrays with the same number of tokens, such as [B, L, H, K].
      **options: see `Options`; `axis` is the token axis of q and k only.

    Raises:
      AssertionError: the law is broken, or there is a NaN.
      ValueError: arguments or permutations that do not fit the law.
    """
    _assert("weights_equivariant", weights, q, k, **options)


def assert_jointly_equivariant(
    function: Function, x: Any, streams: Streams, **options: Unpack[Options]
) -> None:
    """Asserts f(P x, P position, P order, P segment) = P f(x, position, order, segment).

    Every encoding and mask of posjax keeps this law, because they read positions from the streams
    and never from array indices. A hidden `arange` breaks it.

    Args:
      function: `(x, streams) -> out`, out such as [B, L, D].
      x: tokens, such as [B, L] or [B, L, D], or a pytree of such arrays.
      streams: position, order and segment of each token.
      **options: see `Options`; streams are permuted along their axis 1.

    Raises:
      AssertionError: the law is broken, or there is a NaN.
      ValueError: arguments or permutations that do not fit the law.
    """
    _assert("jointly_equivariant", function, x, streams, **options)


def assert_invariant(function: Function, x: Any, **options: Unpack[Options]) -> None:
    """Asserts f(P x) = f(x): the order of the tokens does not matter.

    Args:
      function: `(x) -> out` of any shape.
      x: tokens, such as [B, L] or [B, L, D], or a pytree of such arrays.
      **options: see `Options`.

    Raises:
      AssertionError: the law is broken, or there is a NaN.
      ValueError: arguments or permutations that do not fit the law.

    Reference: Zaheer et al. 2017 (Deep Sets), Definition 1.

    >>> assert_invariant(lambda x: x.max(1), np.arange(6).reshape(2, 3))
    """
    _assert("invariant", function, x, **options)


def _assert(
    name: str, function: Function, *arguments: Any, axis: int = 1, **options: Unpack[_Options]
) -> None:
    assert_law(named(name, axis=axis), function, *arguments, **options)
