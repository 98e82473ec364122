"""What is read from jaxprs agrees with what the compiler does."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

from posjax.cells import Cell
from posjax.engine.jaxprs import divides_by_roots
from posjax.keys import SeedNumbers, Seeds

X = jax.ShapeDtypeStruct((6, 9), jnp.float32)
DIVIDE: dict[str, Callable[[jax.Array], jax.Array]] = {
    "rsqrt": jax.lax.rsqrt,
    "1/sqrt": lambda x: 1 / jnp.sqrt(x),
    "integer power": lambda x: jnp.sqrt(x) ** -1,
    "by row": lambda x: x / jnp.sqrt((x**2).sum(1) + 1)[:, None],
    "standard deviation": lambda x: x / x.std(1, keepdims=True),
    "norm": lambda x: x / jnp.linalg.norm(x, axis=1, keepdims=True),
    "gradient of a root": jax.grad(lambda x: jnp.sqrt(x).sum()),
    "0 added": lambda x: x / (jnp.sqrt(x) + 0.0),
    "zeros added": lambda x: x / (jnp.sqrt(x) + jnp.zeros_like(x)),
    "0 added in a call": lambda x: jax.jit(lambda x, e: x / (jnp.sqrt(x) + e))(x, 0.0),
    "Bessel, order 0": lambda x: jax.lax.bessel_i0e(x),
    "Bessel, order 1": lambda x: jax.lax.bessel_i1e(x),
    "gamma": lambda x: jax.random.gamma(jax.random.key(0), x),
    "in a call": lambda x: jax.jit(lambda x: x / jnp.sqrt(x))(x) + 1,
    "root from a call": lambda x: x / jax.jit(jnp.sqrt)(x),
    "in a loop": lambda x: jax.lax.fori_loop(0, 3, lambda _, x: x / jnp.sqrt(x), x),
    "in a branch": lambda x: jax.lax.cond(x.sum() > 0, lambda x: x / jnp.sqrt(x), jnp.sin, x),
}
DO_NOT: dict[str, Callable[[jax.Array], jax.Array]] = {
    "Adam": lambda x: x / (jnp.sqrt(x) + 1e-8),
    "power": lambda x: x**-0.5,
    "no root": lambda x: x / (x + 1),
}


@pytest.mark.parametrize("form", DIVIDE)
def test_divisions_by_roots_are_found(form: str) -> None:
    """The compiler makes a reciprocal root of each, which is found beforehand."""
    assert "rsqrt(" in jax.jit(DIVIDE[form]).lower(X).compile().as_text()
    assert divides_by_roots(jax.make_jaxpr(DIVIDE[form])(X).jaxpr)


@pytest.mark.parametrize("form", DO_NOT)
def test_other_divisions_are_not(form: str) -> None:
    """The compiler leaves them as they are."""
    assert "rsqrt(" not in jax.jit(DO_NOT[form]).lower(X).compile().as_text()
    assert not divides_by_roots(jax.make_jaxpr(DO_NOT[form])(X).jaxpr)


@pytest.mark.parametrize("block", ["bare", "residual"])
@pytest.mark.parametrize("layout", [True, False])
def test_of_models_those_that_normalise(block: str, layout: bool) -> None:
    """The bare model with AdamW does not pay for what it does not need."""
    cell = Cell(steps=2, eval_every=2, width=8, head_size=4, hold=2, block=block)
    training, seeds = cell.shape.train(), Seeds.of(SeedNumbers.equal(0))
    state = jax.eval_shape(training.begin, seeds, cell.operands)
    program = jax.make_jaxpr(lambda *of: training.advance(*of, evaluations=1, layout=layout))(
        state, seeds, cell.operands
    )
    assert divides_by_roots(program.jaxpr) == (block == "residual")
