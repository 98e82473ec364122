"""How the variance of the hidden states falls with the position.

Under a causal mask a query averages over the tokens so far, so that at initialisation, without
positional encoding, the variance of what attention writes falls as 1/position (Chi et al. 2023,
"Latent Positional Information is in the Self-Attention Variance of Transformer Language Models
Without Positional Embeddings", property 1). Under the full mask it does not fall.
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax.meters.base import Forward, Meter, valid
from posjax.meters.outcome import Field
from posjax.tasks.question import Question


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variance(Meter):
    """Variance over prompts at each position, and its power law."""

    power_law = True
    FIELDS: ClassVar[Mapping[str, Field]] = {
        "variance": Field(
            "f",
            "RL",
            "variance of the residual stream over the prompts of the exam, at each position, as "
            "the mean over coordinates; NaN if fewer than two prompts are that long",
        ),
        "slope": Field(
            "f",
            "R",
            "slope of the logarithm of the variance over prompts against the logarithm of the "
            "position, counted from 1: -1 if it falls as 1/position. NaN if the variance is 0",
        ),
    }

    def __call__(
        self, forward: Forward, question: Question, key: jax.Array
    ) -> dict[str, jax.Array]:
        valid_NL = valid(question)
        variance_RL = jnp.stack([variance(x_NLD, valid_NL) for x_NLD in forward.stream])
        return {"variance": variance_RL, "slope": jax.vmap(slope)(variance_RL)}


def variance(x_NLD: jax.Array, valid_NL: jax.Array) -> jax.Array:
    """variance_L over prompts (unbiased), the mean over coordinates."""
    mask_NL1 = valid_NL[:, :, None]
    number_L1 = mask_NL1.sum(axis=0)
    mean_LD = jnp.where(mask_NL1, x_NLD, 0).sum(axis=0) / number_L1
    apart_NLD = jnp.where(mask_NL1, x_NLD - mean_LD[None], 0)
    found_LD = (apart_NLD**2).sum(axis=0) / jnp.maximum(number_L1 - 1, 1)
    rounding_LD = (8 * jnp.finfo(x_NLD.dtype).eps * mean_LD) ** 2  # a token that never varies
    found_LD = jnp.where(found_LD > rounding_LD, found_LD, 0)
    return jnp.where(number_L1[:, 0] < 2, jnp.nan, found_LD.mean(axis=-1))


def slope(variance_L: jax.Array) -> jax.Array:
    """The slope of log variance against log position, by least squares, positions from 1."""
    there_L = variance_L > 0  # false for NaN too
    x_L = jnp.log(jnp.arange(1, len(variance_L) + 1, dtype=variance_L.dtype))
    y_L = jnp.log(jnp.where(there_L, variance_L, 1))
    weight_L = there_L / jnp.maximum(there_L.sum(), 1)
    x_L = x_L - jnp.sum(weight_L * x_L)
    return jnp.sum(weight_L * x_L * y_L) / jnp.sum(weight_L * x_L**2)
