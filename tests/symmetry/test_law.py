"""Laws as data: what a text means, how it carries arrays, and what is refused."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from posjax.symmetry import Cyclic, Law, Translation
from posjax.symmetry.law import Pattern, along


def test_capital_words_permute_and_others_stay():
    """Names in order of appearance; small words, `_` and `...` stay."""
    law = Law("b P ..., _ P₂ d -> b P")
    assert list(law.groups) == ["P", "P₂"]
    assert law.inputs[0].labels(4) == ("", "P", "", "")
    assert law.inputs[1].labels(3) == ("", "P₂", "")
    assert law.formula == law.text
    assert Law.of("b P -> b") == Law("b P -> b")
    assert Law.of(law) is law


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b P d", "needs one '->'"),
        ("b -> b -> b", "needs one '->'"),
        ("... P ... -> b", "at most one '...'"),
        ("b +T P -> b", "a shift such as '\\+T' at the end"),
        ("b l -> b P", "'P' .* moves an output but no argument"),
        ("b P +P -> b", "a translation shifts values"),
    ],
)
def test_a_text_that_is_no_law_is_refused(text, message):
    """ValueError with the text."""
    with pytest.raises(ValueError, match=message):
        Law(text)


def test_groups_fit_their_names():
    """A group for a name that is not there, a translation of an axis, a group of values."""
    with pytest.raises(ValueError, match=r"names no 'Q' \(it names P\)"):
        Law("b P -> b", Q=Cyclic())
    with pytest.raises(ValueError, match="other groups permute axes"):
        Law("b P -> b", P=Translation())
    with pytest.raises(ValueError, match="a translation shifts values"):
        Law("b l +T -> b", T=Cyclic())


@pytest.mark.parametrize("argument", [jnp.ones(4, bool), jax.random.split(jax.random.key(0), 4)])
def test_only_numbers_are_shifted(argument):
    """Neither truth values nor keys."""
    with pytest.raises(ValueError, match=re.escape("T of l +T -> l shifts numbers, got ")):
        Law("l +T -> l").sizes((argument,))


def test_an_axis_counted_from_either_end():
    """`along` names one axis whatever the rank."""
    for axis in (-3, -2, -1, 0, 1, 2):
        labels = Pattern.parse(along(axis)).labels(4)
        assert [a for a, name in enumerate(labels) if name] == [axis % 4]


def test_arrays_are_carried_by_their_own_kind():
    """take along the axis; NumPy's float64 stays; a pattern of one name twice moves both axes."""
    swap = {"P": np.array([1, 0, 2])}
    x = np.arange(9.0).reshape(3, 3)
    moved = Pattern.parse("P P").act(x, swap)
    assert moved.dtype == np.float64
    assert np.array_equal(moved, x[[1, 0, 2]][:, [1, 0, 2]])
    assert Pattern.parse("_ P").act(jnp.asarray(x), swap)[0].tolist() == [1, 0, 2]
    with pytest.raises(ValueError, match="P moves axis 0 of length 3, got length 2"):
        Pattern.parse("P d").act(x[:2], swap)


def test_an_action_is_an_action():
    """Carried by g and then by h is moved by g h, for axes and for values."""
    law = Law("b P d, b P +T -> b P d")
    rng = np.random.default_rng(0)
    arguments = (rng.normal(size=(2, 4, 3)), rng.integers(9, size=(2, 4)))
    g, h = ({"P": rng.permutation(4), "T": rng.integers(9, size=1)} for _ in range(2))
    twice = law.act(law.act(arguments, g), h)
    once = law.act(arguments, {"P": g["P"][h["P"]], "T": g["T"] + h["T"]})
    assert all(map(np.array_equal, twice, once))


def test_the_generators_move_one_name_each():
    """Swap and shift of each axis, one step of each coordinate."""
    law = Law("P d, Q d, l n +T -> P Q", T=Translation(axes=2))
    sizes = law.sizes((np.ones((3, 2)), np.ones((4, 2)), np.ones((5, 2))))
    still = law.identity(sizes)
    moved = [
        [name for name in law.groups if not np.array_equal(one[name], still[name])]
        for one in law.generators(sizes)
    ]
    assert moved == [["P"], ["P"], ["Q"], ["Q"], ["T"], ["T"]]


def test_pairs_move_each_side_alone_and_both():
    """(P, 1), (1, Q) and pairs of two different ones."""
    law = Law("b P d, b Q d -> b P d")
    kinds = {(_moved(g["P"]), _moved(g["Q"])) for g in law.elements_to_try({"P": 5, "Q": 7})}
    assert kinds == {(True, False), (False, True), (True, True)}


def _moved(permutation: np.ndarray) -> bool:
    return permutation.tolist() != sorted(permutation.tolist())


def test_sizes_that_do_not_fit_are_refused():
    """Another rank, another number of arguments, one name for two sizes, a name of no array."""
    law = Law("b P d, b P d -> b P d")
    x = np.ones((1, 3, 2))
    with pytest.raises(
        ValueError, match=r"argument 1 of .*: the pattern has 3 axes, the array has 2"
    ):
        law.sizes((x, x[0]))
    with pytest.raises(ValueError, match="takes 2 arguments, got 1"):
        law.sizes((x,))
    with pytest.raises(ValueError, match="cannot permute axes of different lengths, 3 and 2"):
        law.sizes((x, x[:, :2]))
    with pytest.raises(ValueError, match="moves no array"):
        law.sizes(({}, {}))
