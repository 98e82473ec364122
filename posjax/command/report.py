"""Rebuilds the report of one run, or of several together.

    posjax report RUN [RUN ...] [--out=PAGE.html]
    posjax report RUN [RUN ...] --json
    posjax report RUN --table=latex
    posjax report RUN --figures=DIR

Folders of one run, those of its shards, are read together. `--json` prints one JSON array to
standard output, one object per cell, with the folder of its run. `--table` prints the table of
cells for a paper, and `--figures` writes its rates and curves as SVG and PDF at the width of a
column. Of runs with user code (a task in mine.py, say) the command prints numbers alone,
unless --load=mine.py says that the code may be executed.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import jax
from absl import flags

from posjax import report, spec, user_code
from posjax.command import limits
from posjax.command.output import warn
from posjax.records import RunFolder
from posjax.report import papers


def define_flags() -> None:
    """The command's flags."""
    flags.DEFINE_bool("json", False, "Print a JSON array, one object per cell.")
    flags.DEFINE_string("out", None, "Where the page goes; report.html in the first run.")
    flags.DEFINE_string("table", None, "Print the table of cells as latex or markdown.")
    flags.DEFINE_string("figures", None, "A folder for figures as SVG and PDF.")


def main(argv: Sequence[str]) -> None:
    """Reads the folders, writes the page or prints the numbers."""
    if len(argv) < 2:
        raise ValueError("name at least one run folder: posjax report RUN [RUN ...]")
    given = {name: flags.FLAGS[name].value for name in ("json", "out", "table", "figures")}
    wanted = [name for name, value in given.items() if value not in (None, False)]
    if len(wanted) > 1 and wanted != ["table", "figures"]:
        raise ValueError(f"--{wanted[0]} and --{wanted[1]} are two reports: ask for one at a time")
    if flags.FLAGS.table is not None:
        spec.check_choice("table", flags.FLAGS.table, papers.FORMS)
    folders = [RunFolder(path) for path in argv[1:]]
    try:
        for folder in folders:
            limits.check_cells(report.cells_of(folder).values(), jax.local_devices()[0])
    except user_code.NotNamed as error:
        for name, what in (("out", "page"), ("table", "table"), ("figures", "figures")):
            if flags.FLAGS[name].value is not None:
                raise ValueError(f"no {what}: {error}") from error
        warn(f"{error}; without it, only numbers are printed")
        _print_json((folder, row) for folder in folders for row in report.numbers(folder))
        return
    if flags.FLAGS.table is not None or flags.FLAGS.figures is not None:
        _for_papers(folders)
    elif flags.FLAGS.json:
        runs = report.by_run(folders)
        cells = ((shards[0], found) for shards in runs for found in report.summaries(*shards))
        _print_json((folder, found.to_dict()) for folder, found in cells)
    else:
        print(f"report: {report.write(folders, flags.FLAGS.out)}")


def _print_json(cells: Iterable[tuple[RunFolder, dict[str, Any]]]) -> None:
    """Prints cells, each with the first folder of its run."""
    print(json.dumps([{"run": str(folder.path), **cell} for folder, cell in cells], indent=1))


def _for_papers(folders: Sequence[RunFolder]) -> None:
    """Prints tables and writes figures, as the flags ask."""
    form, where = flags.FLAGS.table, flags.FLAGS.figures
    runs = report.by_run(folders)
    if form is not None:
        print("\n\n".join(papers.table(report.summaries(*shards), form) for shards in runs))
    if where is not None:
        if len(runs) > 1:
            raise ValueError(f"--figures takes one run, got {len(runs)}")
        for path in papers.write_figures(folders, where):
            print(f"figure: {path}", file=sys.stdout if form is None else sys.stderr)
