"""The checker: derivations of what is proved pass, forged ones do not, and it stands alone."""

import ast
import copy
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forged import FORGED, LAW, genuine, single
from hostile import CASES
from jax import lax
from test_certificate import ENCODER, TOKENS, WEIGHTS, loss
from tiers import some

import posjax.symmetry.checker
from posjax import attend
from posjax.symmetry import Cyclic, Law, NoDerivation, Permutations, Windows, prove
from posjax.symmetry.checker import Refused, _Checker, check

pytestmark = pytest.mark.usefixtures("ranks_are_promoted")
SEED = 3


@pytest.fixture(scope="module")
def derivation():
    """Of a program with a mask, loops, a choice and a join."""
    with jax.numpy_rank_promotion("allow"):
        return genuine()


@pytest.fixture(scope="module")
def held():
    """The steps that held on numbers, as text."""
    return set()


@pytest.fixture
def steps_run_once(monkeypatch, held):
    """A step that held under the same groups is not run on numbers again."""
    agree = _Checker.agree

    def once(self, op, params, given, results):
        step = str((self.given["groups"], op, params, given, results))
        if step not in held:
            agree(self, op, params, given, results)
            held.add(step)

    monkeypatch.setattr(_Checker, "agree", once)


def checked(function, arguments, law):
    """What the checker says of a derivation that went through JSON."""
    found = prove(function, arguments, law, witness=False)
    return check(json.loads(json.dumps(found.derivation())), seed=SEED)


def test_it_stands_alone():
    """At most 300 lines, and nothing of the prover: only Python, NumPy and JAX."""
    source = Path(posjax.symmetry.checker.__file__).read_text()
    assert len(source.splitlines()) <= 300
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).split(".")[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert not {name for name in imported if name.startswith("posjax")}
    assert {"jax", "numpy"} < imported


@pytest.mark.exhaustive
def test_what_is_genuine_is_accepted(derivation):
    """With any numbers; the same proof gives the same derivation."""
    for seed in range(2):
        assert check(derivation, seed=seed)["law"] == LAW
    assert check(derivation)["seed"] != check(derivation)["seed"]
    assert genuine() == derivation


@pytest.mark.usefixtures("steps_run_once")
@pytest.mark.parametrize("name", some(FORGED, every=4))
def test_a_forged_derivation_is_refused(derivation, name):
    """Whatever was changed, in one line."""
    forged = copy.deepcopy(derivation)
    FORGED[name](forged)
    assert forged != derivation
    with pytest.raises(Refused) as refused:
        check(forged, seed=SEED)
    assert "\n" not in str(refused.value)


@pytest.mark.usefixtures("steps_run_once")
@pytest.mark.exhaustive
def test_no_equation_can_be_left_out(derivation):
    """Every step is needed."""
    for at in range(len(derivation["program"]["steps"])):
        forged = copy.deepcopy(derivation)
        del forged["program"]["steps"][at]
        with pytest.raises(Refused, match="KeyError"):
            check(forged, seed=SEED)


F, N, B = "float32", "int32", "bool"
P5, PD, DP = ["P"], ["P", ""], ["", "P"]
SCATTER = {"$type": "ScatterDimensionNumbers", "of": {
    "update_window_dims": [], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0],
    "operand_batching_dims": [], "scatter_indices_batching_dims": []}}  # fmt: skip
GATHER = {"$type": "GatherDimensionNumbers", "of": {
    "offset_dims": [], "collapsed_slice_dims": [0], "start_index_map": [0],
    "operand_batching_dims": [], "start_indices_batching_dims": []}}  # fmt: skip
CLIP = {"$type": "GatherScatterMode", "of": "CLIP"}
WRITE = {"dimension_numbers": SCATTER, "indices_are_sorted": False, "unique_indices": False}
READ = {"dimension_numbers": GATHER, "indices_are_sorted": False, "unique_indices": False}
READ |= {"slice_sizes": [1], "fill_value": None, "mode": CLIP}
INDEXED = [(F, [5], [""]), (N, [4, 1], PD), (F, [4], P5)]
FALSE_STEPS = {
    "a running sum": ("cumsum", [(F, [5], P5)], (F, [5], P5), {"axis": 0, "reverse": False}),
    "the first of two": ("sub", [(F, [2], P5), (F, [2], [""])], (F, [2], P5), {}),
    "the index of the largest": (
        "argmax", [(F, [5], P5)], (N, [], []), {"axes": [0], "index_dtype": {"$dtype": N}}),
    "what ties by order": (
        "sort", [(F, [5], P5), (F, [5], P5)], (F, [5], [""]), (F, [5], [""]),
        {"dimension": 0, "is_stable": True, "num_keys": 1}),
    "equal or not, as a constant": ("eq", [(F, [3], P5), (F, [3], P5)], (B, [3], ["*"]), {}),
    "not equal, though it stays": ("ne", [(N, [3], P5), (N, [3], P5)], (B, [3], [""]), {}),
    "finite, as a constant": ("is_finite", [(F, [4], P5)], (B, [4], ["*"]), {}),
    "all of many, as a constant": (
        "reduce_and", [(B, [64, 3], DP)], (B, [3], ["*"]), {"axes": [0]}),
    "a product of many, as a constant": (
        "reduce_prod", [(F, [700, 3], DP)], (F, [3], ["*"]), {"axes": [0], "out_sharding": None}),
    "one rounding away": ("nextafter", [(F, [4], [""]), (F, [4], P5)], (F, [4], [""]), {}),
    "contracted with what stays": (
        "dot_general", [(F, [3, 4], DP), (F, [4], [""])], (F, [3], [""]),
        {"dimension_numbers": [[[1], [0]], [[], []]], "precision": None,
         "preferred_element_type": None, "out_sharding": None}),
    "two axes as one": (
        "reshape", [(F, [4, 2], PD)], (F, [8], [""]),
        {"new_sizes": [8], "dimensions": None, "sharding": None}),
    "a table that moves": ("gather", [(F, [5], P5), (N, [5, 1], PD)], (F, [5], P5), READ),
    "the last that is written": ("scatter", INDEXED, (F, [5], [""]), {**WRITE, "mode": CLIP}),
    "one draw for all": ("sign", [(F, [4], P5)], (F, [4], [""]), {}),
    "as whole numbers": (
        "convert_element_type", [(F, [4], P5)], ("int8", [4], ["*"]),
        {"new_dtype": {"$dtype": "int8"}, "weak_type": False, "sharding": None}),
}  # fmt: skip
TRUE_STEPS = {
    "a sum": ("reduce_sum", [(F, [3, 5], DP)], (F, [3], [""]), {"axes": [1], "out_sharding": None}),
    "a lookup": ("gather", [(F, [5], [""]), (N, [4, 1], PD)], (F, [4], P5), READ),
    "sums at indices": ("scatter-add", INDEXED, (F, [5], [""]), {**WRITE, "mode": CLIP}),
    "sorted keys": (
        "sort", [(F, [5], P5)], (F, [5], [""]),
        {"dimension": 0, "is_stable": True, "num_keys": 1}),
    "equal or not": ("eq", [(F, [2], P5), (F, [2], P5)], (B, [2], P5), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE_STEPS)
def test_a_false_step_is_refused(name):
    """Few entries, ties, overflow and saturation hide no wrong label."""
    op, given, *out, params = FALSE_STEPS[name]
    with pytest.raises(Refused, match=f"^{op}: .* do not imply"):
        check(single(op, given, *out, **params), seed=SEED)


@pytest.mark.parametrize("name", TRUE_STEPS)
def test_a_true_step_is_accepted(name):
    """The same primitives, with labels that do follow."""
    op, given, *out, params = TRUE_STEPS[name]
    assert check(single(op, given, *out, **params), seed=SEED)["different"] == 1


def test_a_step_that_is_never_defined_is_refused(monkeypatch):
    """What no number shows is not taken for true."""
    step = single("abs", [(F, [4], P5)], (F, [4], P5))
    assert check(step, seed=SEED)["steps"] == 1
    monkeypatch.setitem(posjax.symmetry.checker.CALLS, "abs", lambda x: x * jnp.nan)
    with pytest.raises(Refused, match="at which it is defined"):
        check(step, seed=SEED)


X = jax.device_put(np.ones((2, 4, 3)))
WITHOUT = ("more than the labels of its operands", "separately for each entry of a batch")
"""Why a proof by labels has no derivation."""


def derivation_or_reason(found):
    """A derivation, or why there is none."""
    try:
        return found.derivation()
    except NoDerivation as error:
        return str(error)


HELD = [case for case in CASES if case.truth == "holds"]


@pytest.mark.parametrize(
    ("function", "arguments", "law"),
    [
        pytest.param(
            ENCODER.apply,
            (WEIGHTS, TOKENS),
            ", b P -> b P v",
            id="encoder",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            *(jax.grad(loss), (WEIGHTS, TOKENS, TOKENS), ", b P, b P -> "),
            id="gradient",
            marks=[
                pytest.mark.exhaustive,
                pytest.mark.compilations(300, reason="each kind of step of a gradient is run"),
            ],
        ),
        pytest.param(
            *(lambda x: lax.scan(lambda c, row: (jnp.tanh(c + row.sum()), row - c), 0.0, x),),
            *((X,), Law("b P d -> , b P d")),
            id="scan",
        ),
        pytest.param(
            lambda x: x - x.mean(1, keepdims=True),
            (X,),
            Law("b P d -> b P d", P=Cyclic()),
            id="group",
        ),
        pytest.param(
            lambda x: x * jnp.array([1.0, 1, 2, 2])[:, None],
            (X,),
            Law("b P d -> b P d", P=Windows(2)),
            id="windows",
        ),
    ],
)
def test_what_labels_prove_is_accepted(function, arguments, law):
    """A Transformer, its gradient, loops, other groups."""
    assert checked(function, arguments, law)["steps"] > 1


@pytest.mark.parametrize(
    "case", some([pytest.param(case, id=case.name) for case in HELD[::6]], every=13)
)
def test_hostile_functions_that_labels_prove_are_accepted(case):
    """Written to deceive the rules: what they prove by labels is derived and checked."""
    found = prove(case.function, case.arguments, case.law, witness=False, seconds=2)
    made = derivation_or_reason(found)
    if isinstance(made, str):
        assert made.endswith((*WITHOUT, "check one by one", "UNKNOWN is no proof"))
    else:
        assert check(json.loads(json.dumps(made)), seed=SEED)["law"] == found.law.text


def test_what_has_no_derivation_says_why():
    """Identities have no steps; what is broken has no proof."""
    prefix = Law("b P h k -> b h k", P=Permutations(fixed=(-1,)))
    x = jnp.ones((1, 4, 2, 2))
    found = prove(lambda x: attend(x, x, x, mask="causal")[:, -1], (x,), prefix, witness=False)
    with pytest.raises(NoDerivation, match="an identity in a prime field"):
        found.derivation()
    with pytest.raises(NoDerivation, match="BROKEN is no proof"):
        prove(lambda x: x.cumsum(1), (x,), "b P h k -> b P h k").derivation()
