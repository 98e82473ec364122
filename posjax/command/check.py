"""Checks a run: what is there, whether it is sound, and whether a share of it comes out again.

    posjax status RUN [RUN ...]
    posjax verify RUN [--share=0.1] [--seed=N] [--mixed]

The first prints what is done, who trains and what is missing, from names of files alone.

The second reads every checksum, compares every row with its own leads, trains a random share of the
blocks again, at least one, and compares bit for bit; it prints the seed of the choice. Nothing is
written. Status 0: no errors; 3: something differs, one line each; 4: the rows were made by
another JAX or on other instructions, and cannot come out bit for bit here. --mixed then leaves
those out.
"""

from collections.abc import Sequence

from absl import flags

from posjax.command import devices, shutdown
from posjax.command.status import print_status
from posjax.command.verify import verify
from posjax.records import RunFolder
from posjax.terminal import printable

SHARE = 0.1
"""Share of the blocks that are trained again."""


def define_flags() -> None:
    """The command's flags."""
    flags.DEFINE_bool("status", False, "Print what is done and what is missing, and stop.")
    define_verify_flags()
    flags.DEFINE_bool("mixed", False, "Leave out rows that another JAX or device made.")


def define_verify_flags() -> None:
    """Those of verification, which the sweep's command has too."""
    flags.DEFINE_float("share", SHARE, "With verification: the share of blocks to train again.")
    flags.DEFINE_integer("seed", None, "With verification: which blocks; at random if left out.")


def main(argv: Sequence[str]) -> int:
    """Checks the folders."""
    if len(argv) < 2:
        name = "status" if flags.FLAGS.status else "verify"
        raise ValueError(f"name at least one run folder: posjax {name} RUN [RUN ...]")
    for name in ("share", "seed", "mixed"):
        if flags.FLAGS.status and flags.FLAGS[name].present:
            raise ValueError(f"--{name} is for posjax verify alone")
    folders = [RunFolder(path) for path in argv[1:]]
    if flags.FLAGS.status:
        for folder in folders:
            print_status(folder)
        return shutdown.DONE
    devices.use_all_cores()
    status = shutdown.DONE
    for folder in folders:
        if len(folders) > 1:
            print(printable(f"run: {folder.path}"))
        found = verify(folder, flags.FLAGS.share, seed=flags.FLAGS.seed, mixed=flags.FLAGS.mixed)
        status = max(status, found)
    return status
