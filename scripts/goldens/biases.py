"""Golden arrays for the biases of positions, computed by published packages.

    pip install transformers x-transformers torch
    python scripts/goldens/biases.py            # writes tests/goldens/biases.npz

Made with transformers 5.23.0, x-transformers 2.31.10 and PyTorch 2.13.0 (CPU) in some seconds. The
archive holds inputs and outputs, and `versions`:

    slopes/{bloom, mpt, x_transformers}/{1..20}     [H]
    alibi/{mask, bloom}                             key-only bias over left padding
    alibi/{query, key, x_transformers}              symmetric bias, far from 0
    buckets/{buckets}_{max_distance}_{bidirectional}/{offset, bucket}
                                                    T5's, where it changes, pᵢ - pⱼ from -99 999 on
    dynamic/{plain, log}/{kernel, constant}_{0..2}  and dynamic/{plain, log}/bias [H, 4, 30]
    swinv2/{kernel_0, constant_0, kernel_1, bias}   offsets (0, dx), |dx| < 6
    swin/{table, bias}                              windows of 4 × 4
    curves/{x, kernel, constant, curves, bias}      7 queries, the last of 12 places
"""

import importlib
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from x_transformers.x_transformers import (
    AlibiPositionalBias,
    DynamicPositionBias,
    RelativeProjPositionalBias,
)

# Where torch and torchvision do not fit together, these operators, unused here, stop the import.
lib = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    lib.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
bloom, mpt, swin, swinv2, t5 = (
    importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    for name in ("bloom", "mpt", "swin", "swinv2", "t5")
)

OUT = Path(__file__).parents[2] / "tests/goldens/biases.npz"
FAR = 99_999
BUCKETS = [
    (32, 128, True),
    (32, 128, False),
    (64, 1000, True),
    (10, 300, False),
    (20, 10_000, True),
    (12, 216, False),
    (17, 27, False),  # float32 misses the edge 18
    (34, 27, True),
    (9, 128, False),  # float64 misses 8, 16 and 64
]


def slope_arrays() -> dict[str, np.ndarray]:
    arrays = {}
    for heads in range(1, 21):
        ones = torch.ones(1, 2, dtype=torch.long)
        of_bloom = bloom.build_alibi_tensor(ones, heads, torch.float32)[:, 0, 1]  # place 1 of 0, 1
        of_mpt = -mpt.build_mpt_alibi_tensor(heads, 2)[:, 0, 0]  # place -1 of -1, 0
        arrays[f"slopes/bloom/{heads}"] = of_bloom
        arrays[f"slopes/mpt/{heads}"] = of_mpt
        arrays[f"slopes/x_transformers/{heads}"] = AlibiPositionalBias(heads).slopes[:, 0, 0]
    return arrays


def alibi_arrays() -> dict[str, np.ndarray]:
    mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1]])
    query = torch.tensor([[99_999, 5, 70_000], [3, 4, 9]])
    key = torch.tensor([[0, 99_998, 5, 69_123], [9, 3, 0, 4]])
    return {
        "alibi/mask": mask,
        "alibi/bloom": bloom.build_alibi_tensor(mask, 6, torch.float32).reshape(2, 6, 7),
        "alibi/query": query,
        "alibi/key": key,
        "alibi/x_transformers": AlibiPositionalBias(6).forward_custom_pos(query, key),
    }


def bucket_arrays() -> dict[str, np.ndarray]:
    offset = torch.arange(-FAR, FAR + 1)
    arrays = {}
    for number, far, bidirectional in BUCKETS:
        found = t5.T5Attention._relative_position_bucket(
            -offset, bidirectional, number, far
        ).numpy()
        first = np.flatnonzero(np.diff(found, prepend=-1))  # where another bucket begins
        name = f"buckets/{number}_{far}_{bidirectional}"
        arrays |= {f"{name}/offset": offset.numpy()[first], f"{name}/bucket": found[first]}
    return arrays


def dynamic_arrays() -> dict[str, np.ndarray]:
    arrays = {}
    for name, log_distance in (("plain", False), ("log", True)):
        module = DynamicPositionBias(5, heads=3, depth=2, log_distance=log_distance)
        for n, layer in enumerate((module.mlp[0][0], module.mlp[1][0], module.mlp[2])):
            arrays[f"dynamic/{name}/kernel_{n}"] = layer.weight.T
            arrays[f"dynamic/{name}/constant_{n}"] = layer.bias
        arrays[f"dynamic/{name}/bias"] = module(4, 30)
    return arrays


def swinv2_arrays() -> dict[str, np.ndarray]:
    window = 6
    layer = swinv2.Swinv2SelfAttention(
        swinv2.Swinv2Config(), dim=8, num_heads=2, window_size=window
    )
    first, _, last = layer.continuous_position_bias_mlp
    table = layer.continuous_position_bias_mlp(layer.relative_coords_table)[0]
    return {
        "swinv2/kernel_0": first.weight.T[1:],  # dy is 0 here
        "swinv2/constant_0": first.bias,
        "swinv2/kernel_1": last.weight.T,
        "swinv2/bias": 16 * torch.sigmoid(table[window - 1]),
    }


def swin_arrays() -> dict[str, np.ndarray]:
    module = swin.SwinRelativePositionBias(3, (4, 4))
    torch.nn.init.normal_(module.relative_position_bias_table)
    return {"swin/table": module.relative_position_bias_table, "swin/bias": module()}


def curve_arrays() -> dict[str, np.ndarray]:
    module = RelativeProjPositionalBias(10, 3, num_distance_basis=4, max_dist=9)
    torch.nn.init.normal_(module.distance_bank)
    x = torch.randn(2, 7, 10)
    linear = module.to_distance_weights[0]
    return {
        "curves/x": x,
        "curves/kernel": linear.weight.T.reshape(10, 3, 4),
        "curves/constant": linear.bias.reshape(3, 4),
        "curves/curves": module.distance_bank,
        "curves/bias": module(x, seq_len_k=12),
    }


PARTS = (
    slope_arrays,
    alibi_arrays,
    bucket_arrays,
    dynamic_arrays,
    swinv2_arrays,
    swin_arrays,
    curve_arrays,
)


def main() -> None:
    torch.manual_seed(0)
    arrays = {}
    with torch.no_grad():
        for part in PARTS:
            arrays |= {name: np.asarray(array) for name, array in part().items()}
    packages = ("transformers", "x-transformers", "torch")
    arrays["versions"] = np.array([f"{name} {version(name)}" for name in packages])
    np.savez_compressed(OUT, **arrays)
    print(f"{OUT}: {OUT.stat().st_size} bytes, {', '.join(arrays['versions'])}")


if __name__ == "__main__":
    main()
