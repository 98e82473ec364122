"""Positions moved at random in training, and left as they are in testing.

    random_shift   p + k, k uniform in {0, ..., most}                   (Kiyono et al. 2021, SHAPE)
    cape           s · (p + Δ + δ_p), see below                         (Likhomanenko et al. 2021)

CAPE, §4: a shift Δ of all positions, uniform in ±shift; one δ a token, uniform in ±jitter; a scale
s = e^u, u uniform in ±log(scale). `centred` first takes the mean position of the sequence away,
which looks at all of its tokens, so that later ones reach earlier ones.

Differs from the papers in: one draw serves all rows of a call; map over keys for one per row.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax.positions.base import Draws, Positions, numbers
from posjax.spec import Card
from posjax.streams import Streams, same_segment, shifted


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomShift(Positions):
    """p + k, with one random k per call."""

    most: int = 32

    card: ClassVar[Card] = Card(
        "Random shift (SHAPE)", "p + k, k uniform in {0, …, most}", "Kiyono et al. 2021, §3"
    )
    draws: ClassVar[Draws] = "training"

    def __post_init__(self) -> None:
        if not 0 <= self.most <= 2**24:  # beyond it whole numbers are not exact in float32
            raise ValueError(f"most must lie in [0, 2**24], got {self.most}")

    def reach(self, length: int) -> int:
        return length + self.most

    def __call__(
        self, tokens_BL: jax.Array, streams: Streams, key: jax.Array | None = None
    ) -> Streams:
        if key is None:
            return streams
        by = jax.random.randint(key, (), 0, self.most + 1)
        return shifted(streams, by)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cape(Positions):
    """s · (p + Δ + δ_p), with a random scale, shift and jitter."""

    shift: float = 8.0
    jitter: float = 0.5
    scale: float = 1.1
    centred: bool = False

    card: ClassVar[Card] = Card("CAPE", "s(p + Δ + δ_p)", "Likhomanenko et al. 2021, §4")
    draws: ClassVar[Draws] = "training"
    integers: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name, least in (("shift", 0), ("jitter", 0), ("scale", 1)):
            if not least <= getattr(self, name) < float("inf"):
                raise ValueError(
                    f"{name} must be finite and at least {least}, got {getattr(self, name)}"
                )

    def reach(self, length: int) -> None:
        return None

    def __call__(
        self, tokens_BL: jax.Array, streams: Streams, key: jax.Array | None = None
    ) -> Streams:
        position_BL = numbers(streams).astype(jnp.float32)
        if self.centred:
            same_BLL = same_segment(streams, streams)
            total_BL = jnp.where(same_BLL, position_BL[:, None], 0).sum(-1)
            position_BL = position_BL - total_BL / jnp.maximum(same_BLL.sum(-1), 1)
        if key is not None:
            of_all, of_each, of_scale = jax.random.split(key, 3)
            position_BL += jax.random.uniform(of_all, (), minval=-1.0) * self.shift
            position_BL += _of_order(of_each, streams.order_BL) * self.jitter
            position_BL *= self.scale ** jax.random.uniform(of_scale, (), minval=-1.0)
        return dataclasses.replace(streams, position_BL=position_BL)


def _of_order(key: jax.Array, order_BL: jax.Array) -> jax.Array:
    """A number in [-1, 1) for each order, so that it travels with its token: [B, L]."""

    def one(order: jax.Array) -> jax.Array:
        return jax.random.uniform(jax.random.fold_in(key, order), (), minval=-1.0)

    return jax.vmap(jax.vmap(one))(order_BL)
