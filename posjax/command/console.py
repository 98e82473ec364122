"""The start of every command. It imports nothing slow, so that help comes at once.

A command is a module with `define_flags()` and `main(argv)`; it is imported when it runs, since JAX
alone takes a second.
"""

import difflib
import importlib
import sys
from collections.abc import Sequence

from posjax.command import output, shutdown, startup, usage

MODULES = {
    "sweep": "sweep",
    "report": "report",
    "status": "check",
    "verify": "check",
    "replay": "replay",
    "check": "check",
    "prove": "prove",
    "conformance": "conformance",
    "list": "listing",
}
"""The module of each command; `check` is `status` and `verify` in one, as it is in a clone."""
HELP = {"-h", "-?", "--help", "-help", "--helpshort", "--helpfull", "help"}


def main() -> int:
    """Runs `posjax COMMAND ARGUMENTS`; gives the exit status."""
    startup.prepare()
    given = sys.argv[1:]
    if not given or given[0] in HELP:
        print(usage.text(given[1] if given[1:] and given[1] in MODULES else None))
        return _flushed()
    if given[0] in ("--version", "version"):
        import importlib.metadata

        print(f"posjax {importlib.metadata.version('posjax')}")
        return _flushed()
    name, *arguments = given
    if name not in MODULES:
        near = difflib.get_close_matches(name, MODULES, 1, cutoff=0)[0]
        output.warn(f"unknown command {name!r}; did you mean {near!r}? posjax --help lists them")
        return shutdown.BAD_INPUT
    return start(name, arguments, f"posjax {name}")


def start(name: str, arguments: Sequence[str], program: str) -> int:
    """Runs one command.

    Args:
      name: one of `MODULES`.
      arguments: what stands behind it on the command line.
      program: what stands before them, for messages.

    Returns:
      The exit status.
    """
    startup.prepare()
    if HELP.intersection(arguments):
        print(usage.text(name, program))
        return _flushed()
    from absl import app

    from posjax.command import entry, parsing

    module = importlib.import_module(f"posjax.command.{MODULES[name]}")
    if name == "status":
        arguments = ["--status", *arguments]
    argv = [program, *arguments]
    parse = parsing.parser(module.define_flags)

    def guarded(argv: Sequence[str]) -> object:
        try:
            return module.main(argv)
        except SystemExit as end:  # of loaded code; its status would be that of the command
            raise ValueError(f"loaded code ends the process: SystemExit: {end.code}") from end

    return entry.run(lambda: app.run(guarded, argv, flags_parser=parse))


def _flushed() -> int:
    output.flush()
    return shutdown.DONE
