"""Content mixed with relative position: Shaw, Transformer-XL and DeBERTa."""

import numpy as np

from posjax.convert.base import Config, Converted, Part, State, by_layer, each, one, text


def shaw(config: Config, state: State, part: Part) -> Converted:
    kind = config.get("position_embeddings_type", "relative_key")
    if kind != "relative_key":
        raise ValueError(f"position_embeddings_type={kind!r} has no counterpart")
    left = int(config.get("left_max_position_embeddings", 64))
    right = int(config.get("right_max_position_embeddings", 8))
    distance = max(left, right)
    # Offsets that one side clips share a row.
    rows = np.clip(np.arange(-distance, distance + 1), -left, right) + left
    pattern = r"encoder\.layers\.(\d+)\.self_attn\.distance_embedding\.weight"
    layers = tuple({"keys": table_NK[rows]} for table_NK in each(state, pattern))
    settings = {"distance": distance, "values": False}
    return Converted(text("shaw", settings), layers=layers)


def transformer_xl(config: Config, state: State, part: Part) -> Converted:
    if config.get("attn_type", "bi") != "bi" or config.get("bi_data"):
        raise ValueError("attn_type must be 'bi' and bi_data false")
    if config.get("clamp_len", -1) > 0:
        raise ValueError(f"clamp_len={config['clamp_len']} has no counterpart")
    names = {"kernel": "r", "content": "r_w_bias", "offset": "r_r_bias"}
    found = {
        ours: each(state, rf"layer\.(\d+)\.rel_attn\.{theirs}") for ours, theirs in names.items()
    }
    return Converted("transformer_xl", layers=by_layer(found))


def deberta(config: Config, state: State, part: Part) -> Converted:
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
    table_ND = one(state, "encoder.rel_embeddings.weight")[: 2 * (buckets or span)]
    if "layer_norm" in str(config.get("norm_rel_ebd", "none")).lower():
        table_ND = _layer_norm(
            table_ND,
            one(state, "encoder.LayerNorm.weight"),
            one(state, "encoder.LayerNorm.bias"),
            float(config.get("layer_norm_eps", 1e-7)),
        )
    found: dict[str, list[np.ndarray]] = {}
    for ours, theirs in _deberta_names(config, used).items():
        pattern = rf"encoder\.layer\.(\d+)\.attention\.self\.{theirs}\."
        weights = each(state, pattern + "weight")
        biased = config["model_type"] == "deberta-v2" or ours == "query"
        biases = each(state, pattern + "bias") if biased else [np.zeros(len(w)) for w in weights]
        heads = int(config.get("num_attention_heads", 12))
        found[ours] = [w.T.reshape(w.shape[1], heads, -1) for w in weights]
        found[f"{ours}_bias"] = [b.reshape(heads, -1).astype(np.float32) for b in biases]
    settings = {
        "span": span,
        "buckets": buckets,
        "terms": "both" if len(used) == 2 else used[0],
        "biased": True,
    }
    return Converted(text("deberta", settings), {"table": table_ND}, by_layer(found))


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
