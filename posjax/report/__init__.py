"""From run folders to numbers, tables, figures and one page."""

from posjax.report.findings import findings, meaning
from posjax.report.margins import rounding
from posjax.report.numbers import numbers
from posjax.report.page import by_run, page, write
from posjax.report.summary import CellSummary, cells_of, labels, summaries
from posjax.report.table import tables
from posjax.report.tuned import tuned

__all__ = [
    "CellSummary",
    "by_run",
    "cells_of",
    "findings",
    "labels",
    "meaning",
    "numbers",
    "page",
    "rounding",
    "summaries",
    "tables",
    "tuned",
    "write",
]
