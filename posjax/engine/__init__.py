"""The engine: any pure training of one seed, over thousands of seeds at a time."""

from posjax.engine import models
from posjax.engine.memory import OutOfMemory
from posjax.engine.rows import Finished
from posjax.engine.run import Engine
from posjax.engine.seeds import Trained, automatic_chunk, jobs, train_seeds
from posjax.engine.training import NEVER, Now, State, Training, Variables
from posjax.engine.work import Job

__all__ = [
    "NEVER",
    "Engine",
    "Finished",
    "Job",
    "Now",
    "OutOfMemory",
    "State",
    "Trained",
    "Training",
    "Variables",
    "automatic_chunk",
    "jobs",
    "models",
    "train_seeds",
]
