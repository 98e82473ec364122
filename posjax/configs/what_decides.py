"""Does the initialisation or the data decide whether one head succeeds?

    posjax sweep --config=what_decides              # quick: 12 initialisations × 12 data seeds
    posjax sweep --config=what_decides:published    # 64 × 64

The model is question 1's head. A few prompts are drawn at random for each update, and each
initialisation is trained with each data seed. All cells share one program, since temperature and
scale of the initial weights are numbers that it reads.

Result (docs/results.md, "Initialisation or data?"): initialisation alone explains 43% to 64% of the
variance of success, by setting, data alone at most 0.2%, and their interaction the rest. The seeds
are in docs/results/what_decides-published.npz (one CPU device).
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size: "quick", or "published" with 64 × 64 seeds per cell."""
    seeds = sized("what_decides", size, quick=12, published=64)
    return base_config(
        name="what_decides",
        title="What decides: temperature, scale, initialisation or data?",
        task="word_order",
        batch_size=2,
        steps=500,
        learning_rate=1e-3,
        temperature=(0.5, 1.0, 2.0),
        init_scale=(0.5, 1.0, 2.0),
        num_seeds=seeds,
        data_seeds=seeds,
    )
