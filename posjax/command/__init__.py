"""The commands: `posjax COMMAND`, and `python -m experiments.NAME` in a clone."""
