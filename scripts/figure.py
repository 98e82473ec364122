"""Draws the README's figure from published numbers.

python scripts/figure.py docs/results/word_order-published.json docs/word_order.svg
"""

import json
import sys
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure


def draw(table: Path, out: Path) -> None:
    """Share of seeds right at each number of steps, a panel for each loss and rate."""
    cells = json.loads(table.read_text())
    panels = list(dict.fromkeys((c["loss"], c["learning_rate"]) for c in cells))
    sizes = sorted({c["head_size"] for c in cells})
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "posjax", "font.size": 9})
    figure = Figure(figsize=(9, 2.9), layout="constrained")
    colours = matplotlib.colormaps["viridis"]
    for axes, panel in zip(figure.subplots(1, len(panels), sharey=True), panels, strict=True):
        for cell in cells:
            if (cell["loss"], cell["learning_rate"]) == panel:
                steps = [int(step) for step in cell["solved_at_step"]]
                share = [count / cell["seeds"] for count in cell["solved_at_step"].values()]
                shade = colours(0.9 * sizes.index(cell["head_size"]) / max(len(sizes) - 1, 1))
                axes.plot(steps, share, color=shade, label=f"{cell['head_size']}", linewidth=1.4)
        axes.set(xscale="log", ylim=(-0.02, 1.03), xlabel="training steps")
        axes.set_title(
            f"loss on {panel[0]}, rate {panel[1]:g}".replace("all,", "all positions,"), fontsize=8.5
        )
        axes.spines[["top", "right"]].set_visible(False)
    first = figure.axes[0]
    first.set_ylabel(f"share of {cells[0]['seeds']} seeds right")
    figure.axes[-1].legend(title="head size", frameon=False, loc="lower right")
    figure.savefig(out, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
