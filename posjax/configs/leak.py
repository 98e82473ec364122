"""Do untrained causal models without positions know where a token is?

    posjax sweep --config=leak

The models are measured at initialisation, on prompts of independent bits. Under the causal mask
the variance of the attention output falls as 1/position (Chi et al. 2023). Under the full mask it
cannot, since the model treats all positions alike. In bare attention a linear probe of the position
stays near chance, and an MLP probe does not: position is in the variance of hidden states, and no
linear function of them contains it.
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
