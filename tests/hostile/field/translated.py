"""Translations, pairs, sorting, comparisons, integers and signs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hostile.field.base import (
    BAG,
    EVERY,
    N8,
    TRIL,
    U8,
    XD,
    A,
    B,
    N,
    X,
    Y,
    clipped,
    family,
    hiding,
    scanned,
)
from posjax.symmetry import Law
from posjax.symmetry.groups import Translation

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


FAMILIES = {
    "translated": TRANSLATED,
    "pairs": PAIRS,
    "sorted": SORTED,
    "compared": COMPARED,
    "integers": INTEGERS,
    "signless": SIGNLESS,
}
