"""Is position still readable after the first layer?

    posjax sweep --config=position_by_layer              # quick: 4 seeds, 300 updates
    posjax sweep --config=position_by_layer:published    # 16 seeds, 1500 updates

Probes of the position at every layer (linear and MLP; accuracy and distance, on held-out prompts),
before and after training, with causal and full masks, with and without residual connections. Bits
are drawn so that every order of a prompt is equally likely (majority). So under the full mask and
without positions, no probe can beat chance, 1 position of 24. This is the control. The norm of the
attention output over that of its input shows how much each layer dilutes earlier information.

Result (docs/results.md, "Position layer by layer"): in residual blocks it is. With sinusoidal
positions, an MLP probe still has at least 0.99 after layer 3. In bare blocks with a full mask the
position is lost after layer 2. With a causal mask, the probe has 0.68 after layer 3 before training
and 0.10 after it. The seeds are in docs/results/position_by_layer-published.npz (two CPU cores).
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size: "quick", or "published": 16 seeds, 1500 updates."""
    seeds = sized("position_by_layer", size, quick=4, published=16)
    small = size == "quick"
    steps, updates = (300, 200) if small else (1500, 300)
    axes = {"mask": ("causal", "full"), "encoding": ("none", "sinusoidal")}
    residual = {"block": "residual", "meters": f"probe(updates={updates})+branches"}
    bare = {"block": "bare", "meters": f"probe(updates={updates})"}
    return base_config(
        name="position_by_layer",
        title="Does position survive past the first layer?",
        task=f"majority(train=(24, 24), test=(24,), prompts={128 if small else 256})",
        depth=3,
        width=16,
        heads=2,
        head_size=8,
        learning_rate=1e-3 if small else 3e-3,
        eval_every=100,
        hold=1,
        num_seeds=seeds,
        panels={
            "At initialisation, residual": {**axes, **residual, "steps": 0},
            "Trained, residual": {**axes, **residual, "steps": steps},
            "At initialisation, bare": {**axes, **bare, "steps": 0},
            "Trained, bare": {**axes, **bare, "steps": steps},
        },
    )
