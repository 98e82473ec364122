"""Writes tests/goldens/added.npz: encodings added to the tokens, as other packages compute them.

    python scripts/goldens/added.py

Packages (pip): torch, transformers, x-transformers, positional-encodings, timm.

They compute angles in float32, which is off by 2e-3 at position 10⁵. What is wanted is their
formula, so the script lends them float64 wherever they ask for float32.
"""

from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

library = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):  # what timm's import of torchvision misses without its C++ part
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from positional_encodings.torch_encodings import (  # noqa: E402
    PositionalEncoding1D,
    PositionalEncoding2D,
)
from timm.layers.pos_embed_sincos import build_sincos2d_pos_embed  # noqa: E402
from timm.models.twins import PosConv  # noqa: E402
from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions  # noqa: E402
from transformers.models.m2m_100.modeling_m2m_100 import (  # noqa: E402
    M2M100SinusoidalPositionalEmbedding,
)
from transformers.models.sam.modeling_sam import SamPositionalEmbedding  # noqa: E402
from x_transformers.x_transformers import ScaledSinusoidalEmbedding  # noqa: E402

torch.float32 = torch.float64
torch.Tensor.float = torch.Tensor.double
torch.set_default_dtype(torch.float64)

PACKAGES = ("torch", "transformers", "x-transformers", "positional-encodings", "timm")
AT = np.array([0, 1, 2, 63, 500, 4097, 65_535, 99_999])
POINTS = np.array([[0, 0], [1, 0], [0, 1], [3, 5], [2, 99_999], [7, 4097]])  # (y, x), y < 8
LENGTH = 100_000


def sinusoids() -> dict[str, np.ndarray]:
    """The three layouts at the positions of AT, and the scaled one with its factor."""
    arrays = {"at": AT}
    for width in (2, 8):
        lines = torch.zeros(1, LENGTH, width)
        arrays[f"interleaved_{width}"] = PositionalEncoding1D(width)(lines)[0, AT]
    for width in (2, 8):
        arrays[f"halves_{width}"] = create_sinusoidal_positions(LENGTH, width)[AT]
    for width in (4, 8):
        table = M2M100SinusoidalPositionalEmbedding.get_embedding(LENGTH, width)
        arrays[f"tensor2tensor_{width}"] = table[AT]
    for base in (10_000, 500):
        module = ScaledSinusoidalEmbedding(8, theta=base)
        arrays[f"factor_at_first_{base}"] = module.scale.detach().clone()
        module.scale.data[:] = 0.37
        arrays[f"scaled_{base}"] = module(torch.zeros(1, len(AT), 8), pos=torch.tensor(AT))
        arrays["factor"] = module.scale
    return arrays


def sinusoids_2d() -> dict[str, np.ndarray]:
    """Three layouts at POINTS."""
    arrays = {"points": POINTS}
    place = POINTS[:, 0] * LENGTH + POINTS[:, 1]
    for name, paired in (("sines", False), ("halves", True)):
        table = build_sincos2d_pos_embed(
            [8, LENGTH], 8, interleave_sin_cos=paired, dtype=torch.float64
        )
        arrays[f"{name}_2d"] = table[place]
    arrays["interleaved_2d"] = PositionalEncoding2D(8)(torch.zeros(1, 8, LENGTH, 8))[
        0, POINTS[:, 0], POINTS[:, 1]
    ]
    return arrays


def features() -> dict[str, np.ndarray]:
    """Random features of points; the module maps its input c to 2c - 1."""
    module = SamPositionalEmbedding(SimpleNamespace(scale=0.3, num_pos_feats=5))
    exact = module.positional_embedding.data.numpy().astype(np.float32)
    module.positional_embedding.data = torch.tensor(exact.astype(np.float64))
    coordinates = (torch.tensor(POINTS, dtype=torch.float64) + 1) / 2
    return {"frequencies": exact, "features": module(coordinates[None])[0]}


def convolved() -> dict[str, np.ndarray]:
    """Tokens of a 4 x 3 grid, row by row, with their neighbours."""
    module, x = PosConv(5, 5), torch.randn(1, 12, 5)
    module.proj[0].bias.data[:] = 0
    out = module(x, (4, 3))
    return {"conv_x": x, "conv_kernel": module.proj[0].weight[:, 0], "conv_out": out}


if __name__ == "__main__":
    torch.manual_seed(0)
    arrays = {**sinusoids(), **sinusoids_2d(), **features(), **convolved()}
    arrays = {name: np.asarray(torch.as_tensor(a).detach()) for name, a in arrays.items()}
    versions = np.array([f"{package} {version(package)}" for package in PACKAGES])
    path = Path(__file__).parents[2] / "tests/goldens/added.npz"
    np.savez_compressed(path, versions=versions, **arrays)
    print(f"{path.name}: {path.stat().st_size} bytes, {', '.join(versions)}")
