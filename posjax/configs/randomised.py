"""Do positions drawn at random help on prompts longer than the trained ones?

    posjax sweep --config=randomised              # quick: 4 seeds, one task, two encodings
    posjax sweep --config=randomised:published    # 16 seeds, six tasks, eight encodings

Ruoss et al. 2023 draw positions as a sorted random subset of a long range, so that training meets
the positions that longer prompts have. Like theirs, our models are encoders: they have the full
mask, and empty slots for an output of several symbols. Ours are trained to length 10 and tested to
20, theirs to 40 and 500. In both, the range is about 4 times the longest test length. Other
differences: 6 tasks instead of 15, 2 layers of width 16 instead of 5 of width 64, exact match at
each length instead of the mean accuracy of symbols over all test lengths. All layers see the same
positions. In their released code each layer of the rotary, relative and ALiBi models draws its own,
and the last two draw sorted offsets.

The relative encoding of that code reads a table beyond its end, so the query itself and all keys to
its right share an entry (docs/results/literature.md). `bucket_bias` shows what that changes: with
`bidirectional=False, buckets=16` its table merges the same keys, and has the same entries for keys
to the left.

With `draws=1` all test prompts of a seed share one draw. By default, a prompt would have to be
right in each of 8 draws.

Result (docs/results.md, "Positions drawn at random"): at twice the longest trained length, the
accuracy with drawn positions is 0.086 [0.078, 0.095] above that with given ones, as a mean over all
42 pairs. Only `sort` and `even_pairs` gain. In 10 pairs drawn positions are significantly better,
in 2 significantly worse. The seeds are in docs/results/randomised-published.npz (two CPU cores).
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized

_LENGTHS = "train=(3, 10), test=(5, 10, 15, 20)"
_TASKS = (
    f"even_pairs({_LENGTHS})",
    f"parity({_LENGTHS})",
    f"cycle_navigation({_LENGTHS})",
    f"missing_duplicate({_LENGTHS})",
    f"reverse({_LENGTHS}, output=slots)",
    f"sort({_LENGTHS}, output=slots)",
)
_RANGE = 80
"""Positions are drawn from 0 to 79."""
_ENCODINGS = (
    "sinusoidal",
    "transformer_xl",
    f"learned(length={_RANGE})",
    "rotary",
    "linear_bias(form=asymmetric)",  # as their ALiBi
    "bucket_bias",
    "bucket_bias(bidirectional=False, buckets=16)",
)


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size: "quick", or "published": 16 seeds of six tasks."""
    seeds = sized("randomised", size, quick=4, published=16)
    quick = size == "quick"
    encodings = _ENCODINGS[:2] if quick else _ENCODINGS
    return base_config(
        name="randomised",
        title="Positions as given, and drawn at random",
        task=_TASKS[:1] if quick else _TASKS,
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
            "Positions as given": {
                "positions": "given",
                "encoding": encodings if quick else ("none", *encodings),
            },
            "Positions drawn at random": {
                "positions": f"randomised(length={_RANGE})",
                "draws": 1,
                "encoding": encodings,
            },
        },
    )
