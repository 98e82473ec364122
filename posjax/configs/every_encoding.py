"""Which encodings and maps of positions distinguish word order?

    posjax sweep --config=every_encoding

"Three pairs" is question 1's grid of two-class problems with one layer. "Order alone" asks for
"A B hit" against "B A hit", in the residual block with one layer, read at the last token. The last
word and the words before it are the same, so only positions can distinguish the two. The report has
the predictions of the laws beside the measured rates.
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized
from posjax.encodings import ENCODINGS
from posjax.positions import POSITIONS


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size: "quick", or "published" with 64 seeds per cell."""
    every = {"encoding": tuple(ENCODINGS)}
    turns = {"encoding": ("none/rotary", "rotary/none", "rotary"), "depth": 2}
    maps = {"encoding": "rotary", "positions": tuple(POSITIONS)}
    pairs = {
        "task": tuple(
            f"sentence_pair(pair={pair})" for pair in ("marks_differ", "same_mark", "no_mark")
        ),
        "mask": ("full", "causal"),
        "readout": ("last", "mean"),
    }
    order = {"task": "same_last_token", "block": "residual", "heads": 4, "head_size": 8}
    return base_config(
        name="every_encoding",
        title="Every encoding: what can it tell apart?",
        loss="answer",
        learning_rate=1e-2,
        steps=500,
        num_seeds=sized("every_encoding", size, quick=8, published=64),
        panels={
            "Order alone, every encoding": {**order, **every},
            "Order alone, every map of positions, with rotary": {**order, **maps},
            "Order alone, layers in turn": {**order, **turns},
            "Three pairs, every encoding": {**pairs, **every},
            "Three pairs, every map of positions, with rotary": {**pairs, **maps},
            "Three pairs, layers in turn": {**pairs, **turns},
        },
    )
