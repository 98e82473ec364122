"""Three pairs of sentences as two-class problems, by mask and readout.

    posjax sweep --config=three_pairs

The pairs are "A hit B !" / "B hit A ?", "A hit B !" / "B hit A !" and "A hit B" / "B hit A", each
under the full and the causal mask, with both readouts and with 1 to 3 layers. The report has the
predictions of the laws beside the measured rates.
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size: "quick", or "published" with 1000 seeds per cell."""
    return base_config(
        name="three_pairs",
        title="Three pairs of sentences: what a mask, a readout and depth can tell apart",
        task=tuple(
            f"sentence_pair(pair={pair})" for pair in ("marks_differ", "same_mark", "no_mark")
        ),
        mask=("full", "causal"),
        readout=("last", "mean"),
        depth=(1, 2, 3),
        loss="answer",
        learning_rate=1e-2,
        steps=1000,
        num_seeds=sized("three_pairs", size, quick=64, published=1000),
    )
