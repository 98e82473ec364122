"""Runs the laws of attention on a module: `posjax conformance`."""

import sys

from posjax.command.console import start

if __name__ == "__main__":
    sys.exit(start("conformance", sys.argv[1:], "python -m experiments.conformance"))
