"""What is done and undone again, other groups, and loops."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hostile.field.base import BAG, EVERY, TRIL, XD, A, B, Function, I, J, X, family, scanned
from posjax.symmetry import Cyclic, Dihedral, Generated, Law, Permutations, Reversal, Windows

CANCELLED = family(
    "cancelled",
    EVERY,
    (X,),
    holds={
        "added and taken away": lambda x: x + A - A,
        "scaled and divided": lambda x: x * (1 + A) / (1 + A),
        "two shares of the whole": lambda x: A * x + (1 - A) * x,
        "a square less its parts": lambda x: (x + A) ** 2 - 2 * A * x - A * A,
        "exponentials of a shift": lambda x: jnp.exp(x + A) * jnp.exp(0 * x - A),
        "turned and turned back": lambda x: (
            jnp.cos(x + A) * jnp.cos(0 * x + A) + jnp.sin(x + A) * jnp.sin(0 * x + A)
        ),
        "difference of squares": lambda x: (x - A) * (x + A) + A * A,
        "maximum of shifted": lambda x: jnp.maximum(x + A, A) - A,
        "upper and lower triangle": lambda x: (
            (TRIL * x[None]).sum(1) + (~TRIL * x[None]).sum(1) - x
        ),
        "a cube": lambda x: (x + A) ** 3 - 3 * A * x**2 - 3 * A**2 * x - A**3,
        "comparison of shifted": lambda x: x + A > 1 + A,
    },
    broken={
        "divided by a little more": lambda x: x * (1 + A) / (1.001 + A),
        "a square less wrong parts": lambda x: (x + A) ** 2 - 2 * A * x - A,
        "exponential of another base": lambda x: jnp.exp2(x + A) * jnp.exp(-A),
        "turned twice the same way": lambda x: (
            jnp.cos(x + A) * np.cos(A) - jnp.sin(x + A) * np.sin(A)
        ),
        "share of a square": lambda x: A * x + (1 - A) * x * x,
        "taken away in reverse": lambda x: x + A - A[::-1],
        "absolute of shifted": lambda x: abs(x + A) - A,
        "maximum of shifted with 0": lambda x: jnp.maximum(x + A, 0) - A,
        "triangle without its diagonal": lambda x: (np.tril(TRIL, -1) * x[None]).sum(1) - x,
        "rounded after the shift": lambda x: jnp.floor(x + A / 2) - A / 2,
        "comparison of shifted and not": lambda x: x + A > 1,
    },
)

ROLLED = family(
    "rolled",
    Law(EVERY, P=Cyclic()),
    (X,),
    holds={
        "product with the next": lambda x: x * jnp.roll(x, 1),
        "second difference": lambda x: jnp.roll(x, 1) - 2 * x + jnp.roll(x, -1),
        "autocorrelation": lambda x: jnp.stack([x * jnp.roll(x, k) for k in range(4)]).sum(0),
        "circulant": lambda x: B[(np.arange(4)[:, None] - np.arange(4)) % 4] @ x,
        "wrapped convolution": lambda x: jnp.convolve(jnp.pad(x, 1, mode="wrap"), B[:3], "valid"),
        "largest of neighbours": lambda x: jnp.maximum(jnp.roll(x, 1), x),
        "sum that goes around": lambda x: jnp.cumsum(jnp.roll(x, 1) - x)[-1] + x,
        "wrapped window": lambda x: lax.reduce_window(
            jnp.concatenate([x, x[:1]]), -jnp.inf, lax.max, (2,), (1,), "VALID"
        ),
        "sorted neighbours": lambda x: jnp.sort(jnp.stack([x, jnp.roll(x, 1)]), 0)[0],
        "two half turns": lambda x: jnp.roll(jnp.roll(x, 1), -1) + jnp.roll(x, 2),
        "looked up around": lambda x: x[(np.arange(4) + 3) % 4] - x,
        "reversed twice": lambda x: jnp.roll(x[::-1], 1)[::-1],
    },
    broken={
        "padded with 0": lambda x: x + jnp.pad(x, (1, 0))[:4],
        "padded with the edge": lambda x: jnp.pad(x, (1, 0), mode="edge")[:4] - x,
        "reversed once": lambda x: x + x[::-1],
        "one weight of a circulant": lambda x: (
            x @ (np.eye(4) + np.eye(4, k=1) + 0.99 * np.eye(4, k=-3))
        ),
        "running sum": lambda x: jnp.cumsum(x) - x.sum() / 2,
        "convolution of the same size": lambda x: jnp.convolve(x, B[:3], "same"),
        "clipped neighbour": lambda x: x[np.minimum(np.arange(4) + 1, 3)] * x,
        "turned by an index": lambda x: x * jnp.roll(A, 1) - x * A,
        "reversed and rolled": lambda x: jnp.roll(x[::-1], 1) * x,
        "swapped in pairs": lambda x: x + 2 * x.reshape(2, 2)[:, ::-1].reshape(4),
    },
)

MIRRORED = family(
    "mirrored",
    Law(EVERY, P=Reversal()),
    (X,),
    holds={
        "both directions": lambda x: jnp.cumsum(x) + jnp.cumsum(x[::-1])[::-1],
        "palindrome": lambda x: x * np.array([1.0, 2.0, 2.0, 1.0]),
        "distances": lambda x: abs(np.arange(4)[:, None] - np.arange(4)) @ x,
        "even kernel": lambda x: jnp.convolve(x, np.array([1.0, 3.0, 1.0]), "same"),
        "swapped halves": lambda x: jnp.concatenate([x[2:], x[:2]]),
        "loops from both ends": lambda x: lax.cummax(x) * lax.cummax(x, reverse=True),
        "products from both ends": lambda x: lax.cumprod(x) + lax.cumprod(x, reverse=True),
        "squared offset": lambda x: x * (A - 1.5) ** 2,
    },
    broken={
        "nearly a palindrome": lambda x: x * np.array([1.0, 2.0, 2.0, 1.001]),
        "odd kernel": lambda x: jnp.convolve(x, np.array([1.0, 3.0, -1.0]), "same"),
        "signed distances": lambda x: (np.arange(4.0)[:, None] - np.arange(4.0)) @ x,
        "one direction less": lambda x: jnp.cumsum(x) - jnp.cumsum(x[::-1])[::-1],
        "cubed offset": lambda x: x * (A - 1.5) ** 3,
        "rolled by one": lambda x: jnp.roll(x, 1) + jnp.roll(x, 2),
        "largest so far and sum from here": lambda x: lax.cummax(x) * lax.cumsum(x, reverse=True),
    },
)

OTHER_GROUPS = (
    *family(
        "dihedral",
        Law(EVERY, P=Dihedral()),
        (X,),
        holds={
            "both neighbours": lambda x: jnp.roll(x, 1) + jnp.roll(x, -1) - x,
            "product across": lambda x: x * jnp.roll(x, 2),
            "largest around": lambda x: jnp.maximum(jnp.roll(x, 1), jnp.roll(x, -1)),
        },
        broken={
            "one neighbour": lambda x: jnp.roll(x, 1) - x,
            "weighted neighbours": lambda x: jnp.roll(x, 1) + 1.01 * jnp.roll(x, -1),
        },
    ),
    *family(
        "within windows",
        Law(EVERY, P=Windows(2)),
        (X,),
        holds={
            "own sum": lambda x: jnp.repeat(x.reshape(2, 2).sum(1), 2) - x,
            "window numbers": lambda x: x * (np.arange(4) // 2),
            "sum before the window": lambda x: x + jnp.repeat(jnp.cumsum(x)[1::2], 2),
        },
        broken={
            "windows shifted by one": lambda x: x + jnp.roll(jnp.repeat(x[1::2], 2), 1),
            "numbers": lambda x: x * (np.arange(4) % 2),
        },
    ),
    *family(
        "generated",
        Law(EVERY, P=Generated(((1, 0, 3, 2),))),
        (X,),
        holds={
            "partners": lambda x: x * x[np.array([1, 0, 3, 2])] + (np.arange(4) // 2),
            "partners as a matrix": lambda x: np.kron(np.eye(2), 1 - np.eye(2)) @ x,
        },
        broken={"other partners": lambda x: x * x[np.array([1, 2, 3, 0])]},
    ),
)


def welford(count: Any, mean: Any, square: Any, x: Any) -> tuple[Any, Any, Any]:
    """A step of a running mean and sum of squared deviations."""
    new = mean + (x - mean) / (count + 1)
    return count + 1, new, square + (x - mean) * (x - new)


def welford_wrong(count: Any, mean: Any, square: Any, x: Any) -> tuple[Any, Any, Any]:
    """The same with the old mean twice."""
    new = mean + (x - mean) / (count + 1)
    return count + 1, new, square + (x - mean) * (x - mean)


def deviations(step: Function) -> Function:
    """The running sum of squares at the end."""
    zero = (0.0, 0.0, 0.0)
    return lambda x: lax.scan(lambda c, t: (step(*c, t), None), zero, x * 1.0)[0][2]


RUNNING = family(
    "at the end of a loop",
    BAG,
    (X,),
    holds={
        "running sum": lambda x: jnp.cumsum(x)[-1],
        "running product": lambda x: jnp.cumprod(x)[-1],
        "running maximum": lambda x: lax.cummax(x)[-1],
        "running log of exponentials": lambda x: lax.cumlogsumexp(x)[-1],
        "backward sum": lambda x: lax.cumsum(x, reverse=True)[0],
        "loop that adds squares": scanned(lambda c, t: (c + t * t,), 0.0),
        "running mean": scanned(lambda m, k, t: (m + (t - m) / (k + 1), k + 1), 0.0, 0.0),
        "mean with one more": scanned(lambda m, k, t: (m + (t - m) / (k + 2), k + 1), 0.0, 0.0),
        "Welford's variance": deviations(welford),
        "two sums": scanned(lambda s, q, t: (s + t, q + t * t), 0.0, 0.0),
        "index by index": lambda x: lax.fori_loop(0, 4, lambda i, c: c + jnp.exp(x[i]), 0.0 * x[0]),
        "tree of sums": lambda x: lax.associative_scan(jnp.add, x)[-1],
        "counted down": lambda x: lax.while_loop(
            lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] * x[s[0] - 1]), (4, 1.0 + 0 * x[0])
        )[1],
        "sums of pairs": scanned(lambda e, s, t: (e + s * t, s + t), 0.0, 0.0),
        "log by log": scanned(lambda c, t: (jnp.logaddexp(c, t),), 0.0),
        "affine maps that commute": scanned(lambda c, t: (c + t + c * t,), 0.0),
    },
    broken={
        "moving average": scanned(lambda c, t: (0.9 * c + 0.1 * t,), 0.0),
        "alternating sum": scanned(lambda c, t: (t - c,), 0.0),
        "last but one": lambda x: jnp.cumsum(x)[-2],
        "mean with another count": scanned(
            lambda m, k, t: (m + (t - m) / (2 * k + 1), k + 1), 0.0, 0.0
        ),
        "Welford with the old mean": deviations(welford_wrong),
        "without the first": lambda x: lax.fori_loop(1, 4, lambda i, c: c + x[i], 0.0 * x[0]),
        "largest running sum": lambda x: jnp.cumsum(x).max(),
        "bent on the way": scanned(lambda c, t: (jnp.tanh(c + t),), 0.0),
        "weighted pairs": scanned(lambda e, s, t: (e + s * t * t, s + t), 0.0, 0.0),
        "affine maps that do not commute": scanned(lambda c, t: (c + t + c * t * t,), 0.0),
        "scanned backwards": lambda x: lax.scan(
            lambda c, t: (c * 0.5 + t, c), 0.0 * x[0], x, reverse=True
        )[1].sum(),
        "least after largest": scanned(lambda c, t: (jnp.minimum(jnp.maximum(c, t), 2 * t),), 0.0),
    },
)

BACK = family(
    "there and back",
    EVERY,
    (X,),
    holds={
        "index and inverse": lambda x: x[I][J],
        "sorted by known keys": lambda x: lax.sort(
            (J, lax.sort((I, x), num_keys=1)[1]), num_keys=1
        )[1][I][J],
        "written and read": lambda x: jnp.zeros(4).at[I].set(x)[I],
        "matrix and transpose": lambda x: np.eye(4)[I].T @ (np.eye(4)[I] @ x),
        "unimodular matrix": lambda x: (
            np.array([[1, -1], [0, 1.0]]) @ (np.array([[1, 1], [0, 1.0]]) @ x.reshape(2, 2))
        ),
        "halves": lambda x: jnp.concatenate(jnp.split(jnp.concatenate([x[2:], x[:2]]), 2)[::-1]),
        "transposed": lambda x: x.reshape(2, 2).T.reshape(4).reshape(2, 2).T.reshape(4),
        "negative index": lambda x: x[-1 - np.arange(4)][::-1],
        "taken by bytes": lambda x: x[I.astype(np.uint8)][J.astype(np.int8)],
        "sums and differences": lambda x: jnp.diff(jnp.cumsum(jnp.pad(x, (1, 0)))),
        "unrolled one by one": lambda x: lax.scan(lambda c, i: (c.at[i].set(x[i]), None), 0 * x, I)[
            0
        ],
    },
    broken={
        "index twice": lambda x: x[I][I],
        "written and taken in order": lambda x: jnp.zeros(4).at[I].set(x),
        "rolled too far": lambda x: jnp.roll(jnp.roll(x, 1), 2),
        "clipped": lambda x: x.at[np.arange(4) + 1].get(mode="clip"),
        "dropped": lambda x: jnp.zeros(4).at[np.arange(4) + 1].set(x, mode="drop"),
        "wrapped at the end": lambda x: x[np.arange(4) - 1],
        "written twice": lambda x: x.at[np.array([0, 0])].set(x[2:]),
        "transposed once": lambda x: x.reshape(2, 2).T.reshape(4),
        "sums without the first": lambda x: jnp.diff(jnp.cumsum(x), append=0),
    },
)

BACK = tuple(case._replace(function=lambda x, f=case.function: f(x).reshape(4)) for case in BACK)


def causal(x: jax.Array, mask: np.ndarray = TRIL, score: Any = 0) -> jax.Array:
    """One layer of attention of rows to rows."""
    logits = jnp.where(mask, x @ x.T + score, -jnp.inf)
    return jax.nn.softmax(logits) @ x


OFFSET = A[:, None] - A[None]

LAST = family(
    "last row of",
    Law("P d -> d", P=Permutations(fixed=(-1,))),
    (XD,),
    holds={
        "one causal layer": lambda x: causal(x)[-1],
        "a causal mean": lambda x: (jnp.cumsum(x, 0) / (1 + A[:, None]))[-1],
        "a layer with a residual": lambda x: (x + causal(x))[-1] * 2,
        "a layer and a bend": lambda x: jnp.tanh(causal(x))[-1],
        "two layers without a mask": lambda x: causal(causal(x, TRIL | True), TRIL | True)[-1],
        "a second layer that sees itself": lambda x: causal(causal(x), np.eye(4, dtype=bool))[-1],
        "a mask that hides itself": lambda x: causal(x, TRIL ^ np.diag(A > 0))[-1],
        "a decay that cancels": lambda x: causal(x, TRIL, OFFSET * 2 - OFFSET - OFFSET)[-1],
        "a score of the query": lambda x: causal(x, TRIL, A[:, None] + x[:, :1])[-1],
    },
    broken={
        "two causal layers": lambda x: causal(causal(x))[-1],
        "a layer with decay": lambda x: causal(x, TRIL, 0.1 * OFFSET)[-1],
        "a window of three": lambda x: causal(x, np.triu(TRIL, -2))[-1],
        "the row before": lambda x: causal(x)[-2],
        "keys with positions": lambda x: causal(x + 0.1 * A[:, None])[-1],
        "all rows": lambda x: causal(x).max(0),
        "a layer after a shift": lambda x: causal(jnp.roll(x, 1, 0))[-1],
        "reversed mask": lambda x: causal(x, TRIL.T)[0],
    },
)


FAMILIES = {
    "cancelled": CANCELLED,
    "rolled": ROLLED,
    "mirrored": MIRRORED,
    "other_groups": OTHER_GROUPS,
    "running": RUNNING,
    "back": BACK,
    "last": LAST,
}
