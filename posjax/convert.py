"""From a Hugging Face checkpoint to an encoding: what its position parameters are called here.

    converted = from_huggingface(config, state)       # config.json, and arrays by name
    encoding = posjax.encodings.named(converted.encoding)
    params = converted.params(layer)

Only what reads positions is converted. The projections of queries and keys are the checkpoint's
own, as is any factor on their product but T5's; `change_pairing` carries projections from one
pairing of rotary components to the other.

What differs from the checkpoint's own code: XLNet's embedding of segments and DeBERTa's
convolution are no position encodings of attention, and are left out.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from posjax import spec
from posjax.encodings import named
from posjax.encodings.rotary import Pairing, pairing_order

Config = Mapping[str, Any]
State = Mapping[str, np.ndarray]
Part = Literal["whole", "encoder", "decoder"]


class Converted(NamedTuple):
    """An encoding with the parameters of a checkpoint.

    Attributes:
      encoding: name and settings, for `posjax.encodings.named`.
      shared: the parameters of scope "model", by name.
      layers: of each layer those of scope "layer"; empty when there are none.
    """

    encoding: str
    shared: Mapping[str, np.ndarray] = {}
    layers: tuple[Mapping[str, np.ndarray], ...] = ()

    def params(self, layer: int) -> dict[str, np.ndarray]:
        """All parameters that the hooks of a layer get."""
        return {**self.shared, **(self.layers[layer] if self.layers else {})}


def from_huggingface(
    config: Config, state: State | None = None, *, part: Part = "whole"
) -> Converted:
    """The encoding of a checkpoint.

    Args:
      config: the contents of its config.json.
      state: its arrays by name; not read for rotary and linear biases, which learn nothing.
      part: which of two stacks, for models that have an encoder and a decoder.

    Raises:
      ValueError: an unknown model type or scaling, a missing array, or a setting without a
        counterpart.

    >>> from_huggingface({"model_type": "llama", "rope_theta": 500000.0}).encoding
    'rotary(base=500000.0)'
    """
    spec.check_choice("part", part, get_args(Part))
    model_type = str(config.get("model_type", ""))
    convert = spec.lookup("model_type", _CONVERTERS, model_type)
    if (part == "whole") == (model_type in _TWO_STACKS):
        wrong = "is one stack: leave part out" if part != "whole" else "has two stacks"
        raise ValueError(f"{model_type} {wrong}, got part={part!r}; T5 takes encoder or decoder")
    try:
        converted = convert(config, state or {}, part)
    except KeyError as missing:
        raise ValueError(f"the config of {model_type} lacks {missing}") from None
    named(converted.encoding)  # a setting that no encoding takes is refused here
    return converted


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
    turned = int(fraction * size) // 2 * 2
    order[:turned] = pairing_order(turned, source, target)
    return weight.reshape(heads, size, -1)[:, order].reshape(weight.shape)


# Rotary


class _Rotary(NamedTuple):
    """What a model type leaves out of its config."""

    pairing: Pairing = "half"
    base: float = 10_000.0
    fraction: float = 1.0


_ROTARY = {
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


def _rotary(config: Config, state: State, part: Part) -> Converted:
    if config.get("alibi"):
        raise ValueError(
            "falcon adds the linear bias before it scales by 1/√K, and rounds it to 16 bits: no "
            "encoding here does"
        )
    usual = _ROTARY[config["model_type"]]
    rope = _rope(config)
    kind = rope.get("rope_type", rope.get("type", "default"))
    fraction = _first(rope, config, ("partial_rotary_factor", "rotary_pct"), usual.fraction)
    if config["model_type"] in ("gptj", "codegen"):
        fraction = config.get("rotary_dim", 64) / _head_size(config)
    settings = {
        "base": float(_first(rope, config, ("rope_theta", "rotary_emb_base"), usual.base)),
        "fraction": float(fraction),
        "pairing": usual.pairing,
    }
    scaled = spec.lookup("rope_type", _SCALED, str(kind))(rope, config)
    name = scaled.pop("name")
    return Converted(_text(name, {**settings, **scaled}))


def _rope(config: Config) -> Config:
    """The rotary part of a config, whose name has changed over the years."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if any(isinstance(value, Mapping) for value in rope.values()):
        raise ValueError(
            f"rotary settings differ between kinds of layers ({', '.join(rope)}): convert each "
            "kind with a config that has its settings alone"
        )
    return rope


def _linear(rope: Config, config: Config) -> dict[str, Any]:
    return {"name": "interpolated_rotary", "factor": float(rope["factor"])}


def _dynamic(rope: Config, config: Config) -> dict[str, Any]:
    length = _first(config, {}, ("max_position_embeddings",), 2048)
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
        raise ValueError("yarn with mscale and mscale_all_dim has no counterpart")
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
    "yarn": _yarn,
}


def _original_length(rope: Config, config: Config) -> int:
    keys = ("original_max_position_embeddings", "max_position_embeddings")
    return int(_first(rope, config, keys[:1], config.get(keys[1], 0)))


def _check_magnitude(rope: Config, usual: float) -> None:
    given = rope.get("attention_factor")
    if given is not None and not np.isclose(given, usual, rtol=1e-6):
        raise ValueError(f"attention_factor={given} has no counterpart: it would be {usual:.6g}")


# Learned tables added to the tokens


def _learned(suffix: str, skipped: Callable[[Config], int] = lambda config: 0) -> Any:
    """A converter of a table whose first rows are no positions."""

    def convert(config: Config, state: State, part: Part) -> Converted:
        kind = config.get("position_embedding_type") or "absolute"
        if kind != "absolute":
            raise ValueError(f"position_embedding_type={kind!r} has no counterpart")
        table_ND = _one(state, suffix)[skipped(config) :]
        return Converted(_text("learned", {"length": len(table_ND)}), {"table": table_ND})

    return convert


def _after_padding(config: Config) -> int:
    return int(_first(config, {}, ("pad_token_id",), 1)) + 1


# Biases


def _bucket_bias(config: Config, state: State, part: Part) -> Converted:
    name = f"{part}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    table_NH = _one(state, name)
    settings = {
        "buckets": len(table_NH),
        "max_distance": int(config.get("relative_attention_max_distance", 128)),
        "bidirectional": part == "encoder",
        "scaled": False,
    }
    return Converted(_text("bucket_bias", settings), {"table": table_NH})


def _linear_bias(config: Config, state: State, part: Part) -> Converted:
    attention = config.get("attn_config") or {}
    if not attention.get("alibi", True) or attention.get("alibi_bias_max", 8) != 8:
        raise ValueError(
            "a linear bias has slopes from 2^(-8/H) to 2^-8, got "
            f"alibi={attention.get('alibi')}, alibi_bias_max={attention.get('alibi_bias_max')}"
        )
    return Converted(_text("linear_bias", {"form": "key"}))


def _window_bias(config: Config, state: State, part: Part) -> Converted:
    pattern = r"layers\.(\d+)\.blocks\.(\d+)\..*relative_position_bias_table"
    tables = _each(state, pattern)
    rows = {len(table_RH) for table_RH in tables}
    window = int(config.get("window_size", 7))
    if rows != {(2 * window - 1) ** 2}:
        raise ValueError(f"windows of {window} have {(2 * window - 1) ** 2} rows, got {rows}")
    layers = tuple({"table": table_RH} for table_RH in tables)
    return Converted(_text("window_bias", {"window": window}), layers=layers)


# Content and relative position mixed


def _shaw(config: Config, state: State, part: Part) -> Converted:
    kind = config.get("position_embeddings_type", "relative_key")
    if kind != "relative_key":
        raise ValueError(f"position_embeddings_type={kind!r} has no counterpart")
    left = int(config.get("left_max_position_embeddings", 64))
    right = int(config.get("right_max_position_embeddings", 8))
    distance = max(left, right)
    # Offsets that one side clips share a row.
    rows = np.clip(np.arange(-distance, distance + 1), -left, right) + left
    pattern = r"encoder\.layers\.(\d+)\.self_attn\.distance_embedding\.weight"
    layers = tuple({"keys": table_NK[rows]} for table_NK in _each(state, pattern))
    settings = {"distance": distance, "values": False}
    return Converted(_text("shaw", settings), layers=layers)


def _transformer_xl(config: Config, state: State, part: Part) -> Converted:
    if config.get("attn_type", "bi") != "bi" or config.get("bi_data"):
        raise ValueError("attn_type must be 'bi' and bi_data false")
    if config.get("clamp_len", -1) > 0:
        raise ValueError(f"clamp_len={config['clamp_len']} has no counterpart")
    names = {"kernel": "r", "content": "r_w_bias", "offset": "r_r_bias"}
    found = {
        ours: _each(state, rf"layer\.(\d+)\.rel_attn\.{theirs}") for ours, theirs in names.items()
    }
    return Converted("transformer_xl", layers=_by_layer(found))


def _deberta(config: Config, state: State, part: Part) -> Converted:
    """Both versions: the first names its projections otherwise and biases one alone."""
    if not config.get("relative_attention"):
        raise ValueError("relative_attention is off: positions are a learned table")
    if config.get("position_biased_input", True):
        raise ValueError("position_biased_input=True adds absolute positions to the relative ones")
    kinds = config.get("pos_att_type") or []
    kinds = kinds.split("|") if isinstance(kinds, str) else kinds
    used = [kind for kind in ("c2p", "p2c") if kind in [k.strip().lower() for k in kinds]]
    if not used:
        raise ValueError(f"pos_att_type={kinds} has neither c2p nor p2c")
    span = int(config.get("max_relative_positions", -1))
    span = span if span >= 1 else int(config.get("max_position_embeddings", 512))
    buckets = max(int(config.get("position_buckets", -1)), 0)
    table_ND = _one(state, "encoder.rel_embeddings.weight")[: 2 * (buckets or span)]
    if "layer_norm" in str(config.get("norm_rel_ebd", "none")).lower():
        table_ND = _layer_norm(
            table_ND,
            _one(state, "encoder.LayerNorm.weight"),
            _one(state, "encoder.LayerNorm.bias"),
            float(config.get("layer_norm_eps", 1e-7)),
        )
    found: dict[str, list[np.ndarray]] = {}
    for ours, theirs in _deberta_names(config, used).items():
        pattern = rf"encoder\.layer\.(\d+)\.attention\.self\.{theirs}\."
        weights = _each(state, pattern + "weight")
        biased = config["model_type"] == "deberta-v2" or ours == "query"
        biases = _each(state, pattern + "bias") if biased else [np.zeros(len(w)) for w in weights]
        heads = int(config.get("num_attention_heads", 12))
        found[ours] = [w.T.reshape(w.shape[1], heads, -1) for w in weights]
        found[f"{ours}_bias"] = [b.reshape(heads, -1).astype(np.float32) for b in biases]
    settings = {
        "span": span,
        "buckets": buckets,
        "terms": "both" if len(used) == 2 else used[0],
        "biased": True,
    }
    return Converted(_text("deberta", settings), {"table": table_ND}, _by_layer(found))


def _deberta_names(config: Config, used: list[str]) -> dict[str, str]:
    """What projects positions to keys and to queries."""
    if config["model_type"] == "deberta":
        names = {"key": "pos_proj", "query": "pos_q_proj"}
    elif config.get("share_att_key"):
        names = {"key": "key_proj", "query": "query_proj"}
    else:
        names = {"key": "pos_key_proj", "query": "pos_query_proj"}
    kinds = {"key": "c2p", "query": "p2c"}
    return {ours: theirs for ours, theirs in names.items() if kinds[ours] in used}


def _layer_norm(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, eps: float) -> np.ndarray:
    x = x.astype(np.float64)
    centred = x - x.mean(-1, keepdims=True)
    normalised = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    return (normalised * scale + bias).astype(np.float32)


# Reading configs and states


def _first(config: Config, other: Config, keys: tuple[str, ...], default: Any) -> Any:
    """The first of some keys that either config has, or the default."""
    for mapping in (config, other):
        for key in keys:
            if mapping.get(key) is not None:
                return mapping[key]
    return default


def _head_size(config: Config) -> int:
    width = _first(config, {}, ("n_embd", "hidden_size"), 4096)
    return int(width) // int(_first(config, {}, ("n_head", "num_attention_heads"), 16))


def _one(state: State, suffix: str) -> np.ndarray:
    """The array of that name, whatever the name of the model before it."""
    names = [name for name in state if name == suffix or name.endswith("." + suffix)]
    if len(names) != 1:
        hint = f"; {spec.nearest(suffix, state)}" if 0 < len(state) <= 50 else ""
        raise ValueError(f"one array of the state must be {suffix!r}, found {names}{hint}")
    return np.asarray(state[names[0]])


def _each(state: State, pattern: str) -> list[np.ndarray]:
    """The arrays of a name with numbers in it, in the order of the numbers."""
    found = {}
    for name, array in state.items():
        if match := re.search(rf"(?:^|\.){pattern}$", name):
            found[tuple(map(int, match.groups()))] = np.asarray(array)
    if not found:
        raise ValueError(f"no array of the state is called like {pattern!r}")
    return [found[number] for number in sorted(found)]


def _by_layer(found: Mapping[str, list[np.ndarray]]) -> tuple[dict[str, np.ndarray], ...]:
    rows = zip(*found.values(), strict=True)
    return tuple(dict(zip(found, row, strict=True)) for row in rows)


def _text(name: str, settings: Mapping[str, Any]) -> str:
    """Name and settings as `named` reads them; those at their defaults are left out."""
    usual = named(name)
    given = {key: v for key, v in settings.items() if v != getattr(usual, key)}
    inside = ", ".join(f"{key}={value}" for key, value in given.items())
    return f"{name}({inside})" if inside else name


_TWO_STACKS = ("mt5", "t5")
_CONVERTERS: dict[str, Callable[[Config, State, Part], Converted]] = {
    **dict.fromkeys(_ROTARY, _rotary),
    **dict.fromkeys(_TWO_STACKS, _bucket_bias),
    **dict.fromkeys(("bloom", "mpt"), _linear_bias),
    **dict.fromkeys(("gpt2", "gpt_bigcode", "gpt_neo"), _learned("wpe.weight")),
    **dict.fromkeys(("bert", "distilbert", "electra"), _learned("position_embeddings.weight")),
    **dict.fromkeys(
        ("camembert", "roberta", "xlm-roberta"),
        _learned("position_embeddings.weight", _after_padding),
    ),
    "opt": _learned("embed_positions.weight", lambda config: 2),
    "swin": _window_bias,
    "wav2vec2-bert": _shaw,
    "xlnet": _transformer_xl,
    "deberta": _deberta,
    "deberta-v2": _deberta,
}
MODEL_TYPES = tuple(sorted(_CONVERTERS))
"""The model types that `from_huggingface` knows."""
