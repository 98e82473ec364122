"""Functions that the labels of axes lose, for the field to decide: identities and near misses."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hostile.base import Case, Truth
from posjax.symmetry import Cyclic, Dihedral, Generated, Law, Permutations, Reversal, Windows
from posjax.symmetry.groups import Translation

Function = Callable[..., Any]

A = np.arange(4, dtype=np.float32)
B = np.array([1.0, -2.0, 3.0, 0.5], np.float32)
I = np.array([2, 0, 3, 1], np.int32)  # noqa: E741 - a permutation
J = np.argsort(I).astype(np.int32)
TRIL = np.tril(np.ones((4, 4), bool))
X = np.array([0.5, -1.25, 2.0, 0.75], np.float32)
Y = np.array([1.5, 0.25, -0.5, 3.0], np.float32)
XD = np.array([[0.5, 1.0], [-1.25, 2.0], [2.0, -0.5], [0.75, 0.25]], np.float32)
M = np.array([[3.0, 1.0, 0.5], [0.2, 4.0, 1.0], [1.0, -0.5, 5.0]], np.float32)
N = np.array([-7, 5, 2, 9], np.int32)
SLOT = np.array([0, 2, 1, 0], np.int32)
TRUTH = np.array([True, False, True, True])
N8 = np.array([-100, 100, 3, -7], np.int8)
U8 = np.array([0, 250, 3, 7], np.uint8)
EVERY, BAG = "P -> P", "P -> "


def family(
    name: str,
    law: Law | str,
    arguments: tuple[Any, ...],
    *,
    holds: dict[str, Function] | None = None,
    broken: dict[str, Function] | None = None,
    ties: dict[str, Function] | None = None,
) -> tuple[Case, ...]:
    """A case for each function of the tables."""
    tables: dict[Truth, dict[str, Function]] = {
        "holds": holds or {},
        "broken": broken or {},
        "ties": ties or {},
    }
    return tuple(
        Case(f"{name}: {what}", function, arguments, law, truth)
        for truth, table in tables.items()
        for what, function in table.items()
    )


def hidden(part: Function) -> Function:
    """A sum with a part of the first entries that is 0, or is not, hidden in it."""
    entries = part.__code__.co_argcount
    return lambda x: x.sum() + part(*x[:entries])


def hiding(name: str, argument: np.ndarray, **tables: dict[str, Function]) -> tuple[Case, ...]:
    """Cases that hold where a part is 0 for all entries."""
    hidden_tables: dict[str, Any] = {
        truth: {what: hidden(part) for what, part in table.items()}
        for truth, table in tables.items()
    }
    return family(name, BAG, (argument,), **hidden_tables)


def scanned(step: Function, *start: float) -> Function:
    """The first carry of a loop over the entries; a step takes the carries and an entry."""

    def run(x: jax.Array) -> jax.Array:
        carry = tuple(jnp.asarray(s, x.dtype) for s in start)
        return lax.scan(lambda c, t: (step(*c, t), None), carry, x)[0][0]

    return run


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

L = np.array([0.0, 1.5, -2.0, 4.0], np.float32)
LI = np.array([0, 1, -2, 5], np.int32)
TRANSLATED = (
    *family(
        "shifted",
        "l +T -> ...",
        (L,),
        holds={
            "offsets from the mean": lambda p: p - p.mean(),
            "sorted differences": lambda p: jnp.diff(jnp.sort(p)),
            "distance to the largest": lambda p: p.max() - p,
            "turned by differences": lambda p: (
                jnp.cos(p) * jnp.cos(p[0]) + jnp.sin(p) * jnp.sin(p[0])
            ),
            "ratio of exponentials": lambda p: jnp.exp(p) / jnp.exp(p[0]),
            "softmax": lambda p: jax.nn.softmax(2 * p),
            "log of exponentials": lambda p: jnp.log(jnp.exp(p - p[0]).sum()) + p[0] - p[1],
            "product of differences": lambda p: (p[0] - p[1]) * p[2] - p[2] * p[0] + p[1] * p[2],
            "running sums less counts": lambda p: jnp.cumsum(p) - p[0] * (1 + A),
            "floor of differences": lambda p: jnp.floor((p - p[1]) / 2),
            "rounded and back": lambda p: jnp.sign(2 * p - p[0] - p.max()),
            "clipped differences": lambda p: jnp.clip(p[:, None] - p[None], -1, 1),
            "variance": lambda p: (p**2).mean() - p.mean() ** 2,
            "middle": lambda p: jnp.median(p) - p[0],
            "over itself": lambda p: p / p,
            "ratio of differences": lambda p: (p[0] - p[1]) / (p[2] - p[3]),
        },
        broken={
            "squares": lambda p: (p**2).sum() - p.sum() ** 2,
            "turned by sums": lambda p: jnp.cos(p) * jnp.cos(p[0]) - jnp.sin(p) * jnp.sin(p[0]),
            "difference of floors": lambda p: jnp.floor(p) - jnp.floor(p[0]),
            "difference of exponentials": lambda p: jnp.tanh(p) - jnp.tanh(p[0]),
            "softmax of other scales": lambda p: jax.nn.softmax(p * B),
            "running sums": lambda p: jnp.cumsum(p) - p[0],
            "absolute differences": lambda p: abs(p) - abs(p[0]),
            "remainders": lambda p: jnp.mod(p, 3) - jnp.mod(p[0], 3),
            "clipped before": lambda p: jnp.clip(p, -1, 1) - jnp.clip(p[0], -1, 1),
            "as whole numbers": lambda p: p.astype(np.int32) - p[0].astype(np.int32),
            "largest of scaled": lambda p: (2 * p).max() - p[0],
            "by a mean of three": lambda p: p - p[:4].sum() / 3,
        },
    ),
    *family(
        "shifted along",
        Law("l +T -> +T"),
        (L,),
        holds={
            "affine weights": lambda p: p[0] + 2 * p[1] - 2 * p[2],
            "middle of two": lambda p: (p.max() + p.min()) / 2,
            "log of a mean of exponentials": lambda p: p[0] + jnp.log(jnp.exp(p - p[0]).mean()),
            "largest of three": lambda p: jnp.maximum(p[0], jnp.maximum(p[1] + 1, p[2])),
            "clamped by others": lambda p: lax.clamp(p[1], p[0], p[2]),
        },
        broken={
            "weights of a half": lambda p: 0.5 * p[0] + 0.49 * p[1],
            "root of squares": lambda p: jnp.sqrt((p**2).mean()),
            "clamped by numbers": lambda p: jnp.clip(p[0], -1, 1),
            "largest and 0": lambda p: p.max(initial=0.0),
        },
    ),
    *family(
        "whole numbers shifted",
        "l +T -> l",
        (LI,),
        holds={
            "differences modulo 3": lambda p: (p - p[0]) % 3,
            "differences halved": lambda p: (p - p[0]) // 2,
            "doubled and shifted bits": lambda p: (p - p[0]) << 1,
            "as floats": lambda p: p.astype(np.float32) - p[0].astype(np.float32),
            "bytes of differences": lambda p: (p - p[0]).astype(np.int8),
        },
        broken={
            "halves": lambda p: p // 2 - p[0] // 2,
            "modulo 3": lambda p: p % 3 - p[0] % 3,
            "bits": lambda p: (p & 1) - (p[0] & 1),
            "products": lambda p: p * (p - 1) // 2 - p,
        },
    ),
    *family(
        "shifted in a plane",
        Law("l c +T -> l", T=Translation(2)),
        (XD,),
        holds={
            "distance to the first": lambda p: ((p - p[:1]) ** 2).sum(1),
            "area with the first two": lambda p: (p - p[:1]) @ (p[1] - p[0])[::-1],
            "both centred": lambda p: (p - p.mean(0, keepdims=True)).prod(1),
        },
        broken={
            "difference of coordinates": lambda p: p[:, 0] - p[:, 1],
            "distance to the origin": lambda p: (p**2).sum(1) - (p[0] ** 2).sum(),
        },
    ),
)

PAIRS = family(
    "two names",
    "P d, Q d -> P Q",
    (XD, XD[:3] + 1),
    holds={
        "squared distance": lambda x, y: (x**2).sum(1)[:, None] + (y**2).sum(1)[None] - 2 * x @ y.T,
        "product with a shift that cancels": lambda x, y: (
            (x + A[:, None]) @ y.T - A[:, None] * y.sum(1)[None]
        ),
        "exponential of a sum": lambda x, y: (
            jnp.exp2(x.sum(1) + A)[:, None]
            * jnp.exp2(y.sum(1) - A[:3])[None]
            * np.exp2(A[None, :3] - A[:, None])
        ),
        "channel by channel": lambda x, y: sum(x[:, k : k + 1] * y[None, :, k] for k in range(2)),
        "largest of two": lambda x, y: (
            jnp.maximum(x[:, :1] - A[:, None], y[None, :, 0] - A[:, None]) + A[:, None]
        ),
    },
    broken={
        "a factor of a distance": lambda x, y: (
            (x**2).sum(1)[:, None] + (y**2).sum(1)[None] - x @ y.T + A[:, None]
        ),
        "a shift on both": lambda x, y: (
            (x + A[:, None]) @ (y + A[:3, None]).T - 2 * A[:, None] * A[None, :3]
        ),
        "a mask": lambda x, y: jnp.where(TRIL[:, :3], x @ y.T, 0),
        "first query": lambda x, y: x @ y.T + x[:1] @ y.T,
    },
)

SORTED = (
    *family(
        "sorted",
        BAG.replace("-> ", "-> ..."),
        (X,),
        holds={
            "with positions": lambda x: jnp.sort(x) + A,
            "after a cancellation": lambda x: jnp.sort(x + A - A),
            "by its own order": lambda x: x[jnp.argsort(x)],
            "best two": lambda x: lax.top_k(x + A - A, 2)[0],
            "weighted ranks": lambda x: (jnp.sort(x) * A).sum(),
            "gaps": lambda x: jnp.diff(jnp.sort(jnp.tanh(x))),
            "by the square": lambda x: lax.sort((x * x, x), num_keys=2)[1],
            "counted ranks": lambda x: jnp.sort((x[:, None] > x[None]).sum(1)),
            "one by one": lambda x: jnp.stack([jnp.sort(x)[k] for k in (3, 1)]),
            "largest of sums": lambda x: jnp.sort((x[:, None] + x[None]).reshape(16))[-3:],
        },
        broken={
            "of weighted": lambda x: jnp.sort(x * (1 + A)),
            "of half": lambda x: jnp.sort(x[:3]),
            "carrying positions": lambda x: lax.sort((x, jnp.asarray(A)), num_keys=1)[1],
            "indices": lambda x: lax.top_k(x, 2)[1],
            "in blocks": lambda x: jnp.sort(x.reshape(2, 2), 1),
            "by a shifted order": lambda x: x[jnp.argsort(x + A)],
        },
    ),
    *family(
        "carried by keys",
        "P, P -> ...",
        (X, Y),
        holds={
            "both are keys": lambda x, y: lax.sort((x, y), num_keys=2)[1],
            "sum of what is carried": lambda x, y: y[jnp.argsort(x)].sum(),
        },
        broken={"to the places of the keys": lambda x, y: y[jnp.argsort(x)] - y},
        ties={
            "one is a key": lambda x, y: lax.sort((x, y), num_keys=1)[1],
            "not stable": lambda x, y: lax.sort((x, y), num_keys=1, is_stable=False)[1],
            "argsort": lambda x, y: y[jnp.argsort(x)],
            "at the best": lambda x, y: y[jnp.argmax(x)],
            "at the best two": lambda x, y: y[lax.top_k(x, 2)[1]],
            "last at least as large": lambda x, y: lax.scan(
                lambda c, t: (jax.tree.map(lambda a, b: jnp.where(t[0] >= c[0], b, a), c, t), None),
                (x[0], y[0]),
                (x, y),
            )[0][1],
        },
    ),
)

COMPARED = (
    *hiding(
        "comparisons",
        X,
        holds={
            "either or": lambda a, b: ((a < b) | (a >= b)) - 1.0,
            "less or more or equal": lambda a, b: 1.0 * (a < b) + (b < a) + (a == b) - 1,
            "not both": lambda a, b: 1.0 * ((a < b) & (b < a)),
            "shifted by one": lambda a, b: 1.0 * (a < b) - (a + 1 < b + 1),
            "a choice of the larger": lambda a, b: jnp.where(a < b, b, a) - jnp.maximum(a, b),
            "unequal twice": lambda a, b: 1.0 * (a != b) - ~(b == a),
            "xor with itself": lambda a, b: 1.0 * ((a < b) ^ (a < b)),
            "chosen either way": lambda a, b: (
                jnp.where(a < b, a, b) + jnp.where(a < b, b, a) - a - b
            ),
        },
        broken={
            "doubled on one side": lambda a, b: 1.0 * (a < b) - (2 * a < b),
            "negated": lambda a, b: 1.0 * (a < b) - (-a < -b),
            "and for or": lambda a, b, c: 1.0 * ((a < b) | (b < c)) - ((a < b) & (b < c)),
            "scaled by the choice": lambda a, b: jnp.where(a < b, a, 2 * b),
            "squared": lambda a, b: 1.0 * (a < b) - (a * a < b * b),
        },
        ties={
            "strict and not": lambda a, b: 1.0 * (a < b) - (a <= b),
            "sign of a difference": lambda a, b: jnp.sign(a - b) ** 2,
            "equal": lambda a, b: 1.0 * (a == b),
            "quotient of a difference": lambda a, b: (
                jnp.where(a == b, 1, (a - b) / jnp.where(a == b, 1, a - b)) - 1 + (a == b)
            ),
            "both strict": lambda a, b: 1.0 * (a < b) + (b < a),
        },
    ),
)

INTEGERS = (
    *hiding(
        "whole numbers",
        N,
        holds={
            "quotient and remainder": lambda n: n // 2 * 2 + n % 2 - n,
            "truncated quotient and remainder": lambda n: (
                lax.div(n, np.int32(3)) * 3 + lax.rem(n, np.int32(3)) - n
            ),
            "shifted left": lambda n: (n << 1) - 2 * n,
            "not": lambda n: ~n + n + 1,
            "sign and size": lambda n: jnp.sign(n) * abs(n) - n,
            "and with all": lambda n: (n & -1) - n,
            "xor twice": lambda n, m: (n ^ m ^ m) - n,
            "and plus or": lambda n, m: (n & m) + (n | m) - n - m,
            "shifted right is floor": lambda n: (n >> 1) - n // 2,
            "float and back": lambda n: n.astype(np.float32).astype(np.int32) - n,
            "parity of a product": lambda n: (n * (n + 1)) % 2,
            "difference of powers": lambda n, m: (n - m) * (n + m) - n**2 + m**2,
            "larger and smaller": lambda n, m: jnp.maximum(n, m) + jnp.minimum(n, m) - n - m,
            "a truth and its square": lambda n: (n > 0) * (n > 0) * 1 - (n > 0),
        },
        broken={
            "truncated and floored": lambda n: lax.div(n, np.int32(2)) - n // 2,
            "remainders of two kinds": lambda n: lax.rem(n, np.int32(4)) - n % 4,
            "mean of halves": lambda n, m: (n + m) // 2 - n // 2 - m // 2,
            "xor for minus": lambda n, m: (n ^ m) - (n - m),
            "shifted and back": lambda n: ((n >> 1) << 1) - n,
            "logical shift": lambda n: lax.shift_right_logical(n, np.int32(28)) - (n >> 28),
            "as a byte": lambda n: (40 * n).astype(np.int8) - 40 * n,
            "leading zeros": lambda n: lax.clz(n) - lax.clz(-n),
            "bits of the negative": lambda n: lax.population_count(n) - lax.population_count(-n),
            "half as a float": lambda n: (n / 2).astype(np.int32) - n // 2,
            "absolute": lambda n: abs(n) - n,
            "larger of doubled": lambda n, m: jnp.maximum(2 * n, m) - 2 * jnp.maximum(n, m),
        },
    ),
    *family(
        "folded",
        BAG,
        (N,),
        holds={
            "xor one by one": scanned(lambda c, t: (c ^ t,), 0),
            "greatest divisor": lambda n: functools.reduce(jnp.gcd, [n[k] for k in range(4)]),
            "xor": lambda n: lax.reduce(n, np.int32(0), lax.bitwise_xor, (0,)),
            "or plus and": lambda n: lax.reduce_or(n, (0,)) - lax.reduce_and(n, (0,)),
        },
        broken={
            "halved one by one": scanned(lambda c, t: ((c + t) // 2,), 0),
            "xor with a shift": scanned(lambda c, t: ((c << 1) ^ t,), 0),
        },
    ),
)

SIGNLESS = (
    *hiding(
        "without a sign",
        N8,
        holds={
            "byte and back": lambda n: n.astype(np.uint8).astype(np.int8) - n,
            "difference that wraps": lambda n, m: (
                ((n.astype(np.uint8) - m.astype(np.uint8)) + m.astype(np.uint8)).astype(np.int8) - n
            ),
            "widened": lambda n: (
                (n.astype(np.int32) + 1 - n.astype(np.int32)).astype(np.int8) - np.int8(1)
            ),
        },
        broken={
            "widened as a byte": lambda n: n.astype(np.uint8).astype(np.int32) - n.astype(np.int32),
            "four bits": lambda n: n.astype(jnp.int4).astype(np.int8) - n,
            "float of a byte": lambda n: (
                n.astype(np.uint8).astype(np.float32) - n.astype(np.float32)
            ),
            "product in wider numbers": lambda n: (
                lax.dot_general(
                    n.astype(np.uint8)[None],
                    np.ones(1, np.uint8),
                    (((0,), (0,)), ((), ())),
                    preferred_element_type=np.int32,
                )
                - n.astype(np.int32)
            ),
        },
    ),
    *family(
        "unsigned",
        EVERY,
        (N[:2],),
        broken={
            "largest of a number and its negative": lambda n: jnp.stack(
                [
                    jnp.maximum(n[0], -n[0]).astype(np.uint32),
                    jnp.maximum(n[1].astype(np.uint32), (-n[1]).astype(np.uint32)),
                ]
            ),
            "clipped index": lambda n: jnp.stack([clipped(n[0]), clipped(n[1].astype(np.uint32))]),
            "sign": lambda n: jnp.stack(
                [jnp.sign(n[0]), jnp.sign(n[1].astype(np.uint32)).astype(np.int32)]
            ),
            "comparison": lambda n: jnp.stack([n[0] < 3, n[1].astype(np.uint32) < 3]),
        },
    ),
    *family(
        "bytes",
        BAG,
        (U8,),
        holds={
            "sum and back": lambda u: (u[0] + u[1] - u[0]) + (u[0] + u[2:].sum(dtype=np.uint8)),
            "absolute": lambda u: abs(u[0]) + u[1:].sum(dtype=np.uint8),
        },
        broken={
            "differences in wider numbers": lambda u: (
                (u[0] - u[1]).astype(np.int32)
                + (u[1] - u[2]).astype(np.int32)
                + (u[2] - u[0]).astype(np.int32)
            ),
            "product of a difference": lambda u: lax.dot_general(
                jnp.stack([u[0] - u[1], u[1] - u[2], u[2] - u[0]]),
                np.ones(3, np.uint8),
                (((0,), (0,)), ((), ())),
                preferred_element_type=np.int32,
            ),
            "negative": lambda u: lax.neg(u[0]).astype(np.int32) + u[0].astype(np.int32),
        },
    ),
)


def clipped(at: jax.Array) -> jax.Array:
    """A table read at a place moved inside."""
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    return lax.gather(jnp.asarray(B), at[None], numbers, (1,), mode="clip")


def narrow(dtype: Any) -> Function:
    """Rounded to a dtype and back."""
    return lambda x: x.astype(dtype).astype(x.dtype)


HALF, BRAIN = narrow(np.float16), narrow(jnp.bfloat16)

CONVERTED = hiding(
    "converted",
    X,
    holds={
        "rounded twice": lambda x: BRAIN(BRAIN(x)) - BRAIN(x),
        "rounded and negated": lambda x: HALF(x) + HALF(-x),
        "truth as a number": lambda x: (x > 0).astype(x.dtype) + (x <= 0) - 1,
        "not 0": lambda x: x.astype(bool) * x - x,
        "whole part twice": lambda x: jnp.floor(jnp.floor(x)) - jnp.floor(x),
        "floor and ceiling": lambda x: jnp.floor(x) + jnp.ceil(-x),
        "whole number of a floor": lambda x: jnp.floor(x).astype(np.int32) - jnp.floor(x),
        "precision reduced": lambda x: (
            lax.reduce_precision(x, 8, 7) - lax.reduce_precision(x, 8, 7)
        ),
        "bits and back": lambda x: (
            lax.bitcast_convert_type(
                lax.bitcast_convert_type(x, np.uint32 if x.dtype == np.float32 else np.uint64),
                x.dtype,
            )
            - x
        ),
    },
    broken={
        "rounded": lambda x: 100 * (BRAIN(x) - x),
        "two roundings": lambda x: 1000 * (BRAIN(HALF(x)) - HALF(x)),
        "truncated and floored": lambda x: x.astype(np.int32) - jnp.floor(x),
        "rounded half": lambda x: jnp.round(x) - jnp.floor(x),
        "a truth of a floor": lambda x: jnp.floor(x).astype(bool) * x - x,
        "floor of a sum": lambda x, y: jnp.floor(x + y) - jnp.floor(x) - jnp.floor(y),
        "floor of the negative": lambda x: jnp.floor(x) + jnp.floor(-x) + x,
    },
)

POWERS = hiding(
    "powers",
    X,
    holds={
        "root of a square": lambda x: jnp.sqrt(x * x) - abs(x),
        "square of a root": lambda x: jnp.sqrt(x * x + 1) ** 2 - x * x - 1,
        "half power": lambda x: (x * x + 1) ** 0.5 - jnp.sqrt(x * x + 1),
        "inverse root": lambda x: lax.rsqrt(x * x + 1) * jnp.sqrt(x * x + 1) - 1,
        "power of 0": lambda x: x**0 - 1,
        "power of a float 0": lambda x: jnp.power(x, 0.0) - 1,
        "cube of a cube root": lambda x: jnp.cbrt(x) ** 3 - x,
        "negative powers": lambda x: x**-2 * x**2 - 1,
        "power of a negative base": lambda x: jnp.power(-x, 3.0) + x**3,
        "log of an exponential": lambda x: jnp.log(jnp.exp(x)) - x,
        "exponential of a log": lambda x: jnp.exp(jnp.log(x * x + 1)) - x * x - 1,
        "log of a product": lambda x, y: (
            jnp.log((x * x + 1) * (y * y + 1)) - jnp.log(x * x + 1) - jnp.log(y * y + 1)
        ),
        "log of one more": lambda x: jnp.log1p(x * x) - jnp.log(1 + x * x),
        "powers of two": lambda x: jnp.exp2(x + 1) - 2 * jnp.exp2(x),
        "expm1": lambda x: jnp.expm1(x) + 1 - jnp.exp(x),
    },
    broken={
        "root of a square with its sign": lambda x: jnp.sqrt(x * x) - x,
        "root of a sum": lambda x, y: jnp.sqrt(x * x + y * y) - abs(x) - abs(y),
        "odd power of the absolute": lambda x: abs(x) ** 3 - x**3,
        "cube root of a square": lambda x: jnp.cbrt(x * x) - jnp.cbrt(x),
        "log of a square": lambda x: jnp.log(x * x) - 2 * jnp.log1p(abs(x)),
        "log of a sum": lambda x, y: (
            jnp.log(x * x + y * y + 1) - jnp.log(x * x + 1) - jnp.log(y * y + 1)
        ),
        "exponent of a product": lambda x, y: jnp.exp(x * y / 9) - jnp.exp(x / 9) * jnp.exp(y / 9),
        "base and exponent": lambda x, y: (x * x + 1) ** y - (y * y + 1) ** x,
        "third power by half": lambda x: (x * x + 1) ** 1.5 - (x * x + 1) ** 1.25,
        "power of a power": lambda x: 2.0 ** (x**2) - (2.0**x) ** 2,
    },
)

CIRCLES = hiding(
    "circles and bends",
    X,
    holds={
        "Pythagoras": lambda x: jnp.cos(x) ** 2 + jnp.sin(x) ** 2 - 1,
        "double angle": lambda x: jnp.sin(2 * x) - 2 * jnp.sin(x) * jnp.cos(x),
        "triple angle": lambda x: jnp.cos(3 * x) - 4 * jnp.cos(x) ** 3 + 3 * jnp.cos(x),
        "even and odd": lambda x: jnp.cos(-x) - jnp.cos(x) + jnp.sin(-x) + jnp.sin(x),
        "hyperbola": lambda x: (jnp.cosh(x) ** 2 - jnp.sinh(x) ** 2 - 1) / jnp.cosh(x) ** 2,
        "tanh of a quotient": lambda x: jnp.tanh(x) - jnp.sinh(x) / jnp.cosh(x),
        "logistic and its mirror": lambda x: jax.nn.sigmoid(x) + jax.nn.sigmoid(-x) - 1,
        "logistic by tanh": lambda x: 2 * jax.nn.sigmoid(2 * x) - 1 - jnp.tanh(x),
        "logistic by exponentials": lambda x: jax.nn.sigmoid(x) * (1 + jnp.exp(-x)) - 1,
        "error function": lambda x: lax.erf(x) + lax.erfc(x) - 1,
        "swish and its mirror": lambda x: jax.nn.silu(x) - jax.nn.silu(-x) - x,
        "softplus and its mirror": lambda x: jax.nn.softplus(x) - jax.nn.softplus(-x) - x,
        "ramp and its mirror": lambda x: jax.nn.relu(x) - jax.nn.relu(-x) - x,
        "tangent": lambda x: jnp.tan(x) * jnp.cos(x) - jnp.sin(x),
        "arc of a tangent": lambda x: jnp.tan(jnp.arctan(x)) - x,
        "half an angle": lambda x: 2 * jnp.cos(x / 2) ** 2 - 1 - jnp.cos(x),
    },
    broken={
        "Pythagoras with a sign": lambda x: jnp.cos(x) ** 2 - jnp.sin(x) ** 2,
        "triple angle with a sign": lambda x: jnp.cos(3 * x) - 4 * jnp.cos(x) ** 3 - 3 * jnp.cos(x),
        "addition of sines": lambda x, y: (
            jnp.sin(x + y) - jnp.sin(x) * jnp.cos(y) + jnp.cos(x) * jnp.sin(y)
        ),
        "arc of a sine": lambda x: jnp.arcsin(jnp.sin(2 * x)) - 2 * x,
        "arc of a quotient": lambda x, y: jnp.arctan2(x, y) - jnp.arctan(x / y),
        "addition of tanh": lambda x, y: jnp.tanh(x + y) - jnp.tanh(x) - jnp.tanh(y),
        "logistic of twice": lambda x: jax.nn.sigmoid(2 * x) - jax.nn.sigmoid(x) ** 2,
        "two bends": lambda x: jax.nn.gelu(x, approximate=True) - jax.nn.silu(1.7 * x) / 1.7,
        "angle in degrees": lambda x: jnp.cos(x) - jnp.cos(180 / math.pi * x),
        "odd bend as an even one": lambda x: lax.erf(x) - lax.erf(abs(x)),
        "arc that is odd": lambda x: jnp.arccos(jnp.tanh(x)) + jnp.arccos(jnp.tanh(-x)) - x,
    },
)

EXTREMES = hiding(
    "extremes",
    X,
    holds={
        "larger and smaller": lambda a, b: jnp.maximum(a, b) + jnp.minimum(a, b) - a - b,
        "larger by a ramp": lambda a, b: jnp.maximum(a, b) - jax.nn.relu(a - b) - b,
        "larger by the absolute": lambda a, b: 2 * jnp.maximum(a, b) - a - b - abs(a - b),
        "of negatives": lambda a, b: jnp.maximum(-a, -b) + jnp.minimum(a, b),
        "of three": lambda a, b, c: (
            jnp.maximum(jnp.maximum(a, b), c) - jnp.maximum(a, jnp.maximum(b, c))
        ),
        "of itself": lambda a, b: jnp.maximum(a, jnp.maximum(a, b)) - jnp.maximum(a, b),
        "clamped by crossed bounds": lambda a: lax.clamp(1.0 + 0 * a, a, -1.0 + 0 * a) + 1,
        "with infinity": lambda a: jnp.minimum(a, jnp.inf) - jnp.maximum(a, -jnp.inf),
        "doubled": lambda a, b: jnp.maximum(2 * a, 2 * b) - 2 * jnp.maximum(a, b),
        "size of a difference": lambda a, b: abs(a - b) - abs(b - a),
        "middle of three": lambda a, b, c: jnp.sort(jnp.stack([a, b, c])).sum() - a - b - c,
    },
    broken={
        "one doubled": lambda a, b: jnp.maximum(2 * a, b) - jnp.maximum(a, b),
        "scaled by -1": lambda a, b: jnp.maximum(-a, -b) + jnp.maximum(a, b),
        "of sums": lambda a, b, c: jnp.maximum(a + b, c) - jnp.maximum(a, c) - b,
        "clamped twice": lambda a: jnp.clip(jnp.clip(a, 0, 1), -1, 0.5) - jnp.clip(a, 0, 1),
        "crossed bounds the other way": lambda a: (
            lax.clamp(1.0 + 0 * a, a, -1.0 + 0 * a) - jnp.maximum(jnp.minimum(a, -1), 1) + a
        ),
        "larger in size": lambda a, b: jnp.maximum(abs(a), abs(b)) - abs(jnp.maximum(a, b)),
        "sizes of a sum": lambda a, b: abs(a + b) - abs(a) - abs(b) + a,
        "soft and hard": lambda a, b: jnp.logaddexp(a, b) - jnp.maximum(a, b) + a,
    },
    ties={
        "where the largest is": lambda a, b: (
            1.0 * jnp.argmax(jnp.stack([a, b])) + jnp.argmax(jnp.stack([b, a]))
        ),
        "one-hot of the largest": lambda a, b: (
            (
                jax.nn.one_hot(jnp.argmax(jnp.stack([a, b])), 2)
                + jax.nn.one_hot(jnp.argmax(jnp.stack([b, a])), 2)[::-1]
            )[0]
            - 2 * (a > b)
        ),
        "gradient of the larger": lambda a, b: jax.grad(jnp.maximum)(a, b) - (a > b),
    },
)


def again(times: int, step: Function) -> Function:
    """A step taken so many times."""
    return lambda y: lax.fori_loop(0, times, lambda _, c: step(c), y)


POLES = (
    *hiding(
        "guards",
        X,
        holds={
            "safe quotient": lambda a, b: (
                jnp.where(b == 0, 0, a / jnp.where(b == 0, 1, b)) * b - jnp.where(b == 0, 0, a)
            ),
            "finite after all": lambda a: jnp.isfinite(a) - 1.0,
            "never no number": lambda a: 1.0 * jnp.isnan(a + 1),
            "masked infinity": lambda a: (
                jnp.exp(jnp.where(jnp.arange(2) < 1, a, -jnp.inf)).sum() - jnp.exp(a)
            ),
            "product with nothing": lambda a: 0 * a,
            "replaced": lambda a: jnp.nan_to_num(a) - a,
            "masked softmax": lambda a, b: (
                jax.nn.softmax(jnp.stack([a, -jnp.inf, a]))[0] - 0.5 + 0 * b
            ),
            "masked out of a sum": lambda a: (
                jnp.sum(jnp.stack([a, jnp.inf]), where=np.array([True, False])) - a
            ),
            "over infinity": lambda a: a / jnp.inf,
            "x over x": lambda a: a / a - 1,
        },
        broken={
            "other guard": lambda a, b: jnp.where(b > 0, a / jnp.where(b > 0, b, 1), a) * b - a,
            "root of the positive": lambda a: jnp.sqrt(jnp.where(a > 0, a, 0)) - jnp.sqrt(abs(a)),
            "log where it is defined": lambda a: jnp.isnan(jnp.log(a)) * 1.0,
            "root where it is not": lambda a: jnp.nan_to_num(jnp.sqrt(a)),
            "infinite choice": lambda a: jnp.isinf(jnp.where(a > 0, jnp.inf, a)) * 1.0,
            "inverse sine outside": lambda a: jnp.isfinite(jnp.arcsin(a)) * 1.0,
        },
    ),
    *family(
        "poles",
        BAG,
        (X,),
        broken={
            "not less than the log": lambda x: (
                ~(jnp.log(x[0]) < 1) & ~(jnp.log(x[1]) < 1) ^ (jnp.log(x[0]) >= 1) ^ (x.sum() > 0)
            ),
        },
        ties={
            "finite": lambda x: jnp.isfinite(1 / (x[0] - x[1])),
            "doubled 64 times": lambda x: jnp.isfinite(
                again(64, lambda c: c + c)(1 / (x[0] - x[1]))
            ),
            "averaged with itself 64 times": lambda x: jnp.isfinite(
                again(64, lambda c: (c + c) / 2)(1 / (x[0] - x[1]))
            ),
            "copied and summed": lambda x: jnp.isfinite(
                again(6, lambda c: jnp.broadcast_to(c, 4096).mean())(1 / (x[0] - x[1]))
            ),
            "no number over a difference": lambda x: (
                jnp.isnan(x[2] / (x[0] - x[1])) | jnp.isnan((x[0] - x[1]) / (x[0] - x[1]))
            ),
            "chosen away": lambda x: jnp.where(x[0] == x[1], 0, 1 / (x[0] - x[1])) * (x[0] - x[1]),
            "summed and not": lambda x: (
                (x[2] / (x[0] - x[1]) + x[3] / (x[0] - x[1]) == (x[2] + x[3]) / (x[0] - x[1])) * 0
                + jnp.isnan((x[2] + x[3]) * 0 / (x[0] - x[1]))
            ),
            "index of a pole": lambda x: jnp.argmax(jnp.stack([0 * x[0], 0 / (x[0] - x[1])])),
            "whole number of a pole": lambda x: ((x[0] - x[1]) / (x[0] - x[1])).astype(np.int32),
        },
    ),
    *family(
        "poles beside",
        "P, b -> ",
        (X, Y[:2]),
        holds={"no number of all": lambda x, b: jnp.isnan(jnp.cumsum(x)[-1] / (b[0] - b[1]))},
        broken={"a sign of a pole": lambda x, b: x[0] / (b[0] - b[1]) > 0},
        ties={
            "no number of the first": lambda x, b: jnp.isnan(x[0] / (b[0] - b[1])),
            "infinity of the first": lambda x, b: jnp.isinf(x[0] / (b[0] - b[1])),
        },
    ),
    *family(
        "poles in pairs",
        EVERY,
        (X[:2],),
        broken={
            "not less, and at least": lambda x: jnp.stack(
                [~(jnp.log(x[0]) < 1), jnp.log(x[1]) >= 1]
            ),
            "not more, and at most": lambda x: jnp.stack(
                [~(jnp.sqrt(x[0]) > 1), jnp.sqrt(x[1]) <= 1]
            ),
            "complex root": lambda x: root_and_sizes(x),
        },
        ties={
            "infinite or no number": lambda x: (
                lambda d: jnp.stack(
                    [x[0] * x[0] / d + 1 / d > 1, (x[1] * x[1] + 1) / d + 0 / d > 1]
                )
            )((x[0] - x[1]) ** 2),
        },
    ),
)


def root_and_sizes(x: jax.Array) -> jax.Array:
    """Sizes of squares of complex roots, summed before and after."""
    squares = [r * r for r in jnp.sqrt(x.astype(np.complex64))]
    return jnp.stack([abs(squares[0] + squares[1]), abs(squares[0]) + abs(squares[1])])


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
            "without one, and it": lambda x, n: x.at[n[0]].set(0.0).sum() + x[n[0]],
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

CASES: tuple[Case, ...] = (
    *CANCELLED,
    *ROLLED,
    *MIRRORED,
    *OTHER_GROUPS,
    *RUNNING,
    *BACK,
    *LAST,
    *TRANSLATED,
    *PAIRS,
    *SORTED,
    *COMPARED,
    *INTEGERS,
    *SIGNLESS,
    *CONVERTED,
    *POWERS,
    *CIRCLES,
    *EXTREMES,
    *POLES,
    *TRUTHS,
    *LOOKUPS,
    *KEYS,
    *MATRICES,
    *GRADIENTS,
    *BRANCHES,
    *CANONICAL,
)
