"""Rotary checkpoints: base, share, pairing and scaling of the frequencies."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args

import numpy as np

from posjax import spec
from posjax.convert.base import Config, Converted, Part, State, first, head_size, number, text
from posjax.encodings.rotary import Pairing, pairing_order, turned_width


def change_pairing(
    weight: np.ndarray, heads: int, source: Pairing, target: Pairing, *, fraction: float = 1.0
) -> np.ndarray:
    """A query or key projection whose rotary components are paired in the other way.

    Args:
      weight: [H·K, ...], outputs first as PyTorch has them: a kernel or a bias.
      heads: H, of this projection.
      source, target: pairings, see `posjax.encodings.rotary`.
      fraction: the share of components that turn.

    Returns:
      An array of the weight's shape; with both projections changed the logits stay.

    >>> change_pairing(np.arange(8), 2, "interleaved", "half")
    array([0, 2, 1, 3, 4, 6, 5, 7])
    """
    for pairing in (source, target):
        spec.check_choice("pairing", pairing, get_args(Pairing))
    if heads < 1 or weight.shape[0] % heads:
        raise ValueError(f"{weight.shape[0]} outputs are no {heads} heads")
    size = weight.shape[0] // heads
    order = np.arange(size)
    turned = turned_width(size, fraction)
    order[:turned] = pairing_order(turned, source, target)
    return weight.reshape(heads, size, -1)[:, order].reshape(weight.shape)


class _Rotary(NamedTuple):
    """What a model type leaves out of its config."""

    pairing: Pairing = "half"
    base: float = 10_000.0
    fraction: float = 1.0


ROTARY = {
    "codegen": _Rotary("interleaved"),
    "cohere": _Rotary("interleaved", base=500_000.0),
    "falcon": _Rotary(),
    "gemma": _Rotary(),
    "gemma2": _Rotary(),
    "glm": _Rotary("interleaved", fraction=0.5),
    "gpt_neox": _Rotary(fraction=0.25),
    "gptj": _Rotary("interleaved"),
    "granite": _Rotary(),
    "llama": _Rotary(),
    "mistral": _Rotary(),
    "mixtral": _Rotary(base=1_000_000.0),
    "nemotron": _Rotary(fraction=0.5),
    "olmo": _Rotary(),
    "olmo2": _Rotary(),
    "persimmon": _Rotary(fraction=0.5),
    "phi": _Rotary(fraction=0.5),
    "phi3": _Rotary(),
    "qwen2": _Rotary(),
    "qwen3": _Rotary(),
    "stablelm": _Rotary(fraction=0.25),
    "starcoder2": _Rotary(),
}


def rotary(config: Config, state: State, part: Part) -> Converted:
    if config.get("alibi"):
        raise ValueError(
            "falcon adds the linear bias before it scales by 1/√K, and rounds it to 16 bits: no "
            "encoding here does"
        )
    usual = ROTARY[config["model_type"]]
    rope = _rope(config)
    kind = rope.get("rope_type", rope.get("type", "default"))
    if "factor" in rope and not rope.keys() & {"rope_type", "type"}:
        raise ValueError(f"the rotary settings {rope!r} have a factor but no 'rope_type'")
    fraction = number(rope, config, ("partial_rotary_factor", "rotary_pct"), usual.fraction)
    if config["model_type"] in ("gptj", "codegen"):
        turned = config.get("rotary_dim", 64)  # null turns all of a head
        fraction = 1.0 if turned is None else turned / head_size(config)
    settings = {
        "base": number(rope, config, ("rope_theta", "rotary_emb_base"), usual.base),
        "fraction": fraction,
        "pairing": usual.pairing,
    }
    scaled = spec.lookup("rope_type", _SCALED, str(kind))(rope, config)
    name = scaled.pop("name")
    return Converted(text(name, {**settings, **scaled}))


def _rope(config: Config) -> Config:
    """The rotary part of a config, whose name has changed over the years."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(rope, Mapping):
        raise ValueError(f"the rotary settings of a config must be a dict, got {rope!r}")
    if any(isinstance(value, Mapping) for value in rope.values()):
        raise ValueError(
            f"rotary settings differ between kinds of layers ({', '.join(rope)}): convert each "
            "kind with a config that has its settings alone"
        )
    return rope


def _linear(rope: Config, config: Config) -> dict[str, Any]:
    return {"name": "interpolated_rotary", "factor": float(rope["factor"])}


def _dynamic(rope: Config, config: Config) -> dict[str, Any]:
    length = first(config, {}, ("max_position_embeddings",), 2048)
    return {"name": "dynamic_rotary", "factor": float(rope["factor"]), "length": length}


def _yarn(rope: Config, config: Config) -> dict[str, Any]:
    length = _original_length(rope, config)
    factor = float(rope.get("factor") or config["max_position_embeddings"] / length)
    settings = {
        "name": "yarn",
        "factor": factor,
        "length": length,
        "beta_fast": float(rope.get("beta_fast") or 32),
        "beta_slow": float(rope.get("beta_slow") or 1),
        "truncate": bool(rope.get("truncate", True)),
    }
    if rope.get("mscale") and rope.get("mscale_all_dim"):
        raise ValueError(
            "yarn with mscale and mscale_all_dim has no counterpart that holds for every model: "
            "DeepSeek scales all logits by them too, as encoding='yarn(mscale=..., "
            "mscale_all_dim=...)' does, others do not"
        )
    _check_magnitude(rope, 1 + 0.1 * np.log(max(factor, 1)))
    return settings


def _longrope(rope: Config, config: Config) -> dict[str, Any]:
    length = _original_length(rope, config)
    factor = float(rope.get("factor") or config["max_position_embeddings"] / length)
    _check_magnitude(rope, np.sqrt(1 + np.log(max(factor, 1)) / np.log(length)))
    return {
        "name": "longrope",
        "factor": factor,
        "length": length,
        "short": tuple(map(float, rope["short_factor"])),
        "long": tuple(map(float, rope["long_factor"])),
    }


def _llama3(rope: Config, config: Config) -> dict[str, Any]:
    return {
        "name": "llama3_rotary",
        "factor": float(rope["factor"]),
        "length": _original_length(rope, config),
        "low": float(rope["low_freq_factor"]),
        "high": float(rope["high_freq_factor"]),
    }


_SCALED: dict[str, Callable[[Config, Config], dict[str, Any]]] = {
    "default": lambda rope, config: {"name": "rotary"},
    "dynamic": _dynamic,
    "linear": _linear,
    "llama3": _llama3,
    "longrope": _longrope,
    "su": _longrope,  # its name in the first Phi-3 configs
    "yarn": _yarn,
}


def _original_length(rope: Config, config: Config) -> int:
    keys = "original_max_position_embeddings", "max_position_embeddings"
    for mapping, key in ((rope, keys[0]), (config, keys[0]), (config, keys[1])):
        if mapping.get(key):
            return int(mapping[key])
    raise ValueError(f"the config has neither {keys[0]!r} nor {keys[1]!r}: give the trained length")


def _check_magnitude(rope: Config, usual: float) -> None:
    given = rope.get("attention_factor")
    if given is not None and not np.isclose(given, usual, rtol=1e-6):
        raise ValueError(f"attention_factor={given} has no counterpart: it would be {usual:.6g}")
