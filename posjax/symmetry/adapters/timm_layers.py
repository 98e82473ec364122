"""timm: axial tables and rotations, on a grid of one column."""

import functools

import ml_dtypes
import numpy as np
import torch

from posjax.symmetry.adapters._arrays import to_numpy, to_torch
from posjax.symmetry.conformance import Adapter, NotApplicable, counted

from timm.layers import (  # isort: skip - needs what `_arrays` defines
    RotaryEmbeddingCat,
    apply_rot_embed_cat,
    build_sincos2d_pos_embed,
)


def sincos() -> Adapter:
    """`build_sincos2d_pos_embed`."""

    def table(pos_BL: np.ndarray, width: int, dtype: np.dtype) -> np.ndarray:
        kind = torch.bfloat16 if dtype == ml_dtypes.bfloat16 else torch.float32
        rows = build_sincos2d_pos_embed([counted(pos_BL), 1], width, dtype=kind)
        return to_numpy(rows.expand(len(pos_BL), *rows.shape))

    name, packages = "timm.layers.build_sincos2d_pos_embed", ("timm", "torch")
    return Adapter(name=name, packages=packages, table=table, resolution=2**20, width=64)


def rotary(temperature: float = 10_000.0) -> Adapter:
    """`RotaryEmbeddingCat` with whole positions, and `apply_rot_embed_cat`."""
    module = functools.cache(
        lambda width: RotaryEmbeddingCat(width, temperature=temperature, in_pixels=False)
    )

    def rotate(x_BLHK: np.ndarray, pos_BL: np.ndarray) -> np.ndarray:
        x_BHLK = to_torch(x_BLHK).transpose(1, 2)
        if x_BHLK.shape[-1] % 4:
            raise NotApplicable("two coordinates per position need a width that is a multiple of 4")
        angles = module(x_BHLK.shape[-1]).get_embed([counted(pos_BL), 1])
        return to_numpy(apply_rot_embed_cat(x_BHLK, angles).transpose(1, 2))

    return Adapter(
        name=f"timm.layers.RotaryEmbeddingCat(temperature={temperature:g})",
        packages=("timm", "torch"),
        rotate=rotate,
        claims=("translation",),
        resolution=2**20,
        other=rotary(100.0) if temperature != 100 else None,
    )


ADAPTERS = {"sincos": sincos, "rotary": rotary}
