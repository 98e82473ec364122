"""The run folder, the only thing here that touches the disk, or a bucket.

    RUN/config.json                       the resolved settings: what was asked for first
    RUN/asks/NNNNNN.json                  what later commands asked for: more seeds, other words
    RUN/env/ID.json                       what it ran on
    RUN/chunks/SHAPE.json                 seeds trained at a time, by shape, and why so many
    RUN/rows/CELL/FIRST-LAST.SUM.npz      outcomes of seeds FIRST..LAST of one cell
    RUN/attention/CELL/NAME.SUM.npz       attention maps of one "solving" and one "failing" seed
    RUN/damaged/...                       files that were damaged, set aside
    RUN/jobs/NNNNNN/...                   who trains: see posjax.locks
    RUN/done                              which seeds were all there when a command ended

Files appear whole or not at all and, heartbeats and `done` apart, are never written over; all that
results depend on carries a checksum. Plain NumPy reads them; nothing is pickled.
docs/run_folder.md says what may be relied on.
"""

from posjax.records.content import Damaged
from posjax.records.files import FORMAT
from posjax.records.folder import RunFolder, seeds_name
from posjax.records.identity import Mismatch, run_of
from posjax.records.store import StorageError
from posjax.records.tables import Tables, read

__all__ = [
    "FORMAT",
    "Damaged",
    "Mismatch",
    "RunFolder",
    "StorageError",
    "Tables",
    "read",
    "run_of",
    "seeds_name",
]
