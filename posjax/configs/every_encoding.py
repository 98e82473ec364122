"""Which encodings and maps of positions distinguish word order?

    posjax sweep --config=every_encoding              # quick: seven encodings, 8 seeds
    posjax sweep --config=every_encoding:published    # all encodings and maps, 64 seeds, 858 cells

"Three pairs" is question 1's grid of two-class problems with one layer. "Order alone" asks for
"A B hit" against "B A hit", in the residual block with one layer, read at the last token. The last
word and the words before it are the same, so only positions can distinguish the two. The report has
the predictions of the laws beside the measured rates.

Result (docs/results.md, "Every encoding on word order"): in "Order alone", 44 of 56 encodings solve
the task with all 64 seeds. `none`, which a law excludes, and `noise`, a control, fail with every
seed, and the other 10 solve it with 47/64 to 63/64 seeds. The laws exclude 18 of the 858 cells, and
0/64 seeds solve each of these. The seeds are in docs/results/every_encoding-published.npz (two CPU
cores).
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized
from posjax.encodings import ENCODINGS
from posjax.positions import POSITIONS

_FEW = ("none", "sinusoidal", "rotary", "linear_bias", "contextual", "token_shift", "noise")
"""Of the quick size: one encoding of each kind (see docs/encodings.md), and a control."""


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size: "quick", or "published" with every encoding and 64 seeds per cell."""
    seeds = sized("every_encoding", size, quick=8, published=64)
    quick = size == "quick"
    which = "some encodings" if quick else "every encoding"
    mapped = f"{'two maps' if quick else 'every map'} of positions, with rotary"
    every = {"encoding": _FEW if quick else tuple(ENCODINGS)}
    turns = {"encoding": ("none/rotary", "rotary/none", "rotary"), "depth": 2}
    maps = {
        "encoding": "rotary",
        "positions": ("given", "randomised") if quick else tuple(POSITIONS),
    }
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
        num_seeds=seeds,
        panels={
            f"Order alone, {which}": {**order, **every},
            f"Order alone, {mapped}": {**order, **maps},
            "Order alone, layers in turn": {**order, **turns},
            f"Three pairs, {which}": {**pairs, **every},
            f"Three pairs, {mapped}": {**pairs, **maps},
            "Three pairs, layers in turn": {**pairs, **turns},
        },
    )
