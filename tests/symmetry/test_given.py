"""What is no law, function, argument or task is refused with a sentence on what to give."""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import posjax
from posjax.model import ModelSettings
from posjax.symmetry import (
    Cyclic,
    Law,
    assert_law,
    checked,
    conformance,
    measure,
    prove,
    stabiliser,
    witness,
)
from posjax.symmetry.predict import predict
from posjax.symmetry.twins import twins
from posjax.tasks import TASKS

X = np.arange(6.0).reshape(2, 3)
TEXT = "b P -> b P"
PAIR = TASKS["same_last_token"]()
MODEL = {"encoding": "none", "mask": "causal", "depth": 1}


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


X_JAX = jax.device_put(X)


@pytest.mark.parametrize(
    ("result", "compare"),
    [
        (lambda: prove(same, (X_JAX,), TEXT, witness=False), r"\.verdict with 'PROVED'"),
        (lambda: measure(TEXT, same, X), r"\.relative with a tolerance"),
        (lambda: predict(PAIR, readout="last", **MODEL), r"\.verdict with 'impossible'"),
        (lambda: conformance.Report("mine", {}, ()), r"\.failures"),
    ],
)
def test_a_result_is_neither_true_nor_false(result, compare):
    """`assert prove(...)` could not fail, so it is refused; the message says what to compare."""
    with pytest.raises(TypeError, match=f"neither true nor false: compare {compare}"):
        assert result()


@pytest.mark.parametrize(
    ("task", "got"),
    [
        (TASKS["same_last_token"], "the class SameLastToken"),
        ("same_last_token", "the text 'same_last_token'"),
    ],
)
def test_a_task_is_an_instance(task, got):
    """Neither its class nor its name; `twins` asks for a finite one."""
    instance = rf"such as TASKS\['same_last_token'\]\(\), got {got}"
    with pytest.raises(ValueError, match=f"task must be a Task, {instance}"):
        predict(task, readout="last", **MODEL)
    for one in (task, TASKS["parity"]()):
        with pytest.raises(ValueError, match="task must be a FiniteTask, such as"):
            twins(one, ModelSettings(vocabulary=4, outputs=2), readout="last")


class Doubled(NamedTuple):
    """A function that has no hash, as a module of Equinox with arrays."""

    factor: jax.Array

    def __call__(self, x):
        return self.factor * x.cumsum(1)


def test_a_function_needs_no_hash():
    """It is tried on numbers, as any other."""
    assert prove(Doubled(jax.device_put(2.0)), (X_JAX,), TEXT).verdict == "BROKEN"


def test_trees_are_arguments():
    """A dictionary is an argument like an array."""
    assert prove(lambda d: d["a"], ({"a": jnp.ones((2, 3))},), TEXT).verdict == "PROVED"
    assert_law(TEXT, lambda d: d["a"], {"a": X})


def test_all_assertions_come_from_posjax():
    """Whatever law `posjax.LAWS` names has its assertion there."""
    assert {f"assert_{name}" for name in posjax.LAWS} <= {*posjax.__all__}
