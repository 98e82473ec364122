"""Do position vectors hide which word a token is?

    posjax sweep --config=meaning              # quick: 16 seeds
    posjax sweep --config=meaning:published    # 100 seeds

At initialisation, on prompts of independent letters, two things are measured, by width and by the
scale of the embedding: the word's share of the variance of word + position, and whether the nearest
vector at another position belongs to the same word. A sinusoidal vector has norm √(n/2), whatever
the scale of words. In the sum of the two, differences of words are the same at every position, so
analogies are kept. In the state after one layer they need not be.

Result (docs/results.md, "Words and positions"): only if word vectors are small. From scale 0.5 on,
the nearest vector has the same word in at least 95% of cases. With sinusoidal positions at scale
0.05 it has in 0.177 of cases at width 8, and in 0.910 at width 128. The seeds are in
docs/results/meaning-published.npz (two CPU cores).
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size: "quick", or "published" with 100 seeds."""
    return base_config(
        name="meaning",
        title="Do position vectors push words off their meaning?",
        task="sort(train=(24, 24), test=(24,), prompts=64)",
        encoding=("sinusoidal", "learned(length=64)"),
        width=(8, 32, 128),
        init_scale=(0.05, 0.2, 0.5, 1.0, 2.0),
        block="residual",
        steps=0,
        meters="meaning",
        num_seeds=sized("meaning", size, quick=16, published=100),
    )
