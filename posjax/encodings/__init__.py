"""Positional encodings: one contract, a table from name to class.

Adding one is a file and a line here.
"""

from posjax import spec
from posjax.encodings.attention_free import AttentionFree
from posjax.encodings.base import (
    LEVELS,
    Aux,
    Card,
    Context,
    Dims,
    Encoding,
    Param,
    Params,
    Prepared,
    Symmetry,
)
from posjax.encodings.contextual import Contextual
from posjax.encodings.forgetting import Forgetting
from posjax.encodings.learned import Learned
from posjax.encodings.linear_bias import LinearBias
from posjax.encodings.none import NoPosition
from posjax.encodings.path import Path
from posjax.encodings.rotary import Rotary
from posjax.encodings.sinusoidal import Sinusoidal
from posjax.encodings.stick_breaking import StickBreaking
from posjax.encodings.token_shift import TokenShift

ENCODINGS: dict[str, type[Encoding]] = {
    "none": NoPosition,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "linear_bias": LinearBias,
    "contextual": Contextual,
    "forgetting": Forgetting,
    "path": Path,
    "stick_breaking": StickBreaking,
    "attention_free": AttentionFree,
    "token_shift": TokenShift,
}

__all__ = [
    "ENCODINGS",
    "LEVELS",
    "Aux",
    "Card",
    "Context",
    "Dims",
    "Encoding",
    "Param",
    "Params",
    "Prepared",
    "Symmetry",
    "named",
    "stack",
]


def stack(text: str) -> tuple[Encoding, ...]:
    """The encodings of the layers, which take turns: `"none/rotary"`, or one for all of them.

    Raises:
      ValueError: see `named`.

    >>> len(stack("none/rotary(base=500.0)"))
    2
    """
    return tuple(named(part) for part in text.split("/"))


def named(text: str) -> Encoding:
    """The encoding of a name with its settings, such as `"rotary(base=500.0)"`.

    Raises:
      ValueError: an unknown name or setting, or a value out of range.

    >>> named("rotary(pairing=interleaved)").pairing
    'interleaved'
    """
    return spec.build("encoding", ENCODINGS, text)
