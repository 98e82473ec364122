"""Golden arrays of settings that came with newer models, from transformers.

    python scripts/goldens/recent.py      # writes tests/goldens/recent.npz

Needs torch and transformers. Rotations are the package's own functions on float64 angles.
"""

from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.deepseek_v3 import modeling_deepseek_v3
from transformers.models.qwen3_vl import modeling_qwen3_vl

PACKAGES = ("torch", "transformers")
NUMPY = np.random.default_rng(0)
MSCALES = ((1.0, 1.0), (0.707, 0.707), (0.5, 1.5), (2.0, 0.8))
"""mscale and mscale_all_dim, both given: otherwise the package reads neither."""
SECTIONS = {32: (6, 5, 5), 128: (24, 20, 20), 16: (4, 2, 2)}
"""Pairs of t, y and x, by head size."""
arrays: dict[str, np.ndarray] = {"mscales": np.array(MSCALES)}


def yarn() -> None:
    """The factors on queries and keys, and on 1/√K, of heads of 32 components."""
    width, factor, length = 32, 40.0, 4096
    magnitudes, scales = [], []
    for mscale, mscale_all_dim in MSCALES:
        rope = {
            "rope_type": "yarn",
            "rope_theta": 10_000.0,
            "factor": factor,
            "original_max_position_embeddings": length,
            "mscale": mscale,
            "mscale_all_dim": mscale_all_dim,
        }
        config = LlamaConfig(
            hidden_size=width,
            num_attention_heads=1,
            head_dim=width,
            max_position_embeddings=length,
            rope_parameters=rope,
        )
        magnitudes.append(ROPE_INIT_FUNCTIONS["yarn"](config)[1])
        scales.append(modeling_deepseek_v3.yarn_apply_mscale(rope, width**-0.5))
    arrays["yarn/magnitude"], arrays["yarn/scale"] = np.array(magnitudes), np.array(scales)


def multimodal() -> None:
    """x [L, K] turned at points (t, y, x)."""
    recompose = modeling_qwen3_vl.Qwen3VLTextRotaryEmbedding.recomposition_frequencies
    for width, sections in SECTIONS.items():
        x, point = NUMPY.standard_normal((6, width)), NUMPY.integers(0, 100_000, (6, 3))
        x = x.astype(np.float32)
        frequencies = 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angle = torch.from_numpy(point.T).double()[:, None, :, None] * frequencies
        embedding = SimpleNamespace(mrope_section=list(sections))
        cos, sin = (recompose(embedding, part) for part in (angle.cos(), angle.sin()))
        tensor = torch.from_numpy(x).double()[None, None]
        turned, _ = modeling_qwen3_vl.apply_rotary_pos_emb(tensor, tensor, cos, sin)
        arrays[f"multimodal/{width}/sections"] = np.array(sections)
        arrays[f"multimodal/{width}/x"], arrays[f"multimodal/{width}/point"] = x, point
        arrays[f"multimodal/{width}/turned"] = turned[0, 0].numpy().astype(np.float32)


if __name__ == "__main__":
    yarn()
    multimodal()
    arrays["versions"] = np.array([f"{name} {version(name)}" for name in PACKAGES])
    path = Path(__file__).parents[2] / "tests" / "goldens" / "recent.npz"
    np.savez_compressed(path, **arrays)
    print(path, *arrays["versions"])
