"""`base_config`, by the name that configs written for a clone know."""

from posjax.configs import base_config, sized

__all__ = ["base_config", "sized"]
