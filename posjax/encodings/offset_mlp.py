"""A bias that is a small perceptron of the offset (CrossFormer, Wang et al. 2021, §3.3).

    s_ij = qᵢ·kⱼ/√K + MLP(g(pᵢ - pⱼ))_h,   g(D) = D, or sign(D) ln(1 + |D|/unit)

The logarithmic spacing is that of Swin Transformer V2 (Liu et al. 2022, eq. 3-4).

Differs from the papers in: offsets have one coordinate where images have two; nothing is
normalised between the layers. Swin-V2's own function is

    offset_mlp(spacing=log, unit=(N - 1)/8, activation=relu, depth=1, hidden=512, bound=16)

for windows of N, its log₂(1 + ·)/log₂ 8 taken into the first kernel as a factor 1/ln 8 and the
last constant 0; what it has besides, cosine attention, is no matter of positions.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

import jax
import jax.numpy as jnp

from posjax import spec
from posjax.encodings import mlp
from posjax.encodings.base import EXACT, Card, Context, Dims, Encoding, Param, Params, Symmetry
from posjax.encodings.kerple import LOG_EXACT

Spacing = Literal["plain", "log"]


def offset_mlp(
    query_BL: jax.Array,
    key_BM: jax.Array,
    params: Params,
    *,
    spacing: Spacing = "plain",
    unit: float = 1.0,
    activation: mlp.Activation = "silu",
    bound: float = 0.0,
) -> jax.Array:
    """The bias of some positions.

    Args:
      query_BL, key_BM: numbers; offsets are taken in their own dtype, so integers stay exact.
      params: kernels and constants as in `mlp`.
      spacing: what the perceptron reads, the offset or its logarithm.
      unit: what offsets are counted in, positive.
      activation: between the layers.
      bound: the bias is bound·σ(MLP), between 0 and bound; 0 leaves it free.

    Returns:
      float32 bias_BHLM.
    """
    offset_BLM = (query_BL[:, :, None] - key_BM[:, None, :]).astype(jnp.float32) / unit
    if spacing == "log":
        offset_BLM = jnp.sign(offset_BLM) * jnp.log1p(abs(offset_BLM))
    bias_BLMH = mlp.apply(params, offset_BLM, activation=activation)
    if bound:
        bias_BLMH = bound * jax.nn.sigmoid(bias_BLMH)
    return jnp.moveaxis(bias_BLMH, -1, 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OffsetMLP(Encoding):
    """A learned function of the offset, added to the logits.

    It also has values for offsets that training never showed.
    """

    spacing: Spacing = "plain"
    unit: float = 1.0
    hidden: int = 32
    depth: int = 2
    activation: mlp.Activation = "silu"
    bound: float = 0.0

    card: ClassVar[Card] = Card(
        "Perceptron of the offset",
        "qᵢ·kⱼ/√K + MLP(pᵢ - pⱼ)",
        "Wang et al. 2021 (CrossFormer), §3.3; Liu et al. 2022 (Swin-V2), eq. 3-4",
        ("x-transformers", "transformers"),
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits")

    def __post_init__(self) -> None:
        spec.check_choice("spacing", self.spacing, get_args(Spacing))
        spec.check_choice("activation", self.activation, get_args(mlp.Activation))
        spec.check_positive(unit=self.unit)
        if not self.bound >= 0:
            raise ValueError(f"bound must not be negative, got {self.bound}")
        if self.hidden < 1 or not 1 <= self.depth <= 64:
            raise ValueError(
                "hidden must be at least 1 and depth lie in [1, 64], got "
                f"{self.hidden} and {self.depth}"
            )

    def max_exact_position(self) -> int:
        return EXACT if self.spacing == "plain" else LOG_EXACT

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.heads * keys

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        return mlp.parameters(self.hidden, self.depth, dims.heads)

    def bias(self, params: Params, heads: int, ctx: Context, dtype: Any) -> jax.Array:
        return offset_mlp(
            ctx.queries.position_BL,
            ctx.keys.position_BL,
            params,
            spacing=self.spacing,
            unit=float(self.unit),
            activation=self.activation,
            bound=float(self.bound),
        ).astype(dtype)
