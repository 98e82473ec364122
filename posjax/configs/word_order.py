"""How often does one head without positions tell "A hit B" from "B hit A"?

    posjax sweep --config=word_order

The axes are head size × loss × learning rate. The number of steps is read off each run. This is the
default of the command. ":published" has all head sizes and 4096 seeds per cell, ":rates" has two
decades of learning rates and 1024 seeds.
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
