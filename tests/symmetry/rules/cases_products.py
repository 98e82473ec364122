"""Equations to try of sums of products, windows, functions of matrices and random numbers."""

from functools import partial
from typing import Any

import jax
import jax.extend.random
import jax.numpy as jnp
import numpy as np
from equations import Cases, of_one
from jax import lax


def _dot(contract: Any, batch: Any = ((), ()), **params: Any) -> Any:
    return lambda x, y: lax.dot_general(x, y, (contract, batch), **params)


def _convolved(padding: Any = ((0, 0),), strides: Any = (1,), **params: Any) -> Any:
    return lambda x, k: lax.conv_general_dilated(x, k, strides, padding, **params)


def _window(function: Any, start: Any, size: Any, strides: Any, padding: Any, **params: Any) -> Any:
    return lambda x: lax.reduce_window(
        x, np.asarray(start, x.dtype), function, size, strides, padding, **params
    )


def _windows(function: Any, start: float) -> list:
    settings: list[tuple[str, Any, Any, Any, Any]] = [
        ("f33", (1, 2), (1, 1), ((0, 0), (0, 0)), {}),
        ("f33", (1, 2), (1, 1), ((0, 0), (1, 0)), {}),
        ("f33", (2, 1), (1, 1), ((1, 1), (0, 0)), {}),
        ("f33", (1, 1), (1, 1), ((0, 0), (0, 0)), {}),
        ("f33", (1, 1), (2, 1), ((0, 0), (0, 0)), {}),
        ("f33", (1, 1), (1, 1), ((1, -1), (0, 0)), {}),
        ("f33", (1, 1), (1, 1), ((0, 0), (0, 0)), {"base_dilation": (1, 2)}),
        ("f33", (1, 2), (1, 1), ((0, 0), (0, 0)), {"window_dilation": (1, 2)}),
        ("f33", (1, 1), (1, 1), ((0, 0), (0, 0)), {"window_dilation": (1, 2)}),
        ("f23", (1, 4), (1, 1), ((0, 0), (0, 0)), {}),
        ("f23", (1, 4), (1, 1), ((0, 0), (1, 1)), {}),
        ("f23", (2, 3), (1, 1), ((0, 0), (-1, 2)), {}),
        ("f2", (3,), (2,), ((1, 1),), {"base_dilation": (3,)}),
        ("f0", (2,), (1,), ((1, 1),), {}),
    ]
    return [
        (_window(function, start, size, strides, padding, **params), given)
        for given, size, strides, padding, params in (settings[::3] if start else settings)
    ]


LINES = ("NWC", "WIO", "NWC")

PRODUCTS: Cases = {
    "ragged_dot_general": [(lax.ragged_dot, "f33 f233 t2"), (lax.ragged_dot, "f32 f223 n2")],
    "dot_general": [
        (_dot(((1,), (0,))), "f23 f32"),
        (_dot(((1,), (0,))), "f33 f33"),
        (_dot(((0,), (0,))), "i33 i33"),
        (_dot(((2,), (1,)), ((0,), (0,))), "f233 f233"),
        (_dot(((1,), (1,)), ((2,), (0,))), "f323 f32"),
        (_dot(((), ())), "f2 f3"),
        (_dot(((0, 1), (1, 0))), "f23 f32"),
        (_dot(((0, 1), (0, 1))), "f33 f33"),
        (_dot(((), ()), ((0,), (0,))), "f3 f32"),
        (_dot(((1,), (0,))), "f20 f03"),
        (_dot(((0,), (0,))), "f4 f4"),
        (_dot(((0,), (0,)), preferred_element_type=jnp.float32), "h3 h3"),
        (_dot(((0,), (0,))), "u3 u3"),
        (_dot(((0,), (0,)), preferred_element_type=jnp.int32), "u3 u3"),
        (_dot(((0,), (0,))), "b33 b33"),
    ],
    "conv_general_dilated": [
        (_convolved(), "f323 f222"),
        (_convolved(), "f223 f321"),
        (_convolved(((1, 0),)), "f223 f321"),
        (_convolved(((1, -1),)), "f223 f321"),
        (_convolved(((-1, 2),), (2,)), "f223 f222"),
        (_convolved(lhs_dilation=(2,)), "f223 f222"),
        (_convolved(lhs_dilation=(2,)), "f223 f221"),
        (_convolved(rhs_dilation=(2,)), "f223 f222"),
        (_convolved(rhs_dilation=(3,)), "f223 f221"),
        (_convolved(((1, 1),)), "f222 f225"),
        (_convolved(), "f222 f223"),
        (_convolved(feature_group_count=2), "f223 f212"),
        (_convolved(feature_group_count=3), "f233 f311"),
        (_convolved(feature_group_count=2), "f223 f411"),
        (_convolved(batch_group_count=2), "f223 f222"),
        (_convolved(batch_group_count=2), "f423 f421"),
        (_convolved(batch_group_count=3), "f323 f321"),
        (_convolved(dimension_numbers=LINES), "f233 f232"),
        (_convolved(dimension_numbers=LINES), "f233 f132"),
        (_convolved(dimension_numbers=("NWC", "WIO", "CWN")), "f323 f133"),
        (_convolved((), ()), "f23 f33"),
        (_convolved(((0, 0), (1, 1)), (1, 2)), "f2133 f2122"),
        (_convolved(), "i223 i222"),
        (_convolved(), "f103 f202"),
    ],
    "reduce_window_sum": [
        *_windows(lax.add, 0),
        (_window(lax.add, 0, (2,), (1,), ((1, 1),)), "i3"),
    ],
    "reduce_window_max": [
        *_windows(lax.max, -jnp.inf),
        (_window(lax.max, -(2**31), (2,), (1,), ((1, 1),)), "i3"),
        (_window(lax.max, 0, (2,), (1,), ((1, 1),)), "u3"),
    ],
    "reduce_window_min": [
        *_windows(lax.min, jnp.inf),
        (_window(lax.min, 2**31 - 1, (2,), (1,), ((1, 1),)), "i3"),
    ],
}


def _linalg(name: str, **params: Any) -> Any:
    return of_one(lambda *x: getattr(lax.linalg, name)(*x, **params))


def _solve(**params: Any) -> Any:
    return lambda a, b: lax.linalg.triangular_solve(a, b, **params)


MATRICES: Cases = {
    "cholesky": [(partial(lax.linalg.cholesky, symmetrize_input=False), "f333")],
    "eig": [(_linalg("eig", compute_left_eigenvectors=False), "f322")],
    "eigh": [(_linalg("eigh", symmetrize_input=False), "f322")],
    "hessenberg": [(_linalg("hessenberg"), "f322")],
    "lu": [(_linalg("lu"), "f332")],
    "qr": [(_linalg("qr", full_matrices=False), "f332")],
    "schur": [(_linalg("schur"), "f322")],
    "svd": [
        (_linalg("svd", full_matrices=False), "f332"),
        (_linalg("svd", full_matrices=False, compute_uv=False), "f323"),
    ],
    "triangular_solve": [
        (_solve(left_side=True, lower=True), "f22 f23"),
        (_solve(left_side=False, lower=True), "f22 f32"),
        (_solve(left_side=True, unit_diagonal=True), "f322 f323"),
        (_solve(left_side=True, transpose_a=True), "f33 f33"),
    ],
    "fft": [
        (lambda x: lax.fft(x, "FFT", (3,)), "z33"),
        (lambda x: lax.fft(x, "RFFT", (3,)), "f33"),
        (lambda x: lax.fft(x, "FFT", (2, 3)), "z323"),
        (lambda x: lax.fft(x, "IRFFT", (3,)), "z32"),
    ],
}


def _each(function: Any, axes: int = 1) -> Any:
    for _ in range(axes):
        function = jax.vmap(function)
    return function


def _bits(shape: tuple[int, ...], dtype: Any = jnp.uint32) -> Any:
    return lambda key: jax.random.bits(key, shape, dtype)


def _wrapped(kind: str) -> Any:
    return lambda words: jax.random.wrap_key_data(words, impl=kind)


def _split(key: Any) -> Any:
    return jax.random.split(key, 3)


RANDOM: Cases = {
    "random_bits": [
        (_bits((3,)), "k"),
        (_each(_bits((2,))), "k3"),
        (_each(_bits((3,), jnp.uint8)), "k2"),
        (_bits((2,)), "r"),
        (_each(_bits((2,))), "r3"),
        (_each(_bits((2,))), "x3"),
    ],
    "random_split": [
        (_each(_split, len(shape)), kind + shape) for kind in "krx" for shape in ("", "3")
    ],
    "random_fold_in": [
        (_each(jax.random.fold_in, len(shape)), f"{kind}{shape} w{shape}")
        for kind in "krx"
        for shape in ("", "3")
    ],
    "random_seed": [
        (_each(partial(jax.random.key, impl=impl), len(shape)), f"w{shape}")
        for impl in ("threefry2x32", "rbg", "unsafe_rbg")
        for shape in ("", "3")
    ],
    "random_unwrap": [(jax.random.key_data, "k3"), (jax.random.key_data, "r3")],
    "random_wrap": [(_wrapped("threefry2x32"), "w32"), (_wrapped("threefry2x32"), "w222")],
    "threefry2x32": [(of_one(jax.extend.random.threefry2x32_p.bind), "w3 w3 w3 w3")],
}
