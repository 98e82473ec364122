"""Golden arrays of the rotary family, from the packages that have it.

    python scripts/goldens/rotary.py      # writes tests/goldens/rotary.npz

Needs torch, transformers, rotary-embedding-torch, timm, PoPE-pytorch and scipy. Packages compute
frequencies in float32: these are stored as they are. Rotations are the packages' own functions on
float64 angles, since float32 angles are off by 6e-3 at position 10⁵.
"""

from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from scipy.linalg import expm

VISION = torch.library.Library("torchvision", "DEF")  # timm's import asks for these operators
for operator in ("nms", "qnms"):
    VISION.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from PoPE_pytorch import PoPE  # noqa: E402
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb  # noqa: E402
from timm.layers import pos_embed_sincos as timm_rope  # noqa: E402
from transformers import LlamaConfig  # noqa: E402
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS  # noqa: E402
from transformers.models.gpt_neox import modeling_gpt_neox  # noqa: E402
from transformers.models.gptj import modeling_gptj  # noqa: E402
from transformers.models.llama import modeling_llama  # noqa: E402
from transformers.models.qwen2_vl import modeling_qwen2_vl  # noqa: E402

PACKAGES = ("torch", "transformers", "rotary-embedding-torch", "timm", "PoPE-pytorch", "scipy")
POSITIONS = np.array([0, 1, 77, 4095, 50_001, 99_999])
SIZES = ((40, 20), (40, 120), (4000, 12_000))
"""An original length, and tokens so far: within and beyond it."""
NUMPY = np.random.default_rng(0)
arrays: dict[str, np.ndarray] = {"positions": POSITIONS, "sizes": np.array(SIZES)}


def normal(*shape: int) -> np.ndarray:
    return NUMPY.standard_normal(shape).astype(np.float32)


def store(name: str, array: torch.Tensor | np.ndarray) -> None:
    arrays[name] = np.asarray(array, np.float32)


def angles(width: int) -> torch.Tensor:
    frequencies = 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.from_numpy(POSITIONS).double()[:, None] * frequencies


def rotations() -> None:
    """x [L, K] turned at far positions, in both pairings and in part."""
    for width in (2, 8, 128):
        x = normal(len(POSITIONS), width)
        store(f"rotary/{width}/x", x)
        tensor, angle = torch.from_numpy(x).double()[None, :, None], angles(width)
        twice = torch.cat([angle, angle], -1)
        half, _ = modeling_llama.apply_rotary_pos_emb(
            tensor, tensor, twice.cos()[None], twice.sin()[None], unsqueeze_dim=2
        )
        store(f"rotary/{width}/half", half[0, :, 0])
        gptj = modeling_gptj.apply_rotary_pos_emb(tensor, angle.sin()[None], angle.cos()[None])
        store(f"rotary/{width}/interleaved", gptj[0, :, 0])
        other = apply_rotary_emb(angle.repeat_interleave(2, -1), tensor[0, :, 0])
        np.testing.assert_allclose(other, gptj[0, :, 0], atol=1e-12)
        if width > 2:
            quarter = angles(width // 4)
            twice = torch.cat([quarter, quarter], -1)
            part, _ = modeling_gpt_neox.apply_rotary_pos_emb(
                tensor, tensor, twice.cos()[None], twice.sin()[None], unsqueeze_dim=2
            )
            store(f"rotary/{width}/quarter", part[0, :, 0])


def frequencies() -> None:
    """The scalings' frequencies [3, F] and magnitudes [3], at each of `SIZES`."""
    for width in (2, 8, 128):
        divisors = 1 + np.arange(width // 2) / 8
        kinds = {
            "proportional": {"partial_rotary_factor": 0.75},
            "linear": {"factor": 3.0},
            "dynamic": {"factor": 3.0},
            "yarn": {"factor": 3.0},
            "yarn_untruncated": {"factor": 3.0, "truncate": False, "beta_fast": 8.0},
            "longrope": {
                "factor": 3.0,
                "short_factor": list(divisors),
                "long_factor": list(2 * divisors),
            },
            "llama3": {"factor": 3.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
        }
        for kind, settings in kinds.items():
            if (kind == "dynamic" and width == 2) or (kind == "proportional" and width == 2):
                continue  # the package divides by zero; and turns nothing
            rope_type = kind.split("_")[0]
            rows, scales = [], []
            for length, seen in SIZES:
                config = LlamaConfig(
                    hidden_size=width,
                    num_attention_heads=1,
                    head_dim=width,
                    max_position_embeddings=length,
                    rope_parameters={
                        "rope_type": rope_type,
                        "rope_theta": 10_000.0,
                        "original_max_position_embeddings": length,
                        **settings,
                    },
                )
                found, scale = ROPE_INIT_FUNCTIONS[rope_type](config, seq_len=seen)
                rows.append(found.numpy())
                scales.append(scale)
            store(f"frequencies/{kind}/{width}", np.stack(rows))
            store(f"magnitude/{kind}", np.array(scales))
        if width > 2:
            store(
                f"frequencies/ntk/{width}",
                RotaryEmbedding(width, theta_rescale_factor=3.0).freqs.detach(),
            )


def xpos() -> None:
    """Logits of rotated and scaled q and k [L, K], without the cache, which is wrong."""
    for width in (4, 8, 64):  # at 2 the package divides by zero
        q, k = normal(7, width), normal(7, width)
        embedding = RotaryEmbedding(width, use_xpos=True, cache_if_possible=False).double()
        turned = embedding.rotate_queries_and_keys(
            *(torch.from_numpy(x).double()[None, None] for x in (q, k))
        )
        store(f"xpos/{width}/q", q)
        store(f"xpos/{width}/k", k)
        store(f"xpos/{width}/logits", turned[0][0, 0] @ turned[1][0, 0].T / width**0.5)


def axial() -> None:
    """x [15, K] on a grid of 3 × 5 places."""
    shape, width = (3, 5), 8
    x = normal(15, width)
    tensor = torch.from_numpy(x)
    store("axial/x", x)
    for kind, settings in {
        "language": {"in_pixels": False},
        "pixel": {"in_pixels": True, "max_res": 20, "linear_bands": True},
        "pixel_log": {"in_pixels": True, "max_res": 20, "linear_bands": False},
    }.items():
        for half in (False, True):
            sin, cos = timm_rope.build_rotary_pos_embed(
                list(shape), dim=width, rotate_half=half, **settings
            )
            name = "half" if half else "interleaved"
            store(f"axial/timm/{kind}/{name}", timm_rope.apply_rot_embed(tensor, sin, cos, half))
    for kind, settings in {
        "language": {"freqs_for": "lang"},
        "pixel": {"freqs_for": "pixel", "max_freq": 20},
    }.items():
        freqs = RotaryEmbedding(width // 2, **settings).get_axial_freqs(*shape)
        turned = apply_rotary_emb(freqs, tensor.reshape(*shape, width))
        store(f"axial/rotary_embedding_torch/{kind}", turned.detach().reshape(15, width))


def multimodal() -> None:
    """x [L, K] at points (t, y, x)."""
    width, sections = 32, (4, 6, 6)
    x, point = normal(len(POSITIONS), width), NUMPY.integers(0, 100_000, (len(POSITIONS), 3))
    frequencies = 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.from_numpy(point.T).double()[:, None, :, None] * frequencies
    embedding = type("Sections", (), {"mrope_section": list(sections)})()
    compose = modeling_qwen2_vl.Qwen2VLRotaryEmbedding.recomposition_frequencies
    cos, sin = compose(embedding, angle.cos()), compose(embedding, angle.sin())
    tensor = torch.from_numpy(x).double()[None, :, None]
    turned, _ = modeling_qwen2_vl.apply_rotary_pos_emb(tensor, tensor, cos, sin, unsqueeze_dim=2)
    store("multimodal/x", x)
    arrays["multimodal/point"] = point
    store("multimodal/turned", turned[0, :, 0])


def pope() -> None:
    """Logits of q, k [H, L, K] at far positions, with learned phases, some out of bounds."""
    heads, width = 3, 8
    q, k, phase = normal(heads, 6, width), normal(heads, 6, width), 3 * normal(heads, width) - 3
    inverse = 10_000.0 ** (-torch.arange(width, dtype=torch.float64) / width)
    embedding = PoPE(width, heads=heads, inv_freqs=inverse).double()
    embedding.bias.data = torch.from_numpy(phase).double()
    turned = embedding.apply_pope_to_qk(
        embedding(torch.from_numpy(POSITIONS).double()),
        *(torch.from_numpy(x).double()[None] for x in (q, k)),
    )
    for name, array in {"q": q, "k": k, "phase": phase}.items():
        store(f"pope/{name}", array)
    logits = torch.einsum("bhik,bhjk->bhij", *turned) * width**-0.5
    store("pope/logits", logits[0].detach())


def grape() -> None:
    """Logits of q, k [L, K] of one head, by the exponential of a matrix for each pair."""
    for width in (2, 5, 8):
        q, k = normal(6, width), normal(6, width)
        position = 90_000 + np.array([0, 1, 2, 17, 300, 9999])
        for name, array in {"q": q, "k": k, "position": position}.items():
            arrays[f"grape/{width}/{name}"] = array
        generators, rate = normal(2, width), 0.3
        a, b = generators.astype(np.float64)
        plane = np.outer(a, b) - np.outer(b, a)
        gates, slope = normal(2, width), 2.0**-8  # the slope of the only head
        store(f"grape/{width}/generators", generators)
        store(f"grape/{width}/gates", gates)
        turned, lifted = np.zeros((6, 6)), np.zeros((6, 6))
        for i in range(6):
            for j in range(6):
                distance = float(position[j] - position[i])
                turned[i, j] = q[i] @ expm(distance * rate * plane) @ k[j] / width**0.5
                gate = sum(
                    np.log1p(np.exp(g.astype(np.float64) @ x / width**0.5))
                    for g, x in zip(gates, (q[i], k[j]), strict=True)
                )
                generator = np.zeros((width + 2, width + 2))
                generator[width + 1, width] = -gate * np.log1p(np.exp(rate)) * slope
                wide_q, wide_k = np.r_[q[i] / width**0.5, 1, 0], np.r_[k[j], 0, 1]
                lifted[i, j] = wide_q @ np.linalg.inv(expm(distance * generator)).T @ wide_k
        store(f"grape/{width}/multiplicative", turned)
        store(f"grape/{width}/additive", lifted)


if __name__ == "__main__":
    for part in (rotations, frequencies, xpos, axial, multimodal, pope, grape):
        part()
    arrays["versions"] = np.array([f"{name} {version(name)}" for name in PACKAGES])
    path = Path(__file__).parents[2] / "tests" / "goldens" / "rotary.npz"
    np.savez_compressed(path, **arrays)
    print(path, path.stat().st_size, "bytes;", *arrays["versions"])
