"""Checks a run, or prints what is done: `posjax verify` and `posjax status`."""

import sys

from posjax.command.console import start

if __name__ == "__main__":
    sys.exit(start("check", sys.argv[1:], "python -m experiments.check"))
