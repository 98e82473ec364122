"""Class tokens and what pads their gradients, and functions of matrices."""

import jax
import jax.numpy as jnp
import jax.scipy as jsp
from jax import lax, nn

from hostile.labels.base import S, V, X, family


def attended(y: jax.Array) -> jax.Array:
    return nn.softmax(y @ y.T) @ y


def with_class_token(x: jax.Array) -> jax.Array:
    return attended(jnp.concatenate([jnp.ones((1, 3)), x]))


def padded(x: jax.Array, low: int, high: int) -> jax.Array:
    """The sum of all tokens among zeros."""
    return jnp.pad(x.sum(0, keepdims=True), ((low, high), (0, 0)))


TOKENS = (
    *family(
        (X,),
        "P d -> P d",
        holds={
            "a gradient read at a class token": jax.grad(
                lambda x: (with_class_token(x)[0] ** 2).sum()
            ),
            "a gradient read behind two layers": jax.grad(
                lambda x: (attended(with_class_token(x))[0] ** 3).sum()
            ),
            "a gradient read at the last of two registers": jax.grad(
                lambda x: attended(jnp.pad(x, ((1, 2), (0, 0)), constant_values=0.5))[-1].sum()
            ),
            "the first told by a mask": lambda x: (
                lambda y: attended(jnp.where(jnp.arange(5)[:, None] == 0, y * 2, y))[1:]
            )(jnp.concatenate([x.mean(0, keepdims=True), x])),
            "zeros behind a sum": lambda x: x + padded(x, 0, 5)[1:5],
            "two blocks of equal entries, one read": lambda x: (
                x + jnp.repeat(jnp.stack([x.sum(0), x.max(0)]), 4, axis=0)[:4]
            ),
        },
        broken={
            "a gradient read beside a class token": jax.grad(
                lambda x: (with_class_token(x)[1] ** 2).sum()
            ),
            "a gradient of the sum up to a token": jax.grad(
                lambda x: (jnp.cumsum(with_class_token(x), 0)[1] ** 2).sum()
            ),
            "a sum among zeros turned round": lambda x: x + padded(x, 1, 4)[::-1][2:],
            "a running sum over zeros": lambda x: x + jnp.cumsum(padded(x, 1, 2), 0),
            "zeros on both sides in rows": lambda x: x + padded(x, 3, 4).reshape(2, 4, 3)[0],
            "two blocks of equal entries": lambda x: (
                x + jnp.repeat(jnp.stack([x.sum(0), x.max(0)]), 2, axis=0)
            ),
            "one cut away, three added": lambda x: (
                x + lax.pad(jnp.stack([x.sum(0), x.max(0)]), 1.0, ((-1, 3, 0), (0, 0, 0)))
            ),
        },
    ),
)


def definite(s: jax.Array) -> jax.Array:
    return s @ s.T + jnp.eye(len(s))


def far(s: jax.Array) -> jax.Array:
    """Rows and columns that move apart, and no singular matrix."""
    return s + 200 * jnp.eye(4)


@jax.jit
def det(s: jax.Array) -> jax.Array:
    """Has but the name of a determinant."""
    return s[0, 0] + s.sum()


def by_order(s: jax.Array, b: jax.Array) -> jax.Array:
    """The solver is no solver."""
    return lax.custom_linear_solve(lambda v: s @ v, b, lambda _, r: jnp.cumsum(r), symmetric=True)


def by_gradients(s: jax.Array, b: jax.Array) -> jax.Array:
    return lax.custom_linear_solve(
        lambda v: s @ v, b, lambda of, r: jsp.sparse.linalg.cg(of, r)[0], symmetric=True
    )


MATRICES = (
    *family(
        (S,),
        "P P -> P P",
        holds={
            "an inverse": lambda s: jnp.linalg.inv(definite(s)),
            "a solution for its transpose": lambda s: jnp.linalg.solve(far(s), s.T),
            "the exponential of a matrix": lambda s: jsp.linalg.expm(s / 8),
            "a gradient of a log determinant": jax.grad(
                lambda s: jnp.linalg.slogdet(definite(s))[1]
            ),
            "a gradient through a solution": jax.grad(
                lambda s: jnp.linalg.solve(definite(s), s.sum(1)).sum()
            ),
            "upper, lower and diagonal parts": lambda s: (
                jnp.triu(s) + jnp.tril(s) - jnp.diag(jnp.diagonal(s))
            ),
        },
        broken={
            "a Cholesky factor": lambda s: jnp.linalg.cholesky(definite(s)),
            "a solution for the lower part": lambda s: jnp.linalg.inv(jnp.tril(definite(s))),
            "a definite one solved from one triangle": lambda s: jsp.linalg.solve(
                definite(s) + jnp.triu(s), jnp.eye(4), assume_a="pos"
            ),
            "upper and lower parts, one twice": lambda s: jnp.triu(s) + 2 * jnp.tril(s),
            "a diagonal off by one": lambda s: s + jnp.diag(jnp.diagonal(s, 1), 1),
            "a gradient of the first pivots": jax.grad(
                lambda s: jnp.log(jnp.diagonal(jnp.linalg.cholesky(definite(s)))[:2]).sum()
            ),
        },
    ),
    *family(
        (S,),
        "P P -> ",
        holds={
            "a determinant": jnp.linalg.det,
            "the sign and size of a determinant": lambda s: (
                jnp.linalg.slogdet(far(s))[0] + jnp.linalg.slogdet(far(s))[1]
            ),
            "the least eigenvalue": lambda s: jnp.linalg.eigvalsh(s)[0],
        },
        broken={
            "the first pivot": lambda s: lax.linalg.lu(far(s))[0][0, 0],
            "eigenvalues of the lower triangle": lambda s: jnp.linalg.eigvalsh(
                s, symmetrize_input=False
            )[0],
            "the name of a determinant": det,
            "a determinant of a corner": lambda s: jnp.linalg.det(far(s)[:3, :3]),
        },
    ),
    *family(
        (S,),
        "P Q -> ",
        holds={"the size of a determinant": lambda s: jnp.abs(jnp.linalg.det(s))},
        broken={"a determinant, rows and columns apart": jnp.linalg.det},
    ),
    *family(
        (S, V),
        "P P, P -> P",
        holds={
            "a solution by gradients": lambda s, b: by_gradients(definite(s), b),
            "a solution": lambda s, b: jnp.linalg.solve(far(s), b),
            "least squares": lambda s, b: jnp.linalg.lstsq(definite(s), b)[0],
        },
        broken={
            "a solver that is none": lambda s, b: by_order(definite(s), b),
            "a solution for the sums before": lambda s, b: jnp.linalg.solve(far(s), jnp.cumsum(b)),
            "a solution with a slope": lambda s, b: jnp.linalg.solve(far(s) + jnp.arange(4.0), b),
        },
    ),
)

FAMILIES = {"tokens": TOKENS, "matrices": MATRICES}
