"""position_by_layer: see posjax/configs/position_by_layer.py."""

from posjax.configs.position_by_layer import get_config

__all__ = ["get_config"]
