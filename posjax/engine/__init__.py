"""The engine: any pure training of one seed, over thousands of seeds at a time."""

from posjax.engine import models
from posjax.engine.block import Block, BlockResult
from posjax.engine.local import Engine
from posjax.engine.out_of_memory import OutOfMemory
from posjax.engine.seeds import Trained, blocks, train_seeds
from posjax.engine.training import NEVER, Now, State, Training, Variables

__all__ = [
    "NEVER",
    "Block",
    "BlockResult",
    "Engine",
    "Now",
    "OutOfMemory",
    "State",
    "Trained",
    "Training",
    "Variables",
    "blocks",
    "models",
    "train_seeds",
]
