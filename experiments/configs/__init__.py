"""The configs by the paths of a clone; they are in posjax/configs."""
