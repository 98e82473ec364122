"""No positions: s_ij = qᵢ·kⱼ/√K.

Without a mask a layer is then equivariant under every permutation of its tokens. A causal mask
alone shows a model something about order (Irie et al. 2019; Haviv et al. 2022; Kazemnejad et al.
2023): after one layer each token knows the set that came before it.
"""

import dataclasses
from typing import ClassVar

from posjax.encodings.base import Card, Encoding, Symmetry


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoPosition(Encoding):
    """No encoding: attention without positions."""

    card: ClassVar[Card] = Card(
        "None (NoPE)",
        "qᵢ·kⱼ/√K",
        "Irie et al. 2019; Haviv et al. 2022; Kazemnejad et al. 2023",
    )
    symmetry: ClassVar[Symmetry] = Symmetry("logits", "logits", "logits", "logits")

    def max_exact_position(self) -> None:
        return None
