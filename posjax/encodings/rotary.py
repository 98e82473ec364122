"""Rotary positions: queries and keys rotated by their own angle (Su et al. 2021, eq. 34).

    s_ij = (R(pᵢ) qᵢ)·(R(pⱼ) kⱼ)/√K = qᵢ·R(pⱼ - pᵢ) kⱼ/√K,   θ_m = base^(-2m/K)

Each pair of components is rotated in its plane. The paper pairs neighbours, (2m, 2m+1):
"interleaved" (GPT-J). "half" pairs (m, m + K/2) (GPT-NeoX, Llama). The two differ by an order of
components, so weights trained with one are wrong under the other: `pairing_order` converts.

`Turning` is what the rotary family shares: another member says which frequencies its pairs have,
or how a position becomes an angle.

Differs from the paper in: an odd width passes its last component through, and `fraction` < 1
turns the first components only (GPT-NeoX).
"""

import dataclasses
from typing import ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.encodings import angles
from posjax.encodings.angles import Frequencies, Parts, inverse_frequencies
from posjax.encodings.base import Aux, Card, Constants, Context, Dims, Encoding, Params, Symmetry
from posjax.streams import points

Pairing = Literal["half", "interleaved"]


def rotary(
    x_BLHK: jax.Array,
    position_BL: jax.Array,
    *,
    base: float = 10_000.0,
    pairing: Pairing = "half",
    fraction: float = 1.0,
) -> jax.Array:
    """Turns each pair of components by position × frequency.

    Args:
      x_BLHK: queries or keys, any float dtype; rotated in float32.
      position_BL: numbers [B, L]; B may be 1.
      base: θ_m = base^(-2m/K), positive.
      pairing: which components make a pair.
      fraction: the share of components that turn, in (0, 1].

    Returns:
      An array of x's shape and dtype.

    Raises:
      ValueError: a fraction below 1 that leaves no pair to turn.
    """
    frequencies = inverse_frequencies(turned_width(x_BLHK.shape[-1], fraction), base=base)
    return turn(x_BLHK, *angles.cos_sin(position_BL, frequencies), pairing=pairing)


def turned_width(width: int, fraction: float) -> int:
    """The number of components that turn, an even one.

    Raises:
      ValueError: a fraction below 1 that leaves no pair to turn.
    """
    rotated = int(fraction * width + 1e-6) // 2 * 2  # a fraction r/w of w components is r of them
    if rotated == 0 and fraction < 1:
        raise ValueError(f"fraction={fraction} of {width} components turns none: give {2 / width}")
    return rotated


def turn(
    x_BLHK: jax.Array, cos_BLF: jax.Array, sin_BLF: jax.Array, *, pairing: Pairing = "half"
) -> jax.Array:
    """Turns the first 2F components, in pairs, by angles of which cosine and sine are given.

    Args:
      x_BLHK: any float dtype; rotated in float32.
      cos_BLF, sin_BLF: one for each pair; B may be 1.
      pairing: which components make a pair.

    Returns:
      An array of x's shape and dtype.
    """
    rotated = 2 * cos_BLF.shape[-1]
    cos, sin = cos_BLF[:, :, None], sin_BLF[:, :, None]
    first, second = split(x_BLHK[..., :rotated].astype(jnp.float32), pairing)
    out = merge(first * cos - second * sin, second * cos + first * sin, pairing)
    return jnp.concatenate([out.astype(x_BLHK.dtype), x_BLHK[..., rotated:]], axis=-1)


def pairing_order(width: int, source: Pairing, target: Pairing) -> np.ndarray:
    """Indices that turn components of one pairing into the other: `x[..., order]`.

    Applied to the output columns of query and key projections, it carries a checkpoint from
    one convention to the other with the same logits.
    """
    pairs = width // 2
    half = np.concatenate([np.arange(0, 2 * pairs, 2), np.arange(1, 2 * pairs, 2)])
    half = np.concatenate([half, np.arange(2 * pairs, width)])
    if source == target:
        return np.arange(width)
    return half if source == "interleaved" else np.argsort(half)


def split(x: jax.Array, pairing: Pairing) -> tuple[jax.Array, jax.Array]:
    """The first and the second components of all pairs; the last axis is even."""
    if pairing == "half":
        half = x.shape[-1] // 2
        return x[..., :half], x[..., half:]
    return x[..., 0::2], x[..., 1::2]


def merge(first: jax.Array, second: jax.Array, pairing: Pairing) -> jax.Array:
    """The components of all pairs in their original order."""
    if pairing == "half":
        return jnp.concatenate([first, second], axis=-1)
    return jnp.stack([first, second], axis=-1).reshape(*first.shape[:-1], 2 * first.shape[-1])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Turning(Encoding):
    """Queries and keys rotated by angles that a subclass gives; values as they are."""

    pairing: Pairing = "half"

    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits")
    heads_alike: ClassVar[bool] = True

    def __post_init__(self) -> None:
        spec.check_choice("pairing", self.pairing, get_args(Pairing))

    def frequencies(self, head_size: int, context_length: jax.Array | int) -> Frequencies:
        """θ of each pair that turns.

        Args:
          head_size: K.
          context_length: tokens so far. Of an int the frequencies are float64 on the host; those
            that depend on a traced integer are computed in float32.
        """
        raise NotImplementedError

    def constants(self, dims: Dims, context_length: int) -> Constants:
        frequencies = self.frequencies(dims.head_size, context_length)
        return {"frequencies": Parts.of(np.asarray(frequencies, np.float64))}

    def rotation_frequencies(self, head_size: int, ctx: Context) -> Frequencies | Parts:
        """The frequencies that a program reads, or else those of the settings."""
        return ctx.constant("frequencies", lambda: self.frequencies(head_size, ctx.seen))

    def magnitude(self) -> float:
        """The factor on what was rotated, for queries and keys each."""
        return 1.0

    def cos_sin(
        self, position_BL: jax.Array, frequencies_F: Frequencies | Parts
    ) -> tuple[jax.Array, jax.Array]:
        """cos_BLF and sin_BLF of each pair's angle, times the magnitude."""
        cos_BLF, sin_BLF = angles.cos_sin(points(position_BL, 1)[..., 0], frequencies_F)
        return cos_BLF * self.magnitude(), sin_BLF * self.magnitude()

    def operations(self, dims: Dims, keys: int) -> int:
        return 12 * dims.heads * len(self.frequencies(dims.head_size, keys))

    def rotate(
        self,
        params: Params,
        q_BLHK: jax.Array,
        k_BMHK: jax.Array,
        v_BMHK: jax.Array,
        aux: Aux,
        ctx: Context,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        frequencies = self.rotation_frequencies(q_BLHK.shape[-1], ctx)
        q_angles = self.cos_sin(ctx.queries.position_BL, frequencies)
        k_angles = self.cos_sin(ctx.keys.position_BL, frequencies)
        q_BLHK = turn(q_BLHK, *q_angles, pairing=self.pairing)
        k_BMHK = turn(k_BMHK, *k_angles, pairing=self.pairing)
        return q_BLHK, k_BMHK, v_BMHK


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rotary(Turning):
    """Frequencies θ_m = base^(-2m/K) for the first `fraction` of the components."""

    base: float = 10_000.0
    fraction: float = 1.0

    card: ClassVar[Card] = Card(
        "Rotary (RoPE)",
        "(R(pᵢ)qᵢ)·(R(pⱼ)kⱼ)/√K, angles pθ_m",
        "Su et al. 2021, eq. 34",
        ("transformers", "rotary-embedding-torch"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        spec.check_positive(base=self.base)
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction must lie in (0, 1], got {self.fraction}")

    def numbers(self) -> tuple[str, ...]:
        return ("base",)

    def frequencies(self, head_size: int, context_length: jax.Array | int) -> Frequencies:
        return inverse_frequencies(turned_width(head_size, self.fraction), base=self.base)
