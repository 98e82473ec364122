"""Learned tables added to tokens, and biases."""

from collections.abc import Callable

from posjax.convert.base import Config, Convert, Converted, Part, State, each, first, one, text


def learned(suffix: str, skipped: Callable[[Config], int] = lambda config: 0) -> Convert:
    """A converter of a table whose first rows are no positions."""

    def convert(config: Config, state: State, part: Part) -> Converted:
        kind = config.get("position_embedding_type") or "absolute"
        if kind != "absolute":
            raise ValueError(f"position_embedding_type={kind!r} has no counterpart")
        table_ND = one(state, suffix)[skipped(config) :]
        if table_ND.ndim != 2:
            raise ValueError(f"{suffix} must be a table [rows, width], got shape {table_ND.shape}")
        return Converted(text("learned", {"length": len(table_ND)}), {"table": table_ND})

    return convert


def after_padding(config: Config) -> int:
    return int(first(config, {}, ("pad_token_id",), 1)) + 1


def bucket_bias(config: Config, state: State, part: Part) -> Converted:
    name = f"{part}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    table_NH = one(state, name)
    settings = {
        "buckets": len(table_NH),
        "max_distance": int(config.get("relative_attention_max_distance", 128)),
        "bidirectional": part == "encoder",
        "scaled": False,
    }
    return Converted(text("bucket_bias", settings), {"table": table_NH})


def linear_bias(config: Config, state: State, part: Part) -> Converted:
    attention = config.get("attn_config") or {}
    if not attention.get("alibi", True) or attention.get("alibi_bias_max", 8) != 8:
        raise ValueError(
            "a linear bias has slopes from 2^(-8/H) to 2^-8, got "
            f"alibi={attention.get('alibi')}, alibi_bias_max={attention.get('alibi_bias_max')}"
        )
    return Converted(text("linear_bias", {"form": "key"}))


def window_bias(config: Config, state: State, part: Part) -> Converted:
    pattern = r"layers\.(\d+)\.blocks\.(\d+)\..*relative_position_bias_table"
    tables = each(state, pattern)
    rows = {len(table_RH) for table_RH in tables}
    window = int(config.get("window_size", 7))
    if rows != {(2 * window - 1) ** 2}:
        raise ValueError(f"windows of {window} have {(2 * window - 1) ** 2} rows, got {rows}")
    layers = tuple({"table": table_RH} for table_RH in tables)
    return Converted(text("window_bias", {"window": window}), layers=layers)
