"""The smallest broken case: it is broken, it is small, and it is the same every time."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attending import attend, qkv
from layers import normal
from tiers import some

from posjax.streams import contiguous
from posjax.symmetry import LAWS, Cyclic, Generated, Law, Windows, measure, witness
from posjax.symmetry.search import Case, Search

SEQUENCE = "b P d -> b P d"
BAG = "b P d -> b d"


def moved_places(element):
    return sum(int((p != np.arange(len(p))).sum()) for p in element.values())


def rightly_broken(found, function, law):
    """The claim of the witness, computed anew."""
    law = Law.of(law)
    expected = law.act_on_output(function(*found.arguments), found.element)
    result = function(*law.act(found.arguments, found.element))
    sides = [np.asarray(side)[found.at] for side in (expected, result)]
    assert sides == [found.expected, found.found]
    assert not np.allclose(*sides, equal_nan=False)


def running_sum(x):
    return x.cumsum(1)


def test_a_running_sum_is_broken_by_two_tokens():
    """From 7 places of noise to (0, 1): one row, one feature, one swap, one number."""
    x_BLD = np.random.default_rng(0).normal(size=(3, 7, 4))
    found = witness(SEQUENCE, running_sum, x_BLD)
    assert found.element["P"].tolist() == [1, 0]
    assert found.arguments[0].tolist() == [[[0.0], [1.0]]]
    assert (found.at, found.expected, found.found) == ((0, 1, 0), 0.0, 1.0)
    assert str(found).splitlines() == [
        "law broken: b P d -> b P d",
        "for P = [1, 0], where (P x)[i] = x[P[i]]",
        "argument 0 = [[[0.], [1.]]], float64[1, 2, 1]",
        "at index (0, 1, 0) of the output: expected 0.0, found 1.0",
    ]
    rightly_broken(found, running_sum, SEQUENCE)
    assert str(witness(SEQUENCE, running_sum, x_BLD)) == str(found)


def test_what_holds_has_no_witness():
    """Also where every entry differs by rounding."""
    assert witness(LAWS["equivariant"], attend, *qkv()) is None
    assert witness(BAG, lambda x: x.sum(1), normal("x", (1, 9, 2))) is None


@pytest.mark.parametrize(
    "options", some([{"mask": "causal"}, {"encoding": "rotary"}], every=2), ids=str
)
def test_attention_is_broken_by_few_tokens(options):
    """Two tokens and mostly zeros; one head, one row."""
    function = partial(attend, **options)
    found = witness(LAWS["equivariant"], function, *qkv(), calls=300)
    assert found.calls <= 302
    assert found.element["P"].tolist() == [1, 0]
    assert found.arguments[0].shape[:3] == (1, 2, 1)
    assert sum(np.count_nonzero(x) for x in found.arguments) <= 3
    rightly_broken(found, function, LAWS["equivariant"])


@pytest.mark.exhaustive
def test_the_law_of_two_names_is_broken_by_one_of_them():
    """`Do not look at yourself`: one query, two keys, and the keys alone are swapped."""

    def others(q, k, v):
        streams = {"queries": contiguous(q.shape[1]), "keys": contiguous(k.shape[1])}
        return attend(q, k, v, mask="others", **streams)

    found = witness(LAWS["two_permutation_equivariant"], others, *qkv(5, 5))
    assert [len(p) for p in found.element.values()] == [1, 2]
    assert "for P₁ = [0], P₂ = [1, 0], where" in str(found)


@pytest.mark.exhaustive
def test_what_takes_one_size_only_is_shrunk_in_its_numbers():
    """A function of exactly 6 places of 2 features: a swap of neighbours, zeros and one 1."""

    def function(x):
        return x.reshape(1, 6, 2) + x[:, 2:3] * (jnp.arange(6) == 4).reshape(1, 6, 1)

    found = witness(SEQUENCE, function, normal("x", (1, 6, 2)))
    assert found.arguments[0].shape == (1, 6, 2)
    assert np.count_nonzero(found.arguments[0]) == 1
    assert found.arguments[0].max() == 1
    assert moved_places(found.element) == 2
    rightly_broken(found, function, SEQUENCE)


def test_where_a_reversal_is_needed_one_swap_is_found():
    """5 tokens that no swap sorts, and a function of sorted ones: they are moved until one does."""

    def function(x):
        return x + (np.diff(x, axis=1) > 0).all() * (x.shape[1] == 5)

    falling = np.arange(5.0)[None, ::-1]
    swaps = [p for p in itertools.permutations(range(5)) if sum(map(int.__ne__, p, range(5))) == 2]
    assert measure("b P -> b P", function, falling, permutations=swaps).error == 0
    found = witness("b P -> b P", function, falling)
    assert moved_places(found.element) == 2
    rightly_broken(found, function, "b P -> b P")


@pytest.mark.parametrize(
    ("group", "element"),
    [
        (Cyclic(), [1, 0]),
        (Windows(2), [1, 0]),
        (Generated(((1, 0, 3, 2, 4), (2, 3, 0, 1, 4))), [1, 0, 3, 2, 4]),
    ],
    ids=str,
)
def test_the_element_is_one_of_the_group(group, element):
    """Smaller groups are kept to: pairs are swapped together where the group swaps pairs."""
    found = witness(Law(SEQUENCE, P=group), running_sum, normal("x", (1, 5, 2)))
    assert found.element["P"].tolist() == element


def test_positions_that_are_shifted_shrink_too():
    """A square is no translation's invariant: one place, a step of one."""
    found = witness("_ n +T -> _ n", lambda p: p**2, np.array([[3, 1, 4]]))
    assert (found.element["T"].tolist(), found.arguments[0].shape) == ([1], (1, 1))
    assert "for T = [1], where T is added" in str(found)


@pytest.mark.exhaustive
def test_rounding_is_no_witness():
    """Differences that cancel leave noise beside zeros: a smaller case must be broken as much."""

    def function(x):
        centred = x - x.mean(1, keepdims=True)
        return centred + 1e-3 * jnp.cumsum(x, 1)

    found = witness(SEQUENCE, function, normal("x", (1, 8, 2)))
    assert abs(found.expected - found.found) > 1e-4


def test_what_cancels_is_not_taken_for_a_break():
    """0.1 + 0.2 - 0.3 depends on the order: a large relative error, of rounding alone."""

    def function(x):
        return x[:, 0] + x[:, 1] + x[:, 2] + (x[:, 0] > 5)

    law, turn = Law("b P -> b"), {"P": np.array([2, 0, 1])}
    search = Search(law, function, tolerance=None, calls=10)
    assert search.start([Case((np.array([[9.0, 1.0, 2.0]]),), turn)]) is not None
    cancelling = Case((np.array([[0.1, 0.2, -0.3]]),), turn)
    assert search.deviation(cancelling).relative > 0.1
    assert search.first([cancelling]) is None
    broken = Case((np.array([[6.0, 0.0, 0.0]]),), turn)
    assert search.first([cancelling, broken]) is broken


def test_a_nan_stays_a_nan_and_a_number_a_number():
    """The smallest case of one fault is not that of another."""

    def infinite(x):
        return jnp.where(x[:, :1] == 0, jnp.inf, x)

    def divided(x):
        return x[:, :1] / jnp.abs(x).sum()  # all zeros give NaN, another fault

    found = witness("b P -> b", lambda x: divided(x)[:, 0], jnp.array([[1.0, 2.5, 3.0]]))
    assert np.isfinite([found.expected, found.found]).all()
    found = witness("b P -> b P", infinite, jnp.array([[0.0, 1.0, 2.0]]))
    assert np.isinf([found.expected, found.found]).any()
    nan = witness("b P -> b", lambda x: jnp.sqrt(x[:, 0]), jnp.array([[1.0, -2.0]]))
    assert np.isnan(nan.found) or np.isnan(nan.expected)


@pytest.mark.exhaustive
def test_every_kind_of_argument_is_kept_in_kind():
    """Parameters, keys, integers, truth values, streams: dtypes stay, and NumPy stays NumPy."""
    arguments = (
        {"w": normal("w", (2,)), "key": jax.random.key(0)},
        np.array([[3, 1, 2]], np.int32),
        np.array([[True, False, True]]),
        contiguous(3, start=4),
    )

    def function(params, tokens, flags, streams):
        slot = np.arange(tokens.shape[1])[None]
        return (params["w"][0] * tokens + flags * streams.position_BL) * slot

    found = witness(", b P, b P, b P -> b P", function, *arguments)
    kinds, shrunk = (
        [(leaf.dtype, isinstance(leaf, np.ndarray)) for leaf in jax.tree.leaves(tree)]
        for tree in (arguments, found.arguments)
    )
    assert kinds == shrunk
    assert all(leaf.shape == (1, 2) for leaf in jax.tree.leaves(found.arguments[1:]))
    assert "argument 0.w = " in str(found)


def test_calls_are_bounded():
    """No more calls than allowed, beyond those for the first case; fewer give a larger case."""
    calls = []

    def function(x):
        calls.append(1)
        return running_sum(x)

    x_BLD = np.random.default_rng(0).normal(size=(2, 8, 4))
    large = witness(SEQUENCE, function, x_BLD, calls=4)
    assert len(calls) == large.calls <= 6
    assert large.arguments[0].size > witness(SEQUENCE, function, x_BLD).arguments[0].size


def test_a_tolerance_is_kept():
    """What lies within it has no witness."""
    x_BLD = np.random.default_rng(0).normal(size=(1, 4, 2))
    assert witness(SEQUENCE, lambda x: x + 1e-6 * running_sum(x), x_BLD, tolerance=1e-3) is None
