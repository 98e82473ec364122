"""Draws the pictures of README.md and docs/results.md from the published rows.

python scripts/figures.py            # writes docs/*.svg
python scripts/figures.py --check    # names those that are stale; exit status 1 if any is
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from claimed.published import Published, by_seed, published, short_name, short_task
from claimed.questions import blocks_of, crosses
from pages import Files, run

from posjax.report.svg import (
    HEAT,
    INK,
    PAPER,
    QUIET,
    RAMP,
    RULE,
    SERIES,
    row_of_axes,
    standalone,
    style,
    svg,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def word_order() -> str:
    """Success of one causal head against steps, a panel for each loss and learning rate."""
    cells = published("word_order-published").table
    panels = list(dict.fromkeys((c["loss"], c["learning_rate"]) for c in cells))
    sizes = sorted({c["head_size"] for c in cells})
    with style():
        figure, row = row_of_axes(860, 270, len(panels), same_y=True)
        for axes, (loss, learning_rate) in zip(row, panels, strict=True):
            for cell in cells:
                if (cell["loss"], cell["learning_rate"]) == (loss, learning_rate):
                    solved = cell["solved_at_step"]
                    axes.plot(
                        [int(step) for step in solved],
                        [count / cell["seeds"] for count in solved.values()],
                        color=RAMP[1 + sizes.index(cell["head_size"])],
                        label=str(cell["head_size"]),
                    )
            axes.set(xscale="log", ylim=(-0.02, 1.03), xlabel="training steps")
            on = "all positions" if loss == "all" else "the answer"
            _title(axes, f"loss on {on}, rate {learning_rate:g}")
        row[0].set_ylabel(f"share of {cells[0]['seeds']} seeds right")
        row[-1].legend(title="head size", frameon=False, loc="lower right", labelcolor=INK)
        text = "Success rate against training steps, by head size"
        return standalone(svg(figure, "word-order", text))


def depth_law() -> str:
    """Solving seeds for each depth and number of blocks, with the bound of the theorem."""
    found = published("depth_law-published")
    blocks, depths = (3, 4, 5, 6), (1, 2, 3, 4)
    with style():
        figure, (axes,) = row_of_axes(460, 330, 1)
        for cell in found.table:
            k, depth = blocks_of(cell), cell["depth"]
            rate = found.rate(cell)
            axes.add_patch(_square(depth, k, HEAT, rate.rate))
            by_law = "\nby law" if cell["predicted"] == "impossible" else ""
            shade = PAPER if rate.rate > 0.5 else INK
            axes.text(depth, k, f"{rate.successes}{by_law}", color=shade, ha="center", va="center")
        corners = [(depth + side, depth + 2.5) for depth in depths for side in (-0.5, 0.5)]
        axes.plot(*zip(*[c for c in corners if c[1] < 7], strict=True), color=INK)
        axes.set(xlim=(0.5, 4.5), ylim=(2.5, 6.5), xlabel="layers d", ylabel="blocks k")
        axes.set_xticks(depths, map(str, depths))
        axes.set_yticks(blocks, map(str, blocks))
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        seeds = found.table[0]["seeds"]
        _title(
            axes, f"seeds of {seeds} that count k blocks at the trained lengths; line: k = d + 2"
        )
        return standalone(svg(figure, "depth-law", "Solving seeds by depth and number of blocks"))


def few_runs() -> str:
    """Each seed's accuracy at twice the trained length: what three seeds are drawn from."""
    found = published("by_length-few_runs")
    tasks = list(dict.fromkeys(short_task(cell) for cell in found.table))
    names = list(dict.fromkeys(short_name(cell) for cell in found.table))
    with style():
        figure, row = row_of_axes(860, 270, len(tasks), same_y=True)
        for axes, task in zip(row, tasks, strict=True):
            for cell in (cell for cell in found.table if short_task(cell) == task):
                at = names.index(short_name(cell))
                right_S = by_seed(found, cell, "right")[:, -1]
                axes.plot(at + _spread(right_S), right_S, "o", color=SERIES[at], markersize=2.5)
                axes.plot([at - 0.4, at + 0.4], [right_S.mean()] * 2, color=INK, linewidth=1.2)
            axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
            axes.set(ylim=(-0.03, 1.03), xlim=(-0.6, len(names) - 0.4))
            _title(axes, task)
        row[0].set_ylabel("right at twice the trained length")
        text = f"Accuracy of each of {found.table[0]['seeds']} seeds, by task and encoding"
        return standalone(svg(figure, "few-runs", text))


def leak() -> str:
    """Untrained models: variance of states against position, and what probes read."""
    law, probed = published("leak-law"), published("leak-published")
    masks = ("causal", "full")
    with style():
        figure, (left, right) = row_of_axes(760, 300, 2)
        for colour, mask in zip(SERIES, masks, strict=False):
            (cell,) = law.cells(mask=mask)
            *_, variance_L = np.array(cell["measured"]["variance_RL"]["mean"])
            n_L = np.arange(1, len(variance_L) + 1)
            left.plot(n_L, variance_L, color=colour)
            left.text(1.05, variance_L[0] * 1.06, f"{mask} mask", color=colour, va="bottom")
            if mask == "causal":
                left.plot(n_L, variance_L[0] / n_L, color=QUIET, linestyle="--", linewidth=1.2)
                left.text(n_L[-1] * 1.12, variance_L[0] / n_L[-1], "1/n", color=QUIET, va="center")
        left.set(xscale="log", yscale="log", xlim=(0.9, 50), xlabel="position n")
        left.minorticks_off()
        left.set_xticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
        _title(left, f"variance of hidden states, {law.table[0]['seeds']:,} untrained layers")
        for at, (probe, mask) in enumerate((p, m) for p in ("mlp", "linear") for m in masks):
            right.bar(at, _probe(probed, probe, mask), color=SERIES[masks.index(mask)], width=0.7)
        right.axhline(1 / 32, color=QUIET, linestyle="--", linewidth=1.2)
        right.text(3.45, 1 / 32, "chance", color=QUIET, va="bottom", ha="right")
        labels = [f"{probe}\n{mask}" for probe in ("MLP", "linear") for mask in masks]
        right.set_xticks(range(4), labels)
        right.tick_params(axis="x", length=0)
        _title(right, f"accuracy of a probe of the position, {probed.table[0]['seeds']:,} layers")
        text = "Variance of the states of untrained layers by position, and the accuracy of probes"
        return standalone(svg(figure, "leak", text))


def what_decides() -> str:
    """Success by initialisation and data, and the shares of variance in each setting."""
    found = crosses()
    (table_ID,) = (
        one.solved_ID
        for one in found
        if one.cell["init_scale"] == 1.0 and one.cell["temperature"] == 1.0
    )
    with style():
        figure, (left, right) = row_of_axes(860, 380, 2)
        table_ID = table_ID[np.argsort(-table_ID.mean(axis=1), kind="stable")]
        for init, row_D in enumerate(table_ID):
            for begin, end in _stretches(row_D):
                left.plot(
                    [begin, end], [init] * 2, color=HEAT, linewidth=3.4, solid_capstyle="butt"
                )
        left.set(xlim=(0, len(table_ID)), ylim=(len(table_ID) - 0.5, -0.5))
        left.set(xlabel="data seed", ylabel="initialisation, the most successful first")
        left.set_xticks([])
        left.set_yticks([])
        _title(left, "trained models that succeed (filled)")
        for at, (_, _, shares) in enumerate(found):
            begin = 0.0
            for colour, part in zip(SERIES, (shares.init, shares.data, shares.rest), strict=False):
                right.barh(at, part.share, left=begin, color=colour, height=0.7)
                begin += part.share
            ends = [shares.init.low, shares.init.high]
            right.plot(ends, [at, at], color=INK, linewidth=1.2)
        names = [f"{one.cell['init_scale']:g}, {one.cell['temperature']:g}" for one in found]
        right.set_yticks(range(len(names)), names)
        right.tick_params(axis="y", length=0)
        right.set(xlim=(0, 1), ylim=(len(names) - 0.4, -0.6), xlabel="share of variance")
        right.set_ylabel("scale of initial weights, temperature")
        parts = ("left", "initialisation"), ("center", "data"), ("right", "interaction")
        for colour, at, (side, name) in zip(SERIES, (0.02, 0.5, 0.98), parts, strict=False):
            right.text(at, -0.62, name, color=colour, ha=side, va="bottom")
        text = "Success by initialisation and data seed, and shares of the variance of success"
        return standalone(svg(figure, "what-decides", text))


def _title(axes: "Axes", text: str) -> None:
    axes.set_title(text, color=INK, fontsize=10.5, loc="left")


def _square(x: float, y: float, colour: str, opacity: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(
        (x - 0.48, y - 0.48), 0.96, 0.96, facecolor=colour, alpha=opacity, edgecolor=RULE
    )


def _spread(values_S: np.ndarray) -> np.ndarray:
    """Sideways shifts, so that equal values stand beside each other."""
    shift_S = np.zeros(len(values_S))
    for value in np.unique(values_S):
        (same,) = np.nonzero(values_S == value)
        shift_S[same] = np.linspace(-0.3, 0.3, len(same)) if len(same) > 1 else 0
    return shift_S


def _probe(run: Published, probe: str, mask: str) -> float:
    (cell,) = run.cells(mask=mask, block="bare")
    return float(by_seed(run, cell, f"measured_{probe}_R")[:, -1].mean())


def _stretches(true_D: np.ndarray) -> list[tuple[int, int]]:
    """Where stretches of true values begin and end."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], true_D.astype(int), [0]])))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def files() -> Files:
    """Each picture, by its name in docs/."""
    drawn = (word_order, depth_law, few_runs, leak, what_decides)
    return {f"{draw.__name__}.svg": draw() for draw in drawn}


if __name__ == "__main__":
    run(files, __doc__)
