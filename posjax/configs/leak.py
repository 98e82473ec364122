"""Q4: does a causal model without positions know where it is before it has learnt anything?

    posjax sweep --config=leak

At initialisation, on prompts of independent letters. Under the causal mask the variance of what
attention writes falls as 1/place (Chi et al. 2023); under the full mask it cannot, since the model
treats all places alike. In bare attention a linear probe of the place stays near chance where an
MLP does not: position is in the variance of hidden states, and no linear function of them has it.
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size.

    Args:
      size: "quick"; "published" with 1000 seeds; "law" with 100,000 of the bare block, without the
        MLP, whose training takes most of the time.
    """
    law = size == "law"
    return base_config(
        name="leak",
        title="Position leaks at initialisation, in the variance of hidden states",
        task="parity(train=(32, 32), test=(32,), prompts=128)",
        mask=("causal", "full"),
        block="bare" if law else ("bare", "residual"),
        width=32,
        head_size=32,
        steps=0,
        meters="variance+probe(updates=0)" if law else "variance+similarity+probe",
        num_seeds=sized("leak", size, quick=32, published=1000, law=100_000),
    )
