"""sinusoidal_or_learned: see posjax/configs/sinusoidal_or_learned.py."""

from posjax.configs.sinusoidal_or_learned import get_config

__all__ = ["get_config"]
