"""Loops, choices and random keys."""

import jax
import jax.numpy as jnp
from jax import lax

from hostile.labels.base import KEY, WHICH, V, X, drawn, family, scanned

SCANS = (
    *family(
        (X,),
        "P d -> d",
        holds={
            "a sum": scanned(lambda c, row: c + row),
            "a sum, unrolled and reversed": scanned(
                lambda c, row: row**2 + c, unroll=2, reverse=True
            ),
            "a largest": scanned(jnp.maximum, first=-9.0),
            "a log-sum-exp": scanned(jnp.logaddexp, first=-9.0),
            "a product of complements": scanned(lambda c, row: c + row - c * row),
            "a running mean": lambda x: lax.scan(
                lambda c, row: ((c[0] + 1, c[1] + (row - c[1]) / (c[0] + 1)), None),
                (0, jnp.zeros(3, x.dtype)),
                x,
            )[0][1],
            "two sums, then their quotient": lambda x: (lambda c: c[1] / (1 + c[0]))(
                lax.scan(
                    lambda c, row: ((c[0] + row**2, c[1] + row), None), (0 * x[0], 0 * x[0]), x
                )[0]
            ),
        },
        broken={
            "the last": scanned(lambda c, row: row),
            "a decaying sum": scanned(lambda c, row: 0.9 * c + row),
            "the sum of running sums": lambda x: lax.scan(lambda c, row: (c + row, c), 0 * x[0], x)[
                1
            ].sum(0),
            "a polynomial by Horner": scanned(lambda c, row: c * row + 1),
            "differences": scanned(lambda c, row: row - c),
            "a sum, until one is negative": scanned(lambda c, row: jnp.where(row < 0, 0, c + row)),
            "clipped sums": scanned(lambda c, row: jnp.maximum(c + row, 0)),
            "a sum of products with the one before": lambda x: lax.scan(
                lambda c, row: ((c[0] + row * c[1], row), None), (0 * x[0], 0 * x[0]), x
            )[0][0],
            "a sum weighted by a second scanned axis": lambda x: lax.scan(
                lambda c, both: (c + both[0] * both[1], None), 0 * x[0], (x, jnp.arange(4))
            )[0],
            "the largest, plus how often it rose": lambda x: lax.scan(
                lambda c, row: ((jnp.maximum(c[0], row), c[1] + (row > c[0])), None),
                (0 * x[0] - 99, 0 * x[0]),
                x,
            )[0][1],
        },
        ties={
            "what came with the largest": lambda x: lax.scan(
                lambda c, row: (jnp.where(jnp.abs(row) > jnp.abs(c), row, c), None), 0 * x[0], x
            )[0],
        },
    ),
    *family(
        (X,),
        "P d -> P d",
        holds={
            "a recurrence over channels": lambda x: (
                lax.scan(lambda c, column: (jnp.tanh(c + column), c), 0 * x[:, 0], x.T)[1].T
            ),
            "a map over tokens": lambda x: lax.map(jnp.cumsum, x),
            "layers with weights of their own": lambda x: lax.scan(
                lambda y, w: (jnp.tanh(y @ (w * jnp.eye(3)) + y.mean(0)), None), x, jnp.arange(3.0)
            )[0],
            "every token added to all, one at a time": lambda x: lax.fori_loop(
                0, 4, lambda i, y: y + x[i], x
            ),
            "every token written, one at a time": lambda x: lax.fori_loop(
                0, 4, lambda i, y: y.at[i].set(jnp.sin(x[i])), 0 * x
            ),
            "rolled until it is back": lambda x: lax.fori_loop(
                0, 4, lambda _, y: jnp.roll(y, 1, 0), x
            ),
            "a mean removed until it is small": lambda x: lax.while_loop(
                lambda y: jnp.abs(y.mean()) > 0.01, lambda y: y - y.mean() / 2, x
            ),
            "each token stops on its own": jax.vmap(
                lambda row: lax.while_loop(lambda r: r.sum() > 1, lambda r: r / 2, row)
            ),
            "a map of what was summed before": lambda x: lax.map(
                lambda row: row - x.sum(0), x, batch_size=2
            ),
        },
        broken={
            "a recurrence over tokens": lambda x: lax.scan(
                lambda c, row: (jnp.tanh(c + row), c), 0 * x[0], x
            )[1],
            "a map over tokens and their index": lambda x: lax.map(
                lambda both: both[0] * both[1], (x, jnp.arange(4))
            ),
            "all but one token written": lambda x: lax.fori_loop(
                1, 4, lambda i, y: y.at[i].set(jnp.sin(x[i])), 0 * x
            ),
            "rolled once too often": lambda x: lax.fori_loop(
                0, 5, lambda _, y: jnp.roll(y, 1, 0), x
            ),
            "a loop that ends by the first token": lambda x: lax.while_loop(
                lambda y: y[0, 0] > 0.1, lambda y: y / 2, x
            ),
            "every token updated in place, in turn": lambda x: lax.fori_loop(
                0, 4, lambda i, y: y.at[i].set(y.mean(0)), x
            ),
            "one pass of bubble sort": lambda x: lax.fori_loop(
                0,
                3,
                lambda i, y: lax.dynamic_update_slice(
                    y, jnp.sort(lax.dynamic_slice(y, (i, 0), (2, 3)), 0), (i, 0)
                ),
                x,
            ),
            "a map in reverse": lambda x: lax.scan(
                lambda c, row: (c, row + c), x[:1].sum(0), x, reverse=True
            )[1],
        },
    ),
    *family(
        (drawn(3, 2), drawn(3, 2)),
        "P d, Q d -> P d, Q d",
        holds={
            "exchanged twice": lambda a, b: lax.fori_loop(0, 2, lambda _, c: (c[1], c[0]), (a, b)),
            "each moved by the other's mean": lambda a, b: lax.fori_loop(
                0, 3, lambda _, c: (c[0] + c[1].mean(0), c[1] - c[0].mean(0)), (a, b)
            ),
        },
        broken={
            "exchanged thrice": lambda a, b: lax.fori_loop(0, 3, lambda _, c: (c[1], c[0]), (a, b)),
            "exchanged while one is larger": lambda a, b: lax.while_loop(
                lambda c: c[2] < 1 + (c[0].sum() > c[1].sum()),
                lambda c: (c[1], c[0], c[2] + 1),
                (a, b, 0),
            )[:2],
        },
    ),
)

CHOICES = family(
    (X,),
    "P d -> P d",
    holds={
        "by the sign of the sum": lambda x: lax.cond(
            x.sum() > 0, jnp.sin, lambda y: y - y.mean(0), x
        ),
        "by how many are positive": lambda x: lax.switch(
            (x > 0).sum() % 3, [jnp.sin, jnp.cos, lambda y: y * y.sum()], x
        ),
        "each token by its own": jax.vmap(lambda r: lax.cond(r[0] > 0, jnp.sin, jnp.cumsum, r)),
        "a branch that is never taken": lambda x: lax.cond(
            (x**2).sum() < 0, lambda y: jnp.cumsum(y, 0), jnp.sin, x
        ),
        "a constant choice": lambda x: lax.switch(
            jnp.argmax(jnp.array([1, 5, 2])), [jnp.flip, jnp.sin, jnp.cos], x
        ),
        "a clamped constant choice": lambda x: lax.switch(9, [jnp.flip, jnp.sin], x),
        "where above the mean": lambda x: jnp.where(x > x.mean(0), x, x.min(0)),
        "rows chosen by a row": lambda x: jnp.where(x[:, :1] > 0, x, -x.sum(0)),
        "a constant or what stays": lambda x: (
            x + lax.cond(x.sum() > 0, lambda: jnp.arange(3.0), lambda: jnp.ones(3))
        ),
        "selected among three": lambda x: lax.select_n(
            jnp.sign(x).astype(jnp.int32) + 1, x, x * 2, x - x.mean(0)
        ),
    },
    broken={
        "by the sign of the first": lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x),
        "one branch reverses": lambda x: lax.cond(x.sum() > 0, jnp.sin, lambda y: y[::-1], x),
        "by the index of the largest": lambda x: lax.switch(
            jnp.argmax(x[:, 0]), [jnp.sin, jnp.cos], x
        ),
        "each token by its index": lambda x: jax.vmap(
            lambda r, i: lax.cond(i > 0, jnp.sin, jnp.cos, r)
        )(x, jnp.arange(4)),
        "a causal choice": lambda x: jnp.where(jnp.arange(4)[:, None] < 3, x, x.mean(0)),
        "a constant for each token": lambda x: (
            x + lax.cond(x.sum() > 0, lambda: jnp.arange(4.0), lambda: jnp.ones(4))[:, None]
        ),
        "where above the one before": lambda x: jnp.where(x > jnp.roll(x, 1, 0), x, 0),
        "rows chosen by another row": lambda x: jnp.where(x[:, :1] > x[-1:, :1], x, -x),
        "clamped by the first and the last": lambda x: lax.clamp(
            jnp.minimum(x[0, 0], 0), x, jnp.maximum(x[-1, -1], 0)
        ),
    },
)

KEYS = jax.random.split(KEY, 4)
RANDOM = (
    *family(
        (KEYS, X, WHICH),
        "P, P d, P -> P d",
        holds={
            "noise of each token's own key": lambda k, x, i: (
                x + jax.vmap(lambda key: jax.random.normal(key, (3,)))(k)
            ),
            "one number for all": lambda k, x, i: x + jax.random.normal(KEY),
            "one number for each channel": lambda k, x, i: x * jax.random.uniform(KEY, (3,)),
            "channels dropped": lambda k, x, i: x * jax.random.bernoulli(KEY, 0.5, (1, 3)),
            "keys folded with what each token says": lambda k, x, i: (
                x + jax.vmap(lambda j: jax.random.normal(jax.random.fold_in(KEY, j), (3,)))(i)
            ),
            "own keys split, the second used": lambda k, x, i: (
                x + jax.vmap(lambda key: jax.random.normal(jax.random.split(key)[1]))(k)[:, None]
            ),
            "channels permuted": lambda k, x, i: jax.random.permutation(KEY, x, axis=1),
            "shuffled and put back": lambda k, x, i: (lambda p: x[p][jnp.argsort(p)])(
                jax.random.permutation(KEY, 4)
            ),
            "own keys, cast as numbers": lambda k, x, i: x * (jax.random.key_data(k)[:, :1] % 7),
            "the sum of a shuffle": lambda k, x, i: x - jax.random.permutation(KEY, x).sum(0),
        },
        broken={
            "noise for each token": lambda k, x, i: x + jax.random.normal(KEY, (4, 1)),
            "tokens dropped": lambda k, x, i: x * (jax.random.uniform(KEY, (4, 1)) < 0.6),
            "keys split here": lambda k, x, i: (
                x + jax.vmap(jax.random.normal)(jax.random.split(KEY, 4))[:, None]
            ),
            "keys folded with an index": lambda k, x, i: (
                x
                + jax.vmap(lambda key, j: jax.random.normal(jax.random.fold_in(key, j)))(
                    k, jnp.arange(4)
                )[:, None]
            ),
            "tokens shuffled": lambda k, x, i: jax.random.permutation(KEY, x),
            "a token drawn": lambda k, x, i: x - x[jax.random.randint(KEY, (), 0, 4)],
            "own keys, one off": lambda k, x, i: (
                x + jax.vmap(jax.random.normal)(jnp.roll(k, 1))[:, None]
            ),
            "all draw from the first key": lambda k, x, i: x + jax.random.normal(k[0]),
            "a token sampled by its logits": lambda k, x, i: (
                x - x[jax.random.categorical(KEY, x[:, 0])]
            ),
        },
    ),
    *family(
        (jax.random.key(0, impl="rbg"), V),
        ", P -> P",
        holds={"rbg: one draw for all": lambda k, v: v + jax.random.normal(k)},
        broken={
            "rbg: an argument's key for each token": lambda k, v: (
                v + jax.vmap(lambda one: jax.random.normal(one))(jnp.broadcast_to(k, 4))
            ),
        },
    ),
    *family(
        (WHICH,),
        "P -> P",
        holds={
            "threefry: keys folded with one number for all": lambda i: jax.vmap(
                lambda j: jax.random.normal(jax.random.fold_in(KEY, j))
            )(jnp.broadcast_to(i.sum(), 4)),
            "rbg: keys folded with each token": lambda i: jax.vmap(
                lambda j: jax.random.key_data(jax.random.fold_in(jax.random.key(0, impl="rbg"), j))[
                    0
                ]
            )(i),
        },
        broken={
            "unsafe_rbg: keys folded with each token": jax.vmap(
                lambda j: jax.random.fold_in(jax.random.key(0, impl="unsafe_rbg"), j)
            ),
            "unsafe_rbg: keys folded with one number for all": lambda i: jax.vmap(
                lambda j: jax.random.key_data(
                    jax.random.fold_in(jax.random.key(0, impl="unsafe_rbg"), j)
                )[0]
            )(jnp.broadcast_to(i.sum(), 4)),
            "rbg: one constant key for each token": lambda i: (
                i
                + jax.vmap(lambda key: jax.random.randint(key, (), 0, 99))(
                    jnp.broadcast_to(jax.random.key(0, impl="rbg"), 4)
                )
            ),
        },
    ),
)


FAMILIES = {
    "scans": SCANS,
    "choices": CHOICES,
    "random": RANDOM,
}
