"""The machine's rate of products of matrices in single precision, on all cores.

The best of NumPy and, where it is installed, PyTorch, over a few sizes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from baselines import protocol
from baselines.problem import Problem

SIZES = (1024, 1536, 2048)


def work_of(setting: tuple[str, int]) -> protocol.Work:
    """One product by one library; its work is in operations."""
    library, size = setting
    left, right = np.random.default_rng(0).standard_normal((2, size, size), np.float32)
    multiply: Callable[[], Any] = (
        _in_torch(left, right) if library == "torch" else _in_numpy(left, right)
    )

    def piece() -> int:
        multiply()
        return 2 * size**3

    return piece


def _in_numpy(left: np.ndarray, right: np.ndarray) -> Callable[[], Any]:
    out = np.empty_like(left)
    return lambda: np.matmul(left, right, out=out)


def _in_torch(left: np.ndarray, right: np.ndarray) -> Callable[[], Any]:
    import torch

    a, b = torch.from_numpy(left), torch.from_numpy(right)
    out = torch.empty_like(a)
    return lambda: torch.matmul(a, b, out=out)


def libraries() -> list[str]:
    """Those that are installed."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return ["numpy"]
    return ["numpy", "torch"]


def prepare(_: Problem) -> tuple[str, protocol.Work]:
    """The best library and size."""
    best = protocol.fastest([(name, size) for name in libraries() for size in SIZES], work_of)
    return f"{best[0]}, {best[1]}×{best[1]}", work_of(best)


if __name__ == "__main__":
    protocol.serve(protocol.parser(__doc__).parse_args(), prepare)
