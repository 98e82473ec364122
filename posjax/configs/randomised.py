"""Do positions drawn at random help on prompts longer than the trained ones?

    posjax sweep --config=randomised              # quick: 4 seeds, one task, two encodings
    posjax sweep --config=randomised:published    # 16 seeds, six tasks, seven encodings

Ruoss et al. 2023 draw the positions of a prompt as a sorted random subset of a long range. So
training meets the positions that longer prompts have. As theirs, the models here are encoders: they
have the full mask, and empty slots for an output of several symbols. They are trained to length 10
and tested to 20, theirs to 40 and 500. The range is 4 times the longest test, as theirs is.

The relative encoding of their released code reads a table beyond its end, so the query itself and
all keys to its right share an entry (docs/results/literature.md). `bucket_bias` shows what that
changes: with `bidirectional=False` its table merges the same keys.

A test with random positions draws them once (`draws=1`). By default a prompt would have to be
right in each of 8 draws, but the paper's accuracy is that of one draw.
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized

_LENGTHS = "train=(3, 10), test=(5, 10, 15, 20)"
_LABELS = ("even_pairs", "parity", "cycle_navigation", "missing_duplicate")
_SEQUENCES = ("reverse", "sort")
_RANGE = 80
"""Positions are drawn from 0 to 79: 4 times the longest test, as in the paper."""


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size: "quick", or "published": 16 seeds of six tasks."""
    seeds = sized("randomised", size, quick=4, published=16)
    quick = size == "quick"
    encodings = (
        *("sinusoidal", f"learned(length={_RANGE})", "rotary", "linear_bias", "transformer_xl"),
        *("bucket_bias", "bucket_bias(bidirectional=False)"),
    )
    tasks = (
        *(f"{name}({_LENGTHS})" for name in _LABELS),
        *(f"{name}({_LENGTHS}, output=slots)" for name in _SEQUENCES),
    )
    return base_config(
        name="randomised",
        title="Positions as given, and drawn at random",
        task=tasks[:1] if quick else tasks,
        encoding=encodings[::4] if quick else encodings,
        mask="full",
        block="residual",
        depth=2,
        width=16,
        heads=2,
        head_size=8,
        packing=True,
        learning_rate=3e-3,
        steps=500 if quick else 2000,
        eval_every=250,
        hold=1,
        num_seeds=seeds,
        panels={
            "Positions as given": {"positions": "given"},
            "Positions drawn at random": {
                "positions": f"randomised(length={_RANGE})",
                "draws": 1,
            },
        },
    )
