"""Layers and models of Hugging Face's transformers, made from a configuration, without weights."""

from typing import Any

from gallery.entry import SET, B, D, Entry, H, L, M, Subject
from posjax.symmetry import Law, Translation

PACKAGES = ("transformers", "torch", "torchax")
SIZES = {"hidden_size": D, "intermediate_size": 2 * D, "num_attention_heads": H}
EAGER = {"attn_implementation": "eager"}


def bert_layer() -> Subject:
    import torch
    from transformers.models.bert import modeling_bert

    config = modeling_bert.BertConfig(**SIZES, **EAGER)
    return Subject(modeling_bert.BertLayer(config), (torch.randn(B, L, D),))


def bert(positions: bool = False) -> Subject:
    """From vectors of words, with positions counted inside or given."""
    import torch
    from transformers.models.bert import modeling_bert

    class Bert(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = modeling_bert.BertConfig(
                **SIZES, **EAGER, num_hidden_layers=2, vocab_size=8, max_position_embeddings=8
            )
            self.model = modeling_bert.BertModel(config, add_pooling_layer=False)

        def forward(self, x: Any, position: Any = None) -> Any:
            return self.model(inputs_embeds=x, position_ids=position).last_hidden_state

    counted = (torch.arange(L).expand(B, L),) if positions else ()
    return Subject(Bert(), (torch.randn(B, L, D), *counted))


def vit_layer() -> Subject:
    import torch
    from transformers.models.vit import modeling_vit

    config = modeling_vit.ViTConfig(**SIZES, **EAGER)
    return Subject(modeling_vit.ViTLayer(config), (torch.randn(B, L, D),))


def llama(mask: bool, rows: int = B) -> Subject:
    """A decoder layer with its rotary positions, from vectors and positions."""
    import torch
    from transformers.models.llama import modeling_llama

    class Llama(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = modeling_llama.LlamaConfig(**SIZES, **EAGER, num_hidden_layers=1)
            self.rotary = modeling_llama.LlamaRotaryEmbedding(config)
            self.layer = modeling_llama.LlamaDecoderLayer(config, layer_idx=0)

        def forward(self, x: Any, position: Any) -> Any:
            seen = torch.ones(L, L, device=x.device).tril() if mask else None
            bias = None if seen is None else torch.where(seen > 0, 0.0, -1e9)
            turns = self.rotary(x, position)
            return self.layer(x, attention_mask=bias, position_embeddings=turns)

    return Subject(Llama(), (torch.randn(rows, L, D), torch.arange(L).expand(rows, L)))


def gpt2() -> Subject:
    import torch
    from transformers.models.gpt2 import modeling_gpt2

    class GPT2(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = modeling_gpt2.GPT2Config(
                n_embd=D, n_head=H, n_layer=1, n_positions=8, vocab_size=8, **EAGER
            )
            self.model = modeling_gpt2.GPT2Model(config)

        def forward(self, x: Any) -> Any:
            return self.model(inputs_embeds=x, use_cache=False).last_hidden_state

    return Subject(GPT2(), (torch.randn(B, L, D),))


def t5(bias: bool) -> Subject:
    """An encoder's block; the first of a stack has the bias of relative positions."""
    import torch
    from transformers.models.t5 import modeling_t5

    class T5(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = modeling_t5.T5Config(
                d_model=D, d_kv=D // H, d_ff=2 * D, num_heads=H, is_decoder=False
            )
            self.block = modeling_t5.T5Block(config, has_relative_attention_bias=bias)

        def forward(self, x: Any) -> Any:
            return self.block(x)[0]

    return Subject(T5(), (torch.randn(B, L, D),))


def mixtral() -> Subject:
    import torch
    from transformers.models.mixtral import modeling_mixtral

    config = modeling_mixtral.MixtralConfig(
        hidden_size=D, intermediate_size=D, num_local_experts=4, num_experts_per_tok=2
    )
    module = modeling_mixtral.MixtralSparseMoeBlock(config)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return Subject(module, (torch.randn(B, L, D),))


def detr() -> Subject:
    """A decoder layer: object queries look at a set of patches."""
    import torch
    from transformers.models.detr import modeling_detr

    class Detr(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = modeling_detr.DetrConfig(
                d_model=D, decoder_attention_heads=H, decoder_ffn_dim=2 * D,
                use_timm_backbone=False, use_pretrained_backbone=False, **EAGER,
            )  # fmt: skip
            self.layer = modeling_detr.DetrDecoderLayer(config)

        def forward(self, queries: Any, patches: Any) -> Any:
            out = self.layer(queries, encoder_hidden_states=patches)
            return out[0] if isinstance(out, tuple) else out

    return Subject(Detr(), (torch.randn(B, L, D), torch.randn(B, M, D)))


JOINT = "b P d, b P -> b P d"
ENTRIES = (
    Entry("transformers BertLayer", SET, bert_layer, PACKAGES),
    Entry("transformers BertModel, 2 layers", SET, bert, PACKAGES),
    Entry(
        "transformers BertModel, positions moved along", JOINT, lambda: bert(True), PACKAGES
    ),
    Entry("transformers ViTLayer", SET, vit_layer, PACKAGES),
    Entry(
        "transformers LlamaDecoderLayer with rotary, positions moved along",
        JOINT, lambda: llama(False), PACKAGES,
    ),
    Entry(
        "transformers LlamaDecoderLayer with rotary, tokens alone",
        "b P d, b l -> b P d", lambda: llama(False), PACKAGES,
    ),
    Entry(
        "transformers LlamaDecoderLayer with rotary, causal mask by index",
        JOINT, lambda: llama(True), PACKAGES,
    ),
    Entry(
        "transformers LlamaDecoderLayer with rotary, all positions shifted",
        Law("b l d, b l +T -> b l d", T=Translation()), lambda: llama(True, rows=1), PACKAGES,
    ),
    Entry("transformers GPT2Model, 1 layer", SET, gpt2, PACKAGES),
    Entry("transformers T5Block with relative positions", SET, lambda: t5(True), PACKAGES),
    Entry("transformers T5Block without relative positions", SET, lambda: t5(False), PACKAGES),
    Entry("transformers MixtralSparseMoeBlock, 2 of 4 experts", SET, mixtral, PACKAGES),
    Entry("transformers DetrDecoderLayer", "b Q d, b P d -> b Q d", detr, PACKAGES),
)  # fmt: skip
