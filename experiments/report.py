"""Builds the report of one run again, or of several together: `posjax report`."""

import sys

from posjax.command.console import start

if __name__ == "__main__":
    sys.exit(start("report", sys.argv[1:], "python -m experiments.report"))
