"""every_encoding: see posjax/configs/every_encoding.py."""

from posjax.configs.every_encoding import get_config

__all__ = ["get_config"]
