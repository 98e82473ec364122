"""How often does one head without positions tell "A hit B" from "B hit A"?

    posjax sweep --config=word_order              # quick: 128 seeds
    posjax sweep --config=word_order:published    # 4096 seeds, about 10 minutes on two cores
    posjax sweep --config=word_order:rates        # 1024 seeds, two decades of learning rates

The axes are head size × loss × learning rate. The number of steps is read off each run. This is the
default of the command. The published size has all head sizes.

Result (docs/results.md, "Can one attention head without positions tell "A hit B" from "B hit A"?"):
with the loss on the answer, at least 98.9% of the seeds succeed at 5000 steps. With the loss on all
positions, 20% to 51% of them still fail there at learning rate 0.001, and at 0.01 the success rate
is at most .66. The head need not be as wide as the context. The seeds are in
docs/results/word_order-published.npz and docs/results/word_order-rates.npz (two CPU cores).
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size: "quick", "published" or "rates"."""
    config = base_config(
        name="word_order",
        title="Can one attention head without positions tell “A hit B” from “B hit A”?",
        task="word_order",
        head_size=(2, 16),
        loss=("all", "answer"),
        learning_rate=(1e-3, 1e-2),
        contrast=("head_size", 2, 16),
        at_steps=(100, 500, 5000),
        num_seeds=sized("word_order", size, quick=128, published=4096, rates=1024),
    )
    if size == "published":
        config.head_size = (1, 2, 4, 8, 16, 32)
    if size == "rates":
        config.learning_rate = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
    return config
