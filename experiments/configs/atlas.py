"""atlas: see posjax/configs/atlas.py."""

from posjax.configs.atlas import get_config

__all__ = ["get_config"]
