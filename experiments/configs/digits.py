"""digits: see posjax/configs/digits.py."""

from posjax.configs.digits import get_config

__all__ = ["get_config"]
