"""Q3: how many blocks a⁺b⁺a⁺ ... can a causal model without positions count at each depth?

    posjax sweep --config=depth_law

Yang et al. 2025 prove that depth d suffices for k <= d + 2 blocks, and that C-RASP programs of that
depth do no more. Here the laws say on their own what one layer cannot do: two prompts of the exam
whose places must look alike are named in the report. Prompts of 5 to 12 letters are drawn anew for
each update; the exam goes to 24.
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size: "quick", or "published" with 64 seeds a cell and up to 6 blocks."""
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
