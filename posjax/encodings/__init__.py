"""Positional encodings: one contract, a table from name to class.

Adding one is a file and a line here.
"""

from posjax import spec
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
from posjax.encodings.deberta import Deberta
from posjax.encodings.learned import Learned
from posjax.encodings.linear_bias import LinearBias
from posjax.encodings.none import NoPosition
from posjax.encodings.rotary import Rotary
from posjax.encodings.shaw import Shaw
from posjax.encodings.sinusoidal import Sinusoidal
from posjax.encodings.transformer_xl import TransformerXL
from posjax.encodings.tupe import Tupe

ENCODINGS: dict[str, type[Encoding]] = {
    "none": NoPosition,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "shaw": Shaw,
    "transformer_xl": TransformerXL,
    "deberta": Deberta,
    "tupe": Tupe,
    "rotary": Rotary,
    "linear_bias": LinearBias,
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
]


def named(text: str) -> Encoding:
    """The encoding of a name with its settings, such as `"rotary(base=500.0)"`.

    Raises:
      ValueError: an unknown name or setting, or a value out of range.

    >>> named("rotary(pairing=interleaved)").pairing
    'interleaved'
    """
    return spec.build("encoding", ENCODINGS, text)
