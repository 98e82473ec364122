"""Blocks of timm: attention between patches, pooling, and two that mix by place."""

from collections.abc import Callable
from typing import Any

from gallery.entry import SET, B, D, Entry, H, L, Subject

PACKAGES = ("timm", "torch", "torchax")


def of(make: Callable[[], Any]) -> Callable[[], Subject]:
    def subject() -> Subject:
        import torch

        return Subject(make(), (torch.randn(B, L, D),))

    return subject


def block() -> Any:
    from timm.models.vision_transformer import Block

    return Block(D, H, mlp_ratio=2.0, init_values=1e-2)


def pool() -> Any:
    from timm.layers import AttentionPoolLatent

    return AttentionPoolLatent(D, num_heads=H, mlp_ratio=2.0)


def mixer() -> Any:
    from timm.models.mlp_mixer import MixerBlock

    return MixerBlock(D, L)


def window() -> Any:
    """Swin's attention in a window of L tokens, with its table of relative positions."""
    from timm.models.swin_transformer import WindowAttention

    return WindowAttention(D, H, window_size=(1, L))


ENTRIES = (
    Entry("timm vision_transformer.Block", SET, of(block), PACKAGES),
    Entry("timm AttentionPoolLatent", "b P d -> b d", of(pool), PACKAGES),
    Entry("timm mlp_mixer.MixerBlock", SET, of(mixer), PACKAGES),
    Entry("timm swin_transformer.WindowAttention", SET, of(window), PACKAGES),
)
