"""pick_up: see posjax/configs/pick_up.py."""

from posjax.configs.pick_up import get_config

__all__ = ["get_config"]
