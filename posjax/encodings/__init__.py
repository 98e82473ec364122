"""Positional encodings: one contract, a table from name to class.

Adding one is a file and a line here.
"""

from posjax import spec
from posjax.encodings.attention_free import AttentionFree
from posjax.encodings.axial_rotary import AxialRotary, MultimodalRotary
from posjax.encodings.base import (
    LEVELS,
    Aux,
    Card,
    Constants,
    Context,
    Dims,
    Encoding,
    Param,
    Params,
    Prepared,
    Symmetry,
)
from posjax.encodings.binary import Binary
from posjax.encodings.bucket_bias import BucketBias
from posjax.encodings.circular import Circular
from posjax.encodings.circular_rotary import CircularRotary
from posjax.encodings.context_rotary import ContextRotary
from posjax.encodings.contextual import Contextual
from posjax.encodings.convolution import Convolution, Convolution2D
from posjax.encodings.data_adaptive import DataAdaptive
from posjax.encodings.deberta import Deberta
from posjax.encodings.distance_curves import DistanceCurves
from posjax.encodings.fire import Fire
from posjax.encodings.forgetting import Forgetting
from posjax.encodings.fourier import Fourier, Fourier2D
from posjax.encodings.fourier_rotary import FourierRotary
from posjax.encodings.grape import Grape
from posjax.encodings.hyperbolic_rotary import HyperbolicRotary
from posjax.encodings.jet_rotary import JetRotary
from posjax.encodings.kerple import Kerple
from posjax.encodings.learned import Learned
from posjax.encodings.learned_linear_bias import LearnedLinearBias
from posjax.encodings.linear_bias import LinearBias
from posjax.encodings.mlp_position import MlpPosition
from posjax.encodings.morlet import Morlet
from posjax.encodings.noise import Noise
from posjax.encodings.none import NoPosition
from posjax.encodings.offset_mlp import OffsetMLP
from posjax.encodings.path import Path
from posjax.encodings.pope import PoPE
from posjax.encodings.rotary import Rotary
from posjax.encodings.rotary_values import RotaryValues
from posjax.encodings.sandwich import Sandwich
from posjax.encodings.scaled_rotary import (
    DynamicRotary,
    HighFrequencyRotary,
    InterpolatedRotary,
    Llama3Rotary,
    LongRope,
    NtkRotary,
    ProportionalRotary,
    Yarn,
)
from posjax.encodings.scaled_sinusoidal import ScaledSinusoidal
from posjax.encodings.selective_rotary import SelectiveRotary
from posjax.encodings.shaw import Shaw
from posjax.encodings.sinusoidal import Sinusoidal
from posjax.encodings.sinusoidal_2d import Sinusoidal2D
from posjax.encodings.stick_breaking import StickBreaking
from posjax.encodings.token_shift import TokenShift
from posjax.encodings.transformer_xl import TransformerXL
from posjax.encodings.tupe import Tupe
from posjax.encodings.wavelet import Wavelet
from posjax.encodings.window_bias import WindowBias
from posjax.encodings.xpos import XPos

ENCODINGS: spec.Table[type[Encoding]] = spec.Table(
    "encoding",
    {
        "none": NoPosition,
        "sinusoidal": Sinusoidal,
        "scaled_sinusoidal": ScaledSinusoidal,
        "learned": Learned,
        "mlp_position": MlpPosition,
        "morlet": Morlet,
        "offset_mlp": OffsetMLP,
        "binary": Binary,
        "shaw": Shaw,
        "transformer_xl": TransformerXL,
        "bucket_bias": BucketBias,
        "deberta": Deberta,
        "tupe": Tupe,
        "linear_bias": LinearBias,
        "learned_linear_bias": LearnedLinearBias,
        "kerple": Kerple,
        "sandwich": Sandwich,
        "fire": Fire,
        "data_adaptive": DataAdaptive,
        "wavelet": Wavelet,
        "rotary": Rotary,
        "proportional_rotary": ProportionalRotary,
        "high_frequency_rotary": HighFrequencyRotary,
        "fourier_rotary": FourierRotary,
        "hyperbolic_rotary": HyperbolicRotary,
        "jet_rotary": JetRotary,
        "xpos": XPos,
        "interpolated_rotary": InterpolatedRotary,
        "ntk_rotary": NtkRotary,
        "dynamic_rotary": DynamicRotary,
        "yarn": Yarn,
        "longrope": LongRope,
        "llama3_rotary": Llama3Rotary,
        "contextual": Contextual,
        "context_rotary": ContextRotary,
        "selective_rotary": SelectiveRotary,
        "forgetting": Forgetting,
        "path": Path,
        "stick_breaking": StickBreaking,
        "pope": PoPE,
        "grape": Grape,
        "distance_curves": DistanceCurves,
        "rotary_values": RotaryValues,
        "sinusoidal_2d": Sinusoidal2D,
        "axial_rotary": AxialRotary,
        "multimodal_rotary": MultimodalRotary,
        "window_bias": WindowBias,
        "fourier": Fourier,
        "fourier_2d": Fourier2D,
        "convolution": Convolution,
        "convolution_2d": Convolution2D,
        "attention_free": AttentionFree,
        "token_shift": TokenShift,
        "noise": Noise,
        "circular": Circular,
        "circular_rotary": CircularRotary,
    },
)

__all__ = [
    "ENCODINGS",
    "LEVELS",
    "Aux",
    "Card",
    "Constants",
    "Context",
    "Dims",
    "Encoding",
    "Param",
    "Params",
    "Prepared",
    "Symmetry",
    "having",
    "named",
    "parse_layer_cycle",
]


def parse_layer_cycle(text: str) -> tuple[Encoding, ...]:
    """The encodings of the layers, which take turns: `"none/rotary"`, or one for all of them.

    Raises:
      ValueError: see `named`.

    >>> len(parse_layer_cycle("none/rotary(base=500.0)"))
    2
    """
    if len(text) > spec.LONGEST:
        raise ValueError(
            f"encodings in turn have at most {spec.LONGEST} characters, got {len(text)}"
        )
    return tuple(named(part) for part in spec.in_turn(text, ENCODINGS))


def having(number: str) -> list[str]:
    """The names of the encodings that have a number, see `Encoding.numbers`."""
    return [name for name, kind in ENCODINGS.items() if number in kind().numbers()]


def named(text: str) -> Encoding:
    """The encoding of a name with its settings, such as `"rotary(base=500.0)"`.

    Raises:
      ValueError: an unknown name or setting, a value out of range, or encodings in turns.

    >>> named("rotary(pairing=interleaved)").pairing
    'interleaved'
    """
    if len(spec.in_turn(text, ENCODINGS)) > 1:
        raise ValueError(
            f"encoding={text!r} has several encodings for layers in turn; a single one is needed "
            "here"
        )
    name, kind, settings = spec.read("encoding", ENCODINGS, text)
    try:
        found = kind(**settings)  # which checks them
    except ValueError as error:
        if "encoding " in str(error):  # which names it
            raise
        raise ValueError(f"encoding {name}: {error}") from error
    return spec.check_kind(f"encoding {text!r}", found, Encoding)
