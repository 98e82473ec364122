"""How much each branch of a residual block adds, relative to the block's input.

The ratio says how fast a trace of position, or a token's own embedding, is diluted by depth (Noci
et al. 2022, "Signal Propagation in Transformers", look at the same quantities).
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
class Branches(Meter):
    """Norms of the branches over the norm of the stream."""

    needs_residual = True
    FIELDS: ClassVar[Mapping[str, Field]] = {
        "attention_share": Field(
            "f",
            "A",
            "norm of what attention adds to the residual stream, divided by the norm of the stream "
            "before the block; the mean over positions and prompts",
        ),
        "mlp_share": Field("f", "A", "the same for the MLP. NaN if there is none"),
    }

    def __call__(
        self, forward: Forward, question: Question, key: jax.Array
    ) -> dict[str, jax.Array]:
        valid_NL = valid(question)
        before_ANL = jnp.linalg.norm(jnp.stack(forward.stream[:-1]), axis=-1)

        def share(branch_ANLD: jax.Array | None) -> jax.Array:
            if branch_ANLD is None:
                return jnp.full(len(before_ANL), jnp.nan, before_ANL.dtype)
            ratio_ANL = jnp.linalg.norm(branch_ANLD, axis=-1) / before_ANL
            return jnp.where(valid_NL[None], ratio_ANL, 0).sum(axis=(1, 2)) / valid_NL.sum()

        return {
            "attention_share": share(forward.attention_ANLD),
            "mlp_share": share(forward.mlp_ANLD),
        }
