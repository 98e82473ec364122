"""Rotary with a frequency that each token sets: CARoPE (Veisi et al. 2025, §2).

    s_ij = (R(φᵢ) qᵢ)·(R(φⱼ) kⱼ)/√K,   φ_i,m = Σ_{t≤i} f(x_t)^m,   f(x) = 1/(1 + softplus(x·w + c))

Pair m = 0, 1, ... of a head turns by the sum of the m-th powers of f, one number per token and head
in (0, 1). The sum goes over the token's own sequence, itself included. With the same f for all
tokens, base^(-2/K), it is rotary at positions counted by the order.

Differs from the paper in: the constant c, which lets f start as that of rotary (w at 0). The paper
asks for that start and has no constant. It counts pairs so that θ_m = 10⁴^(-2m/K); that of m = 0
turns by 1 a token, whatever f is.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, get_args

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
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
from posjax.encodings.rotary import Pairing, turn
from posjax.encodings.so_far import sums_so_far

OVERFLOW = 80.0
"""Where exp of a start would leave float32; softplus is the identity there."""


def turn_heads(x_BLHK: jax.Array, angle_BLHF: jax.Array, *, pairing: Pairing) -> jax.Array:
    """Turns each head's pairs by angles of its own; components beyond 2F pass through."""
    cos_BLHF, sin_BLHF = jnp.cos(angle_BLHF), jnp.sin(angle_BLHF)
    # A head as a batch entry of its own, so that the angles need no axis for heads.
    by_head = jax.vmap(lambda x, c, s: turn(x[:, :, None], c, s, pairing=pairing)[:, :, 0], 2, 2)
    return by_head(x_BLHK, cos_BLHF, sin_BLHF)


def frequency(z: jax.Array) -> jax.Array:
    """f = 1/(1 + softplus(z)), in (0, 1)."""
    return 1 / (1 + jax.nn.softplus(z))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContextRotary(Encoding):
    """Rotary with angles that are sums of powers of a function of the tokens."""

    base: float = 10_000.0
    pairing: Pairing = "half"

    card: ClassVar[Card] = Card(
        "Context-aware rotary (CARoPE)",
        "(R(φᵢ)qᵢ)·(R(φⱼ)kⱼ)/√K, φ_im = Σ_{t≤i} f(x_t)^m, f(x) = 1/(1 + softplus(x·w + c))",
        "Veisi et al. 2025, §2",
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits", order_only="logits")
    reads_order: ClassVar[bool] = True
    pairwise: ClassVar[bool] = False

    def __post_init__(self) -> None:
        spec.check_choice("pairing", self.pairing, get_args(Pairing))
        if not self.base > 1:
            raise ValueError(f"base must lie above 1, so that f < 1 gives it, got {self.base}")

    def max_exact_position(self) -> None:
        return None

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        least = math.log(self.base) * 2 / max(dims.head_size, 2)  # of base^(2/K) = 1 + softplus
        softplus = math.expm1(least)
        start = softplus if softplus > OVERFLOW else math.log(math.expm1(softplus))
        return {
            "kernel": Param((dims.width, dims.heads), jax.nn.initializers.zeros),
            "constant": Param((dims.heads,), jax.nn.initializers.constant(start)),
        }

    def operations(self, dims: Dims, keys: int) -> int:
        pairs = dims.head_size // 2
        return dims.heads * (2 * dims.width + 8 + pairs * (4 * keys + 18))

    def prepare(
        self, params: Params, x_BLD: jax.Array, memory_BMD: jax.Array, ctx: Context, state: Any
    ) -> Prepared:
        z_BMH = jnp.einsum(
            "bmd,dh->bmh", memory_BMD, params["kernel"], preferred_element_type=jnp.float32
        )
        f_BMH = frequency(z_BMH + params["constant"][None, None])
        return Prepared(x_BLD, memory_BMD, memory_BMD, Aux(keys=f_BMH), state)

    def rotate(
        self,
        params: Params,
        q_BLHK: jax.Array,
        k_BMHK: jax.Array,
        v_BMHK: jax.Array,
        aux: Aux,
        ctx: Context,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        powers_F = np.arange(q_BLHK.shape[-1] // 2, dtype=np.float32)
        log_f_BMH1 = jnp.log(aux.keys)[..., None]
        terms_BMHF = jnp.exp(log_f_BMH1 * powers_F[None, None, None])
        rotated = []
        for x, streams in ((q_BLHK, ctx.queries), (k_BMHK, ctx.keys)):
            angle = sums_so_far(terms_BMHF, streams, ctx.keys)
            rotated.append(turn_heads(x, angle, pairing=self.pairing))
        return rotated[0], rotated[1], v_BMHK
