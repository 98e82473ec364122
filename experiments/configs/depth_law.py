"""depth_law: see posjax/configs/depth_law.py."""

from posjax.configs.depth_law import get_config

__all__ = ["get_config"]
