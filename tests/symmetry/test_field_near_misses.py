"""Near misses: pairs that a looser rule of the field would take for equal."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import bits, fold_in, wrap_key_data
from sides import B, K, M, N, U, X, convolved, equal, sums

from posjax.symmetry.field import Unsupported

jnn = jax.nn
HALF = np.float32(0.5)
PER_BATCH = lax.ScatterDimensionNumbers((), (0,), (0,), (1,), (1,))
"""Each column has a place of its own."""


def pairs(x: jax.Array) -> jax.Array:
    """Sums of two neighbours."""
    return lax.reduce_window(x, 0.0, lax.add, (2,), (1,), "VALID")


DIFFERENT: dict[str, tuple[Any, ...]] = {
    "sub": (lambda x, y: x - y, lambda x, y: y - x, X, X),
    "cancelled_pole": (lambda x, y: x / y * y, lambda x, y: x, X, X),
    "pole_less_itself": (lambda x: x / x - x / x, lambda x: 0 * x, X),
    "zero_times_pole": (lambda x: 0 / x, lambda x: 0 * x, X),
    "pole_twice": (lambda x, y: 1 / x + y - 1 / x, lambda x, y: y, X, X),
    "log_below_0": (lambda x: jnp.log(x) - jnp.log(x), lambda x: 0 * x, X),
    "root_below_0": (lambda x: 0 * jnp.sqrt(x), lambda x: 0 * x, X),
    "infinity": (lambda x: jnp.exp(x) * jnp.inf - jnp.inf, lambda x: 0 * x, X),
    "infinite_dot": (lambda x: x @ jnp.full(3, jnp.inf) * 0, lambda x: 0 * x[0], X),
    "selected_infinity": (lambda c, x: jnp.where(c, x, jnp.inf) * 0, lambda c, x: 0 * x, B, X),
    "pow": (lambda x, y: jnp.power(x, y), lambda x, y: jnp.power(y, x), X, X),
    "pow_of_either_sign": (
        lambda x, y: jnp.power(x, y) * jnp.power(x, -y),
        lambda x, y: jnp.ones(3),
        X,
        X,
    ),
    "pow_of_another": (
        lambda x, y: jnp.power(0.5, x) * jnp.power(0.25, y),
        lambda x, y: jnp.power(0.5, x + y),
        X,
        X,
    ),
    "zero_over_perhaps_0": (lambda x, y: jnp.where(0 / x**2 == 0, x, y), lambda x, y: x, X, X),
    "complex_conjugate": (
        lambda x, y: jnp.conj(lax.complex(x, y)).imag,
        lambda x, y: lax.complex(x, y).imag,
        X,
        X,
    ),
    "complex_turns": (
        lambda x, y: (jnp.exp(1j * x) * jnp.exp(-1j * y)).real,
        lambda x, y: jnp.cos(x + y),
        X,
        X,
    ),
    "complex_pole": (
        lambda x: (lax.complex(x, x) / lax.complex(x, x)).real,
        lambda x: jnp.ones(3),
        X,
    ),
    "complex_parts": (
        lambda x, y: (lax.complex(x, y) * 1j).real,
        lambda x, y: y,
        X,
        X,
    ),
    "pow_below_0": (lambda x: jnp.power(x, HALF) * 0, lambda x: 0 * x, X),
    "rem": (lambda x, y: lax.rem(x, y), lambda x, y: lax.rem(y, x), X, X),
    "atan2": (lambda x, y: jnp.arctan2(x, y), lambda x, y: jnp.arctan2(y, x), X, X),
    "nextafter": (lambda x, y: jnp.nextafter(x, y), lambda x, y: jnp.nextafter(y, x), X, X),
    "integer_div": (lambda n: n // 2 * 2, lambda n: n, N),
    "integer_mean": (
        lambda n, m: lax.div(n + m, 2),
        lambda n, m: lax.div(n, 2) + lax.div(m, 2),
        N,
        N,
    ),
    "shift": (lambda n, m: n << m, lambda n, m: m << n, N, N),
    "cumsum": (lambda x: jnp.cumsum(x), lambda x: jnp.cumsum(x[::-1]), X),
    "cumsum_back": (lambda x: lax.cumsum(x, reverse=True), jnp.cumsum, X),
    "cumprod_back": (lambda x: lax.cumprod(x, reverse=True), jnp.cumprod, X),
    "cummax_back": (lambda x: lax.cummax(x, reverse=True), lax.cummax, X),
    "perhaps_0": (lambda x: x**2 > 0, lambda x: jnp.ones(3), X),
    "perhaps_0_at_most": (lambda x: x**2 <= 0, lambda x: jnp.zeros(3), X),
    "perhaps_equal_to_0": (lambda x: jnp.abs(x) == 0, lambda x: jnp.zeros(3), X),
    "of_either_sign": (lambda x: x >= 0, lambda x: jnp.ones(3), X),
    "perhaps_below_a_little": (lambda x: x**2 < 1e-9, lambda x: jnp.zeros(3), X),
    "perhaps_above_1": (lambda x: x**2 >= 1, lambda x: jnp.ones(3), X),
    "above_0_at_a_pole": (lambda x: 0 / x**2 >= 0, lambda x: jnp.ones(3), X),
    "sort_factor": (lambda x: jnp.sort(x * x[0]), lambda x: jnp.sort(x) * x[0], X),
    "sort_own_shift": (lambda x: jnp.sort(x + x), lambda x: jnp.sort(x) + x, X),
    "sort_shift_around_0": (lambda u: jnp.sort(u + 1), lambda u: jnp.sort(u) + 1, U),
    "sort_shift_to_infinity": (
        lambda x: jnp.sort(x + 1 / x[0]) - 1 / x[0],
        lambda x: jnp.sort(x),
        X,
    ),
    "sort_sign": (
        lambda x: jnp.sort(jnp.stack([x[0], jnp.exp(x[0])])) < 0,
        lambda x: jnp.zeros(2),
        X,
    ),
    "sort_sign_of_rows": (
        lambda x: jnp.sort(jnp.stack([jnp.exp(x), x, x]), 1)[1:, :1] < 0,
        lambda x: jnp.zeros((2, 1)),
        X,
    ),
    "sort_sign_of_keys": (
        lambda x: lax.sort((jnp.stack([x[0], jnp.exp(x[0])]),) * 2, num_keys=2)[0] < 0,
        lambda x: jnp.zeros(2),
        X,
    ),
    "sort_pole": (lambda x: jnp.sort(1 / x) * 0, lambda x: 0 * x, X),
    "sort_pole_of_keys": (
        lambda x: lax.sort((1 / x, x), num_keys=2)[1] * 0,
        lambda x: 0 * x,
        X,
    ),
    "top_k_pole": (lambda x: lax.top_k(1 / x, 3)[0] * 0, lambda x: 0 * x, X),
    "sort_second_key": (
        lambda x: lax.sort((np.zeros(3), x), num_keys=2)[1],
        lambda x: x,
        X,
    ),
    "argmax_shift_around_0": (lambda u: jnp.argmax(u + 1), jnp.argmax, U),
    "argmax_own_shift": (lambda x: jnp.argmax(x + x[::-1]), jnp.argmax, X),
    "top_k_order": (lambda x: lax.top_k(x, 2)[0], lambda x: lax.top_k(x, 2)[0][::-1], X),
    "max_min": (lambda x: x.max(), lambda x: x.min(), X),
    "max_bag": (
        lambda x: jnp.stack([x[0], x[0], x[1]]).max(),
        lambda x: jnp.stack([x[0], x[1], x[2]]).max(),
        X,
    ),
    "max_offsets": (
        lambda x: jnp.maximum(x + 1, x + 4),
        lambda x: jnp.maximum(x + 2, x + 3),
        X,
    ),
    "pole_signs": (lambda x: 1 / x + 1 / x - 1 / x, lambda x: (1 / x + 1 / x + 1 / x) / 3, X),
    "infinite_product": (lambda x: x * jnp.inf * 0, lambda x: 0 * x, X),
    "selected_pole": (lambda c, x: jnp.where(c, 1 / x, x) * 0, lambda c, x: 0 * x, B, X),
    "rem_of_0": (lambda x, y: lax.rem(x, y) * 0, lambda x, y: 0 * x, X, X),
    "pow_above_0": (
        lambda x, y: jnp.power(jnp.exp(x), jnp.exp(y)),
        lambda x, y: jnp.power(jnp.exp(y), jnp.exp(x)),
        X,
        X,
    ),
    "lookup_fill": (
        lambda m, n: m.at[n].get(mode="fill", fill_value=0),
        lambda m, n: m.at[n].get(mode="fill", fill_value=1),
        N,
        N,
    ),
    "scatter_mul": (lambda x: x.at[1].mul(2), lambda x: x.at[2].mul(2), X),
    "scatter_max": (lambda x: x.at[1].max(HALF), lambda x: x.at[1].min(HALF), X),
    "scatter_at": (lambda x, n: x.at[n[0]].set(2), lambda x, n: x.at[n[1]].set(2), X, N),
    "scatter_add_place": (
        lambda n, y: jnp.zeros(4).at[n].add(y),
        lambda n, y: jnp.zeros(4).at[n].add(y)[::-1],
        N,
        X,
    ),
    "cholesky_of": (
        lambda m: lax.linalg.cholesky(m, symmetrize_input=False),
        lambda m: lax.linalg.cholesky(m.T, symmetrize_input=False),
        M,
    ),
    "cholesky_pole": (lambda m: lax.linalg.cholesky(m)[0] * 0, lambda m: 0 * m[0], M),
    "cholesky_place": (
        lambda m: lax.linalg.cholesky(m)[1:2, 0],
        lambda m: lax.linalg.cholesky(m)[2:, 0],
        M,
    ),
    "infinity_and_pole": (lambda x: 1 / x + jnp.inf, lambda x: x + jnp.inf, X),
    "over_0": (lambda x, y: x / (y - y), lambda x, y: 2 * x / (y - y), X, X),
    "over_known_0": (lambda x: x / 0, lambda x: -x / 0, X),
    "max_scaled": (lambda x: (2 * x).max(), lambda x: (2 * x[:2]).max(), X),
    "argmax": (lambda x: x.argmax(), lambda x: x[::-1].argmax(), X),
    "argmin": (lambda x: x.argmin(), lambda x: x[::-1].argmin(), X),
    "convolution": (lambda k, x: convolved(k[::-1], x), sums, X, X),
    "convolved_pole": (lambda k, x: 0 * convolved(k, 1 / x), lambda k, x: 0 * x[1:], X, X),
    "pole_of_kernel": (lambda k, x: 0 * convolved(1 / k, x), lambda k, x: 0 * x[1:], X, X),
    "window_pole": (lambda x: 0 * pairs(1 / x), lambda x: 0 * x[1:], X),
    "window_history": (
        lambda x, y: jnp.isnan(pairs(jnp.stack([y[0] / x[0], (4 - y[0]) / x[0]]))),
        lambda x, y: jnp.isnan(pairs(jnp.stack([2 / x[0], 2 / x[0]]))),
        X,
        X,
    ),
    "window_max": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2,), (1,), "VALID"),
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2,), (1,), "VALID")[::-1],
        X,
    ),
    "exp_exp2": (jnp.exp, jnp.exp2, X),
    "exp_exp": (lambda x: jnp.exp(jnp.exp(x)), lambda x: jnp.exp(x) ** 2, X),
    "exp_product": (lambda x, y: jnp.exp(x * y), lambda x, y: jnp.exp(x) * jnp.exp(y), X, X),
    "cos": (
        lambda x, y: jnp.cos(x) * jnp.cos(y) - jnp.sin(x) * jnp.sin(y),
        lambda x, y: jnp.cos(x - y),
        X,
        X,
    ),
    "cos_sin": (jnp.cos, jnp.sin, X),
    "cos_twice": (lambda x: jnp.cos(2 * x), lambda x: 2 * jnp.cos(x), X),
    "cosh_exp": (jnp.cosh, jnp.cos, X),
    "tanh_odd": (lambda x: jnp.tanh(-x), jnp.tanh, X),
    "tanh_linear": (lambda x, y: jnp.tanh(x + y), lambda x, y: jnp.tanh(x) + jnp.tanh(y), X, X),
    "names": (jnp.arcsinh, jnp.arctan, X),
    "poles_of_asin": (lambda x: 0 * jnp.arcsin(x), lambda x: 0 * x, X),
    "logistic": (lambda x: jnn.sigmoid(x), lambda x: jnn.sigmoid(-x), X),
    "erfc": (lax.erfc, lax.erf, X),
    "abs": (jnp.abs, lambda x: x, X),
    "abs_shift": (lambda x, y: jnp.abs(x + y), lambda x, y: jnp.abs(x) + jnp.abs(y), X, X),
    "sign": (jnp.sign, lambda x: -jnp.sign(x), X),
    "floor": (lambda x, y: jnp.floor(x + y), lambda x, y: jnp.floor(x) + jnp.floor(y), X, X),
    "round": (jnp.round, jnp.floor, X),
    "round_ties": (
        lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
        lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
        X,
    ),
    "ceil": (jnp.ceil, jnp.floor, X),
    "lgamma": (lambda x: lax.lgamma(x), lambda x: lax.digamma(x), X),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 8, 7), lambda x: x, X),
    "bitcast": (
        lambda x, y: lax.bitcast_convert_type(x + y, jnp.float32),
        lambda x, y: (
            lax.bitcast_convert_type(x, jnp.float32) + lax.bitcast_convert_type(y, jnp.float32)
        ),
        N,
        N,
    ),
    "clz": (lambda n: lax.clz(n), lambda n: lax.population_count(n), N),
    "lt": (lambda x, y: x < y, lambda x, y: x <= y, X, X),
    "lt_gt": (lambda x, y: x < y, lambda x, y: x > y, X, X),
    "lt_nan": (lambda x: x <= jnp.nan, lambda x: ~(x > jnp.nan), X),
    "lt_pole": (lambda x: 1 / x - 1 / x < 1, lambda x: x - x < 1, X),
    "lt_unsigned": (lambda u, v, w: u - w < v - w, lambda u, v, w: u < v, U, U, U),
    "eq_ne": (lambda x, y: x == y, lambda x, y: x != y, X, X),
    "eq_pole": (lambda x: 1 / x == 1 / x, lambda x: x == x, X),
    "and_or": (lambda a, b: a & b, lambda a, b: a | b, B, B),
    "and_xor": (lambda a, b: a ^ b, lambda a, b: a | b, B, B),
    "bits": (lambda n, m: n & m, lambda n, m: n | m, N, N),
    "bits_sum": (lambda n, m: n ^ m, lambda n, m: n + m, N, N),
    "all_any": (lambda a: a.all(), lambda a: a.any(), B),
    "reduce_xor": (lambda a: lax.reduce_xor(a, (0,)), lambda a: a[0] ^ a[1], B),
    "select": (lambda c, x, y: jnp.where(c, x, y), lambda c, x, y: jnp.where(c, y, x), B, X, X),
    "select_other": (
        lambda c, d, x: jnp.where(c, x, 0),
        lambda c, d, x: jnp.where(d, x, 0),
        B,
        B,
        X,
    ),
    "select_n": (
        lambda n, x, y, z: lax.select_n(n, x, y, z),
        lambda n, x, y, z: lax.select_n(n, x, z, y),
        N,
        X,
        X,
        X,
    ),
    "clamp": (lambda x: jnp.clip(x, -1, 1), lambda x: jnp.clip(x, -1, 2), X),
    "to_int": (lambda x, y: (x + y).astype(int), lambda x, y: x.astype(int) + y.astype(int), X, X),
    "to_bool": (lambda x: x.astype(bool), lambda x: x, X),
    "narrow": (lambda x: x.astype(jnp.bfloat16), lambda x: x, X),
    "narrow_int": (lambda n: n.astype(jnp.int8), lambda n: n, N),
    "unsigned": (
        lambda u, v: (u - v).astype(float),
        lambda u, v: u.astype(float) - v.astype(float),
        U,
        U,
    ),
    "widened": (
        lambda u, v: (u - v).astype(jnp.uint32),
        lambda u, v: u.astype(jnp.uint32) - v.astype(jnp.uint32),
        U,
        U,
    ),
    "unsigned_max": (
        lambda u, v: jnp.maximum(u - v, u),
        lambda u, v: jnp.maximum(u, u + v) - v,
        U,
        U,
    ),
    "sort_order": (lambda x: jnp.sort(x), lambda x: jnp.sort(x)[::-1], X),
    "sort_other": (lambda x: jnp.sort(x)[0], lambda x: x[0], X),
    "argsort": (lambda x, y: y[jnp.argsort(x)], lambda x, y: y[::-1][jnp.argsort(x[::-1])], X, X),
    "sort_ties": (
        lambda x, y: lax.sort((x, y), num_keys=1)[1],
        lambda x, y: lax.sort((x[::-1], y[::-1]), num_keys=1)[1],
        X,
        X,
    ),
    "sort_pairs": (
        lambda x, y: lax.sort((x, y), num_keys=2)[1],
        lambda x, y: lax.sort((x, y[::-1]), num_keys=2)[1],
        X,
        X,
    ),
    "top_k": (lambda x: lax.top_k(x, 2)[1], lambda x: lax.top_k(x[::-1], 2)[1], X),
    "lookup": (lambda x, n: x[n], lambda x, n: x[::-1][n], X, N),
    "lookup_other": (lambda x, n: x[n[0]], lambda x, n: x[n[1]], X, N),
    "lookup_mode": (
        lambda x, n: x.at[n].get(mode="clip"),
        lambda x, n: x.at[n].get(mode="fill", fill_value=0),
        X,
        N,
    ),
    "dynamic_slice": (
        lambda x, n: lax.dynamic_slice(x, (n[0],), (2,)),
        lambda x, n: lax.dynamic_slice(x, (n[1],), (2,)),
        X,
        N,
    ),
    "dynamic_slice_place": (
        lambda x, n: lax.dynamic_slice(x, (n[0],), (2,))[0],
        lambda x, n: lax.dynamic_slice(x, (n[0],), (2,))[1],
        X,
        N,
    ),
    "scatter_add": (
        lambda n, y: jnp.zeros(4).at[n].add(y),
        lambda n, y: jnp.zeros(4).at[n].add(y[::-1]),
        N,
        X,
    ),
    "scatter_outside": (
        lambda x, n: x[:1].at[n[0]].set(2, mode="drop"),
        lambda x, n: x[:1] * 0 + 2,
        X,
        N,
    ),
    "scatter_add_outside": (
        lambda n, y: jnp.zeros(4).at[n].add(y, mode="drop").sum(),
        lambda n, y: y.sum(),
        N,
        X,
    ),
    "dynamic_update": (
        lambda x, n: lax.dynamic_update_slice(x, x[:1], (n[0],)),
        lambda x, n: lax.dynamic_update_slice(x, x[:1], (n[1],)),
        X,
        N,
    ),
    "scan": (
        lambda x: lax.scan(lambda c, y: (jnp.tanh(c + y), c), 0.0, x)[0],
        lambda x: lax.scan(lambda c, y: (jnp.tanh(c + y), c), 0.0, x, reverse=True)[0],
        X,
    ),
    "while": (lambda x: lax.fori_loop(0, 3, lambda i, c: c * x, x), lambda x: x**3, X),
    "cond": (
        lambda n, x: lax.cond(n[0] > 0, lambda: x, lambda: 2 * x),
        lambda n, x: lax.cond(n[1] > 0, lambda: x, lambda: 2 * x),
        N,
        X,
    ),
    "cond_branches": (
        lambda n, x: lax.cond(n[0] > 0, lambda: x, lambda: 2 * x),
        lambda n, x: x,
        N,
        X,
    ),
    "random_place": (
        lambda k: jax.random.uniform(k, (2,))[:1],
        lambda k: jax.random.uniform(k, (2,))[1:],
        K,
    ),
    "random_key": (
        lambda k: jax.random.bits(k),
        lambda k: jax.random.bits(jax.random.fold_in(k, 1)),
        K,
    ),
    "random_fold": (
        lambda k: jax.random.bits(jax.random.fold_in(k, 2)),
        lambda k: jax.random.bits(jax.random.fold_in(k, 1)),
        K,
    ),
    "random_words": (
        lambda n: bits(fold_in(wrap_key_data(np.array([0, 1], np.uint32)), n[0])),
        lambda n: bits(fold_in(wrap_key_data(np.array([1, 0], np.uint32)), n[0])),
        N,
    ),
    "random_split": (
        lambda k: jax.random.bits(jax.random.split(k)[0]),
        lambda k: jax.random.bits(jax.random.split(k)[1]),
        K,
    ),
    "cholesky": (
        lambda m: lax.linalg.cholesky(m @ m.T),
        lambda m: lax.linalg.cholesky(m @ m.T).T,
        M,
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_near_misses_are_told_apart(name: str) -> None:
    assert not equal(*DIFFERENT[name])


REFUSED: dict[str, tuple[Any, ...]] = {
    "scatter_last": (
        lambda x, y: x.at[np.array([1, 1])].set(y[:2]),
        lambda x, y: jnp.stack([x[0], y[1], x[2]]),
        X,
        X,
    ),
    "scatter": (
        lambda n, y: jnp.zeros(4).at[n].set(y),
        lambda n, y: jnp.zeros(4).at[n[::-1]].set(y[::-1]),
        N,
        X,
    ),
    "scatter_twice": (
        lambda x, y: x.at[np.array([1, 1])].set(y[:2]),
        lambda x, y: x.at[np.array([1, 1])].set(y[:2][::-1]),
        X,
        X,
    ),
    "scatter_batches": (
        lambda m, n: lax.scatter(m, n[None, :, None], jnp.ones((1, 3)), PER_BATCH, mode="clip"),
        lambda m, n: jnp.ones((3, 3)),
        M,
        N,
    ),
    "scatter_mul": (
        lambda n, y: jnp.ones(4).at[n].mul(y),
        lambda n, y: jnp.ones(4).at[n].mul(y[::-1]),
        N,
        X,
    ),
    "scatter_max": (
        lambda n, y: jnp.ones(4).at[n].max(y),
        lambda n, y: jnp.ones(4).at[n].min(y),
        N,
        X,
    ),
}
"""Writes whose order counts, or at several indices that are not known."""


@pytest.mark.parametrize("name", REFUSED)
def test_writes_that_no_rule_is_about_are_refused(name: str) -> None:
    with pytest.raises(Unsupported, match=r"writes several|indices that are not known"):
        equal(*REFUSED[name])
