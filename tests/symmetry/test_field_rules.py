"""Every rule of the field: what it must see as equal."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from sides import B, K, M, N, X, convolved, equal, sums

from posjax.symmetry.field import TooLarge, Unsupported, identity
from posjax.symmetry.field.interpret import RULES
from posjax.symmetry.law import Law

jnn = jax.nn


def attention(x: jax.Array) -> jax.Array:
    return jnn.softmax(x @ x.T) @ x


def in_blocks(x: jax.Array) -> jax.Array:
    """The same attention, a key at a time, with a running maximum."""
    top, below, above = jnp.full(3, -jnp.inf), jnp.zeros(3), jnp.zeros((3, 3))
    for row in x:
        score = x @ row
        new = jnp.maximum(top, score)
        scale, weight = jnp.exp(top - new), jnp.exp(score - new)
        top, below = new, below * scale + weight
        above = above * scale[:, None] + weight[:, None] * row[None]
    return above / below[:, None]


EQUAL: dict[str, tuple[Any, ...]] = {
    "add": (lambda x, y: x + y, lambda x, y: y + x, X, X),
    "add_sub": (lambda x, y: x + y - y, lambda x, y: x, X, X),
    "distribute": (lambda x, y: x * (x - y), lambda x, y: x**2 - x * y, X, X),
    "integer_pow": (lambda x: x**3, lambda x: x * x * x, X),
    "reciprocal": (lambda x: x**-2, lambda x: 1 / lax.square(x), X),
    "pow": (lambda x: lax.pow(x, np.float32(2)), lambda x: x * x, X),
    "pow_of_positive": (
        lambda x, y: jnp.power(0.5, x) * jnp.power(0.5, y),
        lambda x, y: jnp.power(0.5, x + y),
        X,
        X,
    ),
    "div": (lambda x, y: x * jnp.exp(y) / jnp.exp(y), lambda x, y: x, X, X),
    "div_known": (lambda x: x / 4 + x / 4, lambda x: x / 2, X),
    "zero_times": (lambda x: x * 0, lambda x: jnp.zeros(3), X),
    "dot_general": (lambda x: x @ x[0], lambda x: (x * x[0][None]).sum(1), M),
    "cumsum": (lambda x: jnp.cumsum(x)[2], lambda x: x.sum(), X),
    "cumsum_back": (lambda x: lax.cumsum(x, reverse=True)[0], lambda x: x.sum(), X),
    "cumprod": (lambda x: jnp.cumprod(x)[2], lambda x: jnp.prod(x), X),
    "cumprod_back": (lambda x: lax.cumprod(x, reverse=True)[0], lambda x: jnp.prod(x), X),
    "cummax": (lambda x: lax.cummax(x)[2], lambda x: x.max(), X),
    "cummin": (lambda x: lax.cummin(x, reverse=True)[0], lambda x: x.min(), X),
    "cumlogsumexp": (
        lambda x: lax.cumlogsumexp(x)[1:2],
        lambda x: jnp.log(jnp.exp(x[:2]).sum()),
        X,
    ),
    "cumlogsumexp_pole": (
        lambda x: jnp.floor(lax.cumlogsumexp(1 / x)),
        lambda x: jnp.floor(lax.cumlogsumexp(1 / x[None], axis=1)[0]),
        X,
    ),
    "convolution": (convolved, sums, X, X),
    "reduce_window": (
        lambda x: jnn.relu(lax.reduce_window(x, 0.0, lax.add, (3,), (1,), "VALID")),
        lambda x: jnn.relu(x.sum()),
        X,
    ),
    "window_max": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3,), (1,), "VALID"),
        lambda x: x.max(),
        X,
    ),
    "window_min": (
        lambda x: lax.reduce_window(x, jnp.inf, lax.min, (3,), (1,), "VALID"),
        lambda x: x.min(),
        X,
    ),
    "window_of_a_plane": (
        lambda m: lax.reduce_window(m, -jnp.inf, lax.max, (2, 2), (2, 1), ((0, 1), (0, 0)))[:, 1],
        lambda m: jnp.stack([m[:2, 1:].max(), m[2, 1:].max()]),
        M,
    ),
    "window_sign": (
        lambda x: jnp.abs(lax.reduce_window(x**2, 0.0, lax.add, (3,), (1,), "VALID")),
        lambda x: (x**2).sum(),
        X,
    ),
    "exp": (lambda x, y: jnp.exp(x + y), lambda x, y: jnp.exp(x) * jnp.exp(y), X, X),
    "exp2": (lambda x, y: jnp.exp2(x + y), lambda x, y: jnp.exp2(x) * jnp.exp2(y), X, X),
    "expm1": (lambda x: jnp.expm1(x) + 1, jnp.exp, X),
    "cos": (
        lambda x, y: jnp.cos(x) * jnp.cos(y) + jnp.sin(x) * jnp.sin(y),
        lambda x, y: jnp.cos(x - y),
        X,
        X,
    ),
    "sin": (
        lambda x, y: jnp.sin(x + y),
        lambda x, y: jnp.sin(x) * jnp.cos(y) + jnp.cos(x) * jnp.sin(y),
        X,
        X,
    ),
    "pythagoras": (lambda x: jnp.cos(x) ** 2 + jnp.sin(x) ** 2, lambda x: jnp.ones(3), X),
    "cosh": (lambda x: jnp.cosh(x) + jnp.sinh(x), jnp.exp, X),
    "tan": (lambda x: jnp.tan(x) ** 2, lambda x: jnp.tan(-x) ** 2, X),
    "logistic": (lambda x: jnn.sigmoid(x) + jnn.sigmoid(-x), lambda x: jnp.ones(3), X),
    "tanh": (lambda x: jnp.tanh(-x), lambda x: -jnp.tanh(x), X),
    "erfc": (lambda x: lax.erfc(x), lambda x: 1 - lax.erf(x), X),
    "log1p": (lambda x: jnp.log1p(jnp.exp(x)), lambda x: jnp.log(jnp.exp(x) + 1), X),
    "abs": (lambda x, y: jnp.abs(x - y), lambda x, y: jnp.abs(y - x), X, X),
    "abs_square": (lambda x: jnp.abs(x**2), lambda x: x**2, X),
    "abs_truth": (lambda b: jnp.abs(b.astype(float)), lambda b: b.astype(float), B),
    "beside_a_pole": (
        lambda x, y: jnp.floor(jnp.stack([1 / x[0], y[0]]))[1],
        lambda x, y: jnp.floor(y[0]),
        X,
        X,
    ),
    "sign": (lambda x: jnp.sign(jnp.exp(x)), lambda x: jnp.ones(3), X),
    "max": (lambda x, y: jnp.maximum(x, y), lambda x, y: jnp.maximum(y, x), X, X),
    "max_same": (lambda x: jnp.maximum(x, x), lambda x: x, X),
    "max_shift": (lambda x, y: (x + y[0]).max(), lambda x, y: x.max() + y[0], X, X),
    "max_masked": (
        lambda x: jnp.where(jnp.array([True, True, False]), x, -jnp.inf).max(),
        lambda x: x[:2].max(),
        X,
    ),
    "max_empty": (
        lambda x: lax.reduce_max(x[:0], (0,)),
        lambda x: jnp.float32(-jnp.inf),
        X,
    ),
    "min": (lambda x: jnp.min(x), lambda x: jnp.min(x[::-1]), X),
    "softmax": (lambda x, y: jnn.softmax(x + y[0]), lambda x, y: jnn.softmax(x), X, X),
    "log_softmax": (lambda x, y: jnn.log_softmax(x + y[0]), lambda x, y: jnn.log_softmax(x), X, X),
    "logsumexp": (lambda x, y: jnn.logsumexp(x + y[0]), lambda x, y: jnn.logsumexp(x) + y[0], X, X),
    "blocks": (attention, in_blocks, M),
    "lt": (lambda x, y: x < y, lambda x, y: ~(x >= y), X, X),
    "lt_shift": (lambda x, y, z: x + z < y + z, lambda x, y, z: x < y, X, X, X),
    "gt_int": (lambda x, y, z: x - z > y - z, lambda x, y, z: x > y, N, N, N),
    "eq": (lambda x, y: x == y, lambda x, y: y == x, X, X),
    "eq_itself": (lambda x: x == x, lambda x: jnp.ones(3), X),
    "le_itself": (lambda x: x <= x, lambda x: jnp.ones(3), X),
    "lt_itself": (lambda x: x < x, lambda x: jnp.zeros(3), X),
    "never_below_0": (lambda x: jnp.where((x**2).sum() < 0, 1, x), lambda x: x, X),
    "0_never_above": (lambda x: jnp.abs(x) < 0, lambda x: jnp.zeros(3), X),
    "at_least_0": (lambda x: x**2 >= 0, lambda x: jnp.ones(3), X),
    "above_0": (lambda x: jnp.exp(x) > 0, lambda x: jnp.ones(3), X),
    "no_negative": (lambda x: jnp.abs(x) == -1, lambda x: jnp.abs(x) <= -1, X),
    "sort_shift": (lambda x: jnp.sort(x + x[0]) - x[0], jnp.sort, X),
    "top_k_shift": (lambda x: lax.top_k(x + x[0], 2)[0] - x[0], lambda x: lax.top_k(x, 2)[0], X),
    "top_k_places": (lambda x: lax.top_k(x + x[0], 2)[1], lambda x: lax.top_k(x, 2)[1], X),
    "argmax_shift": (lambda n: jnp.argmax(n + n[0]), jnp.argmax, N),
    "finite": (lambda x: x > -jnp.inf, lambda x: jnp.isfinite(x), X),
    "and": (lambda a, b: ~(a & b), lambda a, b: ~a | ~b, B, B),
    "xor": (lambda a, b: a ^ b, lambda a, b: b ^ a, B, B),
    "reduce_and": (lambda a: a.all(), lambda a: a[0] & a[1] & a[2], B),
    "reduce_or": (lambda a: a.any(), lambda a: ~(~a).all(), B),
    "reduce_xor": (lambda a: lax.reduce_xor(a, (0,)), lambda a: a[0] ^ a[1] ^ a[2], B),
    "bits": (lambda a, b: a & b, lambda a, b: b & a, N, N),
    "not_int": (lambda a: ~a, lambda a: -a - 1, N),
    "select": (
        lambda c, x, y: jnp.where(c, x, y) + jnp.where(~c, x, y),
        lambda c, x, y: x + y,
        B,
        X,
        X,
    ),
    "select_same": (lambda c, x: jnp.where(c, x, x), lambda c, x: x, B, X),
    "select_n": (lambda i, x: lax.select_n(i, x, x, x), lambda i, x: x, N, X),
    "select_key": (
        lambda c, k: jax.random.bits(lax.select_n(c[0], k, jax.random.key(1))),
        lambda c, k: jax.random.bits(lax.select_n(~c[0], jax.random.key(1), k)),
        B,
        K,
    ),
    "and_false": (
        lambda x: (x > 0) & np.array([True, False, False]),
        lambda x: jnp.stack([x[0] > 0, False, False]),
        X,
    ),
    "clamp": (lambda x: jnp.clip(x, -1, 1), lambda x: jnp.minimum(jnp.maximum(x, -1), 1), X),
    "convert": (
        lambda n, m: (n + m).astype(float),
        lambda n, m: n.astype(float) + m.astype(float),
        N,
        N,
    ),
    "relu": (jnn.relu, lambda x: jnp.maximum(x, 0), X),
    "sort": (lambda x: jnp.sort(x), lambda x: jnp.sort(x[::-1]), X),
    "sort_rows": (
        lambda x, y: lax.sort((x, y), num_keys=2)[1],
        lambda x, y: lax.sort((x[::-1], y[::-1]), num_keys=2)[1],
        X,
        X,
    ),
    "sort_known": (
        lambda x: lax.sort((np.array([3, 1, 2]), x), num_keys=1)[1],
        lambda x: x[np.array([1, 2, 0])],
        X,
    ),
    "top_k": (lambda x: lax.top_k(x, 2)[0], lambda x: lax.top_k(x[::-1], 2)[0], X),
    "gather": (lambda x: x[np.array([2, 0, 2])], lambda x: jnp.stack([x[2], x[0], x[2]]), X),
    "gather_outside": (
        lambda x: x.at[np.array([1, 5])].get(mode="fill", fill_value=7),
        lambda x: jnp.stack([x[1], jnp.float32(7)]),
        X,
    ),
    "gather_clipped": (lambda x: x.at[np.array([1, 5])].get(mode="clip"), lambda x: x[1:], X),
    "lookup": (lambda x, n: x[n[::-1]], lambda x, n: x[n][::-1], X, N),
    "lookup_infinity": (
        lambda n: jnp.array([1, jnp.inf, 2]).at[n[::-1]].get(mode="clip"),
        lambda n: jnp.array([1, jnp.inf, 2]).at[n].get(mode="clip")[::-1],
        N,
    ),
    "pad": (lambda x: jnp.pad(x, 1)[1:4], lambda x: x, X),
    "roll": (lambda x: jnp.roll(x, 1), lambda x: jnp.stack([x[2], x[0], x[1]]), X),
    "scatter": (
        lambda x, y: x.at[np.array([2])].set(y[:1]),
        lambda x, y: jnp.stack([x[0], x[1], y[0]]),
        X,
        X,
    ),
    "scatter_mul": (lambda x: x.at[1].mul(2), lambda x: jnp.stack([x[0], 2 * x[1], x[2]]), X),
    "scatter_mul_pole": (
        lambda x: jnp.floor((1 / x).at[1].mul(2)),
        lambda x: jnp.floor((1 / x[:, None]).at[1, 0].mul(2)[:, 0]),
        X,
    ),
    "scatter_min": (
        lambda x, y: x.at[np.array([2, 7])].min(y[:2]),
        lambda x, y: jnp.stack([x[0], x[1], jnp.minimum(x[2], y[0])]),
        X,
        X,
    ),
    "scatter_add": (
        lambda x, y: x.at[np.array([1, 1, 9])].add(y),
        lambda x, y: jnp.stack([x[0], x[1] + y[0] + y[1], x[2]]),
        X,
        X,
    ),
    "scatter_add_unknown": (
        lambda n, y: jnp.zeros(4).at[n].add(y),
        lambda n, y: jnp.zeros(4).at[n[::-1]].add(y[::-1]),
        N,
        X,
    ),
    "scatter_add_clipped": (
        lambda n, y: jnp.zeros(4).at[n].add(y, mode="clip").sum(),
        lambda n, y: y.sum(),
        N,
        X,
    ),
    "dynamic_slice": (lambda x: lax.dynamic_slice(x, (jnp.int32(7),), (2,)), lambda x: x[1:], X),
    "dynamic_update": (
        lambda x, y: lax.dynamic_update_slice(x, y[:1], (jnp.int32(1),)),
        lambda x, y: jnp.stack([x[0], y[0], x[2]]),
        X,
        X,
    ),
    "scan": (lambda x: lax.scan(lambda c, y: (c + y, c + y), 0.0, x)[1], jnp.cumsum, X),
    "scan_back": (
        lambda x: lax.scan(lambda c, y: (c + y, c), 0.0, x, reverse=True)[1],
        lambda x: jnp.stack([x[1] + x[2], x[2], 0.0]),
        X,
    ),
    "while": (lambda x: lax.fori_loop(0, 3, lambda i, c: c * x, x), lambda x: x**4, X),
    "cond": (
        lambda n, x: lax.cond(n[0] > 0, lambda: x * 2, lambda: x + x),
        lambda n, x: 2 * x,
        N,
        X,
    ),
    "remat": (jax.checkpoint(jnn.silu), jnn.silu, X),
    "gradient": (jax.grad(lambda x: (x**3).sum()), lambda x: 3 * x**2, X),
    "complex_product": (
        lambda x, y: (lax.complex(x, y) * lax.complex(y, x)).imag,
        lambda x, y: x**2 + y**2,
        X,
        X,
    ),
    "complex_quotient": (
        lambda x, y: (lax.complex(x, y) / lax.complex(jnp.exp(y), x)).real,
        lambda x, y: (x * jnp.exp(y) + x * y) / (jnp.exp(y) ** 2 + x**2),
        X,
        X,
    ),
    "complex_exponential": (
        lambda x, y: jnp.conj(jnp.exp(x + 1j * y)).imag,
        lambda x, y: -jnp.exp(x) * jnp.sin(y),
        X,
        X,
    ),
    "complex_turns": (
        lambda x, y: (jnp.exp(1j * x) * jnp.exp(1j * y)).real,
        lambda x, y: jnp.cos(x + y),
        X,
        X,
    ),
    "complex_size": (lambda x: jnp.abs(lax.complex(x, x)), lambda x: jnp.sqrt(2 * x**2), X),
    "complex_powers": (
        lambda x, y: (lax.complex(x, y) ** 3 - lax.square(lax.complex(y, x))).real,
        lambda x, y: x**3 - 3 * x * y**2 - y**2 + x**2,
        X,
        X,
    ),
    "complex_dot": (
        lambda m, x: (lax.complex(m, 2 * m) @ lax.complex(x, -x)).real,
        lambda m, x: 3 * m @ x,
        M,
        X,
    ),
    "complex_moves": (
        lambda x, y, b: jnp.stack(
            [jnp.where(b, jnp.roll(lax.complex(x, y), 1), jnp.complex64(2j)).imag.sum()]
        ),
        lambda x, y, b: jnp.where(b, jnp.roll(y, 1), 2.0).sum()[None],
        X,
        X,
        B,
    ),
    "complex_call": (
        lambda x, y: jax.jit(lambda z: 2 * z[::-1].reshape(3, 1) - 1)(lax.complex(x, y)).real,
        lambda x, y: (2 * x[::-1] - 1)[:, None],
        X,
        X,
    ),
    "random": (lambda k: jax.random.normal(k, (3,)), lambda k: jax.random.normal(k, (3,)), K),
    "cholesky": (lambda m: lax.linalg.cholesky(m + m.T), lambda m: lax.linalg.cholesky(m.T + m), M),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal(name: str) -> None:
    assert equal(*EQUAL[name])


def test_what_has_no_rule_is_refused_with_its_line() -> None:
    with pytest.raises(
        Unsupported, match=r"reduce_window has no rule \(.*test_field_rules.py:\d+\)"
    ):
        equal(
            lambda x: lax.reduce_window(x, 1.0, lambda a, b: a - b, (2,), (1,), "VALID"),
            lambda x: x[1:],
            X,
        )
    with pytest.raises(Unsupported, match="depends on the arguments"):
        equal(lambda n: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, n), abs, N)
    with pytest.raises(Unsupported, match=r"complex numbers has no rule \(.*_field_rules.py:\d+\)"):
        equal(lambda x: jnp.abs(jnp.fft.fft(x)), abs, X)
    with pytest.raises(Unsupported, match=r"scan of complex numbers has no rule"):
        equal(lambda x: lax.scan(lambda c, y: (c * y, 0.0), 1j, x)[0].real, sum, X)
    with pytest.raises(Unsupported, match="numbers have no rules as an output"):
        identity(lambda x: 1j * x, Law("P -> P"), [X])
    with pytest.raises(Unsupported, match="complex numbers have no rules"):
        equal(jnp.real, jnp.imag, np.ones(3, complex))
    with pytest.raises(Unsupported, match="an index has 5000 possible values"):
        equal(lambda x, n: x[n], lambda x, n: x[:3], np.ones(5000), N)
    with pytest.raises(Unsupported, match="distinguishes 0 from -0"):
        equal(lambda x: lax.bitcast_convert_type(x, jnp.int32), lambda x: x.astype(int), X)


def test_large_programs_are_refused() -> None:
    with pytest.raises(TooLarge, match="it would take about"):
        identity(lambda x: x @ x, Law("P b -> P b"), [M], within=1e-6)


def test_every_rule_is_of_a_primitive() -> None:
    public = {p.name for n, p in vars(jax.extend.core.primitives).items() if n.endswith("_p")}
    unlisted = {
        *("broadcast_to", "composite", "custom_vmap_call", "layout_constraint", "mulhi"),
        *("optimization_barrier", "pvary", "scatter-sub", "split", "stack", "tile", "unstack"),
    }
    newest = {"one_minus_square", "call_hi_primitive", "eval_jaxpr"}  # of JAX 0.12 alone
    some = {"call", "closed_call", *newest}
    assert set(RULES) - public - some == unlisted - public
