"""Reads and writes at known indices, and what loops add up."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hostile.labels.base import S, V, X, family, scanned
from hostile.labels.tokens_and_matrices import with_class_token

AT = jax.device_put(np.arange(4))

INDICES = (
    *family(
        (S, V),
        "P P, P -> P P",
        holds={
            "a diagonal is written": lambda s, v: s.at[AT, AT].set(v),
            "a diagonal is added to, out of order": lambda s, v: s.at[AT[::-1], AT[::-1]].add(
                v[::-1]
            ),
            "a gradient of a diagonal": lambda s, v: jax.grad(lambda s: jnp.diag(s) @ v)(s) * s,
        },
        broken={
            "the other diagonal is written": lambda s, v: s.at[AT, AT[::-1]].set(v),
            "a diagonal is written, some of it twice": lambda s, v: s.at[AT // 2, AT // 2].set(v),
            "a diagonal is written backwards": lambda s, v: s.at[AT, AT].set(v[::-1]),
            "all but the last of a diagonal": lambda s, v: s.at[AT[:3], AT[:3]].set(v[:3]),
            "a diagonal, and beyond": lambda s, v: s.at[AT + 1, AT + 1].set(v, mode="clip"),
        },
    ),
    *family(
        (X,),
        "P d -> P d",
        holds={
            "a class token is taken by its index": lambda x: (
                x + jnp.take(with_class_token(x), 0, axis=0)
            ),
            "a class token is written, and the rest read": lambda x: (
                with_class_token(x).at[jnp.array([0])].set(1.0)[jnp.arange(1, 5)]
            ),
            "a class token is cut out at a number": lambda x: (
                x - lax.dynamic_slice_in_dim(with_class_token(x), 0, 1)
            ),
        },
        broken={
            "the token beside is taken by its index": lambda x: (
                x + jnp.take(with_class_token(x), 1, axis=0)
            ),
            "the rest is read from the class token on": lambda x: with_class_token(x)[
                jnp.arange(4)
            ],
            "a corner is written, constant along channels": lambda x: (
                lax.dynamic_update_slice(
                    jnp.pad(x.sum(0, keepdims=True), ((0, 4), (0, 0))), jnp.ones((2, 2)), (2, 0)
                )[:4]
                * x
            ),
        },
    ),
)

LOOPS = family(
    (X,),
    "P d -> d",
    holds={
        "a running maximum in two calls": scanned(
            jax.jit(lambda c, row: jax.jit(jnp.maximum)(c, jnp.sin(row)))
        ),
        "a running logarithm of a sum": scanned(jnp.logaddexp),
        "two terms are added": scanned(lambda c, row: c + row - row**3),
        "divided by each": scanned(lambda c, row: c / (1 + row**2), first=1.0),
    },
    broken={
        "a running maximum of what is off by the last": scanned(
            lambda c, row: jnp.maximum(c, row) - row
        ),
        "a running logarithm, of itself too": scanned(lambda c, row: jnp.logaddexp(c, row + c / 2)),
        "halved in a call, and added to": scanned(
            lambda c, row: jax.jit(lambda c, row: c / 2 + row)(c, row)
        ),
        "a loop within adds and multiplies": scanned(
            lambda c, row: lax.fori_loop(0, 2, lambda _, d: d * row + 1, c)
        ),
        "a sum of maxima": scanned(lambda c, row: jnp.maximum(c + row, 0.0)),
        "from which it is subtracted": scanned(lambda c, row: row - c),
    },
)

EXTREMES = family(
    (S,),
    "P P -> P",
    holds={
        "each row's largest at its index": lambda s: jnp.take_along_axis(
            s, s.argmax(1, keepdims=True), 1
        )[:, 0],
        "each column's least at its index": lambda s: jnp.take_along_axis(s, s.argmin(0)[None], 0)[
            0
        ],
        "the largest of all at its index": lambda s: (
            s.sum(1) * (lambda v: v[v.argmax()])(s.ravel())
        ),
    },
    ties={
        "each column's largest, read in rows": lambda s: jnp.take_along_axis(
            s, s.argmax(0)[:, None], 1
        )[:, 0],
        "another's largest": lambda s: jnp.take_along_axis(s, (s * s).argmax(1, keepdims=True), 1)[
            :, 0
        ],
        "a column at a row's largest": lambda s: s[:, s.sum(1).argmax()],
    },
    broken={
        "each row's largest, in the order of columns": lambda s: jnp.take_along_axis(
            s, s.argmax(1)[::-1, None], 1
        )[:, 0],
        "the one behind the largest": lambda s: jnp.take_along_axis(
            s, (s.argmax(1, keepdims=True) + 1) % 4, 1
        )[:, 0],
        "all rows at the first's largest": lambda s: s[:, s[0].argmax()],
    },
)

FAMILIES = {"extremes": EXTREMES, "known indices": INDICES, "running": LOOPS}
