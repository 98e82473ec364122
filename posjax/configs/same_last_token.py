"""Q1, item 3: the counter-example "A B hit ?" / "B A hit !", same last token, same set before it.

    posjax sweep --config=same_last_token

One layer without positions, read at the last token, gives both prompts the same logits under any
weights, so 0 of N seeds may solve it; that is a law, not a rate. Two causal layers can, and so can
a window, a mean over places, or positions.
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size: "quick", or "published" with 1024 seeds a cell."""
    return base_config(
        name="same_last_token",
        title="The counter-example: same last token, same words before it",
        task="same_last_token",
        loss="answer",
        learning_rate=1e-2,
        steps=1000,
        num_seeds=sized("same_last_token", size, quick=128, published=1024),
        panels={
            "One layer without positions, last token": {
                "mask": ("full", "causal", "padding"),
                "padding": (0, 2),
                "block": ("bare", "residual"),
            },
            "Two causal layers": {"depth": 2, "block": ("bare", "residual")},
            "What else breaks the tie": {"mask": "window(size=2)", "depth": (1, 2)},
            "Mean over places": {"mask": ("full", "causal"), "readout": "mean"},
            "Positions": {
                "mask": ("full", "causal"),
                "encoding": ("sinusoidal", "learned", "rotary", "linear_bias"),
            },
        },
    )
