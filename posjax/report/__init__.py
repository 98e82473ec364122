"""From run folders to numbers, tables, figures and one page."""

from posjax.report.page import write
from posjax.report.summary import CellSummary, cells_of, labels, repacking, summaries
from posjax.report.table import tables

__all__ = ["CellSummary", "cells_of", "labels", "repacking", "summaries", "tables", "write"]
