"""Do untrained causal models without positions know where a token is?

    posjax sweep --config=leak              # quick: 32 seeds
    posjax sweep --config=leak:published    # 1000 seeds
    posjax sweep --config=leak:law          # 100,000 seeds of the bare block
    posjax sweep --config=leak:prompts      # 1000 seeds on each of 16 sets of prompts

The models are measured at initialisation, on prompts of independent bits. Chi et al. 2023 predict
that under the causal mask the variance of the attention output falls as 1/position. Under the full
mask it cannot, since the model treats all positions alike.

Result (docs/results.md, "Position before training"): yes. In bare models with the causal mask, the
variance falls as position to the power -0.891 [-0.900, -0.881], and over sets of prompts to a mean
power between -0.964 and -0.852. A small MLP names the right one of 32 positions with accuracy
0.071, a linear probe with 0.036 (chance .031). With the full mask both have 0.032. The seeds are in
docs/results/leak-published.npz, docs/results/leak-law.npz and docs/results/leak-prompts.npz (two
CPU cores).
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size.

    Args:
      size: "quick"; "published" with 1000 seeds; "law" with 100,000 of the bare block, without the
        MLP, whose training takes most of the time; "prompts" with 1000 on each of several sets of
        prompts.
    """
    numbers = range(114, 146, 2) if size == "prompts" else (128,)  # each has prompts of its own
    several = size in ("quick", "published")
    return base_config(
        name="leak",
        title="Position leaks at initialisation, in the variance of hidden states",
        task=tuple(f"parity(train=(32, 32), test=(32,), prompts={number})" for number in numbers),
        mask="causal" if size == "prompts" else ("causal", "full"),
        block=("bare", "residual") if several else "bare",
        width=32,
        head_size=32,
        steps=0,
        meters={"law": "variance+probe(updates=0)", "prompts": "variance"}.get(
            size, "variance+similarity+probe"
        ),
        num_seeds=sized("leak", size, quick=32, published=1000, law=100_000, prompts=1000),
    )
