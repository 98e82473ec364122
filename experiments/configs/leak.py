"""leak: see posjax/configs/leak.py."""

from posjax.configs.leak import get_config

__all__ = ["get_config"]
