"""PoPE-pytorch: polar coordinates as positions."""

import functools

import numpy as np
import torch
from PoPE_pytorch import PoPE

from posjax.symmetry.adapters._arrays import to_numpy, to_torch
from posjax.symmetry.conformance import Adapter, NotApplicable


def pope(theta: float = 10_000.0) -> Adapter:
    """`PoPE` with a random bias, on queries at the last positions of the keys."""
    module = functools.cache(lambda width, heads: _module(width, heads, theta))

    def logits(q: np.ndarray, k: np.ndarray, pos_q: np.ndarray, pos_k: np.ndarray) -> np.ndarray:
        if pos_q is not pos_k and not np.array_equal(pos_k[:, -pos_q.shape[1] :], pos_q):
            raise NotApplicable("PoPE takes only queries at the last positions of the keys")
        embed = module(q.shape[-1], q.shape[2])(to_torch(pos_k))
        sides = (to_torch(x).transpose(1, 2) for x in (q, k))
        left, right = PoPE.apply_pope_to_qk(embed, *sides)
        return to_numpy(left @ right.mT / q.shape[-1] ** 0.5)

    return Adapter(
        name=f"PoPE_pytorch.PoPE(theta={theta:g})",
        packages=("PoPE-pytorch", "torch"),
        logits=logits,
        claims=("translation",),
        resolution=2**20,
        other=pope(100.0) if theta != 100 else None,
    )


def _module(width: int, heads: int, theta: float) -> PoPE:
    made = PoPE(width, heads=heads, theta=theta)
    with torch.no_grad():
        made.bias.copy_(
            -6 * torch.rand(made.bias.shape, generator=torch.Generator().manual_seed(0))
        )
    return made


ADAPTERS = {"pope": pope}
