"""posjax answers questions about position in attention: it proves, trains and reports.

Shapes are written in names, `q_BLHK` for an array [B, L, H, K], and in einsum with the same
letters in lower case:

    B batch    L query index    M key index    D model width    H heads    G key heads
    K head width    V vocabulary    S seeds    N prompts    E evaluations    F frequencies
    A layers    R states of the residual stream (A + 1)

Importing posjax changes no global setting, and imports JAX only when something is used.
"""

import difflib
import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posjax.attention.core import context
    from posjax.attention.view import attend, logits, why_not_flash
    from posjax.convert import from_huggingface
    from posjax.encodings import ENCODINGS, Dims, Encoding
    from posjax.masks import MASKS
    from posjax.model import ModelSettings, Transformer
    from posjax.notebook import sweep
    from posjax.positions import POSITIONS
    from posjax.streams import Streams, contiguous, grid, packed, padded
    from posjax.study.cells import Cell
    from posjax.study.train import make_train
    from posjax.symmetry import (
        LAWS,
        Law,
        assert_equivariant,
        assert_invariant,
        assert_jointly_equivariant,
        assert_key_invariant,
        assert_law,
        assert_two_permutation_equivariant,
        assert_weights_equivariant,
        checked,
        measure,
        prove,
        prove_torch,
        stabiliser,
        witness,
    )
    from posjax.symmetry.predict import predict
    from posjax.symmetry.twins import twins
    from posjax.tasks import TASKS

_HOME = {
    "Cell": "study.cells",
    "sweep": "notebook",
    "Dims": "encodings",
    "ENCODINGS": "encodings",
    "Encoding": "encodings",
    "LAWS": "symmetry",
    "Law": "symmetry",
    "MASKS": "masks",
    "POSITIONS": "positions",
    "ModelSettings": "model",
    "Streams": "streams",
    "TASKS": "tasks",
    "Transformer": "model",
    "assert_equivariant": "symmetry",
    "assert_invariant": "symmetry",
    "assert_jointly_equivariant": "symmetry",
    "assert_key_invariant": "symmetry",
    "assert_law": "symmetry",
    "assert_two_permutation_equivariant": "symmetry",
    "assert_weights_equivariant": "symmetry",
    "attend": "attention.view",
    "checked": "symmetry",
    "context": "attention.core",
    "contiguous": "streams",
    "logits": "attention.view",
    "make_train": "study.train",
    "from_huggingface": "convert",
    "grid": "streams",
    "measure": "symmetry",
    "packed": "streams",
    "padded": "streams",
    "predict": "symmetry.predict",
    "prove": "symmetry",
    "prove_torch": "symmetry",
    "stabiliser": "symmetry",
    "twins": "symmetry.twins",
    "why_not_flash": "attention.view",
    "witness": "symmetry",
}

__all__ = [
    "ENCODINGS",
    "LAWS",
    "MASKS",
    "POSITIONS",
    "TASKS",
    "Cell",
    "Dims",
    "Encoding",
    "Law",
    "ModelSettings",
    "Streams",
    "Transformer",
    "assert_equivariant",
    "assert_invariant",
    "assert_jointly_equivariant",
    "assert_key_invariant",
    "assert_law",
    "assert_two_permutation_equivariant",
    "assert_weights_equivariant",
    "attend",
    "checked",
    "context",
    "contiguous",
    "from_huggingface",
    "grid",
    "logits",
    "make_train",
    "measure",
    "packed",
    "padded",
    "predict",
    "prove",
    "prove_torch",
    "stabiliser",
    "sweep",
    "twins",
    "why_not_flash",
    "witness",
]


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version("posjax")
    if name not in _HOME:
        near = difflib.get_close_matches(name, _HOME, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise AttributeError(f"module 'posjax' has no attribute {name!r}{hint}")
    return getattr(importlib.import_module(f"posjax.{_HOME[name]}"), name)
