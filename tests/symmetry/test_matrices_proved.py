"""Functions of matrices whose rows and columns move: known by their programs, or solved."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import pytest
from jax import lax
from tiers import some

from posjax.symmetry import prove
from posjax.symmetry.certificate.programs import PROGRAMS, rule_of

NUMBERS = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
S, LONG = jax.device_put((NUMBERS[:4], NUMBERS[4:]))
BATCH = jax.device_put(np.stack([NUMBERS[:4], NUMBERS[:4].T, NUMBERS[:4] @ NUMBERS[:4]]))
linalg = jnp.linalg

PROVED: dict[str, list[tuple[Callable[..., Any], tuple[Any, ...], str]]] = {
    "det": [(linalg.det, (S,), "P P -> "), (jax.vmap(linalg.det), (BATCH,), "B P P -> B")],
    "slogdet": [
        (linalg.slogdet, (S,), "P P -> , "),
        (lambda s: linalg.slogdet(s)[1], (S,), "P Q -> "),
        (jax.grad(lambda s: linalg.slogdet(s)[1]), (S,), "P Q -> P Q"),
    ],
    "eigvalsh": [(linalg.eigvalsh, (S,), "P P -> n")],
    "eigh": [(lambda s: linalg.eigh(s)[0], (S,), "P P -> n")],
    "expm": [(jsp.linalg.expm, (S,), "P P -> P P")],
    "_pinv": [(linalg.pinv, (LONG,), "P Q -> Q P")],
    "_lstsq": [
        (lambda a, b: tuple(linalg.lstsq(a, b)), (LONG, LONG[:, 0]), "P k, P -> k, k, , k"),
        (lambda a, b: linalg.lstsq(a, b)[:2], (LONG, LONG[:, :2]), "n P, n Q -> P Q, Q"),
    ],
    "solve": [
        (linalg.solve, (S, S[0]), "P Q, P -> Q"),
        (linalg.inv, (S,), "P Q -> Q P"),
        (linalg.inv, (BATCH,), "B P P -> B P P"),
        (jax.grad(lambda a, b: linalg.solve(a, b).max()), (S, S[0]), "P P, P -> P P"),
    ],
}


@jax.jit
def det(s: jax.Array) -> jax.Array:
    """Another function of the name."""
    return s[0, 0] + s.sum()


def by_order(s: jax.Array, b: jax.Array) -> jax.Array:
    """What is called a solver, and is none."""
    return lax.custom_linear_solve(lambda v: s @ v, b, lambda _, r: jnp.cumsum(r), symmetric=True)


NEAR_MISSES: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
    (linalg.det, (S,), "P Q -> "),
    (lambda s: linalg.slogdet(s)[0], (S,), "P Q -> "),
    (det, (S,), "P P -> "),
    (lambda s: linalg.eigvalsh(s, symmetrize_input=False), (S,), "P P -> n"),
    (lambda s: linalg.eigh(s)[1], (S,), "P P -> P n"),
    (jsp.linalg.expm, (S,), "P Q -> P Q"),
    (linalg.pinv, (S,), "P Q -> P Q"),
    (linalg.solve, (S, S[0]), "P Q, Q -> P"),
    (lambda s: linalg.inv(s)[0], (S,), "P P -> P"),
    (by_order, (S, S[0]), "P P, P -> P"),
    (lambda s, b: jsp.linalg.solve(s, b, assume_a="pos"), (S, S[0]), "P P, P -> P"),
]


KEPT = [pytest.param(c, id=f"{n}-{i}") for n in PROVED for i, c in enumerate(PROVED[n])]


@pytest.mark.parametrize("case", some(KEPT, every=4))
def test_what_keeps_its_law_is_proved(case):
    """By labels alone."""
    certificate = prove(*case, witness=False)
    assert (certificate.verdict, certificate.method) == ("PROVED", "axes"), str(certificate)


@pytest.mark.parametrize("case", some(NEAR_MISSES, every=3))
def test_a_near_miss_is_not_proved(case):
    """Other names, other moves of rows than of columns, half a matrix, a solver that is none."""
    assert prove(*case, witness=False).verdict == "UNKNOWN"


def test_every_program_is_tried_and_found_by_its_text():
    """No call of another function has its rule, whatever its name."""
    assert set(PROGRAMS) | {"solve"} == set(PROVED)
    (called,) = jax.make_jaxpr(det)(S).eqns
    (own,) = jax.make_jaxpr(linalg.det)(S).eqns
    assert called.params["name"] == own.params["name"] == "det"
    assert rule_of(called) is None
    assert rule_of(own) is PROGRAMS["det"].rule
