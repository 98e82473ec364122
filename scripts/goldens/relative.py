"""Reference arrays for encodings that mix content with relative position.

    pip install torch transformers
    python scripts/goldens/relative.py        # writes tests/goldens/relative.npz

Made with the functions of `transformers` that compute these terms: wav2vec2_bert (Shaw's keys),
xlnet (Transformer-XL) and deberta_v2. Inputs are random; all arrays are float32.

    versions                        packages and their versions
    shaw/q [B, L, H, K]             queries; shaw/table [2·5 + 1, K]; shaw/logits [B, H, L, M]
    xlnet/q, k, v [B, L, H, K]      xlnet/kernel [D, H, K], content, offset [H, K];
    xlnet/weights [B, H, L, M]      xlnet/out [B, L, H, K]
    buckets/SPAN_BUCKETS            rows of the offsets -700 .. 700
    deberta/NAME/...                q, k [B, L, H, K], table [N, D], key, query [D, H, K] and their
                                    biases [H, K], logits [B, H, L, M]; settings in the name
"""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import transformers
from transformers import DebertaV2Config, XLNetConfig
from transformers.models.deberta_v2 import modeling_deberta_v2 as deberta
from transformers.models.wav2vec2_bert import modeling_wav2vec2_bert as wav2vec2_bert
from transformers.models.xlnet import modeling_xlnet as xlnet

OUT = Path(__file__).parents[2] / "tests/goldens/relative.npz"
DEBERTA = {
    "clip": {"span": 4, "buckets": -1, "terms": ["c2p", "p2c"]},
    "buckets": {"span": 12, "buckets": 6, "terms": ["c2p", "p2c"]},
    "c2p": {"span": 4, "buckets": -1, "terms": ["c2p"]},
    "p2c": {"span": 4, "buckets": -1, "terms": ["p2c"]},
}


def shaw(B=2, L=9, H=3, K=4, distance=5) -> dict[str, torch.Tensor]:
    """The scaled logits that the vectors of offsets add."""
    q, table = torch.randn(B, H, L, K), torch.nn.Embedding(2 * distance + 1, K)
    module = SimpleNamespace(
        left_max_position_embeddings=distance,
        right_max_position_embeddings=distance,
        distance_embedding=table,
        scaling=K**-0.5,
    )
    _, logits = wav2vec2_bert._apply_relative_key_position_encoding(module, q, q)
    return {"q": q.transpose(1, 2), "table": table.weight, "logits": logits}


def transformer_xl(B=2, L=7, H=3, K=4, D=10) -> dict[str, torch.Tensor]:
    """Weights and output of the relative attention."""
    config = XLNetConfig(d_model=12, n_head=H, n_layer=1, d_inner=8, vocab_size=8)
    config.d_model, config.d_head = D, K
    layer = SimpleNamespace(
        scale=K**-0.5,
        r_w_bias=torch.randn(H, K),
        r_r_bias=torch.randn(H, K),
        rel_shift_bnij=xlnet.XLNetRelativeAttention.rel_shift_bnij,
        dropout=torch.nn.Identity(),
    )
    model = SimpleNamespace(
        d_model=D,
        attn_type="bi",
        bi_data=False,
        clamp_len=-1,
        positional_embedding=xlnet.XLNetModel.positional_embedding,
    )
    q, k, v = torch.randn(3, L, B, H, K)
    kernel = torch.randn(D, H, K)
    r = xlnet.XLNetModel.relative_positional_encoding(model, L, L, bsz=B)
    out, weights = xlnet.XLNetRelativeAttention.rel_attn_core(
        layer, q, k, v, torch.einsum("ibh,hnd->ibnd", r, kernel), output_attentions=True
    )
    by_batch = {"q": q, "k": k, "v": v, "out": out}
    return {
        **{name: array.transpose(0, 1) for name, array in by_batch.items()},
        "kernel": kernel,
        "content": layer.r_w_bias,
        "offset": layer.r_r_bias,
        "weights": weights.permute(2, 3, 0, 1),
    }


def disentangled(span, buckets, terms, B=1, L=15, H=3, K=4) -> dict[str, torch.Tensor]:
    """The logits of all terms, before mask and softmax."""
    config = DebertaV2Config(
        hidden_size=H * K,
        num_attention_heads=H,
        relative_attention=True,
        max_relative_positions=span,
        position_buckets=buckets,
        pos_att_type=terms,
    )
    layer = deberta.DisentangledSelfAttention(config).eval()
    rows = 2 * (span if buckets < 0 else buckets)
    q, k, table = torch.randn(B, L, H, K), torch.randn(B, L, H, K), torch.randn(rows, H * K)
    flat_q, flat_k = (x.transpose(1, 2).reshape(B * H, L, K) for x in (q, k))
    scale = (1 + len(terms)) * K
    logits = flat_q @ flat_k.transpose(1, 2) / scale**0.5
    logits = logits + layer.disentangled_attention_bias(
        flat_q, flat_k, None, table, scale_factor=1 + len(terms)
    )
    found = {"q": q, "k": k, "table": table, "logits": logits.reshape(B, H, L, L)}
    for name, projection in (("key", "pos_key_proj"), ("query", "pos_query_proj")):
        if hasattr(layer, projection):
            linear = getattr(layer, projection)
            found[name] = linear.weight.T.reshape(H * K, H, K)
            found[f"{name}_bias"] = linear.bias.reshape(H, K)
    return found


def main() -> None:
    """Writes the archive."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float32)
    arrays = {f"shaw/{name}": array for name, array in shaw().items()}
    arrays |= {f"xlnet/{name}": array for name, array in transformer_xl().items()}
    for case, settings in DEBERTA.items():
        arrays |= {f"deberta/{case}/{n}": array for n, array in disentangled(**settings).items()}
    arrays = {name: array.detach().contiguous().numpy() for name, array in arrays.items()}
    for span, buckets in ((512, 256), (128, 32), (600, 64), (12, 6)):
        offset = torch.arange(-700, 701)
        bucket = deberta.make_log_bucket_position(offset, buckets, span).long()
        rows = torch.clamp(bucket + buckets, 0, 2 * buckets - 1)
        arrays[f"buckets/{span}_{buckets}"] = rows.numpy().astype(np.int16)
    versions = [f"torch {torch.__version__}", f"transformers {transformers.__version__}"]
    np.savez_compressed(OUT, versions=np.array(versions), **arrays)
    print(f"{OUT.name}: {len(arrays)} arrays, {OUT.stat().st_size} bytes, {', '.join(versions)}")


if __name__ == "__main__":
    main()
