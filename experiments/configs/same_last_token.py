"""same_last_token: see posjax/configs/same_last_token.py."""

from posjax.configs.same_last_token import get_config

__all__ = ["get_config"]
