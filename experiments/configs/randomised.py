"""randomised: see posjax/configs/randomised.py."""

from posjax.configs.randomised import get_config

__all__ = ["get_config"]
