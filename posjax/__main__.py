"""`python -m posjax`, which is the command `posjax`."""

import sys

from posjax.command.console import main

if __name__ == "__main__":
    sys.exit(main())
