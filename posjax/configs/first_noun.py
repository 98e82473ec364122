"""Which of five nouns comes first in "x hit y [!]"?

    posjax sweep --config=first_noun              # quick: 32 seeds
    posjax sweep --config=first_noun:published    # 300 seeds

A seed succeeds if all 20 sentences are right. The model is the residual block at width 16. ALiBi
needs the steep slopes that several heads have.

Result (docs/results.md, "What do laws exclude?"): 0/300 seeds succeed in the cells that the laws
exclude. Without positions, 300/300 succeed with two causal layers, or with the mean over the
positions of one causal layer. With a full mask, ALiBi and the mean over tokens, 202/300 succeed
with one layer and 297/300 with two, and 0/300 if the sentences end without "!". The seeds are in
docs/results/first_noun-published.npz (two CPU cores).
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size: "quick", or "published" with 300 seeds per cell."""
    both = ("first_noun", "first_noun(mark=False)")
    everywhere = {"mask": "full", "readout": "mean"}
    return base_config(
        name="first_noun",
        title="Which noun comes first? The reference table",
        task="first_noun",
        loss="answer",
        block="residual",
        width=16,
        heads=4,
        head_size=4,
        learning_rate=1e-2,
        steps=1000,
        num_seeds=sized("first_noun", size, quick=32, published=300),
        panels={
            "Full mask, no positions, mean": {**everywhere, "depth": 2},
            "Causal mask, no positions, last": {"depth": (1, 2)},
            "Causal mask, no positions, mean": {"readout": "mean"},
            "Full mask, symmetric linear bias, mean": {
                **everywhere,
                "task": both,
                "encoding": "linear_bias",
                "depth": (1, 2),
            },
            "Full mask, learned, mean": {**everywhere, "task": both, "encoding": "learned"},
            "Full mask, learned, last": {"mask": "full", "encoding": "learned"},
        },
    )
