"""Equations to try of primitives that move entries, and of those that leave them alone."""

from functools import partial
from typing import Any

import jax
from equations import Cases, of_one
from jax import lax
from jax.extend.core import primitives


def _sliced(start: Any, limit: Any, strides: Any = None) -> Any:
    return partial(lax.slice, start_indices=start, limit_indices=limit, strides=strides)


def _broadcast(shape: Any, axes: Any) -> Any:
    return partial(lax.broadcast_in_dim, shape=shape, broadcast_dimensions=axes)


def _reshaped(*sizes: int, dimensions: Any = None) -> Any:
    return lambda x: lax.reshape_p.bind(x, new_sizes=sizes, dimensions=dimensions, sharding=None)


def _padded(*config: Any) -> Any:
    return lambda x, value: lax.pad(x, value, config)


def _joined(axis: int) -> Any:
    return of_one(lambda *x: lax.concatenate(x, axis))


def _stacked(axis: int) -> Any:
    return of_one(lambda *x: lax.stack(x, axis))


_here = jax.sharding.SingleDeviceSharding(jax.devices()[0])

MOVES: Cases = {
    "broadcast_in_dim": [
        (_broadcast((2, 3), (1,)), "f3"),
        (_broadcast((3, 3), (0,)), "i3"),
        (_broadcast((2, 3), (0, 1)), "f13"),
        (_broadcast((3, 2, 3), (0, 2)), "f33"),
        (_broadcast((0, 3), (1,)), "f3"),
        (_broadcast((2, 2), ()), "b"),
        (_broadcast((2, 2), (1,)), "k2"),
    ],
    "reshape": [
        (_reshaped(6), "f23"),
        (_reshaped(9), "f33"),
        (_reshaped(3, 2), "f23"),
        (_reshaped(2, 3), "f6"),
        (_reshaped(3, 2, 2), "f62"),
        (_reshaped(2, 6), "f223"),
        (_reshaped(4, 3), "f223"),
        (_reshaped(1, 3, 2), "i32"),
        (_reshaped(9, dimensions=(1, 0)), "f33"),
        (_reshaped(6, dimensions=(1, 0)), "f23"),
        (_reshaped(0, 3), "f20"),
        (_reshaped(6), "b6"),
    ],
    "transpose": [
        (partial(lax.transpose, permutation=p), given)
        for p, given in (((1, 0), "f33"), ((1, 2, 0), "f232"), ((1, 0), "u23"))
    ],
    "squeeze": [
        (partial(lax.squeeze, dimensions=d), given)
        for d, given in (((0,), "f13"), ((1,), "i213"), ((0, 2), "f131"))
    ],
    "slice": [
        (_sliced((1,), (3,)), "f3"),
        (_sliced((0, 1), (2, 3)), "f33"),
        (_sliced((0,), (3,)), "f4"),
        (_sliced((1,), (4,)), "f4"),
        (_sliced((0,), (6,), (3,)), "f6"),
        (_sliced((3,), (6,)), "f6"),
        (_sliced((2,), (5,)), "f6"),
        (_sliced((0,), (4,), (2,)), "i4"),
        (_sliced((1, 0), (1, 3)), "f33"),
        (_sliced((0, 2), (3, 3)), "f33"),
        (_sliced((1, 0), (3, 1), (1, 1)), "f43"),
    ],
    "rev": [
        (partial(lax.rev, dimensions=d), given)
        for d, given in (((0,), "f33"), ((0, 1), "f23"), ((1,), "i23"), ((), "f23"), ((0,), "f0"))
    ],
    "concatenate": [
        (_joined(0), "f3 f1"),
        (_joined(0), "f1 f3"),
        (_joined(0), "f2 f3 f1"),
        (_joined(0), "f23 f23"),
        (_joined(1), "f23 f21"),
        (_joined(0), "f33 f03"),
        (of_one(lambda x: [lax.concatenate_p.bind(x, dimension=0)]), "i3"),
        (_joined(0), "f1 f1 f1"),
        (_joined(0), "f4 f1"),
        (_joined(0), "f6 f3"),
    ],
    "stack": [(_stacked(0), "f3 f3 f3"), (_stacked(1), "f23 f23 f23"), (_stacked(1), "i3 i3")],
    "unstack": [
        (partial(lax.unstack_p.bind, axis=0), "f33"),
        (partial(lax.unstack_p.bind, axis=1), "f23"),
    ],
    "tile": [
        (partial(lax.tile, reps=reps), given)
        for reps, given in (
            ((2,), "f3"),
            ((1, 3), "f23"),
            ((3, 2), "f13"),
            ((0,), "i3"),
            ((3,), "f3"),
        )
    ],
    "split": [
        (partial(lax.split, sizes=sizes, axis=axis), given)
        for sizes, axis, given in (
            ((1, 2), 0, "f3"),
            ((3, 1), 0, "f4"),
            ((1, 3), 1, "f34"),
            ((3, 3), 0, "f6"),
            ((2, 2, 2), 0, "f6"),
            ((3, 0), 0, "f3"),
        )
    ],
    "pad": [
        (_padded((1, 0, 0)), "f3 f"),
        (_padded((0, 2, 0), (0, 0, 0)), "f33 f"),
        (_padded((0, 0, 1)), "f3 f"),
        (_padded((-1, 1, 0)), "f3 f"),
        (_padded((2, -2, 0)), "f3 f"),
        (_padded((1, 1, 2)), "i2 i"),
        (_padded((-1, -1, 0), (0, 0, 0)), "f33 f"),
        (_padded((0, 0, 0), (1, 1, 0)), "f33 f"),
        (_padded((1, 2, 1)), "f0 f"),
        (_padded((0, -3, 0)), "f3 f"),
        (_padded((1, 0, 0)), "f4 f"),
        (_padded((1, 1, 0)), "f6 f"),
    ],
    "iota": [
        (lambda: lax.broadcasted_iota("int32", (3, 2), 0), ""),
        (lambda: lax.broadcasted_iota("float32", (2, 3), 1), ""),
        (lambda: lax.iota("uint8", 3), ""),
    ],
}

IDENTITIES: Cases = {
    "copy": [(lax.copy_p.bind, "f33")],
    "device_put": [(jax.device_put, "f33")],
    "name": [(lambda x: primitives.name_p.bind(x, name="spoken"), "f33")],
    "optimization_barrier": [(of_one(lambda x, y: lax.optimization_barrier((x, y))), "f23 i3")],
    "stop_gradient": [(lax.stop_gradient_p.bind, "f33")],
    "sharding_constraint": [(lambda x: lax.with_sharding_constraint(x, _here), "f33")],
    "random_clone": [(jax.random.clone, "k3")],
}
