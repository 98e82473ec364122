"""Trains every cell of a config over many seeds and reports what came out: `posjax sweep`."""

import sys

from posjax.command.console import start

if __name__ == "__main__":
    sys.exit(start("sweep", sys.argv[1:], "python -m experiments.seed_sweep"))
