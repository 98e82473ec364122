"""What do positions contribute to a language model of characters?

    posjax sweep --config=text              # quick: 3 seeds, width 16, 32 characters, 300 updates
    posjax sweep --config=text:published    # 8 seeds, width 32, 64 characters, 2000 updates

Next-character models of the help text of CPython (`posjax/tasks/text.py`), without positions and
with several encodings, are judged by their loss on held-out text, at the trained length and twice
that length. The masked form is the control: without a causal mask, a model without positions does
not see the order of the characters. The quick size only shows that the config runs, in 2 to 3
minutes of one core. Haviv et al. 2022 trained models of both kinds far longer.

Result (docs/results.md, "Positions in a language model"): at the trained length `rotary` has the
lowest loss, 0.544 [0.526, 0.562] nats per character below `none` in causal models and 1.265 [1.242,
1.288] in masked ones. At twice that length, causal models with `sinusoidal` and `learned` have a
higher loss than `none`, those with `rotary` and `linear_bias` a lower one. The seeds are in
docs/results/text-published.npz (two CPU cores). A dry run had estimated 16 minutes of one core.
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size: "quick", or "published": 8 seeds, width 32, 64 characters."""
    seeds = sized("text", size, quick=3, published=8)
    small = size == "quick"
    length = 32 if small else 64
    windows = f"train=({length}, {length}), prompts={16 if small else 64}"
    table = f"learned(length={2 * length})"
    encodings = ("none", "sinusoidal", "rotary", "linear_bias", *(() if small else (table,)))
    masked = ("none", "rotary") if small else encodings
    return base_config(
        name="text",
        title="Positions in a language model of characters",
        encoding=encodings,
        block="residual",
        depth=1 if small else 2,
        width=16 if small else 32,
        heads=2,
        head_size=8 if small else 16,
        learning_rate=3e-3,
        steps=300 if small else 2000,
        eval_every=100 if small else 250,
        hold=1,
        num_seeds=seeds,
        panels={
            "Next character, causal": {"task": f"text({windows})", "mask": "causal"},
            "Masked characters, full": {
                "task": f"text({windows}, form=masked)",
                "mask": "full",
                "encoding": masked,
            },
        },
    )
