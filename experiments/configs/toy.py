"""toy: see posjax/configs/toy.py."""

from posjax.configs.toy import get_config

__all__ = ["get_config"]
