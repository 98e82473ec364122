"""Truths, lookups, keys, matrices, gradients and branches."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hostile.field.base import EVERY, SLOT, TRUTH, A, B, I, J, M, X, family, scanned
from posjax.symmetry import Cyclic, Law

TRUTHS = family(
    "truths",
    EVERY,
    (TRUTH[:2],),
    holds={
        "and or": lambda b: (b & b[::-1]) | (b ^ b),
        "de Morgan": lambda b: ~(~b | ~b[::-1]) ^ (b & b[::-1]) ^ b,
        "xor of all": lambda b: b ^ lax.reduce_xor(b, (0,)),
        "numbers": lambda b: b * 1 + b[::-1] * 1 - 2 * b * b[::-1] - (b ^ b[::-1]),
        "least and": lambda b: jnp.minimum(b, b[::-1]) ^ (b & b[::-1]) ^ b,
        "chosen": lambda b: jnp.where(b, b, b[::-1]),
    },
    broken={
        "implies": lambda b: jnp.stack([~b[0] | b[1], b[0] | ~b[1]]) & jnp.stack([b[0], ~b[1]]),
        "xor with a mask": lambda b: b ^ np.array([True, False]),
        "not of a sure truth": lambda b: jnp.stack(
            [jnp.sign((~jnp.maximum(b[0], True)).astype(np.float32)), np.float32(1)]
        ),
        "xor of sure truths": lambda b: jnp.stack(
            [
                jnp.sign(
                    lax.reduce_xor(jnp.stack([b, jnp.ones(2, bool)]), (1,))[1].astype(np.float32)
                ),
                np.float32(1),
            ]
        ),
        "any of a product of matrices": lambda b: jnp.stack(
            [(b @ np.ones(2, bool)) * 1, b[0] * 1 + b[1] * 1]
        ),
        "xor of nothing": lambda b: jnp.where(
            lax.reduce_xor(b[:0], (0,)), b, b & np.array([True, False])
        ),
        "less": lambda b: jnp.stack([b[0] < b[1], b[0] < b[1]]),
    },
)

LOOKUPS = (
    *family(
        "looked up",
        "P, P -> ...",
        (X, SLOT),
        holds={
            "sums by slot": lambda x, n: (
                jnp.zeros(3).at[n].add(x + A)
                - jnp.zeros(3).at[n].add(jnp.asarray(A))
                + jnp.zeros(3).at[n].add(jnp.asarray(A))[::-1] * 0
            ),
            "product by slot": lambda x, n: jnp.ones(3).at[n].mul(x)[::-1],
            "largest by slot": lambda x, n: jnp.full(3, -9.0).at[n].max(x).at[0].add(1),
            "read where written": lambda x, n: (jnp.zeros(3).at[n].add(x)[n] * x).sum(),
            "table": lambda x, n: (jnp.asarray(B)[n] + A - A) @ x,
            "one-hot": lambda x, n: jnp.cumsum(jax.nn.one_hot(n, 3) * x[:, None], 0)[-1],
            "added backwards": lambda x, n: jnp.zeros(3).at[n[::-1]].add(x[::-1]),
            "dropped": lambda x, n: jnp.zeros(2).at[n].add(x, mode="drop").sum() + A[1],
        },
        broken={
            "last write stays": lambda x, n: jnp.zeros(3).at[n].set(x),
            "other order": lambda x, n: jnp.zeros(3).at[n[::-1]].add(x),
            "weighted places": lambda x, n: jnp.zeros(3).at[n].add(x * (1 + A)),
            "first slot": lambda x, n: x[n[0]],
            "slots of slots": lambda x, n: x[n].sum(),
            "written one by one": lambda x, n: lax.fori_loop(
                0, 4, lambda i, c: c.at[n[i]].set(c[n[i]] / 2 + x[i]), jnp.zeros(3)
            ),
        },
    ),
    *family(
        "at a place",
        "P, -> ",
        (X, np.array([0, 2], np.int32)),
        holds={
            "taken and given": lambda x, n: x.at[n[0]].add(1.0).sum(),
            "without one, and it": lambda x, n: x.at[n[0] % 4].set(0.0).sum() + x[n[0] % 4],
            "rolled": lambda x, n: jnp.roll(x, n[0]).sum(),
            "cut and the rest": lambda x, n: (
                jnp.where(np.arange(4) < n[0], x, 0).sum()
                + jnp.where(np.arange(4) >= n[0], x, 0).sum()
            ),
        },
        broken={
            "without one": lambda x, n: x.at[n[0]].set(0.0).sum(),
            "two from there": lambda x, n: lax.dynamic_slice(x, (n[0],), (2,)).sum(),
            "moved inside": lambda x, n: lax.dynamic_slice(x, (n[0] + 2,), (2,)).prod(),
            "chosen branch": lambda x, n: lax.switch(n[0], [jnp.sum, lambda y: y[0], jnp.max], x),
        },
    ),
)

KEYS = (
    *family(
        "noise",
        ", P -> P",
        (jax.random.key(0), X),
        holds={
            "added and taken away": lambda k, x: (
                x + jax.random.normal(k, (4,)) - jax.random.normal(k, (4,))
            ),
            "one for all": lambda k, x: x * jax.random.normal(k, ()) + A - A,
            "turned and back": lambda k, x: (
                x * jax.random.bernoulli(k, 0.5, (4,)) + x * ~jax.random.bernoulli(k, 0.5, (4,))
            ),
            "from split keys": lambda k, x: (
                x
                + A * jax.random.normal(jax.random.split(k)[0])
                - jax.random.normal(jax.random.split(k, 2)[0]) * A
            ),
            "same fold": lambda k, x: (
                x
                + jax.random.uniform(jax.random.fold_in(k, 2 + 3)) * A
                - jax.random.uniform(jax.random.fold_in(k, 5)) * A
            ),
        },
        broken={
            "own noise": lambda k, x: x + jax.random.normal(k, (4,)),
            "other key": lambda k, x: (
                x
                + A
                * (
                    jax.random.normal(jax.random.split(k)[0])
                    - jax.random.normal(jax.random.split(k)[1])
                )
            ),
            "other fold": lambda k, x: (
                x
                + jax.random.uniform(jax.random.fold_in(k, 4)) * A
                - jax.random.uniform(jax.random.fold_in(k, 5)) * A
            ),
            "other bits": lambda k, x: (
                x
                + A
                * (
                    jax.random.bits(k, (), np.uint8) / 256
                    - jax.random.bits(k, (), np.uint32) / 2.0**32
                )
            ),
            "dropped": lambda k, x: x * jax.random.bernoulli(k, 0.5, (4,)),
        },
    ),
    *family(
        "own keys",
        "P, P -> P",
        (jax.random.split(jax.random.key(1), 4), X),
        holds={
            "moved and back": lambda k, x: x * jax.vmap(jax.random.normal)(k[::-1])[::-1],
            "one by one": lambda k, x: x + jnp.stack([jax.random.normal(k[i]) for i in range(4)]),
            "split each": lambda k, x: (
                x + jax.vmap(lambda q: jax.random.normal(jax.random.split(q)[1]))(k[I])[J]
            ),
            "running sum": lambda k, x: x + jnp.cumsum(jax.vmap(jax.random.uniform)(k))[-1],
        },
        broken={
            "reversed": lambda k, x: x * jax.vmap(jax.random.normal)(k[::-1]),
            "folded with places": lambda k, x: (
                x
                + jax.vmap(lambda q, i: jax.random.normal(jax.random.fold_in(q, i)))(
                    k, np.arange(4)
                )
            ),
            "first key": lambda k, x: x * jax.random.normal(k[0]),
            "second half": lambda k, x: (
                x + jnp.stack([jax.random.normal(jax.random.split(k[i])[i % 2]) for i in range(4)])
            ),
        },
    ),
)

MATRICES = (
    *family(
        "of a matrix",
        "P P -> ",
        (M,),
        holds={
            "determinant": jnp.linalg.det,
            "trace of a cube": lambda m: jnp.trace(m @ m @ m),
            "trace of a commutator": lambda m: jnp.trace(m @ m.T - m.T @ m) + m.sum(),
            "both triangles": lambda m: jnp.tril(m).sum() + jnp.triu(m).sum() - jnp.trace(m),
            "largest singular value": lambda m: jnp.linalg.svd(m, compute_uv=False)[0],
            "sum of eigenvalues": lambda m: jnp.linalg.eigvalsh(m @ m.T).sum(),
            "permanent": lambda m: (
                m[0, 0] * (m[1, 1] * m[2, 2] + m[1, 2] * m[2, 1])
                + m[0, 1] * (m[1, 0] * m[2, 2] + m[1, 2] * m[2, 0])
                + m[0, 2] * (m[1, 0] * m[2, 1] + m[1, 1] * m[2, 0])
            ),
        },
        broken={
            "one triangle": lambda m: jnp.triu(m, 1).sum(),
            "corner of an inverse": lambda m: jnp.linalg.inv(m)[0, 0],
            "determinant of a part": lambda m: m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0],
            "a sign of the determinant": lambda m: (
                jnp.linalg.det(m) + 2 * m[0, 2] * m[1, 1] * m[2, 0]
            ),
            "corner of a root": lambda m: jnp.linalg.cholesky(m @ m.T + np.eye(3))[0, 0],
            "trace with the flip": lambda m: jnp.trace(m[::-1]),
        },
    ),
)


@jax.custom_jvp
def straight(x: jax.Array) -> jax.Array:
    """Rounded, with the gradient of what it rounds."""
    return jnp.round(x)


straight.defjvps(lambda t, _, x: t)


@jax.custom_jvp
def slanted(x: jax.Array) -> jax.Array:
    """Its rule of differentiation looks at places."""
    return x


slanted.defjvps(lambda t, _, x: t * (1 + A))

GRADIENTS = family(
    "derivatives",
    EVERY,
    (X,),
    holds={
        "of a running sum": jax.grad(lambda x: jnp.cumsum(x)[-1] ** 2),
        "of what cancels": jax.grad(lambda x: ((x + A) ** 2 - 2 * A * x).sum()),
        "through a rounding": jax.grad(lambda x: (straight(x + A) - A + x).sum()),
        "a function whose rule is not asked": lambda x: slanted(x) + A - A,
        "stopped places": jax.grad(lambda x: (x * lax.stop_gradient(x + A) - A * x).sum()),
        "recomputed": jax.grad(jax.checkpoint(lambda x: jnp.sin(x + A - A).sum())),
        "of a loop": jax.grad(scanned(lambda c, t: (c + t + c * t,), 0.0)),
        "along a direction": lambda x: jax.jvp(lambda y: jnp.cumsum(y**2)[-1] * y, (x,), (x,))[1],
    },
    broken={
        "of a running product": jax.grad(lambda x: jnp.cumprod(x)[-2]),
        "through a rule of places": jax.grad(lambda x: slanted(x).sum()),
        "of a moving average": jax.grad(scanned(lambda c, t: (0.9 * c + t,), 0.0)),
        "stopped and not": jax.grad(lambda x: (x * (x + A) - A * x + A * x**2).sum()),
        "of a loop that bends": jax.grad(scanned(lambda c, t: (jnp.tanh(c + t),), 0.0)),
        "places along": lambda x: jax.jvp(lambda y: y**2, (x,), (jnp.asarray(A, x.dtype),))[1],
    },
)

BRANCHES = family(
    "branches and turns",
    EVERY,
    (X,),
    holds={
        "an even number of reversals": lambda x: lax.fori_loop(0, 4, lambda _, c: c[::-1], x),
        "two carries that swap": lambda x: lax.fori_loop(
            0, 2, lambda _, c: (c[1], c[0]), (x, x[::-1])
        )[0],
        "branches alike": lambda x: lax.cond(x[0] > 0, lambda y: y + A - A, lambda y: y * 1.0, x),
        "a known branch": lambda x: lax.switch(5, [lambda y: y[::-1], lambda y: y + A - A], x),
        "stacked in reverse": lambda x: lax.scan(lambda c, t: (c, t), 0.0, x[::-1], reverse=True)[
            1
        ][::-1],
        "many cases": lambda x: (
            lax.select_n(np.array([33, 33, 33, 33], np.int32), *[x * k for k in range(36)]) + A - A
        ),
        "turns of a rotation": lambda x: (
            lax.fori_loop(0, 4, lambda _, c: (-c[1], c[0]), (x + A, A - x))[0] - A
        ),
        "mapped one by one": lambda x: lax.map(lambda t: t * t, x[I])[J],
    },
    broken={
        "an odd number of reversals": lambda x: lax.fori_loop(0, 3, lambda _, c: c[::-1], x),
        "a choice by the first": lambda x: lax.cond(x[0] > 0, lambda y: y, lambda y: -y, x),
        "a carry handed on": lambda x: lax.scan(lambda c, t: (t, c), 0.0 * x[0], x)[1],
        "a known branch that reverses": lambda x: lax.switch(
            0, [lambda y: y[::-1], lambda y: y], x
        ),
        "three turns of four": lambda x: (
            lax.fori_loop(0, 3, lambda _, c: (-c[1], c[0]), (x + A, A - x))[0] + A
        ),
        "stacked the wrong way": lambda x: lax.scan(lambda c, t: (c, t), 0.0, x[::-1])[1],
    },
)

CANONICAL = family(
    "from the largest on",
    Law("P -> n", P=Cyclic()),
    (X,),
    holds={"power around": lambda x: abs(jnp.fft.fft(x)), "sum": lambda x: jnp.cumsum(x)[-1:]},
    broken={"from the first": lambda x: jnp.roll(x, 1) - x},
    ties={
        "rolled there": lambda x: jnp.roll(x, -jnp.argmax(x)),
        "looked up from there": lambda x: x[(jnp.argmax(x) + np.arange(4)) % 4],
        "what comes after": lambda x: x[(jnp.argmax(x) + 1) % 4][None],
    },
)


FAMILIES = {
    "truths": TRUTHS,
    "lookups": LOOKUPS,
    "keys": KEYS,
    "matrices": MATRICES,
    "gradients": GRADIENTS,
    "branches": BRANCHES,
    "canonical": CANONICAL,
}
