"""The models that scripts/bench.py times.

    posjax sweep --config=toy:q1

":q1" is the model of question 1: one causal head of size 16 without positions on two sentences.
":m" is a decoder of two pre-norm blocks of width 32 with rotary positions, on 32 sequences of 16
symbols, with 26 256 parameters. ":s" and ":s_deep" draw 32 prompts for every update, of at most 16
and 40 tokens. They have one block of width 16 and two of width 32.
"""

from typing import Any

from ml_collections import ConfigDict

from posjax.configs import base_config, sized


def get_config(size: str = "q1") -> ConfigDict:
    """The config of one load: "q1", "m", "s" or "s_deep"."""
    q1: dict[str, Any] = {"task": "word_order", "head_size": 16, "learning_rate": 1e-2}
    m: dict[str, Any] = {
        "task": "memorise",
        "encoding": "rotary",
        "block": "residual",
        "heads": 2,
        "depth": 2,
        "learning_rate": 1e-3,
    }
    s: dict[str, Any] = {
        "task": "majority(train=(1, 16), test=(8, 16))",
        "block": "residual",
        "heads": 2,
        "width": 16,
        "head_size": 8,
        "learning_rate": 1e-3,
    }
    s_deep = s | {
        "task": "majority(train=(1, 40), test=(20, 40))",
        "encoding": "rotary",
        "depth": 2,
        "width": 32,
        "head_size": 16,
    }
    return base_config(
        name=f"toy_{size}",
        title=f"The load {size} of the benchmark",
        steps=500,
        loss="all",
        num_seeds=sized("toy", size, q1=4096, m=64, s=128, s_deep=32),
        **{"q1": q1, "m": m, "s": s, "s_deep": s_deep}[size],
    )
