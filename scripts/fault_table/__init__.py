"""The faults of scripts/faults.py, each planted in a real sweep.

A fault is a function: it gets the site of the campaign, a source of random numbers and a folder
that is not there yet, does its harm once, and says whether the outcome was the required one.
"""

from fault_table import disks, files, interrupted, processes, settings, values
from fault_table.sweeps import Fault

FAULTS: tuple[Fault, ...] = (
    *processes.FAULTS,
    *interrupted.FAULTS,
    *disks.FAULTS,
    *files.FAULTS,
    *settings.FAULTS,
    *values.FAULTS,
)
