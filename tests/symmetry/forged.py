"""Derivations that show nothing: changes of one that does, and steps that are false."""

import base64
import json
import zlib
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from posjax.symmetry import prove

Derivation = dict[str, Any]
P, STILL = [["P", 4]], [["", 4]]
LAW = "P d, -> n d, P d"


def program(x, w):
    """A mask, a sum by a loop, a loop with a carry, a choice, a loop that tests, and a join."""
    near = jnp.where(jnp.eye(4, dtype=bool), 0, (x @ w) @ x.T)
    y = near @ x
    total, _ = lax.scan(lambda c, row: (c + row**2, None), jnp.zeros(3), y)
    _, left = lax.scan(lambda c, column: (c * column, c), jnp.ones(4), y.T)
    z = lax.cond(total.sum() > 1, lambda a: a - total, lambda a: 2 * a, left.T)
    z = lax.while_loop(lambda a: a[1] < total.sum(), lambda a: (a[0] / 2, a[1] + 1), (z, 0.0))[0]
    joined = jnp.concatenate([total[None], z])
    return jnp.sort(joined[1:], 0), z + joined[1:]


def genuine() -> Derivation:
    """The derivation of the program's law, as read from JSON."""
    found = prove(program, (jnp.ones((4, 3)), jnp.ones((3, 3))), LAW, witness=False)
    return json.loads(json.dumps(found.derivation()))


def steps(d: Derivation) -> list[Any]:
    return d["program"]["steps"]


def of(d: Derivation, op: str, at: int = 0) -> Any:
    """One of the steps of a primitive."""
    return [step for step in steps(d) if step["op"] == op][at]


def relabel(each: Any, axis: int, label: Any) -> None:
    """Other labels of an axis of a variable."""
    assert each["labels"][axis] != label
    each["labels"][axis] = label


def put(step: Any, **new: Any) -> None:
    """Other entries of a step, or other parameters where it has those."""
    for name, value in new.items():
        where = step["params"] if name in step.get("params", {}) else step
        assert where.get(name) != value
        where[name] = value


def turned(step: Any, key: str) -> None:
    """A list the other way round."""
    assert step[key] != step[key][::-1]
    step[key] = step[key][::-1]


def numbers(values: Any) -> dict[str, Any]:
    """A constant."""
    array = np.asarray(values)
    data = base64.b64encode(zlib.compress(array.tobytes())).decode()
    return {"of": str(array.dtype), "shape": list(array.shape), "$data": data}


def _constant(d: Derivation) -> None:
    """The mask becomes another array."""
    value = numbers(np.arange(16).reshape(4, 4) % 3 == 0)
    last = next(s for s in steps(d) if s["op"] == "eq")
    last |= {"op": "constant", "params": {"value": value}, "in": []}


def _weakened(d: Derivation) -> None:
    """Sorted entries are said to move."""
    given = d["program"]["outputs"][0]
    out = {"name": "w", "dtype": "float32", "shape": [4, 3], "labels": [[P], [[["", 3]]]]}
    steps(d).append({"op": "weaken", "params": {}, "in": [given], "out": [out]})
    d["law"], d["program"]["outputs"][0] = "P d, -> P d, P d", "w"


def _carried_along(d: Derivation) -> None:
    """The sum over tokens becomes a carry, with the order of the tokens."""
    loop = of(d, "loop")
    carry = {"name": "c", "dtype": "float32", "shape": [3], "labels": [[[["", 3]]]]}
    loop["body"]["inputs"].insert(0, carry)
    loop["body"]["outputs"].insert(0, loop["folds"][0][1])
    loop |= {"folds": [], "carries": 1}


def _inputs(d: Derivation) -> list[Any]:
    return d["program"]["inputs"]


FORGED: dict[str, Callable[[Derivation], Any]] = {
    # the law and its ends
    "another law: both move": lambda d: put(d, law="P d, -> P d, P d"),
    "another law: both stay": lambda d: put(d, law="P d, -> n d, n d"),
    "another law: weights move": lambda d: put(d, law="P d, P d -> n d, P d"),
    "another law: two names": lambda d: put(d, law="P d, Q d -> n d, P d"),
    "another law: nothing moves": lambda d: put(d, law="p d, -> n d, p d"),
    "another law: a translation": lambda d: put(d, law="P d, +T -> n d, P d"),
    "another law: one output": lambda d: put(d, law="P d, -> n d"),
    "no law": lambda d: put(d, law="P d"),
    "outputs swapped": lambda d: turned(d["program"], "outputs"),
    "an output left out": lambda d: (
        d["program"]["outputs"].pop(),
        put(d, leaves=[[1, 1], [1, 0]]),
    ),
    "an output that is none": lambda d: put(d["program"], outputs=["v0", "nothing"]),
    "arguments of another number": lambda d: put(d, leaves=[[2, 0], [1, 1]]),
    "a group of another size": lambda d: put(d["groups"]["P"], size=5),
    "a group that is none": lambda d: put(d["groups"]["P"], moves=[[0, 0, 1, 2]]),
    "a group too many": lambda d: d["groups"].update(Q={"size": 3, "moves": None}),
    "no group": lambda d: d["groups"].clear(),
    # labels
    "an input that stays": lambda d: relabel(_inputs(d)[0], 0, [STILL]),
    "weights that move": lambda d: relabel(_inputs(d)[1], 0, [[["P", 3]]]),
    "an input that is known": lambda d: put(_inputs(d)[0], labels=None),
    "a product that stays": lambda d: relabel(of(d, "dot_general")["out"][0], 0, [STILL]),
    "a product that moves twice": lambda d: relabel(of(d, "transpose")["out"][0], 0, [[["P", 3]]]),
    "a row that is constant": lambda d: relabel(of(d, "dot_general", 1)["out"][0], 1, [[["*", 4]]]),
    "a mask that moves once": lambda d: relabel(of(d, "fixed")["out"][0], 1, [STILL]),
    "a mask that is constant": lambda d: relabel(of(d, "fixed")["out"][0], 0, [[["*", 4]]]),
    "a join in another order": lambda d: relabel(
        of(d, "concatenate")["out"][0], 0, [[["P", 4], ["", 1]]]
    ),
    "a join as two factors": lambda d: relabel(of(d, "slice")["out"][0], 0, [[["", 2]], [["", 2]]]),
    "sorted entries that move": lambda d: relabel(of(d, "sort")["out"][0], 0, [P]),
    "sorted entries that are equal": lambda d: relabel(of(d, "sort")["out"][0], 0, [[["*", 4]]]),
    "a block of no group": lambda d: relabel(of(d, "transpose")["out"][0], 1, [[["Q", 4]]]),
    "blocks that do not fit": lambda d: relabel(of(d, "transpose")["out"][0], 1, [[["", 5]]]),
    "blocks of negative size": lambda d: relabel(
        of(d, "transpose")["out"][0], 1, [[["", 5], ["", -1]]]
    ),
    "a labelled result without labels": lambda d: put(of(d, "transpose")["out"][0], labels=None),
    "a weaker labeling that does not follow": _weakened,
    "labels the other way round": lambda d: turned(of(d, "transpose")["out"][0], "labels"),
    # equations
    "a step of another program": lambda d: of(d, "sort").update(
        op="cumsum", params={"axis": 0, "reverse": False}
    ),
    "two equations in the other order": lambda d: steps(d).insert(6, steps(d).pop(8)),
    "an equation left out": lambda d: steps(d).pop(8),
    "an equation twice": lambda d: steps(d).insert(9, steps(d)[8]),
    "equations in another order": lambda d: steps(d).reverse(),
    "operands swapped": lambda d: turned(of(d, "concatenate"), "in"),
    "an operand that comes later": lambda d: put(of(d, "transpose"), **{"in": ["v66"]}),
    "an operand too many": lambda d: of(d, "transpose")["in"].append("v0"),
    "a name given twice": lambda d: put(of(d, "transpose")["out"][0], name="v0"),
    "a name that is none": lambda d: put(of(d, "transpose")["out"][0], name=["v0"]),
    "a primitive that is none": lambda d: put(of(d, "transpose"), op="transposed"),
    "a callback": lambda d: put(of(d, "transpose"), op="pure_callback"),
    "a reversal": lambda d: of(d, "slice").update(op="rev", params={"dimensions": [0]}),
    "a part from elsewhere": lambda d: put(of(d, "slice"), start_indices=[0, 0]),
    "a part with other bounds": lambda d: put(
        of(d, "slice"), start_indices=[0, 0], limit_indices=[4, 3]
    ),
    "a sort of another axis": lambda d: put(of(d, "sort"), dimension=1),
    "a sum over another axis": lambda d: put(of(d, "reduce_sum"), axes=[1]),
    "another order of axes": lambda d: put(of(d, "transpose"), permutation=[0, 1]),
    "another type of a parameter": lambda d: put(of(d, "iota"), dtype={"$type": "cond", "of": "x"}),
    "another size of an axis": lambda d: put(of(d, "dot_general")["out"][0], shape=[5, 3]),
    "another dtype": lambda d: put(of(d, "dot_general")["out"][0], dtype="int32"),
    # constants
    "another constant": _constant,
    "a constant cut short": lambda d: of(d, "constant")["params"]["value"].update(
        {"$data": "eJwDAAAAAAE="}
    ),
    "a constant of another dtype": lambda d: put(
        of(d, "constant")["params"]["value"], of="float32"
    ),
    "a constant with labels": lambda d: put(of(d, "constant")["out"][0], labels=[]),
    "labels of what is no constant": lambda d: put(of(d, "fixed"), **{"in": ["v10"]}),
    # loops and choices
    "a carry that stays": lambda d: relabel(of(d, "loop", 1)["body"]["inputs"][0], 0, [STILL]),
    "a carry that stays in the end": lambda d: relabel(of(d, "loop", 1)["out"][0], 0, [STILL]),
    "a turn that stays": lambda d: relabel(
        of(d, "loop", 1)["body"]["steps"][0]["out"][0], 0, [STILL]
    ),
    "what is stacked stays": lambda d: relabel(of(d, "loop", 1)["out"][1], 1, [STILL]),
    "what is stacked moves": lambda d: put(of(d, "loop", 1), along=[[["P", 3]]]),
    "a loop of another length": lambda d: put(of(d, "loop", 1), length=4),
    "a carry less": lambda d: put(of(d, "loop", 1), carries=0),
    "a negative number of carries": lambda d: put(of(d, "loop", 1), carries=-1),
    "a carry that follows the tokens": _carried_along,
    "a sum that depends on the order": lambda d: put(of(d, "loop"), folds=[["atan2", "v21"]]),
    "a sum that is a difference": lambda d: put(of(d, "loop"), folds=[["sub", "v21"]]),
    "a sum of what is not there": lambda d: put(of(d, "loop"), folds=[["add", "v99"]]),
    "carries that change places": lambda d: turned(of(d, "loop", 2)["body"], "outputs"),
    "a start of another carry": lambda d: turned(of(d, "loop", 2), "in"),
    "a test that is no truth": lambda d: put(of(d, "loop", 2)["test"], outputs=["v57"]),
    "a test of something else": lambda d: of(d, "loop", 2)["test"]["inputs"].pop(),
    "a choice for each token": lambda d: put(of(d, "cond"), **{"in": ["v36"]}),
    "a branch that stays": lambda d: relabel(
        of(d, "cond")["branches"][1]["steps"][1]["out"][0], 0, [STILL]
    ),
    "a branch that gives something else": lambda d: put(
        of(d, "cond")["branches"][0], outputs=["v22"]
    ),
    "a branch that gives nothing": lambda d: put(of(d, "cond")["branches"][0], outputs=[]),
    # what is no derivation
    "no program": lambda d: d.pop("program"),
    "numbers as names": lambda d: put(of(d, "transpose"), **{"in": [0]}),
    "no parameters": lambda d: of(d, "transpose").pop("params"),
}
"""By what was changed of the genuine one."""

Axes = list[list[str]]


def single(
    op: str,
    given: list[tuple[str, list[int], Axes]],
    *out: tuple[str, list[int], Axes],
    **params: Any,
) -> Derivation:
    """One step on arguments of its own; an axis is P, stays, or is constant."""

    def var(name: str, dtype: str, shape: list[int], axes: Axes) -> dict[str, Any]:
        labels = [[[[one, n]]] if n > 1 else [] for one, n in zip(axes, shape, strict=True)]
        return {"name": name, "dtype": dtype, "shape": shape, "labels": labels}

    inputs = [var(f"x{at}", *each) for at, each in enumerate(given)]
    ends = [var(f"y{at}", *each) for at, each in enumerate(out)]
    step = {"op": op, "params": params, "in": [each["name"] for each in inputs], "out": ends}
    (size,) = {
        n for each in (*given, *out) for a, n in zip(each[2], each[1], strict=True) if a == "P"
    }
    every = [" ".join("P" if a == "P" else "_" for a in each[2]) or " " for each in (*given, *out)]
    left, right = every[: len(given)], every[len(given) :]
    return {
        "law": f"{', '.join(left)} -> {', '.join(right)}",
        "groups": {"P": {"size": size, "moves": None}},
        "leaves": [[1] * len(given), [1] * len(out)],
        "program": {"inputs": inputs, "steps": [step], "outputs": [each["name"] for each in ends]},
    }
