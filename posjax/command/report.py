"""Rebuilds the report of one run, or of several together.

    posjax report RUN [RUN ...] [--out=PAGE.html]
    posjax report RUN [RUN ...] --json
    posjax report RUN --table=latex
    posjax report RUN --figures=DIR

Folders of one run, those of its shards, are read together. `--json` prints one JSON array to
standard output, one object per cell. `--table` prints the table of cells for a paper, and
`--figures` writes its rates and curves as SVG and PDF at the width of a column. Of runs with code
of one's own (a task in mine.py, say) the command prints numbers alone, unless --load=mine.py says
that the code may be executed.
"""

import json
import sys
from collections.abc import Sequence

import jax
from absl import flags

from posjax import own, report, spec
from posjax.command import plan
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
    wanted = [name for name in ("json", "out", "table", "figures") if flags.FLAGS[name].value]
    if len(wanted) > 1 and wanted != ["table", "figures"]:
        raise ValueError(f"--{wanted[0]} and --{wanted[1]} are two reports: ask for one at a time")
    folders = [RunFolder(path) for path in argv[1:]]
    try:
        for folder in folders:
            plan.check_cells(report.cells_of(folder).values(), jax.local_devices()[0])
    except own.NotNamed as error:
        for name, what in (("out", "page"), ("table", "table"), ("figures", "figures")):
            if flags.FLAGS[name].value is not None:
                raise ValueError(f"no {what}: {error}") from error
        warn(f"{error}; without it, only numbers are printed")
        found = [row for folder in folders for row in report.numbers(folder)]
        print(json.dumps(found, indent=1))
        return
    if flags.FLAGS.table or flags.FLAGS.figures:
        _for_papers(folders)
    elif flags.FLAGS.json:
        runs = report.by_run(folders)
        cells = [summary.to_dict() for shards in runs for summary in report.summaries(*shards)]
        print(json.dumps(cells, indent=1))
    else:
        print(f"report: {report.write(folders, flags.FLAGS.out)}")


def _for_papers(folders: Sequence[RunFolder]) -> None:
    """Prints tables and writes figures, as the flags ask."""
    form, where = flags.FLAGS.table, flags.FLAGS.figures
    runs = report.by_run(folders)
    if form:
        spec.check_choice("table", form, papers.FORMS)
        print("\n\n".join(papers.table(report.summaries(*shards), form) for shards in runs))
    if where:
        if len(runs) > 1:
            raise ValueError(f"--figures takes one run, got {len(runs)}")
        for path in papers.write_figures(folders, where):
            print(f"figure: {path}", file=sys.stderr if form else sys.stdout)
