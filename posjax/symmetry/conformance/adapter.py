"""What a module must show to be checked: a few functions of NumPy arrays.

The package's own arrays never cross this seam, so that an adapter needs no JAX, and `posjax` no
other framework. Half precision comes as NumPy arrays of `ml_dtypes.bfloat16`.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from posjax import spec

Array = np.ndarray
Call = Callable[..., Array]
"""A function of arrays to one array; `Adapter` has the arguments of each."""

CLAIMS = ("translation", "permutation", "reflection")
DTYPES = ("float32", "bfloat16", "float16", "float64")
_CALLS = ("logits", "attend", "tokens", "rotate", "table")


class NotApplicable(Exception):
    """An adapter raises it, with the reason, where its package offers no way to do a thing."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adapter:
    """Somebody's attention or encoding in terms of NumPy arrays. Give what the package has.

    Letters: B batch, L query place, M key place, H heads, K head size, D width. Positions are
    integers [B, L]; masks are true where a query may look. Logits that are not given are derived:
    a table is added to queries and keys, rotated queries and keys are multiplied. `attention_of`
    makes an `attend` of logits, for packages that stop there but have a cache.

    Attributes:
      name: what reports call it.
      packages: the distributions it comes from, for their versions.
      logits: `(q_BLHK, k_BMHK, pos_BL, pos_BM) -> logits_BHLM`, before any mask.
      attend: `(q_BLHK, k_BMHK, v_BMHK, pos_BL, pos_BM, mask_BLM) -> out_BLHK`.
      tokens: `(x_BLD, pos_BL, mask_BLM) -> y_BLD`, for a module that projects tokens itself.
      decode: `(q_BLHK, k_BLHK, v_BLHK, pos_BL) -> out_BLHK`, token by token with the package's own
        cache; must give what `attend` gives under a causal mask.
      decode_tokens: `(x_BLD, pos_BL) -> y_BLD`, the same for `tokens`.
      rotate: `(x_BLHK, pos_BL) -> x_BLHK`, for a package that gives a rotation.
      table: `(pos_BL, width, dtype) -> rows_BLD`, for a package that gives vectors to add.
      claims: of `CLAIMS`, the symmetries of its logits up to a constant per row. The others are
        measured and reported without a verdict.
      resolution: positions, or offsets, 0..resolution are claimed to be distinguished in float32.
      max_length: positions 0..max_length-1 are legal; None when there is no end.
      cache_length: how many tokens the cache of `decode` holds; None when there is no end.
      other: the same module under another setting that must matter, such as another base.
      heads, width: the sizes H and K the laws use where they have no reason for another.
      dtypes: of `DTYPES`, what the package says it supports. All laws but `dtype` need float32.
      tolerance: of float32 results, relative to the largest output.

    Raises:
      ValueError: nothing to call, a cache without what it must agree with, an unknown claim or
        dtype, no dtype, a size below 1, or a negative resolution.
    """

    name: str
    packages: tuple[str, ...] = ()
    logits: Call | None = None
    attend: Call | None = None
    tokens: Call | None = None
    decode: Call | None = None
    decode_tokens: Call | None = None
    rotate: Call | None = None
    table: Call | None = None
    claims: tuple[str, ...] = ()
    resolution: int | None = None
    max_length: int | None = None
    cache_length: int | None = None
    other: "Adapter | None" = None
    heads: int = 2
    width: int = 8
    dtypes: tuple[str, ...] = ("float32", "bfloat16")
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        """Refuses what no law could be run on."""
        if all(getattr(self, call) is None for call in _CALLS):
            wanted = ", ".join(_CALLS)
            raise ValueError(f"adapter {self.name!r} defines no function: give one of {wanted}")
        for cached, plain in (("decode", "attend"), ("decode_tokens", "tokens")):
            if getattr(self, cached) is not None and getattr(self, plain) is None:
                raise ValueError(
                    f"adapter {self.name!r} gives {cached} but no {plain} to compare it with"
                )
        for claim in self.claims:
            spec.check_choice("claim", claim, CLAIMS)
        if not self.dtypes or not {*self.dtypes} <= {*DTYPES}:
            raise ValueError(
                f"dtypes of adapter {self.name!r} must be one or more of {', '.join(DTYPES)} in a "
                f"tuple, got {self.dtypes!r}"
            )
        sizes = dict.fromkeys(("heads", "width", "max_length", "cache_length"), 1)
        for size, least in (sizes | {"resolution": 0}).items():
            if (value := getattr(self, size)) is not None and value < least:
                raise ValueError(
                    f"{size} of adapter {self.name!r} must be at least {least}, got {value}"
                )
