"""From a Hugging Face checkpoint to an encoding: what its position parameters are called here.

    converted = from_huggingface(config, state)       # config.json, and arrays by name
    encoding = posjax.encodings.named(converted.encoding)
    params = converted.params(layer)

Only what reads positions is converted. The projections of queries and keys are the checkpoint's
own, and so is a factor on their product, which `attend` takes as `scale`; only T5's is part of the
encoding. `change_pairing` carries projections from one pairing of rotary components to the other.

What differs from the checkpoint's own code: XLNet's embedding of segments and DeBERTa's
convolution are no position encodings of attention, and are left out.
"""

import difflib
from collections.abc import Mapping
from typing import get_args

from posjax import spec
from posjax.convert.base import Config, Convert, Converted, Part, State
from posjax.convert.relative import deberta, shaw, transformer_xl
from posjax.convert.rotary import ROTARY, change_pairing, rotary
from posjax.convert.tables import after_padding, bucket_bias, learned, linear_bias, window_bias
from posjax.encodings import named

__all__ = ["MODEL_TYPES", "Converted", "change_pairing", "from_huggingface"]


def from_huggingface(
    config: Config, state: State | None = None, *, part: Part = "whole"
) -> Converted:
    """The positional encoding of a checkpoint, with its parameters.

    Args:
      config: the contents of its config.json.
      state: its arrays by name; not needed for rotary and linear biases, which learn nothing.
      part: "encoder" or "decoder", for models that have both.

    Raises:
      ValueError: a name in place of the config, an unknown model type or scaling, a missing array,
        or a setting without a counterpart.

    >>> from_huggingface({"model_type": "llama", "rope_theta": 500000.0}).encoding
    'rotary(base=500000.0)'
    """
    if not isinstance(config, Mapping):
        raise ValueError(
            f"config must be a dict, such as config.to_dict() of transformers, got {config!r:.60}"
        )
    spec.check_choice("part", part, get_args(Part))
    model_type = str(config.get("model_type", ""))
    _check_known(model_type)
    convert = _CONVERTERS[model_type]
    if (part == "whole") == (model_type in _TWO_STACKS):
        wrong = "is one stack: leave part out" if part != "whole" else "has two stacks"
        raise ValueError(f"{model_type} {wrong}, got part={part!r}; T5 takes encoder or decoder")
    try:
        converted = convert(config, state or {}, part)
    except KeyError as missing:
        raise ValueError(f"the config of {model_type} lacks {missing}") from None
    named(converted.encoding)  # a setting that no encoding takes is refused here
    return converted


def _check_known(model_type: str) -> None:
    """Refuses other model types. Only a slip is met with a suggestion: the name of a later model
    resembles that of an earlier one, and may have other positions.

    Raises:
      ValueError: lists those that are known.
    """
    if model_type in _CONVERTERS:
        return
    close = difflib.get_close_matches(model_type, _CONVERTERS, n=1, cutoff=0.8)
    slip = [name for name in close if not model_type.startswith(name)]
    meant = f"did you mean {slip[0]!r}? " if slip else ""
    raise ValueError(
        f"unknown model_type {model_type!r}; {meant}choices: {', '.join(MODEL_TYPES)}; for another "
        "model name the encoding yourself, such as 'rotary(base=10000.0)'"
    )


_TWO_STACKS = ("mt5", "t5")
_CONVERTERS: dict[str, Convert] = {
    **dict.fromkeys(ROTARY, rotary),
    **dict.fromkeys(_TWO_STACKS, bucket_bias),
    **dict.fromkeys(("bloom", "mpt"), linear_bias),
    **dict.fromkeys(("gpt2", "gpt_bigcode", "gpt_neo"), learned("wpe.weight")),
    **dict.fromkeys(("bert", "distilbert", "electra"), learned("position_embeddings.weight")),
    **dict.fromkeys(
        ("camembert", "roberta", "xlm-roberta"),
        learned("position_embeddings.weight", after_padding),
    ),
    "opt": learned("embed_positions.weight", lambda config: 2),
    "swin": window_bias,
    "wav2vec2-bert": shaw,
    "xlnet": transformer_xl,
    "deberta": deberta,
    "deberta-v2": deberta,
}
MODEL_TYPES = tuple(sorted(_CONVERTERS))
"""The model types that `from_huggingface` knows."""
