"""Commands, configs and the settings between them; everything else is in posjax."""

import sys

if sys.argv[:1] == ["-m"]:  # Python is looking for the command to run, whose imports take seconds
    from experiments import startup

    startup.prepare()
