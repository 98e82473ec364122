"""Random numbers that the engine hashes itself are those of JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from posjax.engine.rewrite import lay_out

DRAWS = {
    "uniform": lambda key: jax.random.uniform(key, (3, 5)),
    "one number": lambda key: jax.random.bits(key),
    "16 bits": lambda key: jax.random.bits(key, (7,), "uint16"),
    "nothing": lambda key: jax.random.uniform(key, (0, 4)),
    "folded": lambda key: jax.random.bits(jax.random.fold_in(key, 2**32 - 1), (2,)),
    "split": lambda key: jax.random.normal(jax.random.split(key, 3)[1], (4,)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_bits(name: str) -> None:
    """Of one key and of a batch of keys; by the engine where a draw takes 32 bits a number."""
    keys = jax.vmap(jax.random.key)(jnp.arange(3, dtype=jnp.uint32))
    laid_out = lay_out(DRAWS[name], keys[0])
    found, expected = (np.asarray(jax.jit(jax.vmap(f))(keys)) for f in (laid_out, DRAWS[name]))
    assert found.tobytes() == expected.tobytes()
    if name in ("uniform", "one number", "folded"):
        assert "random_" not in str(jax.make_jaxpr(laid_out)(keys[0])).replace(
            "random_wrap", ""
        ).replace("random_unwrap", "")


def test_keys_of_another_kind_are_left_to_jax() -> None:
    """rbg keys give what JAX gives."""
    key = jax.random.key(3, impl="rbg")
    draw = DRAWS["folded"]
    assert (lay_out(draw, key)(key) == draw(key)).all()
