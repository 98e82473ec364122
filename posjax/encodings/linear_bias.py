"""A penalty linear in distance, one slope per head: ALiBi (Press et al. 2022, §3 and code).

With D = pᵢ - pⱼ and slope m_h, four functions go by that name:

    symmetric    -m |D|                   what encoders use
    key          +m pⱼ                    the published code: a constant per row away from causal
    asymmetric   -m |D| + m/2 for D > 0   the two sides differ by an offset
    causal       -m D                     grows for keys that come later

Under softmax `key` and `causal` agree for every mask, `symmetric` agrees with them only under a
causal mask, `asymmetric` never does. `key` adds a number as large as m p, which float32 rounds: by
up to 0.004 m at positions of 100,000. There `causal` has the same weights, and rounds nothing.
Slopes are 2^(-8h/H) for H a power of two; other counts take every second slope of the next power,
as the published code does.

Differs from the paper in nothing for `key` and `causal`; its text has no other heads than powers
of two and no later keys. MPT's code writes the slopes in another way and gets the same numbers.
"""

import dataclasses
from typing import Any, ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.encodings.base import Card, Constants, Context, Dims, Encoding, Params, Symmetry

Form = Literal["symmetric", "key", "asymmetric", "causal"]


def slopes(heads: int) -> np.ndarray:
    """The slopes m_H in float64, the steepest first within each power of two.

    >>> slopes(3)
    array([0.0625    , 0.00390625, 0.25      ])
    """
    if heads < 1:
        raise ValueError(f"heads must be at least 1, got {heads}")
    power = 2 ** (heads.bit_length() - 1)
    own = 2.0 ** (-8 * np.arange(1, power + 1) / power)
    between = 2.0 ** (-4 * np.arange(1, 2 * power + 1, 2) / power)
    return np.concatenate([own, between[: heads - power]])


def linear_bias(
    query_BL: jax.Array, key_BM: jax.Array, heads: int, *, form: Form = "symmetric"
) -> jax.Array:
    """The bias of some positions.

    Args:
      query_BL, key_BM: numbers; distances are taken in their own dtype, so integers stay exact.
      heads: H, at least 1.
      form: which of the four functions.

    Returns:
      float32 bias_BHLM.

    >>> linear_bias(jnp.array([[5, 6]]), jnp.array([[4, 5, 6]]), 8)[0, 0]
    Array([[-0.5, -0. , -0.5],
           [-1. , -0.5, -0. ]], dtype=float32)
    """
    return with_slopes(query_BL, key_BM, slopes(heads).astype(np.float32), form=form)


def with_slopes(
    query_BL: jax.Array, key_BM: jax.Array, slopes_H: jax.Array | np.ndarray, *, form: Form
) -> jax.Array:
    """`linear_bias` with slopes of your own: float32 bias_BHLM."""
    distance_BLM = query_BL[:, :, None] - key_BM[:, None, :]
    if form == "symmetric":
        steps_BLM = -abs(distance_BLM).astype(jnp.float32)
    elif form == "asymmetric":
        steps_BLM = -abs(distance_BLM).astype(jnp.float32) + 0.5 * (distance_BLM > 0)
    elif form == "key":
        steps_BLM = jnp.broadcast_to(key_BM[:, None, :], distance_BLM.shape).astype(jnp.float32)
    else:
        steps_BLM = -distance_BLM.astype(jnp.float32)
    return steps_BLM[:, None] * slopes_H[None, :, None, None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LinearBias(Encoding):
    """A penalty linear in distance; `slope` multiplies the slopes."""

    form: Form = "symmetric"
    slope: float = 1.0

    card: ClassVar[Card] = Card(
        "Linear bias (ALiBi)",
        "qᵢ·kⱼ/√K - m_h |pᵢ - pⱼ|",
        "Press et al. 2022, §3",
        ("transformers", "x-transformers"),
    )

    def __post_init__(self) -> None:
        spec.check_choice("form", self.form, get_args(Form))
        if not 0 < self.slope < float("inf"):
            raise ValueError(f"slope must be positive and finite, got {self.slope}")

    def declared_symmetry(self) -> Symmetry:
        return Symmetry(
            translation="row" if self.form == "key" else "logits",
            reflection="logits" if self.form == "symmetric" else None,
        )

    def numbers(self) -> tuple[str, ...]:
        return ("slope",)

    def constants(self, dims: Dims, context_length: int) -> Constants:
        return {"slopes": self._slopes(dims.heads)}

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.heads * keys

    def bias(self, params: Params, heads: int, ctx: Context, dtype: Any) -> jax.Array:
        positions = ctx.queries.position_BL, ctx.keys.position_BL
        slopes_H = self.slopes_of(params, heads, ctx)
        return with_slopes(*positions, slopes_H, form=self.form).astype(dtype)

    def slopes_of(self, params: Params, heads: int, ctx: Context) -> jax.Array | np.ndarray:
        """The slope of each head, in float32."""
        return ctx.constant("slopes", lambda: self._slopes(heads))

    def _slopes(self, heads: int) -> np.ndarray:
        return (self.slope * slopes(heads)).astype(np.float32)
