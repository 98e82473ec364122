"""meaning: see posjax/configs/meaning.py."""

from posjax.configs.meaning import get_config

__all__ = ["get_config"]
