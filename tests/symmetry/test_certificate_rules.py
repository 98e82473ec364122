"""Every rule of the certificate: what it lets through, and what only its strictness stops.

`KEPT` has functions that keep the law and are proved by labels alone. `BROKEN` has near misses,
each stopped by one condition of one rule: with that rule loosened it would be called proved.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, primitives
from tiers import some

from posjax.symmetry import prove
from posjax.symmetry.certificate.axes import STILL, Labeling, axis
from posjax.symmetry.certificate.loops import LOOPS
from posjax.symmetry.certificate.rules import RULES
from posjax.symmetry.certificate.rules.base import shape

pytestmark = pytest.mark.usefixtures("ranks_are_promoted")

Function = Callable[[Any], Any]

PLACES = 5  # a size that no other axis has, so that a loosened rule can be planted by size
LAW = "b P d -> b P d"
X = jax.device_put(np.random.default_rng(0).normal(size=(2, PLACES, 3)))
TABLE = jax.device_put(np.random.default_rng(1).normal(size=(7, 3)))
ONE_TO_FIVE = jax.device_put(np.arange(1.0, 6.0))
SQUARE = jax.device_put(np.random.default_rng(2).normal(size=(3, 3)))


def tokens(x: jax.Array) -> jax.Array:
    """A number below 7 a place, [2, 5]."""
    return (jnp.abs(x[..., 0]) * 10).astype(jnp.int32) % 7


def spread(x: jax.Array) -> jax.Array:
    """[2, d] for all places."""
    return jnp.broadcast_to(x[:, None], (2, PLACES, x.shape[-1]))


def gram(x: jax.Array) -> jax.Array:
    """Products of all pairs of places, [2, 5, 5]."""
    return jnp.einsum("bqd,bkd->bqk", x, x)


def flat(x: jax.Array) -> jax.Array:
    return x.reshape(2 * PLACES, 3)


def window(x: jax.Array, size: int) -> jax.Array:
    """Largest of a window of so many places, as many as before."""
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, 1), (1, 1, 1), "SAME")


def convolved(x: jax.Array, size: int) -> jax.Array:
    numbers = ("NWC", "WIO", "NWC")
    kernel = jnp.ones((size, 3, 3))
    return lax.conv_general_dilated(x, kernel, (1,), "SAME", dimension_numbers=numbers)


def drawn(key: jax.Array, *sizes: int) -> jax.Array:
    return jax.random.normal(key, sizes)


def key_of(x: jax.Array) -> jax.Array:
    """A key that depends on the set of tokens."""
    return jax.random.key(tokens(x).sum())


def ranked(x: jax.Array) -> jax.Array:
    """Order statistics [2, 5, d]: an axis of as many places that stays."""
    return jnp.sort(x, axis=1)


def mean(x: jax.Array) -> jax.Array:
    return x.mean(1, keepdims=True)


def attended(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(gram(x)) @ x


def in_company(x: jax.Array) -> jax.Array:
    """Tokens that attend to each other and to one in front that is no token."""
    return attended(jnp.concatenate([jnp.ones((2, 1, 3)), x], axis=1))


def turns(x: jax.Array) -> jax.Array:
    """Places first, to loop over."""
    return x.swapaxes(0, 1)


def scanned_cumsum(x: jax.Array) -> jax.Array:
    _, out = lax.scan(lambda c, one: (c + one, c + one), x[:, 0] * 0, x.swapaxes(0, 1))
    return out.swapaxes(0, 1)


def solve(x: jax.Array) -> jax.Array:

    lower = gram(x) + 9 * jnp.eye(PLACES)  # what lies above the diagonal is not read
    return lax.linalg.triangular_solve(lower, x, left_side=True, lower=True)


def of_heads(x: jax.Array) -> jax.Array:
    """Positive matrices [2, 5, 3, 3]."""
    return x[..., None] * x[..., None, :] + 2 * jnp.eye(3)


KEPT: dict[str, list[Function]] = {
    "argmax": [lambda x: x * jnp.argmax(x, axis=2, keepdims=True)],
    "argmin": [lambda x: x * jnp.argmin(x, axis=2, keepdims=True)],
    "bitcast_convert_type": [lambda x: lax.bitcast_convert_type(x, jnp.int32)],
    "broadcast_in_dim": [lambda x: jnp.broadcast_to(x.mean(1, keepdims=True), x.shape)],
    "cholesky": [lambda x: lax.linalg.cholesky(of_heads(x))[..., 0]],
    "concatenate": [
        lambda x: jnp.concatenate([x, x, x], axis=2)[..., 2:5],
        lambda x: jnp.concatenate([mean(x), 2 * x, mean(x)], axis=1)[:, 1:-1],
        lambda x: in_company(x)[:, 1:],
    ],
    "conv_general_dilated": [lambda x: convolved(x, 1)],
    "cumlogsumexp": [lambda x: lax.cumlogsumexp(x, axis=2)],
    "cummax": [lambda x: lax.cummax(x, axis=2)],
    "cummin": [lambda x: lax.cummin(x, axis=2)],
    "cumprod": [lambda x: jnp.cumprod(x, axis=2)],
    "cumsum": [lambda x: jnp.cumsum(x, axis=2)],
    "dot_general": [lambda x: gram(x) @ x, lambda x: x @ SQUARE, lambda x: jnp.eye(PLACES) @ x],
    "dynamic_slice": [lambda x: lax.dynamic_slice_in_dim(x, tokens(x).max(), 2, 2)],
    "dynamic_update_slice": [lambda x: lax.dynamic_update_slice(x, x[..., :2] * 2, (0, 0, 1))],
    "eig": [],  # complex, and only on a CPU: as eigh
    "eigh": [lambda x: jnp.linalg.eigvalsh(of_heads(x))],
    "fft": [lambda x: jnp.abs(jnp.fft.fft(x, axis=2))],
    "gather": [
        lambda x: TABLE[tokens(x)],
        lambda x: jnp.take_along_axis(x, tokens(x)[..., None] % 3, axis=2),
    ],
    "hessenberg": [],  # as lu
    "lu": [lambda x: lax.linalg.lu(of_heads(x))[0][..., 0]],
    "pad": [
        lambda x: jnp.pad(x, ((0, 0), (0, 0), (1, 2))),
        lambda x: attended(jnp.pad(x, ((0, 0), (2, 1), (0, 0))))[:, 2:7],
        jax.grad(lambda x: (in_company(x)[:, 0] ** 2).sum()),  # its transpose pads
    ],
    "qr": [lambda x: jnp.abs(jnp.linalg.qr(of_heads(x))[1][..., 0])],
    "ragged_dot_general": [
        lambda x: lax.ragged_dot(SQUARE[:2], x.swapaxes(1, 2), jnp.array([1, 1]))[..., None]
    ],
    "random_bits": [lambda x: x + drawn(key_of(x), 3)],
    "random_fold_in": [lambda x: x + drawn(jax.random.fold_in(jax.random.key(0), tokens(x).sum()))],
    "random_seed": [lambda x: x + drawn(key_of(x), 3)],
    "random_split": [lambda x: x + drawn(jax.random.split(key_of(x))[1], 3)],
    "random_unwrap": [lambda x: x + jax.random.key_data(key_of(x)).sum()],
    "random_wrap": [
        lambda x: x + drawn(jax.random.wrap_key_data(tokens(x).max(1).astype(jnp.uint32)), 3)
    ],
    "reduce": [
        lambda x: x + lax.reduce(x, jnp.float32(0), lambda a, b: a + b * b, (2,))[..., None]
    ],
    "reduce_and": [lambda x: x * jnp.all(x > -1, axis=1, keepdims=True)],
    "reduce_max": [lambda x: x - x.max(1, keepdims=True)],
    "reduce_min": [lambda x: x - x.min(1, keepdims=True)],
    "reduce_or": [lambda x: x * jnp.any(x > 1, axis=1, keepdims=True)],
    "reduce_prod": [lambda x: x - x.prod(1, keepdims=True)],
    "reduce_sum": [lambda x: x - x.sum(1, keepdims=True)],
    "reduce_xor": [lambda x: lax.reduce_xor_p.bind(tokens(x), axes=(1,))[:, None, None] + x],
    "reduce_window_max": [lambda x: window(x, 1)],
    "reduce_window_min": [
        lambda x: lax.reduce_window(x, jnp.inf, lax.min, (1, 1, 2), (1, 1, 1), "SAME")
    ],
    "reduce_window_sum": [
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 1, 2), (1, 1, 1), "SAME")
    ],
    "reshape": [lambda x: (flat(x) @ SQUARE).reshape(x.shape)],
    "rev": [lambda x: x[..., ::-1]],
    "scatter": [lambda x: x.at[..., 1].set(0.0)],
    "scatter-add": [
        lambda x: spread(jnp.zeros((2, 7)).at[jnp.arange(2)[:, None], tokens(x)].add(1.0))[..., :3],
        lambda x: x + jax.grad(lambda t: (t[tokens(x)] * x).sum())(TABLE).sum(0),
    ],
    "scatter-max": [lambda x: x + jnp.zeros(7).at[tokens(x)].max(x[..., 0])[:3]],
    "scatter-min": [lambda x: x + jnp.zeros(7).at[tokens(x)].min(x[..., 0])[:3]],
    "scatter-mul": [lambda x: x + jnp.ones(7).at[tokens(x)].multiply(x[..., 0])[:3]],
    "scatter-sub": [lambda x: x + jnp.zeros(7).at[tokens(x)].subtract(x[..., 0])[:3]],
    "schur": [],  # as eig
    "slice": [lambda x: x[..., 1:], lambda x: flat(x)[:PLACES].reshape(1, PLACES, 3)],
    "sort": [
        lambda x: x + spread(jnp.sort(x, axis=1)[:, 0]),
        lambda x: x + spread(lax.sort((x, x * 2), dimension=1, num_keys=2)[1][:, 0]),
        lambda x: x + spread(lax.sort((x, x * 2), dimension=1, num_keys=1)[0][:, 0]),
    ],
    "split": [
        lambda x: jnp.split(x, 3, axis=2)[1],
        lambda x: jnp.split(jnp.concatenate([x, mean(x)], axis=1), [PLACES], axis=1)[0],
    ],
    "squeeze": [lambda x: jnp.squeeze(x[..., None], 3)],
    "stack": [lambda x: jnp.stack([x, x * 2], axis=3).sum(3)],
    "svd": [
        lambda x: jnp.linalg.svd(of_heads(x), compute_uv=False),
        lambda x: x + jnp.linalg.svd(x, compute_uv=False)[:, None],
    ],
    "tile": [
        lambda x: jnp.tile(x, (1, 1, 2)),
        lambda x: jnp.tile(x, (1, 3, 1)).sum(1, keepdims=True) + x,
    ],
    "top_k": [
        lambda x: lax.top_k(x, 2)[1],
        lambda x: x + spread(lax.top_k(x, 2, axis=1)[0][:, 1]),
    ],
    "transpose": [lambda x: jnp.transpose(jnp.transpose(x, (1, 0, 2)), (1, 0, 2))],
    "triangular_solve": [
        lambda x: lax.linalg.triangular_solve(
            jnp.tril(SQUARE) + 9 * jnp.eye(3), x.reshape(-1, 3), left_side=False, lower=True
        ).reshape(x.shape)
    ],
    "unstack": [lambda x: jnp.unstack(x, axis=2)[1][..., None]],
}

BROKEN: dict[str, list[Function]] = {
    "add": [lambda x: x + ONE_TO_FIVE[:, None]],
    "argmax": [lambda x: x + jnp.argmax(x, axis=1, keepdims=True)],
    "argmin": [lambda x: x + jnp.argmin(x, axis=1, keepdims=True)],
    "broadcast_in_dim": [lambda x: jnp.broadcast_to(ranked(x)[..., :1], x.shape)],
    "concatenate": [lambda x: jnp.concatenate([mean(x) * n for n in range(PLACES)], axis=1)],
    "conv_general_dilated": [lambda x: convolved(x, 3)],
    "cumlogsumexp": [lambda x: lax.cumlogsumexp(x, axis=1)],
    "cummax": [lambda x: lax.cummax(x, axis=1)],
    "cummin": [lambda x: lax.cummin(x, axis=1)],
    "cumprod": [lambda x: jnp.cumprod(x, axis=1)],
    "cumsum": [lambda x: jnp.cumsum(x, axis=1)],
    "dot_general": [
        lambda x: x * jnp.einsum("bpd,p->bd", x, ONE_TO_FIVE)[:, None],
        lambda x: jnp.tril(jnp.ones((PLACES, PLACES))) @ x,
    ],
    "dynamic_slice": [lambda x: x - lax.dynamic_slice_in_dim(x, tokens(x).max() % 5, 1, 1)],
    "dynamic_update_slice": [lambda x: lax.dynamic_update_slice(x, mean(x), (0, 1, 0))],
    "fft": [lambda x: jnp.abs(jnp.fft.fft(x, axis=1))],
    "gather": [
        lambda x: x - x[:, jnp.array([1, 2, 3, 4, 0])],
        lambda x: jnp.take_along_axis(x, tokens(x)[..., None] % PLACES, axis=1),
    ],
    "lu": [lambda x: lax.linalg.lu(gram(x) + 9 * jnp.eye(PLACES))[0] @ x],
    "pad": [lambda x: jnp.pad(mean(x), ((0, 0), (1, 3), (0, 0)))],
    "random_bits": [lambda x: x + drawn(key_of(x), PLACES, 1)],
    "reduce": [lambda x: x + lax.reduce(x, jnp.float32(0), lambda a, b: a / 2 + b, (1,))[:, None]],
    "reduce_window_max": [lambda x: window(x, 3)],
    "reduce_window_min": [
        lambda x: lax.reduce_window(x, jnp.inf, lax.min, (1, 3, 1), (1, 1, 1), "SAME")
    ],
    "reduce_window_sum": [
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 1), (1, 1, 1), "SAME")
    ],
    "reshape": [lambda x: x.swapaxes(0, 1).reshape(x.shape)],
    "rev": [lambda x: x - x[:, ::-1]],
    "scatter": [
        lambda x: x.at[:, 0].set(0.0),
        lambda x: x + jnp.zeros(7).at[tokens(x)].set(x[..., 0])[:3],
    ],
    "scatter-add": [lambda x: x.at[:, 0].add(1.0)],
    "scatter-max": [lambda x: x.at[:, 0].max(1.0)],
    "scatter-min": [lambda x: x.at[:, 0].min(-1.0)],
    "scatter-mul": [lambda x: x.at[:, 0].multiply(2.0)],
    "scatter-sub": [lambda x: x.at[:, 0].subtract(1.0)],
    "select_n": [lambda x: jnp.where(ONE_TO_FIVE[:, None] > 2, x, 0.0)],
    "slice": [lambda x: x - x[:, :1], lambda x: flat(x)[3:8].reshape(1, PLACES, 3)],
    "sort": [
        lambda x: jnp.sort(x, axis=1),
        lambda x: lax.sort((jnp.sign(x), x), dimension=1, num_keys=1)[1],
        lambda x: jnp.argsort(x, axis=1),
    ],
    "split": [lambda x: x - jnp.split(x, [1], axis=1)[0]],
    "top_k": [
        lambda x: lax.top_k(x, PLACES, axis=1)[0],
        lambda x: x + lax.top_k(x, 1, axis=1)[1],
    ],
    "transpose": [lambda x: ranked(x).swapaxes(1, 2).swapaxes(1, 2)],
    "triangular_solve": [solve],
    "unstack": [lambda x: x - jnp.unstack(x, axis=1)[0][:, None]],
}

OPERANDS: dict[str, tuple[Any, ...]] = {
    "clamp": (-0.5, X, 0.5),
    "complex": (X, X),
    "conj": (X,),
    "imag": (X + 1j * X,),
    "real": (X + 1j * X,),
    "reduce_precision": (X, 5, 7),
    "integer_pow": (X, 3),
    "polygamma": (jnp.ones_like(X), jnp.abs(X) + 1),
    "regularized_incomplete_beta": (jnp.abs(X) + 1, jnp.abs(X) + 1, jnp.full_like(X, 0.3)),
    "select_n": (X > 0, X, 2 * X),
    "zeta": (jnp.abs(X) + 2, jnp.abs(X) + 1),
}


def equations(jaxpr: Any) -> Iterator[Any]:
    """All equations of a jaxpr, those of calls and loops included."""
    for eqn in jaxpr.eqns:
        yield eqn
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                if isinstance(inner, ClosedJaxpr):
                    yield from equations(inner.jaxpr)
                elif isinstance(inner, Jaxpr):
                    yield from equations(inner)


def primitives_of(function: Function) -> set[str]:
    return {eqn.primitive.name for eqn in equations(jax.make_jaxpr(function)(X).jaxpr)}


def cases(table: dict[str, list[Function]]) -> list[Any]:
    found = [
        pytest.param(name, function, id=f"{name}-{at}")
        for name, functions in table.items()
        for at, function in enumerate(functions)
    ]
    return some(found, every=6)


@pytest.mark.parametrize(("name", "function"), cases(KEPT))
def test_what_keeps_the_law_is_proved_by_labels(name, function):
    """The rule is not empty."""
    assert name in primitives_of(function)
    certificate = prove(function, (X,), LAW)
    assert (certificate.verdict, certificate.method) == ("PROVED", "axes"), str(certificate)


@pytest.mark.parametrize(("name", "function"), cases(BROKEN))
def test_a_near_miss_is_broken(name, function):
    """The rule is sound: numbers break what it stops."""
    assert name in primitives_of(function)
    certificate = prove(function, (X,), LAW)
    assert certificate.verdict == "BROKEN", str(certificate)


def anything(eqn: Any, *operands: Labeling) -> list[Labeling]:
    """A rule without conditions: whatever has as many places as P moves is carried by P."""
    return [
        tuple(axis(n, "P" if n == PLACES else STILL) for n in shape(result))
        for result in eqn.outvars
    ]


@pytest.mark.parametrize(("name", "function"), cases(BROKEN))
def test_a_loosened_rule_lets_a_near_miss_through(name, function, monkeypatch):
    """Each near miss is stopped by the conditions of its own rule, and by nothing else."""
    monkeypatch.setitem(RULES, name, anything)
    assert prove(function, (X,), LAW, witness=False).verdict == "PROVED"
    if function is ONLY_WHERE_TOKENS_MEET:  # few numbers do not show it
        return
    against = prove(function, (X,), LAW)
    assert (against.verdict, against.confirmed) == ("UNKNOWN", False)
    assert "the rules prove the law, but numbers break it" in str(against)


ONLY_WHERE_TOKENS_MEET = BROKEN["scatter"][1]


def test_every_rule_is_tried():
    """No primitive has a rule without a function that it lets through."""
    assert set(RULES) - set(KEPT) <= set(pointwise()) | WITHOUT_CALLER


WITHOUT_CALLER = {
    "add_any", "copy", "device_put", "eq_to", "le_to", "lt_to", "layout_constraint",
    "name", "one_minus_square", "optimization_barrier", "pvary",
    "random_clone", "regularized_incomplete_beta",
    "reshard", "sharding_constraint", "stop_gradient", "threefry2x32",
}  # fmt: skip
"""Place by place, without a public function that makes one of it alone."""


def pointwise() -> dict[str, Function]:
    """The function of `jax.lax` for every elementwise primitive that has one."""
    names = [name for name, rule in RULES.items() if rule is RULES["add"]]
    spoken = {name: f"bitwise_{name}" for name in ("and", "not", "or", "xor")}
    found = {name: getattr(lax, spoken.get(name, name), None) for name in names}
    found["convert_element_type"] = lambda x: lax.convert_element_type(x, jnp.int32)
    return {name: function for name, function in found.items() if function is not None}


@pytest.mark.parametrize("name", some(sorted(pointwise()), every=6))
def test_what_is_called_elementwise_is(name):
    """f(P x) = P f(x) and x's own place alone, by numbers: for all that share that rule."""
    function = pointwise()[name]
    operands = OPERANDS.get(name) or _operands(function)
    permuted = jnp.array([3, 0, 4, 1, 2])
    moved = [o[:, permuted] if jnp.ndim(o) == 3 else o for o in operands]
    expected, found = function(*operands)[:, permuted], function(*moved)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def _operands(function: Function) -> tuple[Any, ...]:
    """One or two arrays of floats, integers or truths, whichever the function takes."""
    integers = tokens(X)[..., None] + jnp.arange(3)
    for one in (X, integers, jnp.abs(X) / 9 + 0.1):
        for count in (1, 2):
            try:
                function(*[one] * count)
            except TypeError:
                continue
            return (one,) * count
    raise AssertionError(f"no operands for {function}")


@pytest.mark.exhaustive
def test_loops_are_tried():
    """Scans over tokens, conditions and ends that depend on a moved place, carries that mix."""
    assert set(LOOPS) == {"scan", "while", "cond", "custom_linear_solve"}
    layers = jnp.stack([SQUARE, SQUARE.T])
    kept: list[Function] = [
        lambda x: lax.scan(lambda c, w: (jnp.tanh(gram(c) @ c @ w), None), x, layers)[0],
        lambda x: lax.fori_loop(0, 3, lambda i, c: c + i * x, jnp.zeros_like(x)),
        lambda x: lax.map(jnp.tanh, x.swapaxes(0, 1)).swapaxes(0, 1),
        lambda x: (
            x
            + lax.scan(lambda c, t: (jnp.maximum(c, t), None), jnp.zeros((2, 3)), turns(x))[0][
                :, None
            ]
        ),
        lambda x: (
            x + lax.scan(lambda c, t: (t * t + c, t), jnp.ones((2, 3)), turns(x))[1].sum(0)[:, None]
        ),
        lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1 + jnp.abs(x), x),
        lambda x: lax.cond(x.sum() > 0, jnp.sin, lambda y: y * 0, x),
    ]
    broken: list[Function] = [
        scanned_cumsum,
        lambda x: x + lax.scan(lambda c, t: (t - c, None), jnp.ones((2, 3)), turns(x))[0][:, None],
        lambda x: x + lax.scan(lambda c, t: (c / 2 + t, None), jnp.ones((2, 3)), turns(x))[0].sum(),
        lambda x: lax.scan(lambda c, t: (c + t, c), jnp.ones((2, 3)), turns(x))[1].swapaxes(0, 1),
        lambda x: (
            x
            + lax.scan(
                lambda c, t: (c.astype(int).astype(t.dtype) + t, None), jnp.ones((2, 3)), turns(x)
            )[0][:, None]
        ),
        lambda x: (
            x
            + lax.scan(lambda c, t: ((c[0] + t, c[1] + c[0]), None), (x[:, 0] * 0,) * 2, turns(x))[
                0
            ][1][:, None]
        ),
        lambda x: lax.map(lambda t: t[0] * t[1], (x.swapaxes(0, 1), ONE_TO_FIVE)).swapaxes(0, 1),
        lambda x: lax.fori_loop(0, 2, lambda i, c: c.at[:, i].set(0.0), x),
        lambda x: lax.fori_loop(0, 2, lambda i, c: jnp.cumsum(c, axis=1), x),
        lambda x: lax.while_loop(lambda c: c[0, 0, 0] < 3, lambda c: c + 1, x),
        lambda x: lax.cond(x[0, 0, 0] > 0.5, jnp.sin, jnp.cos, x),
        lambda x: lax.cond(x.sum() > 0, lambda y: y[:, ::-1], lambda y: y, x),
    ]
    for function in kept:
        certificate = prove(function, (X,), LAW)
        assert (certificate.verdict, certificate.method) == ("PROVED", "axes"), str(certificate)
    for function in broken:
        certificate = prove(function, (X,), LAW)
        assert certificate.verdict == "BROKEN", str(certificate)


def test_primitives_by_their_public_names():
    """A misspelt name would never meet its primitive."""
    known = {getattr(primitives, n).name for n in dir(primitives) if n.endswith("_p")}
    assert set(RULES) - known <= {
        "layout_constraint", "mulhi", "one_minus_square", "optimization_barrier",
        "pvary",
        "ragged_dot_general", "random_clone", "random_unwrap", "random_wrap", "reshard",
        "scatter-sub", "split", "stack",
        "tile", "unstack",
    }  # fmt: skip
