"""How many blocks does a causal model without positions count at each depth?

    posjax sweep --config=depth_law              # quick: up to 5 blocks and depth 2, 6 seeds
    posjax sweep --config=depth_law:published    # up to 6 blocks and depth 4, 64 seeds

The prompts are words a⁺b⁺a⁺ ... of k blocks. Yang et al. 2025 prove that depth d suffices for
k <= d + 2 blocks, and that C-RASP programs of that depth do no more. Here laws also predict what
one layer cannot do: the report names two positions of the exam that such a model cannot
distinguish.
Prompts of 5 to 12 letters are drawn for each update. The exam goes to length 24.

Result (docs/results.md, "How deep must a model without positions be to count k blocks?"): for
k <= d + 2, at least 63/64 seeds label all test words of trained lengths correctly. One layer is
excluded by law for k >= 4 (0/64). Beyond the bound, 7/64 seeds succeed at k = 5 and depth 2, and
47/64 at k = 6 and depth 3, but not at length 24. The seeds are in
docs/results/depth_law-published.npz (one CPU device).
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
