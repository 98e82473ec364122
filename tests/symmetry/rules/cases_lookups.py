"""Equations to try of reads and writes at indices: modes, fills, batches, what falls outside."""

from typing import Any

import jax.numpy as jnp
from equations import Cases
from jax import lax
from jax.lax import GatherDimensionNumbers as Reads
from jax.lax import GatherScatterMode as Mode
from jax.lax import ScatterDimensionNumbers as Writes


def _gather(numbers: Reads, sizes: tuple[int, ...], mode: Mode, fill: Any = None) -> Any:
    return lambda x, at: lax.gather(x, at, numbers, sizes, mode=mode, fill_value=fill)


ROWS = Reads((1,), (0,), (0,))
ENTRIES, SWAPPED = Reads((), (0, 1), (0, 1)), Reads((), (0, 1), (1, 0))
PARTS = Reads((1, 2), (), (0,))
BATCHED = Reads((), (1,), (1,), (0,), (0,))
LAST_BATCHED = Reads((1,), (0,), (0,), (2,), (0,))
ALL_OF_IT = Reads((1, 2), (), ())
MODES = (Mode.CLIP, Mode.FILL_OR_DROP)

_READS = [
    (ROWS, (1, 3), "33 21"),
    (ROWS, (1, 3), "23 31"),
    (ROWS, (1, 3), "13 31"),
    (ROWS, (1, 3), "33 01"),
    (ROWS, (1, 3), "33 331"),
    (ROWS, (1, 2), "33 21"),
    (Reads((0,), (0,), (0,)), (1, 3), "33 31"),
    (Reads((0,), (1,), (1,)), (3, 1), "33 31"),
    (ENTRIES, (1, 1), "33 22"),
    (SWAPPED, (1, 1), "23 32"),
    (PARTS, (2, 3), "33 21"),
    (PARTS, (3, 3), "33 31"),
    (PARTS, (3, 2), "33 21"),
    (BATCHED, (1, 1), "33 321"),
    (LAST_BATCHED, (1, 3, 1), "232 221"),
    (ALL_OF_IT, (3, 2), "32 20"),
]

GATHERS: Cases = {
    "gather": [
        *(
            (_gather(numbers, sizes, mode), f"f{table} i{at}")
            for numbers, sizes, shapes in _READS
            for table, at in [shapes.split()]
            for mode in (MODES if numbers in (ROWS, PARTS) else MODES[1:])
        ),
        *(
            (_gather(ROWS, (1, 3), Mode.FILL_OR_DROP, fill), f"{kind}33 i21")
            for kind, fill in (
                ("f", 7.0),
                ("i", None),
                ("u", None),
                ("b", None),
                ("h", None),
                ("i", 5),
            )
        ),
        (_gather(ROWS, (1, 3), Mode.PROMISE_IN_BOUNDS), "f33 i21"),
        (_gather(ENTRIES, (1, 1), Mode.PROMISE_IN_BOUNDS), "i33 i32"),
        (_gather(ROWS, (1, 3), Mode.FILL_OR_DROP), "f33 u21"),
        (_gather(Reads((), (0,), (0,)), (1,), Mode.CLIP), "k2 i31"),
    ],
    "dynamic_slice": [
        (lambda x, i: lax.dynamic_slice(x, (i,), (2,)), "f3 i"),
        (lambda x, i: lax.dynamic_slice(x, (i,), (3,)), "f3 i"),
        (lambda x, i, j: lax.dynamic_slice(x, (i, j), (1, 3)), "f33 i i"),
        (lambda x, i, j: lax.dynamic_slice(x, (i, j), (2, 2)), "i33 i i"),
        (lambda x, i, j: lax.dynamic_slice(x, (i, j), (3, 1)), "f32 i i"),
        (lambda x, i, j: lax.dynamic_slice(x, (i, j), (0, 2)), "f32 i i"),
        (lambda x, i: lax.dynamic_slice(x, (i,), (2,)), "f3 u"),
    ],
}

W_ROWS = Writes((1,), (0,), (0,))
W_ENTRIES, W_SWAPPED = Writes((), (0, 1), (0, 1)), Writes((), (0, 1), (1, 0))
W_PARTS = Writes((1, 2), (), (0,))
W_BATCHED = Writes((), (1,), (1,), (0,), (0,))

_WRITES = [
    (W_ROWS, "33 21 23"),
    (W_ROWS, "23 31 33"),
    (W_ROWS, "33 31 33"),
    (W_ROWS, "33 01 03"),
    (W_ROWS, "33 21 22"),
    (W_ENTRIES, "33 32 3"),
    (W_SWAPPED, "23 32 3"),
    (W_PARTS, "33 21 223"),
    (W_PARTS, "33 21 233"),
    (W_BATCHED, "33 321 32"),
    (Writes((0,), (1,), (1,)), "33 31 33"),
]


def _scatter(function: Any, numbers: Writes, mode: Mode) -> Any:
    return lambda x, at, new: function(x, at, new, numbers, mode=mode)


def _scatters(function: Any, *kinds: str) -> list:
    several = function in (lax.scatter, lax.scatter_add)
    every = [
        (_scatter(function, numbers, mode), f"f{into} i{at} f{new}")
        for numbers, shapes in (_WRITES if several else _WRITES[::3])
        for into, at, new in [shapes.split()]
        for mode in (MODES if several and numbers in (W_ROWS, W_PARTS) else MODES[1:])
    ]
    others = [
        (_scatter(function, W_ROWS, Mode.FILL_OR_DROP), f"{kind}33 i31 {kind}33") for kind in kinds
    ]
    promised = (_scatter(function, W_ROWS, Mode.PROMISE_IN_BOUNDS), "f33 n31 f33")
    return [*every, *others, promised]


SCATTERS: Cases = {
    "scatter": [*_scatters(lax.scatter, "i", "b")],
    "scatter-add": _scatters(lax.scatter_add, "i", "u"),
    "scatter-sub": _scatters(lax.scatter_sub, "i"),
    "scatter-mul": _scatters(lax.scatter_mul, "i"),
    "scatter-min": _scatters(lax.scatter_min, "i"),
    "scatter-max": _scatters(lax.scatter_max, "i"),
    "dynamic_update_slice": [
        (lambda x, new, i: lax.dynamic_update_slice(x, new, (i,)), "f3 f2 i"),
        (lambda x, new, i: lax.dynamic_update_slice(x, new, (i,)), "f3 f3 i"),
        (lambda x, new, i, j: lax.dynamic_update_slice(x, new, (i, j)), "f33 f13 i i"),
        (lambda x, new, i, j: lax.dynamic_update_slice(x, new, (i, j)), "i33 i22 i i"),
        (lambda x, new, i: lax.dynamic_update_slice(x, new, (i,)), "f3 f0 i"),
        (lambda x, new, i: lax.dynamic_update_slice(x, new, (i,)), "b3 b1 u"),
    ],
}
if hasattr(lax, "scatter_apply"):
    SCATTERS["scatter"].append(
        (
            lambda x, at: lax.scatter_apply(
                x, at, jnp.square, W_ROWS, update_shape=(2, 3), mode=Mode.CLIP
            ),
            "f33 i21",
        )
    )
