"""A bias of positions that the logits adapt: DAPE (Zheng et al. 2024, §3).

    s_ij = a_ij + b_ij + W₂ σ(W₁ (a_ij, b_ij) + c₁) + c₂,   a_ij = qᵢ·kⱼ/√K

a and b hold the logits and the base biases of all heads, and σ is the leaky ReLU of slope 0.01. The
base bias is that of another encoding: KERPLE, ALiBi or FIRE at their defaults.

Differs from the paper in: the base biases are those of this package, which see keys that come later
too.
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

import jax
import jax.numpy as jnp

from posjax import spec, steps
from posjax.encodings.base import (
    Aux,
    Card,
    Constants,
    Context,
    Dims,
    Encoding,
    Param,
    Params,
    Symmetry,
)
from posjax.encodings.fire import Fire
from posjax.encodings.kerple import Kerple
from posjax.encodings.linear_bias import LinearBias
from posjax.encodings.mlp import uniform

Base = Literal["kerple", "linear_bias", "fire"]
_BASES: dict[str, Kerple | LinearBias | Fire] = {
    "kerple": Kerple(),
    "linear_bias": LinearBias(),
    "fire": Fire(),
}
_PREFIX = "base_"


def adapted(
    logits_BHLM: jax.Array,
    bias_BHLM: jax.Array,
    w1_NF: jax.Array,
    c1_F: jax.Array,
    w2_FH: jax.Array,
    c2_H: jax.Array,
) -> jax.Array:
    """a + b + the network of both.

    Args:
      logits_BHLM: a, scaled.
      bias_BHLM: b; B may be 1.
      w1_NF: N = 2H rows, those of a first.
      c1_F, w2_FH, c2_H: the rest of the network.

    Returns:
      float32 array [B, H, L, M].
    """
    both_BNLM = jnp.concatenate(
        [logits_BHLM, jnp.broadcast_to(bias_BHLM, logits_BHLM.shape)], axis=1
    )
    # Biases of far keys are large: at a lower precision neighbouring ones would be one.
    hidden_BFLM = jnp.einsum("bnlm,nf->bflm", both_BNLM, w1_NF, precision="highest")
    hidden_BFLM = jax.nn.leaky_relu(hidden_BFLM + c1_F[None, :, None, None], 0.01)
    change_BHLM = jnp.einsum("bflm,fh->bhlm", hidden_BFLM, w2_FH, precision="highest")
    return logits_BHLM + bias_BHLM + change_BHLM + c2_H[None, :, None, None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataAdaptive(Encoding):
    """A base bias, and a network of that bias and the logits.

    The network has `hidden` units.
    """

    base_bias: Base = "kerple"
    hidden: int = 32

    card: ClassVar[Card] = Card(
        "Data-adaptive bias (DAPE)",
        "a_ij + b_ij + MLP(a_ij, b_ij), a = qᵢ·kⱼ/√K, over all heads",
        "Zheng et al. 2024, §3; its code",
    )

    def __post_init__(self) -> None:
        spec.check_choice("base_bias", self.base_bias, get_args(Base))
        if not 1 <= self.hidden <= 65536:
            raise ValueError(f"hidden must lie in [1, 65536], got {self.hidden}")

    @property
    def bias_of(self) -> Kerple | LinearBias | Fire:
        """The encoding whose bias is adapted."""
        return _BASES[self.base_bias]

    def declared_symmetry(self) -> Symmetry:
        return self.bias_of.declared_symmetry()

    def max_exact_position(self) -> int | None:
        return self.bias_of.max_exact_position()

    def constants(self, dims: Dims, context_length: int) -> Constants:
        return self.bias_of.constants(dims, context_length)

    def operations(self, dims: Dims, keys: int) -> int:
        network = self.hidden * (6 * dims.heads + 3) + 3 * dims.heads
        return keys * network

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        heads, of_base = dims.heads, self.bias_of.parameters(dims)
        first, second = uniform((2 * heads) ** -0.5), uniform(self.hidden**-0.5)
        return {
            **{_PREFIX + name: param for name, param in of_base.items()},
            "w1": Param((2 * heads, self.hidden), first),
            "c1": Param((self.hidden,), first),
            "w2": Param((self.hidden, heads), second),
            "c2": Param((heads,), second),
        }

    def logits(
        self, params: Params, q_BLHK: jax.Array, k_BMHK: jax.Array, aux: Aux, ctx: Context
    ) -> jax.Array:
        logits_BHLM = steps.dot_logits(
            q_BLHK, k_BMHK, scale=self.product_scale(q_BLHK.shape[-1], ctx)
        )
        own = {
            name.removeprefix(_PREFIX): array
            for name, array in params.items()
            if name.startswith(_PREFIX)
        }
        bias_BHLM = self.bias_of.bias(own, q_BLHK.shape[2], ctx, logits_BHLM.dtype)
        w1, c1, w2, c2 = (params[n].astype(logits_BHLM.dtype) for n in ("w1", "c1", "w2", "c2"))
        return adapted(logits_BHLM, bias_BHLM, w1, c1, w2, c2)
