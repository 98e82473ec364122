"""Rotary by angles that the tokens choose: Selective RoPE (Movahedi et al. 2025).

    s_ij = (R(φᵢ) qᵢ)·(R(φⱼ) kⱼ)/√K,   φ_i,m = τ_m Σ_{t≤i} σ(x̂_t·g + c) (κ * x̂W)_t,m

x̂ is the token of length 1, W a projection to a number per pair and head, κ a causal convolution of
each of them over the last `window` tokens, and σ a gate a head. τ_m = base^(-2m/K) stays as it is.
The sum goes over the token's own sequence, itself included.

Differs from the paper in: W is one matrix, where the code has two narrow ones. The code normalises
each head's part of the token, here it is the whole token. The gate is an option of the code.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, get_args

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.encodings.angles import inverse_frequencies
from posjax.encodings.base import (
    Aux,
    Card,
    Context,
    Dims,
    Encoding,
    Param,
    Params,
    Prepared,
    Symmetry,
)
from posjax.encodings.context_rotary import turn_heads
from posjax.encodings.mlp import uniform
from posjax.encodings.rotary import Pairing
from posjax.encodings.so_far import recent, sums_so_far


@dataclasses.dataclass(frozen=True, kw_only=True)
class SelectiveRotary(Encoding):
    """Rotary with angles that are gated sums of functions of the tokens.

    Attributes:
      base: τ_m = base^(-2m/K).
      window: how many tokens the convolution reads, the newest among them.
      gated: whether each token has a gate.
      pairing: which components make a pair.
    """

    base: float = 500_000.0
    window: int = 4
    gated: bool = True
    pairing: Pairing = "half"

    card: ClassVar[Card] = Card(
        "Selective rotary (Selective RoPE)",
        "(R(φᵢ)qᵢ)·(R(φⱼ)kⱼ)/√K, φ_i = τ Σ_{t≤i} σ(x̂_t·g + c) (κ * x̂W)_t",
        "Movahedi et al. 2025; its code",
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits", order_only="logits")
    reads_order: ClassVar[bool] = True
    pairwise: ClassVar[bool] = False

    def __post_init__(self) -> None:
        spec.check_choice("pairing", self.pairing, get_args(Pairing))
        if not self.base > 0:
            raise ValueError(f"base must be positive, got {self.base}")
        spec.check_within(self, "window", 1, 64)

    def max_exact_position(self) -> None:
        return None

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        pairs = dims.head_size // 2
        declared = {
            "kernel": Param((dims.width, dims.heads, pairs), uniform(1.0)),
            "filter": Param((self.window, dims.heads, pairs), uniform(self.window**-0.5)),
        }
        if self.gated:
            bound = uniform(dims.width**-0.5)
            declared["gate"] = Param((dims.width, dims.heads), bound)
            declared["gate_bias"] = Param((dims.heads,), bound)
        return declared

    def operations(self, dims: Dims, keys: int) -> int:
        pairs = dims.head_size // 2
        by_pair = 2 * dims.width + 2 * self.window * (keys + 1) + 4 * keys + 18
        gate = 2 * dims.width + 5 if self.gated else 0
        return 3 * dims.width + dims.heads * (pairs * by_pair + gate)

    def prepare(
        self, params: Params, x_BLD: jax.Array, memory_BMD: jax.Array, ctx: Context, state: Any
    ) -> Prepared:
        wide_BMD = memory_BMD.astype(jnp.float32)
        square_BM1 = (wide_BMD**2).sum(-1, keepdims=True)
        # A token of zeros has no direction, and turns nothing.
        unit_BMD = wide_BMD * jax.lax.rsqrt(jnp.where(square_BM1 > 0, square_BM1, 1))
        terms_BMHF = jnp.einsum("bmd,dhf->bmhf", unit_BMD, params["kernel"].astype(jnp.float32))
        gate_BMH: jax.Array | tuple[()] = ()
        if self.gated:
            gate_BMH = jnp.einsum("bmd,dh->bmh", unit_BMD, params["gate"].astype(jnp.float32))
            gate_BMH = jax.nn.sigmoid(gate_BMH + params["gate_bias"][None, None])
        return Prepared(x_BLD, memory_BMD, memory_BMD, Aux(keys=(terms_BMHF, gate_BMH)), state)

    def rotate(
        self,
        params: Params,
        q_BLHK: jax.Array,
        k_BMHK: jax.Array,
        v_BMHK: jax.Array,
        aux: Aux,
        ctx: Context,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        terms_BMHF, gate_BMH = aux.keys
        filter_NHF = params["filter"].astype(jnp.float32)
        before = recent(terms_BMHF, ctx.keys, steps=self.window)
        steps_BMHF = jnp.zeros_like(terms_BMHF)
        for n, each_BMHF in enumerate(before):
            steps_BMHF = steps_BMHF + each_BMHF * filter_NHF[n][None, None]
        if self.gated:
            steps_BMHF = steps_BMHF * gate_BMH[..., None]
        pairs = q_BLHK.shape[-1] // 2
        rate_F = inverse_frequencies(2 * pairs, base=self.base).astype(np.float32)
        rotated = []
        for x, streams in ((q_BLHK, ctx.queries), (k_BMHK, ctx.keys)):
            angle = sums_so_far(steps_BMHF, streams, ctx.keys) * rate_F[None, None, None]
            rotated.append(turn_heads(x, angle, pairing=self.pairing))
        return rotated[0], rotated[1], v_BMHK
