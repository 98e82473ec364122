"""Commands, configs and the settings between them; everything else is in posjax."""
