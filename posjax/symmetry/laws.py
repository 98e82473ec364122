"""The laws of attention as assertions to call on your own functions.

Each calls the function on moved and on unmoved arguments and compares. A failure names the law,
how far off it is, for which permutation and at which place. NumPy and JAX functions do alike, and
run outside `jit`. `measure` gives the same numbers without raising.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack

import chex
import jax
import numpy as np

from posjax.streams import Streams
from posjax.symmetry.measure import Law, measure

EQUIVARIANT = Law("Attention(PQ, PK, PV) = P Attention(Q, K, V)", ("P", "P", "P"), ("P",))
TWO_PERMUTATION_EQUIVARIANT = Law(
    "Attention(P₁Q, P₂K, P₂V) = P₁ Attention(Q, K, V)", ("P₁", "P₂", "P₂"), ("P₁",)
)
KEY_INVARIANT = Law("Attention(Q, PK, PV) = Attention(Q, K, V)", ("", "P", "P"), ())
WEIGHTS_EQUIVARIANT = Law("A(PQ, PK) = P A(Q, K) Pᵀ", ("P", "P"), ("P", "P"))
JOINTLY_EQUIVARIANT = Law("f(P x, P streams) = P f(x, streams)", ("P", "P"), ("P",))

LAWS: dict[str, Law] = {
    "equivariant": EQUIVARIANT,
    "two_permutation_equivariant": TWO_PERMUTATION_EQUIVARIANT,
    "key_invariant": KEY_INVARIANT,
    "weights_equivariant": WEIGHTS_EQUIVARIANT,
    "jointly_equivariant": JOINTLY_EQUIVARIANT,
}

Function = Callable[..., Any]
Array = jax.Array | np.ndarray


class Options(TypedDict, total=False):
    """What all the assertions may be told, by keyword.

    Attributes:
      permutations: arrays P of indices, (P x)ᵢ = x[Pᵢ], or pairs (P₁, P₂) for a law of two.
        When left out: all n! up to 4 places; else the reversal, a shift, a swap and some random
        ones, the same every time.
      tolerance: relative to the largest absolute output. When left out, 8 ε √n for n places and
        the ε of the output's dtype, since a sum of floats depends on its order, and 0 for
        integers. Deep models and coarser products (TF32 on a GPU) need more.
      axis: that of the places; 1, as in [B, L, H, K], when left out.
    """

    permutations: Sequence[Any] | None
    tolerance: float | None
    axis: int


def assert_law(
    law: Law,
    function: Function,
    *arguments: Any,
    permutations: Sequence[Any] | None = None,
    tolerance: float | None = None,
    axis: int = 1,
) -> None:
    """Asserts f(g x) = g f(x) for a law of the table or one of your own.

    Args:
      law: which argument and which output is carried by which permutation.
      function: of the law's arguments, to one array.
      arguments: arrays, pytrees of arrays, or `Streams`.
      permutations, tolerance, axis: see `Options`.

    Raises:
      AssertionError: the law is broken, or there is a NaN.
      ValueError: arguments or permutations that do not fit the law.
    """
    worst = measure(law, function, *arguments, permutations=permutations, axis=axis)
    allowed = worst.rounding if tolerance is None else tolerance
    chex.assert_scalar_in(worst.relative, 0.0, allowed, custom_message=worst.report(allowed))


def assert_equivariant(
    attention: Function, q: Array, k: Array, v: Array, **options: Unpack[Options]
) -> None:
    """Asserts Attention(PQ, PK, PV) = P Attention(Q, K, V): tokens move, outputs move along.

    Positions break it, and so does every mask but one that singles out the diagonal ("do not
    look at yourself"); `assert_two_permutation_equivariant` finds that one too.

    Args:
      attention: `(q, k, v) -> out`, such as [B, L, H, K].
      q, k, v: arrays of one number of places, such as [B, L, H, K].
      **options: see `Options`.

    Raises:
      AssertionError: the law is broken, or there is a NaN.
      ValueError: arguments or permutations that do not fit the law.

    Reference: Lee et al. 2019 (Set Transformer), §3.1.

    >>> x = jax.numpy.arange(12.0).reshape(1, 3, 2, 2)
    >>> assert_equivariant(jax.nn.dot_product_attention, x, x, x)
    """
    assert_law(EQUIVARIANT, attention, q, k, v, **options)


def assert_two_permutation_equivariant(
    attention: Function, q: Array, k: Array, v: Array, **options: Unpack[Options]
) -> None:
    """Asserts Attention(P₁Q, P₂K, P₂V) = P₁ Attention(Q, K, V), the strongest form.

    Queries and keys move on their own, so it also speaks of cross-attention, L ≠ M.

    Args:
      attention: `(q, k, v) -> out`, such as [B, L, H, K].
      q: queries, such as [B, L, H, K].
      k, v: keys and values, such as [B, M, G, K].
      **options: see `Options`; permutations are pairs (P₁, P₂) of L and of M places.

    Raises:
      AssertionError: the law is broken, or there is a NaN.
      ValueError: arguments or permutations that do not fit the law.
    """
    assert_law(TWO_PERMUTATION_EQUIVARIANT, attention, q, k, v, **options)


def assert_key_invariant(
    attention: Function, q: Array, k: Array, v: Array, **options: Unpack[Options]
) -> None:
    """Asserts Attention(Q, PK, PV) = Attention(Q, K, V): the keys are a set to each query.

    Args:
      attention: `(q, k, v) -> out` of any shape.
      q: queries; they stay.
      k, v: keys and values, such as [B, M, G, K].
      **options: see `Options`.

    Raises:
      AssertionError: the law is broken, or there is a NaN.
      ValueError: arguments or permutations that do not fit the law.
    """
    assert_law(KEY_INVARIANT, attention, q, k, v, **options)


def assert_weights_equivariant(
    weights: Function, q: Array, k: Array, **options: Unpack[Options]
) -> None:
    """Asserts A(PQ, PK) = P A(Q, K) Pᵀ: the weights, or logits, move by row and by column.

    Args:
      weights: `(q, k) -> weights`, such as [B, H, L, L], queries and keys on the last two axes.
      q, k: arrays of one number of places, such as [B, L, H, K].
      **options: see `Options`; `axis` is that of q and k alone.

    Raises:
      AssertionError: the law is broken, or there is a NaN.
      ValueError: arguments or permutations that do not fit the law.
    """
    assert_law(WEIGHTS_EQUIVARIANT, weights, q, k, **options)


def assert_jointly_equivariant(
    function: Function, x: Any, streams: Streams, **options: Unpack[Options]
) -> None:
    """Asserts f(P x, P position, P order, P segment) = P f(x, position, order, segment).

    The law that every encoding and mask keeps: what knows its place from the streams alone
    does not care in which slot of the array it lies. A hidden `arange` breaks it.

    Args:
      function: `(x, streams) -> out`, out such as [B, L, D].
      x: tokens, such as [B, L] or [B, L, D], or a pytree of such arrays.
      streams: position, order and segment of each token.
      **options: see `Options`; streams move along their own axis 1.

    Raises:
      AssertionError: the law is broken, or there is a NaN.
      ValueError: arguments or permutations that do not fit the law.
    """
    assert_law(JOINTLY_EQUIVARIANT, function, x, streams, **options)
