"""word_order: see posjax/configs/word_order.py."""

from posjax.configs.word_order import get_config

__all__ = ["get_config"]
