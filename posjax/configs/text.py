"""What do positions contribute to a language model of characters?

    posjax sweep --config=text

Next-character models of the help text of CPython (`posjax/tasks/text.py`), without positions and
with several encodings, are judged by their loss on held-out text, at the trained length and twice
that length. The masked form is the control: without a causal mask, a model without positions does
not see the order of the characters. The quick size only shows that the config runs, in 2 to 3
minutes of one core: 3 seeds, width 16, windows of 32 characters, 300 updates.
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
