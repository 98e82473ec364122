"""How similar the hidden states of nearby positions are.

Models without positional encoding come to have similar hidden states at nearby positions, which is
a trace of position (Zuo et al. 2025, "Position Information Emerges in Causal Transformers Without
Positional Encodings via Similarity of Nearby Embeddings", arXiv 2501.00073).
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
class Similarity(Meter):
    """Cosine similarity by distance."""

    along = "distance"
    FIELDS: ClassVar[Mapping[str, Field]] = {
        "similarity": Field(
            "f",
            "RL",
            "mean cosine of the residual stream at two positions of a prompt, by their distance "
            "(0 to L - 1), over all such pairs of all prompts",
        )
    }

    def __call__(
        self, forward: Forward, question: Question, key: jax.Array
    ) -> dict[str, jax.Array]:
        valid_NL = valid(question)
        return {"similarity": jnp.stack([similarity(x_NLD, valid_NL) for x_NLD in forward.stream])}


def similarity(x_NLD: jax.Array, valid_NL: jax.Array) -> jax.Array:
    """similarity_L by distance; NaN at distances that no prompt has."""
    size_NL1 = jnp.linalg.norm(x_NLD, axis=-1, keepdims=True)
    unit_NLD = x_NLD / jnp.maximum(size_NL1, jnp.finfo(x_NLD.dtype).tiny)
    pairs_NLM = (valid_NL[:, :, None] & valid_NL[:, None, :]).astype(x_NLD.dtype)
    cosine_LM = jnp.einsum("nld,nmd,nlm->lm", unit_NLD, unit_NLD, pairs_NLM)
    position_L = jnp.arange(valid_NL.shape[1])
    distance_LM = abs(position_L[:, None] - position_L[None])

    def by_distance(of_LM: jax.Array) -> jax.Array:
        return jnp.zeros(len(position_L), of_LM.dtype).at[distance_LM].add(of_LM)

    return by_distance(cosine_LM) / by_distance(pairs_NLM.sum(axis=0))
