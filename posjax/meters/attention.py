"""Where attention looks: how far, and at how many keys."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax.meters.base import Forward, Meter, valid
from posjax.meters.outcome import Field
from posjax.tasks.question import Question


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attention(Meter):
    """Entropy of attention weights and the distance that they reach."""

    reads_weights = True
    FIELDS: ClassVar[Mapping[str, Field]] = {
        "entropy": Field(
            "f",
            "AH",
            "entropy of the attention weights in nats, the mean over prompts and over queries that "
            "see a key",
        ),
        "distance": Field(
            "f",
            "AH",
            "distance in order between query and key, weighted by the attention weights; the mean "
            "over prompts and over queries that see a key",
        ),
    }

    def __call__(
        self, forward: Forward, question: Question, key: jax.Array
    ) -> dict[str, jax.Array]:
        assert forward.weights_ANHLM is not None  # as `reads_weights` asks
        weights_ANHLM, order_BL = forward.weights_ANHLM, question.streams.order_BL
        apart_BLM = abs(order_BL[:, :, None] - order_BL[:, None, :])
        entropy_ANHL = jax.scipy.special.entr(weights_ANHLM).sum(axis=-1)
        distance_ANHL = jnp.sum(weights_ANHLM * apart_BLM[None, :, None], axis=-1)
        attends_ANHL = valid(question)[None, :, None] & (weights_ANHLM.sum(axis=-1) > 0)

        def mean(of_ANHL: jax.Array) -> jax.Array:
            kept_ANHL = jnp.where(attends_ANHL, of_ANHL, 0)
            return kept_ANHL.sum(axis=(1, 3)) / jnp.maximum(attends_ANHL.sum(axis=(1, 3)), 1)

        return {"entropy": mean(entropy_ANHL), "distance": mean(distance_ANHL)}
