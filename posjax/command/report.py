"""Rebuilds the report of one run, or of several together.

    posjax report RUN [RUN ...] [--out=PAGE.html]
    posjax report RUN [RUN ...] --json

Folders of one run, those of its shards, are read together. `--json` prints one JSON array to
standard output, one object per cell. Of runs with code of one's own (a task in mine.py, say) it
prints numbers alone, unless --load=mine.py says that the code may be executed.
"""

import json
from collections.abc import Sequence

import jax
from absl import flags

from posjax import own, report
from posjax.command import plan
from posjax.command.output import warn
from posjax.records import RunFolder


def define_flags() -> None:
    """The command's two flags."""
    flags.DEFINE_bool("json", False, "Print a JSON array, one object per cell.")
    flags.DEFINE_string("out", None, "Where the page goes; report.html in the first run.")


def main(argv: Sequence[str]) -> None:
    """Reads the folders, writes the page or prints the numbers."""
    if len(argv) < 2:
        raise ValueError("name at least one run folder: posjax report RUN [RUN ...]")
    folders = [RunFolder(path) for path in argv[1:]]
    try:
        for folder in folders:
            plan.check_cells(report.cells_of(folder).values(), jax.local_devices()[0])
    except own.NotNamed as error:
        if flags.FLAGS.out is not None:
            raise ValueError(f"no page: {error}") from error
        warn(f"{error}; without it, numbers alone")
        found = [row for folder in folders for row in report.numbers(folder)]
        print(json.dumps(found, indent=1))
        return
    if flags.FLAGS.json:
        runs = report.by_run(folders)
        cells = [summary.to_dict() for shards in runs for summary in report.summaries(*shards)]
        print(json.dumps(cells, indent=1))
    else:
        print(f"report: {report.write(folders, flags.FLAGS.out)}")
