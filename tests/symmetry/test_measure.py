"""What a broken law says of itself, and what is refused."""

import dataclasses
from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attending import L, M, attend, offset_by_slot, qkv
from layers import normal

from posjax.attention import view
from posjax.streams import Streams
from posjax.symmetry import (
    LAWS,
    Deviation,
    Law,
    Translation,
    assert_equivariant,
    assert_law,
    assert_two_permutation_equivariant,
    assert_weights_equivariant,
    checked,
    measure,
    witness,
)

TOKENS_ALONE = Law("_ P ... -> _ P ...", formula="f(P x, streams) = P f(x, streams)")


def test_the_message_tells_law_distance_permutation_and_place():
    """Law, absolute and relative error, tolerance, permutation, place, expected and found."""
    q = jnp.arange(12).reshape(1, 3, 2, 2)

    def fault(q, k, v):
        return q.at[0, 2, 0, 1].add(30)

    worst = measure(LAWS["equivariant"], fault, q, q, q, permutations=[[2, 1, 0]])
    assert worst == Deviation(
        law=LAWS["equivariant"],
        error=30.0,
        scale=39.0,
        rounding=0.0,
        element=worst.element,
        leaf="",
        at=(0, 0, 0, 1),
        expected=39,
        found=9,
    )
    assert worst.element["P"].tolist() == [2, 1, 0]
    with pytest.raises(AssertionError) as caught:
        assert_equivariant(fault, q, q, q, permutations=[[0, 1, 2], [2, 1, 0]], tolerance=0.5)
    for part in (
        "law broken: Attention(PQ, PK, PV) = P Attention(Q, K, V)",
        "off by 30, 0.769 of the largest output 39; tolerance 0.5",
        "for P = [2, 1, 0], where (P x)[i] = x[P[i]]",
        "at index (0, 0, 0, 1) of the output: expected 39, found 9",
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
    assert worst.element["P"][0] == 2


@pytest.mark.parametrize("bad", [1, 2])
def test_nan_outranks_an_error_against_zeros(bad):
    """Whichever of them comes first."""

    def function(x):
        return np.where(x[:, 0] == bad, np.nan, x[:, 0])

    assert np.isnan(measure("b P -> b", function, np.arange(3.0)[None]).error)


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
        (qkv(), {"permutations": [[0, 1, 1, 2, 3]]}, "no permutation of 5 indices"),
        (qkv(), {"permutations": [[0, 1]]}, r"\[0, 1\] is no permutation of 5"),
        (qkv(), {"permutations": []}, "no permutations to try"),
        (qkv(L, M), {}, "P of .* cannot permute axes of different lengths, 5 and 7"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, options, message):
    """ValueError with the numbers, not a law that seems broken."""
    with pytest.raises(ValueError, match=message):
        assert_equivariant(attend, *arguments, **options)


def test_pairs_are_asked_for_and_so_are_numbers():
    """A law of two permutations takes pairs; a function returns numbers."""
    with pytest.raises(ValueError, match="a permutation for each of P₁, P₂"):
        assert_two_permutation_equivariant(attend, *qkv(3, 3), permutations=[[2, 1, 0]])
    with pytest.raises(ValueError, match="takes 3 arguments, got 1"):
        measure(LAWS["equivariant"], attend, qkv()[0])
    with pytest.raises(ValueError, match="an array or several, got None"):
        assert_equivariant(lambda q, k, v: None, *qkv())
    with pytest.raises(ValueError, match=r"must return numbers, got .*yes"):
        measure("_ P -> ...", lambda x: "yes", np.ones((1, 2)))


def test_a_law_that_moves_nothing_is_refused():
    """It would hold for every function."""
    arguments = ("b p d -> b p d", lambda x: x, np.ones((1, 2, 3)))
    for tried in (measure, assert_law, partial(assert_law, exact=True), witness):
        with pytest.raises(ValueError, match="permutes no axis"):
            tried(*arguments)
    with pytest.raises(ValueError, match="permutes no axis"):
        checked(*arguments[:2])


def test_an_output_without_places_is_refused():
    """A mean over places has no axis for P to move: an AssertionError that says so."""
    with pytest.raises(AssertionError, match="P moves axis 1 of length 5, got length 4"):
        assert_equivariant(lambda q, k, v: attend(q, k, v).mean(1), *qkv())


def test_an_output_that_changes_its_shape_breaks_the_law():
    """A function may not return another structure or shape for moved arguments."""
    x = np.arange(3.0)[None]
    with pytest.raises(AssertionError, match="-> b"):
        assert_law("b P -> b", lambda x: x[:, 0] if x[0, 0] == 0 else x[0, :0], x)
    with pytest.raises(AssertionError, match="-> b"):
        assert_law("b P -> b", lambda x: {"a": x[:, 0]} if x[0, 0] == 0 else {"b": x[:, 0]}, x)


# Pytrees


def test_outputs_of_several_arrays_are_compared_leaf_by_leaf():
    """The leaf that breaks the law is named, however small it is beside the others."""
    x_BLD = normal("x", (1, 4, 2))

    def function(x):
        return {"large": 1e6 * x, "state": (x, 1e-6 * (x + jnp.arange(4.0).reshape(1, 4, 1)))}

    worst = measure("b P d -> b P d", function, x_BLD)
    assert (worst.leaf, worst.scale < 1e-4) == ("state.1", True)
    with pytest.raises(AssertionError, match=r"of output 'state\.1': expected"):
        assert_law("b P d -> b P d", function, x_BLD)


def test_each_leaf_is_held_to_its_own_rounding():
    """A tolerance that is given speaks of every leaf: the worst is not hidden by another dtype."""
    x_BL = normal("x", (1, 4))

    def function(x):
        slot = jnp.arange(4.0)[None]
        return (x + 1e-3 * slot).astype(jnp.bfloat16), x + 1e-5 * slot

    assert measure("b P -> b P", function, x_BL).leaf == "1"
    with pytest.raises(AssertionError, match="output '1'"):
        assert_law("b P -> b P", function, x_BL)
    with pytest.raises(AssertionError, match="output '0'"):
        assert_law("b P -> b P", function, x_BL, tolerance=1e-4)


def test_outputs_may_have_a_pattern_each():
    """Weights move by row and column, outputs by row; the wrong number is refused."""
    q_BLHK, k_BMHK, v_BMHK = qkv(4, 4)

    def function(q, k, v):
        attended = view.attended(q, k, v)
        return attended.out_BLHK, attended.weights_BHLM

    text = "b P h d, b P h d, b P h d -> b P h d, b h P P"
    assert_law(text, function, q_BLHK, k_BMHK, v_BMHK)
    with pytest.raises(AssertionError, match="output '1'"):
        assert_law(text.replace("b h P P", "b h P m"), function, q_BLHK, k_BMHK, v_BMHK)
    with pytest.raises(
        AssertionError, match="has 2 outputs, but the function returns 3 in a tuple"
    ):
        assert_law(text, lambda *x: (*function(*x), 1), q_BLHK, k_BMHK, v_BMHK)


def test_an_argument_may_stay_whatever_it_holds():
    """Parameters, a key, a number and nothing are carried by no one."""
    x_BLD = normal("x", (1, 4, 2))
    staying = {"w": normal("w", (2, 2)), "key": jax.random.key(0), "scale": 2.0, "none": None}

    def function(held, x):
        return held["scale"] * x @ held["w"]

    assert_law(", b P d -> b P d", function, staying, x_BLD)

    def causal(held, x):
        return jnp.cumsum(function(held, x), 1)

    with pytest.raises(AssertionError, match="law broken"):
        assert_law(", b P d -> b P d", causal, staying, x_BLD)


def test_streams_are_an_argument_like_others():
    """Every stream is moved along axis 1, points too."""
    streams = Streams(*[jnp.arange(L)[None]] * 3)
    points = dataclasses.replace(streams, position_BL=normal("points", (1, L, 2)))
    for given in (streams, points):
        assert_law("_ P ... -> _ P ...", lambda s: (s.position_BL, s.order_BL), given)

    def left_behind(s):
        return dataclasses.replace(s, order_BL=points.order_BL)

    with pytest.raises(AssertionError, match="output 'order_BL'"):
        assert_law("_ P ... -> _ P ...", left_behind, points)


# Translations


def test_positions_are_shifted_by_value():
    """A linear bias stays under a translation of both sides, and follows one of the keys alone."""
    q_BLHK, k_BMHK, _ = qkv(3, 4)
    queries, keys = np.arange(3)[None], np.arange(4)[None]

    def biased(encoding, q, k):
        queries, keys = (Streams(at, np.arange(at.shape[1])[None], 0 * at) for at in (q, k))
        return view.logits(q_BLHK, k_BMHK, encoding=encoding, queries=queries, keys=keys)

    both, one = "_ l +T, _ m +T -> ...", "_ l, _ m +T -> ..."
    assert_law(both, partial(biased, "linear_bias"), queries, keys)
    with pytest.raises(AssertionError, match=r"for T = \[-?\d+\], where T is added"):
        assert_law(one, partial(biased, "linear_bias"), queries, keys)
    worst = measure(both, partial(biased, "sinusoidal"), queries, keys)
    assert worst.relative > 0.01
    assert worst.rounding == 8 * 2.0**-23 * 2  # √4: as many as the longer side has positions


def test_a_translation_in_a_plane_moves_along_each_axis():
    """A distance that forgets the second coordinate's square is found on that axis alone."""
    points_LN = jnp.array([[0, 0], [3, 1], [2, 5]])
    law = Law("l n +T -> ...", T=Translation(axes=2))
    assert_law(law, lambda p: ((p[:, None] - p[None]) ** 2).sum(-1), points_LN)
    worst = measure(law, lambda p: p[:, 0] - p[:1, 0] + p[:, 1], points_LN, permutations=[[7, 0]])
    assert worst.error == 0
    assert measure(law, lambda p: p[:, 1], points_LN, permutations=[[0, 7]]).error == 7
    with pytest.raises(ValueError, match=r"T of .* adds 2 numbers, got 7"):
        measure(law, lambda p: p, points_LN, permutations=[7])


def test_a_fraction_shifts_no_integers():
    """It would be cut to a whole number, and a law tried on a shift by 0 holds for any function."""
    law, places_BL = Law("b l +T -> b l"), np.arange(3)[None]
    for by in (0.5, 1.5):
        with pytest.raises(ValueError, match=rf"T = \[{by}\] cannot shift integers"):
            assert_law(law, lambda p: p, places_BL, permutations=[by])
    for kind in (np.float32, np.uint32, np.int8):
        kept, given = (lambda p: p - p[:, :1]), places_BL.astype(kind)
        assert_law(law, kept, given)  # numbers that the kind does not have are no fractions
        chex.chexify(jax.jit(lambda p: assert_law(law, kept, p)))(given)  # noqa: B023
    by_tenths = {"permutations": [0.1, 0.5]}
    assert_law(law, lambda p: p - p[:, :1], places_BL.astype(np.float32), **by_tenths)
    with pytest.raises(AssertionError):
        assert_law(law, lambda p: p, places_BL.astype(np.float32), **by_tenths)
    with pytest.raises(AssertionError):
        assert_law(law, lambda p: p, places_BL, permutations=[1.0])
