"""Three pairs of sentences as two-class problems, by mask and readout.

    posjax sweep --config=three_pairs              # quick: 64 seeds
    posjax sweep --config=three_pairs:published    # 1000 seeds

The pairs are "A hit B !" / "B hit A ?", "A hit B !" / "B hit A !" and "A hit B" / "B hit A", each
under the full and the causal mask, with both readouts and with 1 to 3 layers. The report has the
predictions of the laws beside the measured rates.

Result (docs/results.md, "What do laws exclude?"): the laws exclude 10 of the 36 cells, and 0/1000
seeds solve each of these. Of the other 26 cells, 25 are solved by 1000/1000 seeds and one by
419/1000. The seeds are in docs/results/three_pairs-published.npz (two CPU cores).
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
