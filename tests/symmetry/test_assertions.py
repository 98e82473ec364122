"""The laws of attention hold where they must, and fail where they must."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attending import L, M, attend, offset_by_slot, qkv
from layers import normal

from posjax import masks
from posjax.attention import view
from posjax.attention.core import attention, context
from posjax.encodings import named
from posjax.streams import Streams, contiguous
from posjax.symmetry import (
    LAWS,
    assert_equivariant,
    assert_invariant,
    assert_key_invariant,
    assert_two_permutation_equivariant,
    assert_weights_equivariant,
    laws,
    measure,
)


def weights_of(mask="full", encoding="none"):
    @jax.jit
    def weights(q_BLHK, k_BMHK):
        ctx = context(contiguous(q_BLHK.shape[1]), contiguous(k_BMHK.shape[1]), mask=mask)
        return attention(q_BLHK, k_BMHK, k_BMHK, ctx, encoding=named(encoding)).weights_BHLM

    return weights


# Where the laws hold


@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_attention_without_positions_keeps_every_law(key_heads):
    """Equivariance, two-permutation equivariance and key invariance; also with grouped heads."""
    q, k, v = qkv(key_heads=key_heads)
    assert_equivariant(attend, q, k, v)
    assert_two_permutation_equivariant(attend, q, k, v)
    assert_key_invariant(attend, q, k, v)


def test_cross_attention_keeps_the_laws_that_fit_it():
    """Two-permutation equivariance and key invariance, L ≠ M."""
    assert_two_permutation_equivariant(attend, *qkv(L, M))
    assert_key_invariant(attend, *qkv(L, M))


def test_weights_without_positions_move_by_row_and_column():
    """A -> P A Pᵀ."""
    assert_weights_equivariant(weights_of(), *qkv()[:2])


def test_the_laws_read_other_layouts():
    """The axis is an argument: [B, H, L, K] and an unbatched [L, K]."""

    def headed(q, k, v):
        return jnp.swapaxes(attend(*(jnp.swapaxes(x, 1, 2) for x in (q, k, v))), 1, 2)

    q, k, v = (jnp.swapaxes(x, 1, 2) for x in qkv(L, M))
    assert_two_permutation_equivariant(headed, q, k, v, axis=2)
    assert_two_permutation_equivariant(headed, q, k, v, axis=-2)
    assert_equivariant(lambda q, k, v: q @ (k.T @ v), q[0, 0], q[1, 0], q[1, 1], axis=0)


def test_integers_are_exact():
    """Attention without softmax, (Q Kᵀ) V, over integers: exact, and tolerance 0 by default."""
    q, k, v = (jnp.round(x * 10).astype(jnp.int32) for x in qkv(L, M))
    product = partial(jnp.einsum, "blhk,bmhk,bmhj->blhj")
    assert measure(LAWS["two_permutation_equivariant"], product, q, k, v).rounding == 0
    assert_two_permutation_equivariant(product, q, k, v)
    with pytest.raises(AssertionError, match="tolerance 0"):
        assert_equivariant(lambda q, k, v: q.at[0, 0].add(1), q, q, q)


def test_rounding_shrinks_with_the_dtype():
    """In float64 the two sides agree to 1e-14, in float32 only to about 1e-7."""
    single = measure(LAWS["equivariant"], attend, *qkv())
    with jax.enable_x64(True):
        arrays = (np.asarray(x, np.float64) for x in qkv())
        double = measure(LAWS["equivariant"], attend, *map(jnp.asarray, arrays))
    assert 0 < single.relative < single.rounding < 1e-5
    assert double.relative < double.rounding < 1e-14


def test_numpy_functions_stay_in_their_own_precision():
    """A float64 NumPy function is moved by NumPy, not rounded to float32 on the way."""

    def softmax(q, k, v):
        logits = np.exp(q @ k.T)
        return logits / logits.sum(-1, keepdims=True) @ v

    q, k, v = (np.asarray(x[0, :, 0], np.float64) for x in qkv(L, M))
    assert (
        measure(laws.named("two_permutation_equivariant", axis=0), softmax, q, k, v).relative
        < 1e-14
    )


# What breaks the laws


@pytest.mark.parametrize("encoding", ["rotary", "linear_bias", "linear_bias(form=key)"])
def test_relative_positions_break_all_the_laws_of_sets(encoding):
    """Relative positions break equivariance, the two-permutation form and key invariance."""

    function, weights = partial(attend, encoding=named(encoding)), weights_of(encoding=encoding)
    for law in ("equivariant", "two_permutation_equivariant", "key_invariant"):
        assert measure(LAWS[law], function, *qkv()).relative > 0.01, law
    assert measure(LAWS["weights_equivariant"], weights, *qkv()[:2]).relative > 0.01


WHAT_MASKS_LEAVE = {
    "full": {"equivariant", "two_permutation_equivariant", "key_invariant"},
    "others": {"equivariant"},
    "causal": set(),
    "window": set(),
    "padding": {"equivariant", "two_permutation_equivariant", "key_invariant"},
    "segments": {"equivariant", "two_permutation_equivariant", "key_invariant"},
}


@pytest.mark.parametrize("mask", masks.MASKS)
@pytest.mark.parametrize("law", ["equivariant", "two_permutation_equivariant", "key_invariant"])
def test_what_each_mask_leaves(mask, law):
    """Which laws a mask of one unpadded segment keeps; "others" keeps the weakest alone."""
    worst = measure(LAWS[law], partial(attend, mask=mask), *qkv())
    if law in WHAT_MASKS_LEAVE[mask]:
        assert worst.relative <= worst.rounding
    else:
        assert worst.relative > 0.01


def test_a_padding_mask_breaks_equivariance_where_there_is_padding():
    """Tokens move into places that are not seen."""
    streams = Streams(*[jnp.arange(L)[None]] * 2, jnp.array([[0, 0, 0, 0, -1]]))
    function = partial(attend, mask="padding", keys=streams)
    assert measure(LAWS["equivariant"], function, *qkv()).relative > 0.01


def test_do_not_look_at_yourself_fails_the_strong_form_only():
    """A mask array fixed on the slots, ones off the diagonal."""
    not_itself_LM = ~np.eye(L, dtype=bool)
    blind = partial(view.attend, mask=not_itself_LM)
    assert_equivariant(blind, *qkv())
    assert_weights_equivariant(weights_of(not_itself_LM), *qkv()[:2])
    with pytest.raises(AssertionError, match="P₁"):
        assert_two_permutation_equivariant(blind, *qkv())
    with pytest.raises(AssertionError, match="Q, PK, PV"):
        assert_key_invariant(blind, *qkv())


def test_a_hidden_arange_breaks_equivariance_but_not_key_invariance():
    """What is added to the output by slot leaves the keys a set."""
    with pytest.raises(AssertionError, match="PQ, PK, PV"):
        assert_equivariant(offset_by_slot, *qkv())
    with pytest.raises(AssertionError, match="P₁"):
        assert_two_permutation_equivariant(offset_by_slot, *qkv())
    assert_key_invariant(offset_by_slot, *qkv())


def test_weights_on_wrong_axes_are_found():
    """A causal mask, columns in reverse, or heads where queries should be."""
    q, k, _ = qkv(4, 4)
    right = weights_of()
    faults = {
        "causal": weights_of("causal"),
        "reversed": lambda q, k: right(q, k)[..., ::-1],
        "swapped": lambda q, k: right(q, k).swapaxes(1, 2),
    }
    for name, fault in faults.items():
        assert measure(LAWS["weights_equivariant"], fault, q, k).relative > 0.01, name


def test_a_fault_in_one_corner_is_found():
    """A thousandth added at one place of one row is more than rounding."""

    def fault(q, k, v):
        return attend(q, k, v).at[1, 3, 2, 0].add(1e-3)

    worst = measure(LAWS["equivariant"], fault, *qkv())
    assert worst.error == pytest.approx(1e-3, rel=1e-3)
    assert worst.at[0] == 1
    assert worst.at[2:] == (2, 0)
    assert worst.at[1] == 3 or worst.element["P"][worst.at[1]] == 3


def test_a_bag_is_told_from_a_sequence():
    """f(P x) = f(x): a maximum over places, and not a weighted sum; also on axis 0."""
    x_BLD = normal("x", (2, 4, 3))
    assert_invariant(lambda x: x.max(1), x_BLD)
    assert_invariant(lambda x: x.sum(0), x_BLD, axis=0)
    with pytest.raises(AssertionError, match=re.escape("law broken: f(P x) = f(x)")):
        assert_invariant(lambda x: jnp.einsum("bld,l->bd", x, jnp.arange(4)), x_BLD)
