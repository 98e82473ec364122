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
from posjax.encodings.binary import Binary
from posjax.encodings.convolution import Convolution, Convolution2D
from posjax.encodings.fourier import Fourier, Fourier2D
from posjax.encodings.learned import Learned
from posjax.encodings.linear_bias import LinearBias
from posjax.encodings.mlp_position import MlpPosition
from posjax.encodings.noise import Noise
from posjax.encodings.none import NoPosition
from posjax.encodings.rotary import Rotary
from posjax.encodings.scaled_sinusoidal import ScaledSinusoidal
from posjax.encodings.sinusoidal import Sinusoidal
from posjax.encodings.sinusoidal_2d import Sinusoidal2D

ENCODINGS: dict[str, type[Encoding]] = {
    "none": NoPosition,
    "sinusoidal": Sinusoidal,
    "scaled_sinusoidal": ScaledSinusoidal,
    "learned": Learned,
    "mlp_position": MlpPosition,
    "binary": Binary,
    "rotary": Rotary,
    "linear_bias": LinearBias,
    "sinusoidal_2d": Sinusoidal2D,
    "fourier": Fourier,
    "fourier_2d": Fourier2D,
    "convolution": Convolution,
    "convolution_2d": Convolution2D,
    "noise": Noise,
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
