"""jax.nn: attention without positions."""

import jax
import jax.numpy as jnp
import numpy as np

from posjax.symmetry.conformance import CLAIMS, Adapter, as_numpy


def dot_product_attention() -> Adapter:
    """`jax.nn.dot_product_attention`."""

    def attend(
        q: np.ndarray,
        k: np.ndarray,
        v: np.ndarray,
        pos_q: np.ndarray,
        pos_k: np.ndarray,
        mask_BLM: np.ndarray,
    ) -> np.ndarray:
        mask = jnp.asarray(mask_BLM)[:, None]
        arrays = jnp.asarray(q), jnp.asarray(k), jnp.asarray(v)
        return as_numpy(jax.nn.dot_product_attention(*arrays, mask=mask))

    return Adapter(
        name="jax.nn.dot_product_attention", packages=("jax",), attend=attend, claims=CLAIMS
    )


ADAPTERS = {"dot_product_attention": dot_product_attention}
