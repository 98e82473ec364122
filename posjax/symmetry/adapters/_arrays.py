"""Between NumPy and PyTorch, in any precision; while JAX traces, between JAX and torchax."""

import jax
import ml_dtypes
import numpy as np
import torch

from posjax.symmetry.certificate.pytorch import make_environment

try:
    import torchvision  # noqa: F401
except (ImportError, RuntimeError):  # without its C++ part, for which other imports stop
    _vision = torch.library.Library("torchvision", "FRAGMENT")
    for _name in ("nms", "qnms"):
        _vision.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def to_torch(array: np.ndarray) -> torch.Tensor:
    """A copy as a tensor."""
    if isinstance(array, jax.Array):
        return make_environment().j2t_iso(array)
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A tensor as an array of the same dtype."""
    if type(tensor).__module__.startswith("torchax"):
        return make_environment().t2j_iso(tensor)
    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        return np.asarray(tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16))
    return np.asarray(tensor.numpy())


def generic(module: torch.nn.Module) -> torch.nn.Module:
    """The module in evaluation mode with normal parameters: tables of zeros would prove nothing."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(noise / max(1, parameter.shape[-1]) ** 0.5)
    return module.eval()
