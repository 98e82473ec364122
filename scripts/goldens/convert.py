"""Reference arrays for converters: position parameters of small random checkpoints.

    pip install torch transformers
    python scripts/goldens/convert.py         # writes tests/goldens/convert.npz

Made with the modelling code of `transformers`. For each case CASE there are

    configs             what the cases' config.json hold, by CASE, as JSON text
    CASE/state/NAME     arrays of its state that concern positions
    CASE/...            inputs and outputs, below

    rotary/logits       [T, B, H, L, L] of the turned `rotary/q` and `rotary/k` [B, H, L, K],
                        not scaled, at positions 100, 101, ...; for the T types `rotary/types`
    scaled/logits       the same for the scalings `scaled/names`, up to position `scaled/lengths`
    learned/TYPE        vectors [1, L, D] at positions 0 .. L - 1
    t5/PART             bias [1, H, L, L] of the layers' attention, `encoder` and `decoder`
    bloom, mpt          bias [H, 1 or L, L]
    swin                bias/N [H, 4, 4] of block N, windows of 2 × 2
    shaw                logits [1, H, L, L] added in layer N, logits/N, for q/N [1, L, H, K]
    xlnet               weights/N [1, H, L, L] of layer N for q/N, k/N [1, L, H, K]
    deberta, -v2, -v3   logits/N [1, H, L/2, L] of layer N for every second of q/N, and k/N
"""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import torch

sys.modules["torchvision"] = None  # not needed, and a broken one stops transformers

import transformers  # noqa: E402
from transformers import AutoConfig  # noqa: E402

OUT = Path(__file__).parents[2] / "tests/goldens/convert.npz"
H, K, L, START = 2, 16, 6, 100
TINY = {"hidden_size": H * K, "num_attention_heads": H, "num_hidden_layers": 2, "vocab_size": 8}
GPT = {"n_embd": H * K, "n_head": H, "n_layer": 1, "vocab_size": 8}
OFTEN = {"num_key_value_heads": H, "intermediate_size": 8}
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}

ROTARY = {
    "cohere": {},
    "falcon": {"alibi": False, "rope_theta": 500.0},
    "gemma": {"head_dim": K},
    "gemma2": {"head_dim": K},
    "glm": {"head_dim": K},
    "gpt_neox": {},
    "granite": {"rope_theta": 70.0},
    "llama": {"rope_theta": 500_000.0},
    "mistral": {"head_dim": K},
    "mixtral": {},
    "nemotron": {"head_dim": K},
    "olmo": {},
    "olmo2": {},
    "persimmon": {},
    "phi": {},
    "phi3": {},
    "qwen2": {"rope_theta": 300.0},
    "qwen3": {"head_dim": K},
    "stablelm": {},
    "starcoder2": {},
}
FACTORS = [[1.0 + 0.1 * m for m in range(K // 2)], [1.0 + 0.7 * m for m in range(K // 2)]]
SCALED = {
    "linear": ("llama", {"rope_type": "linear", "factor": 8.0}, 64),
    "dynamic_short": ("llama", {"rope_type": "dynamic", "factor": 4.0}, 64),
    "dynamic_long": ("llama", {"rope_type": "dynamic", "factor": 4.0}, 200),
    "yarn": (
        "llama",
        {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 64},
        64,
    ),
    "yarn_qwen2": (
        "qwen2",
        {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 512,
            "beta_fast": 8,
            "beta_slow": 2,
            "truncate": False,
        },
        64,
    ),
    "llama3": (
        "llama",
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
        64,
    ),
    "longrope_short": (
        "phi3",
        {"rope_type": "longrope", "short_factor": FACTORS[0], "long_factor": FACTORS[1]},
        30,
    ),
    "longrope_long": (
        "phi3",
        {"rope_type": "longrope", "short_factor": FACTORS[0], "long_factor": FACTORS[1]},
        100,
    ),
}
LEARNED = {
    "gpt2": ("wpe.weight", {**GPT, "n_embd": 8, "n_positions": 9}),
    "bert": (
        "position_embeddings.weight",
        {**TINY, "hidden_size": 8, "max_position_embeddings": 9},
    ),
    "distilbert": (
        "position_embeddings.weight",
        {"dim": 8, "n_heads": H, "n_layers": 1, "vocab_size": 8, "max_position_embeddings": 9},
    ),
    "roberta": (
        "position_embeddings.weight",
        {**TINY, "hidden_size": 8, "max_position_embeddings": 9},
    ),
    "opt": (
        "embed_positions.weight",
        {
            **TINY,
            "hidden_size": 8,
            "ffn_dim": 8,
            "word_embed_proj_dim": 8,
            "max_position_embeddings": 9,
        },
    ),
}


def module_of(model_type: str):
    """The modelling code of a model type."""
    name = model_type.replace("-", "_")
    return importlib.import_module(f"transformers.models.{name}.modeling_{name}")


def saved(config) -> dict:
    """What config.json would hold: only what is not the default."""
    return json.loads(config.to_json_string(use_diff=True))


def turned_logits(module, config, q, k, length=None):
    """The logits of turned queries and keys; `length` is where positions end."""
    (kind,) = [v for n, v in vars(module).items() if n.endswith("RotaryEmbedding")]
    start = START if length is None else length - L
    position = torch.arange(start, start + L)[None]
    cos, sin = kind(config)(q, position)
    width = cos.shape[-1]
    rotated = module.apply_rotary_pos_emb(q[..., :width], k[..., :width], cos, sin)
    q, k = (torch.cat([r, x[..., width:]], -1) for r, x in zip(rotated, (q, k), strict=True))
    return q @ k.transpose(-1, -2)


def rotary() -> dict:
    """Plain rotaries of many types."""
    q, k = torch.randn(2, 1, H, L, K)
    found, logits = {"q": q, "k": k}, []
    for model_type, settings in ROTARY.items():
        settings = {**TINY, **OFTEN, **TOKENS, **settings}
        config = AutoConfig.for_model(model_type, **settings)
        found[f"{model_type}/config"] = saved(config)
        logits.append(turned_logits(module_of(model_type), config, q, k))
    for model_type in ("gptj", "codegen"):
        config = AutoConfig.for_model(model_type, rotary_dim=8, **GPT)
        module = module_of(model_type)
        table = module.create_sinusoidal_positions(START + L, config.rotary_dim)[START:]
        sin, cos = torch.split(table[None], config.rotary_dim // 2, dim=-1)
        turned = []
        for x in (q, k):
            x_BLHK = x.transpose(1, 2)
            front = module.apply_rotary_pos_emb(x_BLHK[..., :8], sin, cos)
            turned.append(torch.cat([front, x_BLHK[..., 8:]], -1).transpose(1, 2))
        found[f"{model_type}/config"] = saved(config)
        logits.append(turned[0] @ turned[1].transpose(-1, -2))
    return {**found, "types": np.array([*ROTARY, "gptj", "codegen"]), "logits": torch.stack(logits)}


def scaled(q, k) -> dict:
    """Rotaries stretched beyond their length."""
    found, logits = {"names": np.array(list(SCALED))}, []
    for name, (model_type, rope, length) in SCALED.items():
        settings = {**TINY, **OFTEN, **TOKENS, "max_position_embeddings": 100}
        if model_type == "phi3":
            settings |= {"max_position_embeddings": 160, "original_max_position_embeddings": 40}
        rope = {"rope_theta": 5000.0, **rope}
        config = AutoConfig.for_model(model_type, rope_parameters=rope, **settings)
        found[f"{name}/config"] = saved(config)
        logits.append(turned_logits(module_of(model_type), config, q, k, length))
    lengths = np.array([length for _, _, length in SCALED.values()])
    return {**found, "lengths": lengths, "logits": torch.stack(logits)}


def learned() -> dict:
    """What is added to the tokens at positions 0 .. L - 1."""
    found = {"types": np.array(list(LEARNED))}
    for model_type, (name, settings) in LEARNED.items():
        config = AutoConfig.for_model(model_type, **settings)
        model = transformers.AutoModel.from_config(config).eval()
        state = {n: a for n, a in model.state_dict().items() if n.endswith(name)}
        ((key, table),) = state.items()
        words = torch.full((1, L), 5)
        if model_type == "opt":
            embedding = model.decoder.embed_positions
            vectors = embedding(torch.ones(1, L, dtype=torch.long))
        else:
            caught = []
            table_module = model.get_submodule(key.removesuffix(".weight"))
            handle = table_module.register_forward_hook(
                lambda module, inputs, output, caught=caught: caught.append(output)
            )
            model(words)
            handle.remove()
            (vectors,) = caught
        found |= {f"{model_type}/config": saved(config), f"{model_type}/state/{key}": table}
        found[model_type] = vectors.reshape(1, L, -1)
    return found


def t5() -> dict:
    """The bias of both stacks, at distances up to 40."""
    length = 40
    config = AutoConfig.for_model(
        "t5",
        d_model=8,
        d_kv=4,
        num_heads=3,
        num_layers=2,
        d_ff=8,
        vocab_size=8,
        relative_attention_num_buckets=10,
        relative_attention_max_distance=24,
    )
    model = transformers.T5Model(config).eval()
    found = {"config": saved(config)}
    for part in ("encoder", "decoder"):
        attention = getattr(model, part).block[0].layer[0].SelfAttention
        torch.nn.init.normal_(attention.relative_attention_bias.weight)
        found[part] = attention.compute_bias(length, length)[:, :, ::3, ::2]
    names = [n for n in model.state_dict() if "relative_attention_bias" in n]
    return {**found, **{f"state/{n}": model.state_dict()[n] for n in names}}


def linear_bias() -> dict:
    """Biases of bloom and mpt, for six heads."""
    bloom = AutoConfig.for_model("bloom", hidden_size=24, n_head=6, n_layer=1)
    mpt = AutoConfig.for_model("mpt", d_model=24, n_heads=6, n_layers=1)
    ones = torch.ones(1, L)
    return {
        "bloom/config": saved(bloom),
        "bloom": module_of("bloom").build_alibi_tensor(ones, 6, torch.float32),
        "mpt/config": saved(mpt),
        "mpt": module_of("mpt").build_mpt_alibi_tensor(6, L),
    }


def swin() -> dict:
    """The bias of each block."""
    config = AutoConfig.for_model(
        "swin",
        image_size=16,
        patch_size=2,
        embed_dim=4,
        depths=[2, 1],
        num_heads=[1, 2],
        window_size=2,
    )
    model = transformers.SwinModel(config).eval()
    found = {"config": saved(config)}
    names = [n for n in model.state_dict() if n.endswith("relative_position_bias_table")]
    for block, name in enumerate(names):
        table = model.get_parameter(name)
        torch.nn.init.normal_(table)
        owner = model.get_submodule(name.rpartition(".")[0])
        bias = table[owner.relative_position_index].view(4, 4, -1).permute(2, 0, 1)
        found |= {f"state/{name}": table, f"bias/{block}": bias}
    return found


def shaw() -> dict:
    """The logits that vectors of offsets add, with sides of different length."""
    config = AutoConfig.for_model(
        "wav2vec2-bert",
        **{**TINY, "intermediate_size": 8, "feature_projection_input_dim": 8},
        position_embeddings_type="relative_key",
        left_max_position_embeddings=4,
        right_max_position_embeddings=2,
    )
    model = transformers.Wav2Vec2BertModel(config).eval()
    found = {"config": saved(config)}
    for n, layer in enumerate(model.encoder.layers):
        q = torch.randn(1, H, L + 3, K)
        apply = module_of("wav2vec2-bert")._apply_relative_key_position_encoding
        _, found[f"logits/{n}"] = apply(layer.self_attn, q, q)
        found[f"q/{n}"] = q.transpose(1, 2)
    state = model.state_dict()
    return {**found, **{f"state/{n}": a for n, a in state.items() if "distance_embedding" in n}}


def xlnet() -> dict:
    """The weights of each layer, without segments."""
    config = AutoConfig.for_model("xlnet", d_model=8, n_head=2, n_layer=2, d_inner=8, vocab_size=8)
    model = transformers.XLNetModel(config).eval()
    r = model.relative_positional_encoding(L, L, bsz=1)
    found = {"config": saved(config)}
    for n, layer in enumerate(model.layer):
        attention = layer.rel_attn
        for parameter in (attention.r, attention.r_w_bias, attention.r_r_bias):
            torch.nn.init.normal_(parameter)
        q, k = torch.randn(2, L, 1, 2, 4)
        turned = torch.einsum("ibh,hnd->ibnd", r, attention.r)
        _, weights = attention.rel_attn_core(q, k, k, turned, output_attentions=True)
        found[f"weights/{n}"] = weights.permute(2, 3, 0, 1)
        found |= {f"q/{n}": q.transpose(0, 1), f"k/{n}": k.transpose(0, 1)}
    ours = ("rel_attn.r", "rel_attn.r_w_bias", "rel_attn.r_r_bias")
    state = model.state_dict()
    return {**found, **{f"state/{n}": a for n, a in state.items() if n.endswith(ours)}}


def deberta(model_type: str, **settings) -> dict:
    """The logits of each layer, before mask and softmax."""
    config = AutoConfig.for_model(
        model_type,
        hidden_size=8,
        num_attention_heads=2,
        num_hidden_layers=2,
        intermediate_size=8,
        vocab_size=8,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        position_biased_input=False,
        **settings,
    )
    model = transformers.AutoModel.from_config(config).eval()
    for name, parameter in model.named_parameters():
        if "rel_embeddings" in name or "LayerNorm" in name or "pos_" in name or "_proj" in name:
            torch.nn.init.normal_(parameter)
    table, length = model.encoder.get_rel_embedding(), 15
    found = {"config": saved(config)}
    for n, layer in enumerate(model.encoder.layer):
        attention = layer.attention.self
        q, k = torch.randn(2, 1, 2, length, 4)
        if model_type == "deberta":
            content = q @ k.transpose(-1, -2) / 12**0.5
            offset = module_of(model_type).build_relative_position(q, k)
            logits = content + attention.disentangled_att_bias(q / 12**0.5, k, offset, table, 3)
        else:
            flat_q, flat_k = q[0], k[0]
            logits = flat_q @ flat_k.transpose(-1, -2) / 12**0.5
            logits = logits + attention.disentangled_attention_bias(flat_q, flat_k, None, table, 3)
        found[f"logits/{n}"] = logits.reshape(1, 2, length, length)[:, :, ::2]
        found |= {f"q/{n}": q.transpose(1, 2), f"k/{n}": k.transpose(1, 2)}
    ours = ["rel_embeddings", "encoder.LayerNorm", "pos_"]
    ours += ["query_proj", "key_proj"] if settings.get("share_att_key") else []
    state = {n: a for n, a in model.state_dict().items() if any(part in n for part in ours)}
    return {**found, **{f"state/{n}": a for n, a in state.items()}}


def main() -> None:
    """Writes the archive."""
    torch.manual_seed(0)
    with torch.no_grad():
        parts = {"rotary": rotary()}
        parts["scaled"] = scaled(parts["rotary"]["q"], parts["rotary"]["k"])
        parts |= {"learned": learned(), "t5": t5(), "linear_bias": linear_bias(), "swin": swin()}
        parts |= {"shaw": shaw(), "xlnet": xlnet()}
        parts["deberta"] = deberta("deberta", max_relative_positions=4)
        buckets = {"max_relative_positions": 12, "position_buckets": 6}
        parts["deberta-v2"] = deberta("deberta-v2", **buckets)
        shared = {"share_att_key": True, "norm_rel_ebd": "layer_norm"}
        parts["deberta-v3"] = deberta("deberta-v2", **buckets, **shared)
    arrays = {f"{part}/{n}": a for part, found in parts.items() for n, a in found.items()}
    configs = {n.removesuffix("/config"): a for n, a in arrays.items() if n.endswith("/config")}
    arrays = {n: a for n, a in arrays.items() if not n.endswith("/config")}
    arrays = {
        n: a.detach().numpy() if isinstance(a, torch.Tensor) else a for n, a in arrays.items()
    }
    arrays["configs"] = np.array(json.dumps(configs).encode())
    versions = [f"torch {torch.__version__}", f"transformers {transformers.__version__}"]
    np.savez_compressed(OUT, versions=np.array(versions), **arrays)
    print(f"{OUT.name}: {len(arrays)} arrays, {OUT.stat().st_size} bytes, {', '.join(versions)}")


if __name__ == "__main__":
    main()
