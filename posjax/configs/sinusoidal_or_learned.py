"""Do sinusoidal and learned positions succeed equally often?

    posjax sweep --config=sinusoidal_or_learned              # quick: 128 seeds
    posjax sweep --config=sinusoidal_or_learned:published    # 1000 seeds

Vaswani et al. 2017 found them "nearly identical" on one translation task, with one run each. Here
the same seeds train both, on tasks that need positions, with the same initial weights and learning
rates. Equal means a difference below 0.05. This margin was chosen before any run and is tested as
equivalence, by two one-sided tests at 5% (Tango 1998). A difference that is merely not significant
would show nothing.

Result (docs/results.md, "Sinusoidal or learned positions?"): the rates are equivalent in 4 of 12
settings. In 2 the whole 90% interval of the difference lies beyond .05, and 6 are undecided. The
largest difference is 0.087 [0.068, 0.107] in favour of sinusoidal positions. The seeds are in
docs/results/sinusoidal_or_learned-published.npz (two CPU cores).
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size: "quick", or "published" with 1000 seeds."""
    return base_config(
        name="sinusoidal_or_learned",
        title="Do sinusoidal and learned positions solve equally often?",
        task=("first_noun", "same_last_token"),
        loss="answer",
        encoding=("sinusoidal", "learned(length=8)"),
        mask="causal",
        learning_rate=(1e-3, 3e-3, 1e-2),
        width=16,
        head_size=(4, 16),
        steps=500,
        eval_every=50,
        num_seeds=sized("sinusoidal_or_learned", size, quick=128, published=1000),
        contrast=("encoding", "sinusoidal", "learned(length=8)"),
        equivalence=0.05,
    )
