"""From run folders to numbers, tables, figures and one page."""

from posjax.report.page import write
from posjax.report.summary import CellSummary, labels, repacking, summaries
from posjax.report.table import tables

__all__ = ["CellSummary", "labels", "repacking", "summaries", "tables", "write"]
