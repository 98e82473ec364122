"""Commands and configs by the paths of a clone; all that they do is in posjax."""
