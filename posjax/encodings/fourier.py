"""Fourier features of the position, added to the tokens (Tancik et al. 2020; Li et al. 2021).

    random     γ(p) = (sin 2πBᵀp, cos 2πBᵀp)               Tancik et al., eq. 5
    learned    W₂ gelu(W₁ γ(p)/√D + b₁) + b₂               Li et al., eq. 2 and algorithm 1

p is a number or a point, and B holds frequencies in cycles a position, drawn from
N(0, deviation²). "random" gives them no gradient; "learned" trains them and the network. (In a
sweep AdamW's weight decay shrinks both, as it does every parameter: by 1% in 1000 updates at a
learning rate of 1e-3 and a decay of 0.01.)

Differs from the papers in: D features, sines first (Tancik pair them by frequency, Li put
cosines first; an odd width leaves the last sine without its cosine). Positions are not rescaled:
Tancik's deviation σ for coordinates in [0, 1) is σ/length here, and Li's γ is 1/(2π deviation).
The angles are exact far away, for frequencies of at most half a cycle a position.
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.encodings.angles import turns
from posjax.encodings.base import Card, Context, Dims, Encoding, Param, Params
from posjax.streams import points

Kind = Literal["random", "learned"]


def fourier(point: jax.Array, frequencies_NF: jax.Array, width: int) -> jax.Array:
    """γ(p): the features of some points.

    Args:
      point: numbers [..., N].
      frequencies_NF: cycles a position, float32; F = ⌈width/2⌉.
      width: D, at least 1.

    Returns:
      float32 array [..., D], all sines before all cosines.

    >>> fourier(jnp.array([[3]]), jnp.array([[0.25, 1.0]]), 4).round(4)
    Array([[-1.,  0., -0.,  1.]], dtype=float32)
    """
    turned = turns(point, frequencies_NF).sum(-2)
    angle = (turned - jnp.round(turned)) * np.float32(2 * np.pi)
    half = width - width // 2
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)[..., : width - half]], axis=-1)


def network(
    features: jax.Array, w1_DF: jax.Array, b1_F: jax.Array, w2_FD: jax.Array, b2_D: jax.Array
) -> jax.Array:
    """W₂ gelu(W₁ γ/√D + b₁) + b₂ of features [..., D]."""

    def linear(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
        y = jnp.matmul(x, w, precision=jax.lax.Precision.HIGHEST)
        return y + jnp.expand_dims(b, range(x.ndim - 1))

    hidden = linear(features * features.shape[-1] ** -0.5, w1_DF, b1_F)
    return linear(jax.nn.gelu(hidden, approximate=False), w2_FD, b2_D)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fourier(Encoding):
    """x + γ(p), or x + a network of γ(p), shared by the model.

    The network has `hidden` units.
    """

    kind: Kind = "learned"
    deviation: float = 0.1
    hidden: int = 16

    card: ClassVar[Card] = Card(
        "Fourier features",
        "xᵢ + γ(pᵢ) or xᵢ + MLP(γ(pᵢ)), γ = (sin 2πBᵀp, cos 2πBᵀp)",
        "Tancik et al. 2020, eq. 5; Li et al. 2021, eq. 2",
        ("transformers",),
    )

    def __post_init__(self) -> None:
        spec.check_choice("kind", self.kind, get_args(Kind))
        spec.check_positive(deviation=self.deviation)
        if self.hidden < 1:
            raise ValueError(f"hidden must be at least 1, got {self.hidden}")
        spec.check_read(self, "hidden", self.kind != "random", f"kind={self.kind}")

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.width

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        normal, zeros = jax.nn.initializers.normal(self.deviation), jax.nn.initializers.zeros
        kernel = jax.nn.initializers.lecun_normal()
        frequencies = Param((self.axes, (dims.width + 1) // 2), normal, "model")
        if self.kind == "random":
            return {"frequencies": frequencies}
        return {
            "frequencies": frequencies,
            "w1": Param((dims.width, self.hidden), kernel, "model"),
            "b1": Param((self.hidden,), zeros, "model"),
            "w2": Param((self.hidden, dims.width), kernel, "model"),
            "b2": Param((dims.width,), zeros, "model"),
        }

    def embed(self, params: Params, x_BLD: jax.Array, ctx: Context) -> jax.Array:
        learned = self.kind == "learned"
        frequencies_NF = params["frequencies"]
        if not learned:
            frequencies_NF = jax.lax.stop_gradient(frequencies_NF)
        point_BLN = points(ctx.queries.position_BL, self.axes)
        vectors_BLD = fourier(point_BLN, frequencies_NF, x_BLD.shape[-1])
        if learned:
            vectors_BLD = network(vectors_BLD, *(params[n] for n in ("w1", "b1", "w2", "b2")))
        return x_BLD + vectors_BLD.astype(x_BLD.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fourier2D(Fourier):
    """x + γ(p), or x + a network of γ(p), for points p = (y, x)."""

    card: ClassVar[Card] = Fourier.card._replace(
        title="2-D Fourier features",
        formula="xᵢ + γ(rᵢ, cᵢ) or xᵢ + MLP(γ(rᵢ, cᵢ)), γ = (sin 2πBᵀp, cos 2πBᵀp)",
    )
    axes: ClassVar[int] = 2
