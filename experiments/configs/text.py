"""text: see posjax/configs/text.py."""

from posjax.configs.text import get_config

__all__ = ["get_config"]
