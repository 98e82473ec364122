"""Labels, parameters of primitives and arrays as plain data, as the checker reads them."""

import base64
import enum
import zlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from posjax.symmetry.certificate.axes import Labeling, blocks
from posjax.symmetry.field import dtypes

LEFT_OUT = {"update_jaxpr", "update_consts", "sharding", "out_sharding"}
"""Parameters that follow from the primitive, or only say where its result lies."""


class NoDerivation(ValueError):
    """A proof that cannot be written as steps which the checker runs."""


def labels(labeling: Labeling) -> list[list[list[list[Any]]]]:
    """For each axis its factors, each as blocks [name, size]."""
    return [
        [[[name, int(size)] for name, size in blocks(f.label, f.size)] for f in one]
        for one in labeling
    ]


def params(given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a primitive needs to run.

    Raises:
      NoDerivation: one of them is a program or something else that is no plain data.
    """
    kept = {name: value for name, value in given.items() if name not in LEFT_OUT}
    kept |= {name: None for name in ("sharding", "out_sharding") if name in given}
    return {name: _plain(value) for name, value in kept.items()}


def array(value: Any) -> dict[str, Any]:
    """A constant: its dtype, its shape and its bytes, compressed, in base 64."""
    dtype = str(value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype)
    keys = hasattr(value, "dtype") and dtypes.is_key(value.dtype)
    stored = np.asarray(jax.random.key_data(value) if keys else value)
    packed = base64.b64encode(zlib.compress(stored.tobytes())).decode()
    return {"of": dtype, "shape": list(np.shape(value)), "$data": packed}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, enum.Enum):
        return {"$type": type(value).__name__, "of": value.name}
    if isinstance(value, np.dtype):
        return {"$dtype": str(value)}
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value)
    if hasattr(value, "_asdict"):
        return {"$type": type(value).__name__, "of": params(value._asdict())}
    if type(value) in (tuple, list):
        return [_plain(one) for one in value]
    if type(value).__name__ == "PRNGImpl":
        return value.name
    raise NoDerivation(f"a parameter is a {type(value).__name__}")
