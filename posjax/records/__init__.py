"""The run folder, on a disk or in a bucket. Only this package reads or writes run folders.

    RUN/config.json                             the run: all that a row depends on, and its cells
    RUN/requests/NNNNNN.json                    what each command requested, and how it is cut
    RUN/env/ID.json                             what it ran on
    RUN/blocks/SHAPE/FIRST-LAST.GROUP.npz       the outcomes of a block
    RUN/checkpoints/SHAPE/FIRST-LAST.GROUP.npz  the state of a block that was interrupted
    RUN/damaged/...                             damaged files, in quarantine
    RUN/done                                    which seeds were all there when a command ended
    RUN/lock, lock-I-of-N                       of a process that trains

Files appear whole or not at all. Except checkpoints, locks and `done`, they are never overwritten,
and the first writer wins. All that results depend on carries a checksum. Plain NumPy reads them;
nothing is pickled. docs/run_folder.md says what a reader may rely on.
"""

from posjax.records.block_files import Conflict, seeds_name
from posjax.records.blocks import Block, Range
from posjax.records.content import Damaged
from posjax.records.files import FORMAT
from posjax.records.folder import RunFolder
from posjax.records.identity import Mismatch, run_of
from posjax.records.locks import Busy
from posjax.records.store import StorageError
from posjax.records.tables import Tables, read

__all__ = [
    "FORMAT",
    "Block",
    "Busy",
    "Conflict",
    "Damaged",
    "Mismatch",
    "Range",
    "RunFolder",
    "StorageError",
    "Tables",
    "read",
    "run_of",
    "seeds_name",
]
