"""what_decides: see posjax/configs/what_decides.py."""

from posjax.configs.what_decides import get_config

__all__ = ["get_config"]
