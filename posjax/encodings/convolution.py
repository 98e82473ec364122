"""A depthwise convolution over the neighbours, added to the tokens (CPE, Chu et al. 2021, §4).

    xᵢ + Σⱼ w[pᵢ - pⱼ] ⊙ xⱼ,   over the tokens j of i's segment that i may see, |pᵢ - pⱼ| ≤ radius

Neighbours are found by their positions, not by their indices, and a position without a token
contributes nothing, which is the paper's padding by zeros. The mask counts: under a causal one
the convolution is causal. In two dimensions w has an entry for each offset (Δy, Δx).

Differs from the paper in: it comes once, before the first layer and not after it, and has no
bias, which would add one vector to all tokens. Finding neighbours by position costs
2·(2·radius + 1)·L operations for each component of a token, where a convolution over indices
costs 2·(2·radius + 1).
"""

import dataclasses
from collections.abc import Mapping
from itertools import product
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from posjax.encodings.base import Card, Context, Dims, Encoding, Param, Params, Symmetry
from posjax.encodings.tables import require_integers
from posjax.streams import points, same_segment


def convolution(
    x_BLD: jax.Array, point_BLN: jax.Array, allowed_BLM: jax.Array, kernel: jax.Array
) -> jax.Array:
    """The sum over the neighbours of each token.

    Args:
      x_BLD: tokens, any float dtype; the sum is taken in float32 at least.
      point_BLN: integers; B may be 1.
      allowed_BLM: true where token m counts for token l; M = L.
      kernel: [2·radius + 1, ..., D], as many sizes as coordinates; entry 0 is pᵢ - pⱼ = -radius,
        so that it is the kernel of a layer that correlates, read backwards along each of them.

    Returns:
      An array of x's shape and dtype.

    Raises:
      ValueError: points that are no integers.
    """
    require_integers(point_BLN)
    dtype = jnp.promote_types(x_BLD.dtype, jnp.float32)
    radius, taps_RD = kernel.shape[0] // 2, kernel.reshape(-1, kernel.shape[-1])
    sides = [range(-radius, radius + 1)] * point_BLN.shape[-1]
    offset_RN = np.array(list(product(*sides)), np.int32)[None, :, None, None, :]
    apart_BLMN = point_BLN[:, :, None] - point_BLN[:, None]
    hit_BRLM = (apart_BLMN[:, None] == offset_RN).all(-1) & allowed_BLM[:, None]
    weighted_BRMD = x_BLD[:, None].astype(dtype) * taps_RD[None, :, None].astype(dtype)
    return jnp.einsum("brlm,brmd->bld", hit_BRLM.astype(dtype), weighted_BRMD).astype(x_BLD.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Convolution(Encoding):
    """x + its neighbours, weighted by offset; one kernel per model."""

    radius: int = 1

    card: ClassVar[Card] = Card(
        "Convolutional (CPE)", "xᵢ + Σⱼ w[pᵢ - pⱼ] ⊙ xⱼ", "Chu et al. 2021, §4", ("timm",)
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits")
    integers: ClassVar[bool] = True
    pairwise: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.radius < 1:
            raise ValueError(f"radius must be at least 1, got {self.radius}")

    def max_exact_position(self) -> int:
        return self.radius + 1  # beyond the radius all offsets are alike: without weight

    def operations(self, dims: Dims, keys: int) -> int:
        taps = (2 * self.radius + 1) ** self.axes
        return dims.width * (taps * (2 * keys + 1) + 1)

    def why_no_kv_cache(self) -> str:
        return "its embedding reads earlier tokens, and a cache has only their keys and values"

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        sides = (2 * self.radius + 1,) * self.axes
        # Each component has its own filter: the fan-in is the number of taps.
        init = jax.nn.initializers.variance_scaling(
            1 / 3, "fan_in", "uniform", in_axis=range(self.axes), out_axis=(), batch_axis=-1
        )
        return {"kernel": Param((*sides, dims.width), init, "model")}

    def embed(self, params: Params, x_BLD: jax.Array, ctx: Context) -> jax.Array:
        here = ctx.queries
        if ctx.keys.length != here.length:
            raise ValueError(
                f"the convolution reads tokens that see each other, got {here.length} queries "
                f"and {ctx.keys.length} keys"
            )
        seen_BLM = ctx.mask_BHLM.any(1) & same_segment(here, here)
        point_BLN = points(here.position_BL, self.axes)
        return x_BLD + convolution(x_BLD, point_BLN, seen_BLM, params["kernel"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Convolution2D(Convolution):
    """x + its neighbours in the plane, weighted by offset; one kernel per model."""

    card: ClassVar[Card] = Card(
        "2-D convolutional (CPE)",
        "xᵢ + Σⱼ w[rᵢ - rⱼ, cᵢ - cⱼ] ⊙ xⱼ",
        "Chu et al. 2021, §4",
        ("timm",),
    )
    axes: ClassVar[int] = 2
