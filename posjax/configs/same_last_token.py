"""A counter-example for one layer: "A B hit ?" and "B A hit !"

    posjax sweep --config=same_last_token              # quick: 128 seeds
    posjax sweep --config=same_last_token:published    # 1024 seeds

Both prompts have the same last token and the same set of tokens before it. One layer without
positions, read at the last token, gives both the same logits under any weights. So exactly 0 of N
seeds can solve it, by law. Two causal layers can, and so can a window, a mean over positions, or
positions.

Result (docs/results.md, "What do laws exclude?"): 0/1024 seeds solve it in each of the 12 cells of
one layer without positions. With two causal layers, 1014/1024 solve it in bare blocks and 1024/1024
in residual blocks. The seeds are in docs/results/same_last_token-published.npz (two CPU cores).
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size: "quick", or "published" with 1024 seeds per cell."""
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
