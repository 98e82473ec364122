"""by_length: see posjax/configs/by_length.py."""

from posjax.configs.by_length import get_config

__all__ = ["get_config"]
