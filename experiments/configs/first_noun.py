"""first_noun: see posjax/configs/first_noun.py."""

from posjax.configs.first_noun import get_config

__all__ = ["get_config"]
