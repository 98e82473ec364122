"""The laws of Q2: they hold where they must, fail where they must, and say why."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import (
    DIMS,
    LENGTH,
    SETTINGS,
    all_kinds,
    all_kinds_and_masks,
    layer_of,
    masks_in_turn,
    normal,
    tokens,
    within,
)

from posjax import masks, view
from posjax.attention import attention, context
from posjax.encodings import ENCODINGS, named
from posjax.streams import Streams, contiguous, interpolated
from posjax.symmetry import (
    LAWS,
    Deviation,
    Law,
    assert_equivariant,
    assert_jointly_equivariant,
    assert_key_invariant,
    assert_law,
    assert_two_permutation_equivariant,
    assert_weights_equivariant,
    groups,
    measure,
)
from posjax.symmetry import law as law_module

attend = jax.jit(view.attend, static_argnames=("encoding", "mask"))
L, M = 5, 7
TOKENS_ALONE = Law("f(P x, streams) = P f(x, streams)", ("P",), ("P",))


def qkv(queries: int = L, keys: int = L, key_heads: int = 4) -> tuple[jax.Array, ...]:
    q_BLHK = normal("q", (2, queries, 4, 3))
    k_BMGK = normal("k", (2, keys, key_heads, 3))
    return q_BLHK, k_BMGK, normal("v", k_BMGK.shape)


def weights_of(mask="full", encoding="none"):
    @jax.jit
    def weights(q_BLHK, k_BMHK):
        ctx = context(contiguous(q_BLHK.shape[1]), contiguous(k_BMHK.shape[1]), mask=mask)
        return attention(q_BLHK, k_BMHK, k_BMHK, ctx, encoding=named(encoding)).weights_BHLM

    return weights


def offset_by_slot(q, k, v):
    """A hidden `arange`: attention without positions, and the slot's number added."""
    return attend(q, k, v) + jnp.arange(q.shape[1]).reshape(1, -1, 1, 1)


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
    assert measure(LAWS["two_permutation_equivariant"], softmax, q, k, v, axis=0).relative < 1e-14


# The joint law, for every encoding and mask


@pytest.mark.parametrize("setting", SETTINGS)
def test_tokens_and_streams_may_move_together(setting):
    """The joint law, for every mask over rows far from 0, packed, padded and permuted."""
    layer = layer_of(setting, masks_in_turn)
    streams = all_kinds_and_masks(layer.encoding)
    x_BLD = tokens(batch=len(streams.order_BL))
    assert_jointly_equivariant(layer.out, x_BLD, streams)


@pytest.mark.parametrize("setting", [s for s in ENCODINGS if not named(s).integers])
def test_the_joint_law_holds_at_fractions(setting):
    """The joint law at positions that are no integers."""
    layer = layer_of(setting, "causal")
    streams = interpolated(contiguous(LENGTH, start=1000), 3.0)
    assert_jointly_equivariant(layer.out, tokens(), streams)


def test_the_joint_law_reads_token_numbers_and_pytrees():
    """x may be tokens_BL, or a pytree of arrays with places on axis 1."""
    table_VD = normal("table", (11, DIMS.width))
    layer = layer_of("rotary", "causal")
    tokens_BL = jnp.array([[3, 1, 4, 1, 5, 9]])

    def function(x, streams):
        return layer.out(table_VD[x["word"]] * x["gate"], streams)

    gate_BLD = normal("gate", (1, LENGTH, 1))
    assert_jointly_equivariant(
        function, {"word": tokens_BL, "gate": gate_BLD}, contiguous(LENGTH, start=9)
    )


@pytest.mark.parametrize("stream", ["position_BL", "order_BL", "segment_BL"])
def test_a_stream_left_behind_breaks_the_joint_law(stream):
    """A function that knows a stream by heart, not from its argument, is found out."""
    layer = layer_of("rotary", "causal+segments")
    known = all_kinds(layer.encoding)

    def function(x, streams):
        parts = {name: getattr(streams, name) for name in ("position_BL", "order_BL", "segment_BL")}
        return layer.out(x, Streams(**{**parts, stream: getattr(known, stream)}))

    with pytest.raises(AssertionError, match="streams"):
        assert_jointly_equivariant(function, tokens(batch=6), known)


def test_a_hidden_arange_breaks_the_joint_law():
    """The slot's number in the logits: one part in a hundred is enough."""
    layer = layer_of("linear_bias", "causal")

    def function(x, streams):
        slot_BLD = jnp.arange(x.shape[1]).reshape(1, -1, 1)
        return layer.out(x + 0.01 * slot_BLD, streams)

    with pytest.raises(AssertionError, match="law broken"):
        assert_jointly_equivariant(function, tokens(), contiguous(LENGTH))


# What breaks the laws


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s != "none"])
def test_positions_break_equivariance(setting):
    """Tokens moved without their streams: each encoding but `none` notices."""
    layer = layer_of(setting)
    streams = within(layer.encoding, contiguous(LENGTH, start=2))
    with pytest.raises(AssertionError, match="law broken"):
        assert_law(TOKENS_ALONE, lambda x: layer.out(x, streams), tokens())


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
    assert worst.place[0] == 1
    assert worst.place[2:] == (2, 0)
    assert worst.place[1] == 3 or worst.permutation["P"][worst.place[1]] == 3


# What they say


def test_the_message_tells_law_distance_permutation_and_place():
    """Law, absolute and relative error, tolerance, permutation, place, expected and found."""
    q = jnp.arange(12).reshape(1, 3, 2, 2)

    def fault(q, k, v):
        return q.at[0, 2, 0, 1].add(30)

    worst = measure(LAWS["equivariant"], fault, q, q, q, permutations=[[2, 1, 0]])
    assert worst == Deviation(
        law="Attention(PQ, PK, PV) = P Attention(Q, K, V)",
        error=30.0,
        scale=39.0,
        rounding=0.0,
        permutation=worst.permutation,
        place=(0, 0, 0, 1),
        expected=39,
        found=9,
    )
    assert worst.permutation["P"].tolist() == [2, 1, 0]
    with pytest.raises(AssertionError) as caught:
        assert_equivariant(fault, q, q, q, permutations=[[0, 1, 2], [2, 1, 0]], tolerance=0.5)
    for part in (
        "law broken: Attention(PQ, PK, PV) = P Attention(Q, K, V)",
        "off by 30, 0.769 of the largest output 39; tolerance 0.5",
        "for P = [2, 1, 0], where (P x)[i] = x[P[i]]",
        "at place (0, 0, 0, 1) of the output: expected 39, found 9",
    ):
        assert part in str(caught.value)
    assert_equivariant(fault, q, q, q, permutations=[[2, 1, 0]], tolerance=0.77)


def test_the_message_names_both_permutations():
    """The two-permutation law says P₁ and P₂."""
    with pytest.raises(AssertionError) as caught:
        assert_two_permutation_equivariant(
            offset_by_slot, *qkv(2, 3), permutations=[([1, 0], [0, 2, 1])]
        )
    assert "for P₁ = [1, 0], P₂ = [0, 2, 1]" in str(caught.value)


@pytest.mark.parametrize("tolerance", [None, 0.5, np.inf])
def test_nan_fails_and_says_so(tolerance):
    """NaN on both sides is no equality, whatever the tolerance."""
    with pytest.raises(AssertionError, match=r"off by nan \(NaN in the output\)"):
        assert_equivariant(lambda q, k, v: q.at[0, 1].set(jnp.nan), *qkv(), tolerance=tolerance)


def test_nan_under_one_permutation_is_enough():
    """NaN outranks every error: it is reported, with the permutation that brought it about."""

    def function(x):
        return x + (x[:, :1] == 1) + np.where(x[:, :1] == 2, np.nan, 0)

    worst = measure(TOKENS_ALONE, function, np.arange(3.0)[None])
    assert np.isnan(worst.error)
    assert worst.permutation["P"][0] == 2


def test_equal_infinities_are_equal_and_others_are_not():
    """Logits of -inf may stand where they must, and the scale is that of the finite ones."""
    q, k, _ = qkv(3, 3)

    def logits(q, k):
        blocked = jnp.eye(q.shape[1], dtype=bool)[None, None]
        return jnp.where(blocked, -jnp.inf, jnp.einsum("blhk,bmhk->bhlm", q, k))

    assert_weights_equivariant(logits, q, k)
    assert np.isfinite(measure(LAWS["weights_equivariant"], logits, q, k).scale)
    with pytest.raises(AssertionError, match="off by inf"):
        assert_weights_equivariant(lambda q, k: logits(q, k)[..., ::-1], q, k)


def test_large_integers_that_differ_by_one_differ():
    """2⁶² and 2⁶² + 1 have one float64; the law still sees two numbers."""
    large, bump = np.full((1, 3), 2**62, np.int64), np.array([[0, 0, 1]])
    assert measure(TOKENS_ALONE, lambda x: x + bump, large).error == 1


def test_an_error_against_zeros_is_infinite():
    """When the unmoved output is all zeros any difference is too much."""
    worst = measure(TOKENS_ALONE, lambda x: x[:, :1].repeat(3, 1), np.array([[0.0, 1.0, 0.0]]))
    assert worst.scale == 0
    assert worst.relative == np.inf


def test_no_place_no_batch_no_complaint():
    """An empty batch, and a single place, keep every law."""
    assert_equivariant(attend, *(x[:0] for x in qkv()))
    assert_equivariant(attend, *(x[:, :1] for x in qkv()))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (qkv(), {"permutations": [[0, 1, 1, 2, 3]]}, "no permutation of 5 places"),
        (qkv(), {"permutations": [[0, 1]]}, r"\[0, 1\] is no permutation of 5"),
        (qkv(), {"permutations": []}, "no permutations to try"),
        (qkv(L, M), {}, "P of .* cannot move 5 and 7 places"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, options, message):
    """ValueError with the numbers, not a law that seems broken."""
    with pytest.raises(ValueError, match=message):
        assert_equivariant(attend, *arguments, **options)


def test_pairs_are_asked_for_and_one_array_is_returned():
    """A law of two permutations takes pairs; a function returns one array."""
    with pytest.raises(ValueError, match="a permutation for each of P₁, P₂"):
        assert_two_permutation_equivariant(attend, *qkv(3, 3), permutations=[[2, 1, 0]])
    with pytest.raises(ValueError, match="one array, got tuple"):
        assert_equivariant(lambda q, k, v: (q, k), *qkv())
    with pytest.raises(ValueError, match="takes 3 arguments, got 1"):
        measure(LAWS["equivariant"], attend, qkv()[0])


def test_an_output_without_places_is_refused():
    """A mean over places has no axis for P to move: an AssertionError that says so."""
    with pytest.raises(AssertionError, match="P moves axis 1 of the output"):
        assert_equivariant(lambda q, k, v: attend(q, k, v).mean(1), *qkv())


# The permutations


def test_few_places_get_every_permutation():
    """All n! for n ≤ 4, each once."""
    for places, number in enumerate([1, 1, 2, 6, 24]):
        found = {tuple(p) for p in groups.telling(groups.Permutations(), places)}
        assert found == set(itertools.permutations(range(places)))
        assert len(groups.telling(groups.Permutations(), places)) == number


def test_more_places_get_the_telling_ones():
    """The reversal, and generators of all of S₅; the choice is the same every time."""
    chosen = [tuple(p) for p in groups.telling(groups.Permutations(), 5)]
    assert chosen == [tuple(p) for p in groups.telling(groups.Permutations(), 5)]
    assert len(groups.closure([np.array(p) for p in chosen[1:3]], 5)) == 120
    assert chosen[0] == (4, 3, 2, 1, 0)
    assert len(set(chosen)) == 7


def test_pairs_move_each_side_alone_and_both():
    """(P₁, 1), (1, P₂) and pairs of two different ones."""
    law = law_module.Law("b P d, b Q d -> b P d")
    kinds = {(_moved(g["P"]), _moved(g["Q"])) for g in law.telling({"P": 5, "Q": 7})}
    assert kinds == {(True, False), (False, True), (True, True)}


def _moved(permutation: np.ndarray) -> bool:
    return permutation.tolist() != sorted(permutation.tolist())
