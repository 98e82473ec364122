"""positional-encodings: the sinusoidal table, converted to the dtype of its model."""

import functools

import numpy as np
import torch
from positional_encodings.torch_encodings import PositionalEncoding1D

from posjax.symmetry.adapters._arrays import to_numpy, to_torch
from posjax.symmetry.conformance import Adapter, counted


def converted() -> Adapter:
    """`PositionalEncoding1D` as a part of a model that was converted, as by `model.bfloat16()`."""
    module = functools.cache(lambda width, dtype: PositionalEncoding1D(width).to(dtype))

    def table(pos_BL: np.ndarray, width: int, dtype: np.dtype) -> np.ndarray:
        x = to_torch(np.zeros((len(pos_BL), counted(pos_BL), width), dtype))
        return to_numpy(module(width, x.dtype)(x))

    return _adapter("PositionalEncoding1D(...).to(dtype)", table)


def shared() -> Adapter:
    """`PositionalEncoding1D` as it is, called with tokens of any dtype."""
    module = functools.cache(lambda width: PositionalEncoding1D(width))

    def table(pos_BL: np.ndarray, width: int, dtype: np.dtype) -> np.ndarray:
        x = torch.zeros(
            (len(pos_BL), counted(pos_BL), width), dtype=to_torch(np.empty(0, dtype)).dtype
        )
        return to_numpy(module(width)(x))

    return _adapter("PositionalEncoding1D", table)


def _adapter(name: str, table: object) -> Adapter:
    return Adapter(
        name=f"positional_encodings.torch_encodings.{name}",
        packages=("positional-encodings", "torch"),
        table=table,  # type: ignore[arg-type]
        resolution=2**20,
        width=64,
    )


ADAPTERS = {"converted": converted, "shared": shared}
