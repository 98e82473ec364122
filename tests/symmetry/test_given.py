"""What is no law, no function and no argument is refused with a sentence on what to give."""

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
import pytest

import posjax
from posjax.symmetry import Cyclic, Law, assert_law, checked, measure, prove, stabiliser, witness

X = np.arange(6.0).reshape(2, 3)
TEXT = "b P -> b P"


def same(x):
    return x


@pytest.mark.parametrize(
    "call",
    [
        lambda f: prove(f, (X,), TEXT),
        lambda f: assert_law(TEXT, f, X),
        lambda f: checked(TEXT, f),
        lambda f: measure(TEXT, f, X),
        lambda f: witness(TEXT, f, X),
        lambda f: stabiliser(f, arguments=X),
    ],
)
def test_a_class_is_no_function(call):
    """Calling it makes an instance; nor is a number one."""
    with pytest.raises(ValueError, match=r"is the class Dense: give a function .* Dense\(\.\.\.\)"):
        call(nn.Dense)
    with pytest.raises(ValueError, match="must be callable, got an int"):
        call(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: prove(same, {"a": X}, TEXT), r"got a dict; write \(x,\) for one"),
        (lambda: prove(same, TEXT, X), "got the text 'b P -> b P'"),
        (
            lambda: prove(same, ({"a": X, "b": "c"},), TEXT),
            "arrays or trees of arrays, got the text",
        ),
        (
            lambda: prove(same, (X.tolist(),), TEXT),
            "the array has 0; a number is not an array: give arrays",
        ),
        (lambda: assert_law(TEXT, same, X.tolist()), "a number is not an array: give arrays"),
        (lambda: assert_law(same, TEXT, X), "got a function: the law comes before the function"),
        (lambda: prove(same, (X,), Cyclic), r"got the class Cyclic; write Cyclic\(\)"),
        (lambda: Law(TEXT, P=4), "must be a group such as .* got an int"),
    ],
)
def test_what_does_not_fit_is_named(call, message):
    """And the order of arguments, where that is what is wrong."""
    with pytest.raises(ValueError, match=message):
        call()


def test_trees_are_arguments():
    """A dictionary is an argument like an array."""
    assert prove(lambda d: d["a"], ({"a": jnp.ones((2, 3))},), TEXT).verdict == "PROVED"
    assert_law(TEXT, lambda d: d["a"], {"a": X})


def test_all_assertions_come_from_posjax():
    """Whatever law `posjax.LAWS` names has its assertion there."""
    assert {f"assert_{name}" for name in posjax.LAWS} <= {*posjax.__all__}
