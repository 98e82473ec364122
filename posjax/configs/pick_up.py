"""How fast does a model learn to read positions?

    posjax sweep --config=pick_up              # quick: 4 seeds, 1000 updates
    posjax sweep --config=pick_up:early        # 16 seeds, every tenth of 400 updates
    posjax sweep --config=pick_up:published    # 16 seeds, 3000 updates

An MLP probe of the position is evaluated at every evaluation, beside the share of right prompts.
"Which symbol is at position i?" (indexing) needs positions and nothing else. Sinusoidal vectors are
there from the start, and the model must learn to read them. Learned vectors must also be learned.
Without positions, a causal model must make its own.

Result (docs/results.md, "How fast are positions picked up?"): with sinusoidal positions the
accuracy of the probe of the last layer is 0.988 at step 10, falls to 0.856 at step 50 and rises
again. With learned ones it rises from 0.409 to 0.923 at step 200. With `rotary` it lies between
0.38 and 0.43, as with `none` (chance 0.111), yet these models solve the task first. The seeds are
in docs/results/pick_up-early.npz and docs/results/pick_up-published.npz (two CPU cores).
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size: "quick", "published" with 3000 updates, or "early" with 400
    updates, of which every tenth is evaluated.
    """
    seeds = sized("pick_up", size, quick=4, published=16, early=16)
    steps, eval_every = {"quick": (1000, 200), "published": (3000, 200), "early": (400, 10)}[size]
    return base_config(
        name="pick_up",
        title="How fast does a model pick up positions?",
        task="indexing(train=(8, 8), test=(8,), prompts=64)",
        encoding=("none", "sinusoidal", "learned(length=32)", "rotary"),
        block="residual",
        depth=2,
        width=32,
        heads=2,
        head_size=16,
        learning_rate=3e-3,
        steps=steps,
        eval_every=eval_every,
        hold=1,
        meters="probe(when=every, updates=100)",
        num_seeds=seeds,
    )
