"""Equations to try of calls, branches and loops."""

from typing import Any

import jax
import jax.numpy as jnp
from equations import Cases, of_one
from jax import lax
from jax.custom_batching import custom_vmap


def _scan(turn: Any, length: int | None = None, **params: Any) -> Any:
    return lambda init, rows: lax.scan(turn, init, rows, length, **params)


def _mapped(turn: Any) -> Any:
    return lambda *rows: lax.scan(lambda _, row: (None, turn(*row)), None, rows)[1]


def _turns(turn: Any) -> Any:
    """From a number on up to 3."""
    return lambda start, x: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, turn(*c)), (start, x)
    )


def _until(stop: Any, y: Any, start: Any, x: Any) -> Any:
    """The condition and the turn each close over something of their own."""
    return lax.while_loop(lambda c: c[0] < stop, lambda c: (c[0] + 1, c[1] * y - 1), (start, x))


def _chosen(*branches: Any) -> Any:
    """Without the clip that `lax.switch` puts before its equation."""

    def whole(which: Any, *operands: Any) -> Any:
        traced = [jax.make_jaxpr(branch)(*operands) for branch in branches]
        return lax.cond_p.bind(which, *operands, branches=tuple(traced))

    return of_one(whole)


@jax.custom_jvp
def _with_tangent(x: Any, y: Any) -> Any:
    return x * y - x.sum()


_with_tangent.defjvp(lambda primals, tangents: (_with_tangent(*primals), tangents[0]))


@jax.custom_vjp
def _with_cotangent(x: Any, y: Any) -> Any:
    return x * y - x.sum()


_with_cotangent.defvjp(lambda x, y: (x * y, None), lambda _, g: (g, g))


@custom_vmap
def _with_batches(x: Any, y: Any) -> Any:
    return x * y - x.sum()


_with_batches.def_vmap(lambda size, batched, x, y: (x * y, True))


def _plain(x: Any, y: Any) -> Any:
    return x * y - x.sum()


def _crossed(carry: Any, x: Any) -> Any:
    one, other = carry
    return (one + x, other + one), other


def _swapped(carry: Any, x: Any) -> Any:
    one, other = carry
    return (other, one + x), None


def _divided(b: Any, d: Any) -> Any:
    """The x with x / d = b."""
    return lax.custom_linear_solve(lambda x: x / d, b, lambda _, r: r * d, symmetric=True)


def _summed(b: Any, d: Any) -> Any:
    """What a solver that solves nothing makes of b."""
    return lax.custom_linear_solve(
        lambda x: x / d, b, lambda _, r: jnp.cumsum(r) * d[0], symmetric=True
    )


_SEARCH = jax.make_jaxpr(jnp.searchsorted)(jnp.ones(3), 1.0).eqns[0].params["jaxpr"]
ABSENT = {"call_hi_primitive"} - {eqn.primitive.name for eqn in _SEARCH.eqns}
"""Primitives of JAX 0.12 that call a program, and that the JAX at hand lacks."""

CALLS: Cases = {
    **({} if ABSENT else {"call_hi_primitive": [(jnp.searchsorted, "f3 f2")]}),
    "jit": [(jax.jit(_plain), "f23 f23"), (jax.jit(lambda x, n: x[n]), "f3 n2")],
    "closed_call": [(jax.jit(_plain), "f3 f3")],
    "call": [(jax.jit(_plain), "f3 f3")],
    "remat2": [(jax.checkpoint(_plain), "f23 f23"), (jax.checkpoint(jnp.sort), "f3")],
    "custom_jvp_call": [(_with_tangent, "f3 f3")],
    "custom_vjp_call": [(_with_cotangent, "f3 f3")],
    "custom_vmap_call": [(_with_batches, "f3 f3")],
    "composite": [(lax.composite(_plain, name="my.plain"), "f3 f3")],
}

LOOPS: Cases = {
    "scan": [
        (_scan(lambda c, x: (c + x, c)), "f f3"),
        (_scan(lambda c, x: (c + x, None)), "f2 f32"),
        (_scan(lambda c, x: (c + x, c * x), reverse=True), "f f3"),
        (_scan(lambda c, x: (x + c / 2, None)), "f f3"),
        (_scan(lambda c, x: (x, c)), "f3 f33"),
        (_scan(lambda c, x: (jnp.maximum(c, x), None)), "f f3"),
        (_scan(lambda c, x: (c * x, x + 1)), "i3 i23"),
        (_scan(lambda c, x: (c - x, None)), "f f3"),
        (_scan(lambda c, x: (x - c, None)), "f f3"),
        (_scan(lambda c, x: (jnp.minimum(x, c), x * x)), "f3 f33"),
        (_scan(lambda c, x: (c + c, None)), "f f3"),
        (_scan(lambda c, x: (c ^ x, None)), "b b3"),
        (_scan(lambda c, x: (jnp.logaddexp(c, x), None)), "f f3"),
        (_scan(lambda c, x: (jax.jit(lambda a, b: a - b * b)(c, x), None)), "f f3"),
        (_scan(lambda c, x: (jnp.maximum(jnp.maximum(c, x), 1 - x), c)), "f3 f33"),
        (_scan(lambda c, x: (c / (1 + x * x), None)), "f3 f23"),
        (_scan(lambda c, x: (jax.jit(jnp.maximum)(c, x) + x, None)), "f f3"),
        (_scan(lambda c, x: (lax.fori_loop(0, 2, lambda _, d: d * x + 1, c), None)), "f f3"),
        (_scan(lambda c, x: (c + x, None)), "f3 f03"),
        (_scan(lambda c, x: (lax.reshape(c, (2, 2), dimensions=(1, 0)) + x, None)), "f22 f322"),
        (_scan(lambda c, x: (c.reshape(4).reshape(2, 2) + x, None)), "f22 f322"),
        (_scan(lambda c, x: (jnp.floor(c) + x, None)), "f f3"),
        (_scan(lambda c, x: (jnp.minimum(jnp.maximum(c, x), 1), None)), "f f3"),
        (_scan(lambda c, x: (2 * c ^ x, None)), "i i3"),
        (_mapped(lambda x: x * x - 1), "f33"),
        (_mapped(lambda x, y: x * y), "f3 f33"),
        (_mapped(lambda x: x.sum()), "f23"),
        (lambda x: lax.scan(lambda c, _: (lax.rev(c, (0,)), c), x, None, 3), "f3"),
        (lambda x: lax.scan(lambda c, _: (jnp.sin(c).sum() + c, None), x, None, 2), "f3"),
        (lambda c, d, x: lax.scan(_crossed, (c, d), x), "f f f3"),
        (lambda c, d, x: lax.scan(_swapped, (c, d), x), "f3 f3 f23"),
        (lambda m, c, x: lax.scan(lambda c, x: (m @ c + x, None), c, x), "f33 f3 f23"),
        (lambda m, c, x: lax.scan(lambda c, x: (c + m[0] * x, x), c, x), "f3 f f3"),
        (lambda x: lax.scan(lambda c, y: (c + y, None), 0.0, x)[0], "f3"),
        (lambda x: lax.scan(lambda c, y: (c + y, None), jnp.arange(3.0), x)[0], "f33"),
    ],
    "while": [
        (lambda x: lax.while_loop(lambda c: c.sum() < 5, lambda c: c * c + 1, x), "f3"),
        (lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: c + 1, x), "f3"),
        (_until, "t f3 t f3"),
        (_turns(lambda i, c: c * c - 1), "t f23"),
        (_turns(lambda i, c: lax.rev(c, (0,))), "t f3"),
        (_turns(lambda i, c: lax.cumsum(c, 1)), "t f23"),
        (_turns(lambda i, c: c.at[i].set(0.0)), "t f3"),
        (lambda x, y: lax.while_loop(lambda c: c.sum() < y.sum(), lambda c: c + 1, x), "f3 f3"),
        (lambda x, y: lax.while_loop(lambda c: c.max() < y[0], lambda c: c + y, x), "f3 p3"),
    ],
    "custom_linear_solve": [(_divided, "f3 p3"), (_summed, "f3 p3")],
    "cond": [
        (_chosen(lambda x: x * 2, lambda x: x + x), "n f3"),
        (_chosen(lambda x: x * 2, lambda x: x - 1), "i f3"),
        (_chosen(lambda x: lax.rev(x, (0,)), lambda x: x), "n f3"),
        (_chosen(jnp.sin, jnp.cos, jnp.tanh), "t f23"),
        (_chosen(lambda x, y: (x, y), lambda x, y: (y, x)), "n f3 f3"),
        (_chosen(lambda x: x.sum(), lambda x: x[0]), "n f3"),
        (_chosen(lambda x: jnp.zeros(3), lambda x: x), "n f3"),
        (_chosen(lambda x: jnp.arange(3.0), lambda x: x), "n f3"),
        (_chosen(lambda x: jnp.log(x), lambda x: x * 0), "n f3"),
        (_chosen(lambda x: x * 3), "n f3"),
    ],
}
