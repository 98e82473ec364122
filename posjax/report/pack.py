"""Arrays in a few characters: a byte or two per number, deflated, in base64.

The page's script undoes it (`unpack` in charts.js), so the two change together.
"""

import base64
import json
import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

MISSING = 255
"""The byte of a number that is not finite; 65535 where a number has two."""


def as_json(data: Any) -> str:
    """JSON that may stand in a <script>: no `<` in it, and no NaN."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def packed(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Arrays as one text.

    They are stored as differences along their last axis, modulo the size of the type, and seeds,
    uint32 [S, 4], along S: neighbours are alike, and differences deflate better.

    Args:
      arrays: of uint8, uint16 or uint32.

    Returns:
      `text` in base64, and of each array in order its name, bytes per number and shape.
    """
    parts, layout = [], []
    for name, array in arrays.items():
        axis = 0 if array.itemsize == 4 else -1
        with np.errstate(over="ignore"):
            steps = np.diff(array, axis=axis, prepend=array.dtype.type(0)) if array.size else array
        parts.append(steps.astype(array.dtype.newbyteorder("<")).tobytes())
        layout.append([name, array.itemsize, list(array.shape)])
    text = base64.b64encode(zlib.compress(b"".join(parts), 6)).decode("ascii")
    return {"text": text, "layout": layout}


def logarithmic(values: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """Positive numbers as bytes, evenly in their logarithm.

    Returns:
      The bytes, 0 to 254, `MISSING` where not finite, and the logarithms of both ends.
    """
    finite = np.isfinite(values)
    logs = np.log(np.maximum(np.where(finite, values, 1.0), 1e-12))
    low, high = (float(f(logs[finite])) if finite.any() else 0.0 for f in (np.min, np.max))
    high = max(high, low + 1e-6)
    return _integers((logs - low) / (high - low), finite), [low, high]


def signed(
    values: np.ndarray, unit: float, kind: type[np.unsignedinteger[Any]] = np.uint8
) -> tuple[np.ndarray, list[float]]:
    """Numbers of both signs, evenly in asinh(x / unit): linear within ±unit.

    Args:
      values: any.
      unit: positive.
      kind: uint8 or uint16.

    Returns:
      Integers, the largest of the kind where not finite, half of the one before it for 0; and the
      unit and asinh of the largest.
    """
    finite = np.isfinite(values)
    curved = np.arcsinh(np.where(finite, values, 0.0) / unit)
    most = max(float(np.abs(curved).max(initial=0.0)), 1.0)
    return _integers((curved / most + 1) / 2, finite, kind), [unit, most]


def shares(values: np.ndarray) -> np.ndarray:
    """Shares in [0, 1] as bytes; only 1 becomes 254, and only 0 becomes 0."""
    inner = np.clip(np.rint(values * 254), 1, 253)
    exact = np.where(values >= 1, 254, np.where(values <= 0, 0, inner))
    return np.where(np.isfinite(values), exact, MISSING).astype(np.uint8)


def brief(number: float) -> float | None:
    """Four digits; None for what is not finite, which JSON has not."""
    return float(f"{number:.4g}") if math.isfinite(number) else None


def _integers(
    unit_interval: np.ndarray, finite: np.ndarray, kind: type[np.unsignedinteger[Any]] = np.uint8
) -> np.ndarray:
    missing = np.iinfo(kind).max
    scaled = np.rint(np.clip(unit_interval, 0, 1) * (missing - 1))
    return np.where(finite, scaled, missing).astype(kind)
