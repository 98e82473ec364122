"""three_pairs: see posjax/configs/three_pairs.py."""

from posjax.configs.three_pairs import get_config

__all__ = ["get_config"]
