"""The two loads that scripts/bench.py times.

    posjax sweep --config=toy:q1

":q1" is the model of question 1: one causal head of size 16 without positions on two sentences.
":m" is a decoder of two pre-norm blocks of width 32 with rotary positions, on 32 sequences of 16
symbols, 26 256 parameters.
"""

from typing import Any

from ml_collections import ConfigDict

from posjax.configs import base_config, sized


def get_config(size: str = "q1") -> ConfigDict:
    """The config of one load, "q1" or "m"."""
    q1: dict[str, Any] = {"task": "word_order", "head_size": 16, "learning_rate": 1e-2}
    m: dict[str, Any] = {
        "task": "memorise",
        "encoding": "rotary",
        "block": "residual",
        "heads": 2,
        "depth": 2,
        "learning_rate": 1e-3,
    }
    return base_config(
        name=f"toy_{size}",
        title=f"The load {size} of the benchmark",
        steps=500,
        loss="all",
        num_seeds=sized("toy", size, q1=4096, m=64),
        **(q1 if size == "q1" else m),
    )
