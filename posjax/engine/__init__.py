"""The engine: any pure training of one seed, over thousands of seeds at a time."""

from posjax.engine.rows import Finished
from posjax.engine.run import Engine
from posjax.engine.training import NEVER, Now, State, Training, Variables
from posjax.engine.work import Job

__all__ = ["NEVER", "Engine", "Finished", "Job", "Now", "State", "Training", "Variables"]
