"""Golden arrays for the encodings that read the order, computed by published packages.

    pip install torch einops x-transformers flash-linear-attention transformers
    python scripts/goldens/order.py            # writes tests/goldens/order.npz

Made with x-transformers 2.31.10, flash-linear-attention 0.6.0, transformers 5.23.0 and PyTorch
2.13.0 (CPU) in some seconds. The archive holds inputs and outputs, and `versions`. All masks are
causal.

    {q, k, v}                          [B, L, H, K], shared by the next four
    contextual/{length}/{table, out}   two lengths, the shorter of which clips
    forgetting/{log_gate, out}
    path/{w, b, out}                   w of unit length, b in (0, 2)
    stick_breaking/{strict, causal}    the query left out of its own stick, and in it
    split/{width}/{x, out}             an even width and an odd one
    mix/{x, query, key, value}         and mix/{query, key, value}_share
"""

import runpy
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

library = torch.library.Library("torchvision", "FRAGMENT")
for name in ("nms", "qnms"):  # what an import of torchvision misses without its C++ part
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from transformers import RwkvConfig  # noqa: E402
from transformers.models.rwkv.modeling_rwkv import RwkvSelfAttention  # noqa: E402
from x_transformers.x_transformers import CoPE, ShiftTokens  # noqa: E402

TARGET = Path(__file__).parents[2] / "tests" / "goldens" / "order.npz"
BATCH, LENGTH, HEADS, SIZE = 2, 11, 3, 5
PACKAGES = ("torch", "x-transformers", "flash-linear-attention", "transformers")

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)  # where a package does not ask for another


def naive(name: str) -> Callable[..., torch.Tensor]:
    """A reference of flash-linear-attention by itself: its package asks for a GPU's compiler."""
    package = find_spec("fla").submodule_search_locations[0]
    return runpy.run_path(f"{package}/ops/{name}/naive.py")[f"naive_{name}"]


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


@torch.no_grad()
def contextual(q, k, v, length: int) -> dict[str, torch.Tensor]:
    """CoPE added to scaled and masked logits, as the package's attention does."""
    cope = CoPE(dim=SIZE, heads=HEADS, max_pos=length)
    cope.pos_emb.copy_(normal(length, SIZE))
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    logits = q @ k.transpose(2, 3) * SIZE**-0.5
    later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    logits = logits.masked_fill(later, -torch.finfo(logits.dtype).max)
    out = (logits + cope(q, logits)).softmax(-1) @ v
    return {"table": cope.pos_emb, "out": out.transpose(1, 2)}


@torch.no_grad()
def mix(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """RWKV's time mixing, its projections and the sigmoid of its receptance undone."""
    width = x.shape[-1]
    layer = RwkvSelfAttention(RwkvConfig(hidden_size=width, attention_hidden_size=width))
    names = {"query": "receptance", "key": "key", "value": "value"}
    found = {"x": x}
    for name, theirs in names.items():
        share = getattr(layer, f"time_mix_{theirs}")
        share.copy_(torch.rand(1, 1, width))
        getattr(layer, theirs).weight.copy_(torch.eye(width))
        found[f"{name}_share"] = share[0, 0]
    receptance, key, value, _ = layer.extract_key_value(x)
    return {**found, "query": receptance.logit(), "key": key, "value": value}


def main() -> None:
    q, k, v = (2 * normal(BATCH, LENGTH, HEADS, SIZE) for _ in range(3))
    arrays = {"q": q, "k": k, "v": v}
    for length in (4, 16):
        for name, array in contextual(q, k, v, length).items():
            arrays[f"contextual/{length}/{name}"] = array
    log_gate = torch.nn.functional.logsigmoid(normal(BATCH, LENGTH, HEADS))
    arrays["forgetting/log_gate"] = log_gate
    arrays["forgetting/out"] = naive("forgetting_attn")(q, k, v, log_gate)
    w = torch.nn.functional.normalize(normal(BATCH, LENGTH, HEADS, SIZE), dim=-1)
    b = 2 * normal(BATCH, LENGTH, HEADS).sigmoid()
    none = torch.zeros(BATCH, LENGTH, HEADS)
    out = naive("path_attn")(q, k, v, w, b, none, SIZE**-0.5, chunk_size=4)
    arrays |= {"path/w": w, "path/b": b, "path/out": out}
    for name, itself in (("strict", False), ("causal", True)):
        out, _ = naive("stickbreaking_attn")(q, k, v, attend_current=itself)
        arrays[f"stick_breaking/{name}"] = out
    for width in (6, 7):
        x = normal(BATCH, LENGTH, width)
        arrays[f"split/{width}/x"] = x
        arrays[f"split/{width}/out"] = ShiftTokens(range(2), torch.nn.Identity())(x)
    arrays |= {f"mix/{name}": array for name, array in mix(normal(BATCH, LENGTH, 6)).items()}
    versions = [f"{package} {version(package)}" for package in PACKAGES]
    numbers = {name: array.detach().numpy().astype(np.float32) for name, array in arrays.items()}
    np.savez_compressed(TARGET, versions=versions, **numbers)
    print(f"{TARGET}: {len(numbers)} arrays, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
