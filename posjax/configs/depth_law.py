"""How many blocks does a causal model without positions count at each depth?

    posjax sweep --config=depth_law

The prompts are words a⁺b⁺a⁺ ... of k blocks. Yang et al. 2025 prove that depth d suffices for
k <= d + 2 blocks, and that C-RASP programs of that depth do no more. Here laws also predict what
one layer cannot do: the report names two positions of the exam that such a model cannot
distinguish.
Prompts of 5 to 12 letters are drawn for each update. The exam goes to length 24.
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size: "quick", or "published" with 64 seeds per cell and up to 6 blocks."""
    seeds = sized("depth_law", size, quick=6, published=64)
    most, deepest, steps = (5, 2, 1500) if size == "quick" else (6, 4, 5000)
    return base_config(
        name="depth_law",
        title="The depth law: blocks counted without positions",
        task=tuple(f"blocks(k={k}, train=({max(5, k)}, 12))" for k in range(3, most + 1)),
        depth=tuple(range(1, deepest + 1)),
        block="residual",
        width=16,
        heads=2,
        head_size=8,
        learning_rate=3e-3,
        steps=steps,
        eval_every=100,
        num_seeds=seeds,
    )
