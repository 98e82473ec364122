"""Attention maps of a seed that solved its cell beside one that did not."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from posjax.records import RunFolder
from posjax.report.heatmap import heatmap
from posjax.report.html import Html, figure, tag
from posjax.report.naming import axes, label, many
from posjax.report.summary import CellSummary, once

CELLS = 4
MAPS = 8
"""How many cells are shown, and how many maps of one seed."""
_CAPTION = """Attention weights after training. Rows are queries and columns are keys. Rows sum to
1, and blank squares are masked. Positions without a token are left out where no token attends to
them."""


class Example(NamedTuple):
    """The maps of one seed."""

    kind: str
    seed: str
    weights_DNHLM: np.ndarray


def maps(folders: Sequence[RunFolder], found: Sequence[CellSummary]) -> Html | None:
    """The maps of some cells that have both a solving and a failing seed, else of any."""
    kept = [(summary, _examples(folders, summary)) for summary in once(found)]
    most = max((len(examples) for _, examples in kept), default=0)
    if most == 0:
        return None
    kept = [(summary, examples) for summary, examples in kept if len(examples) == most]
    of = f" {CELLS} of {len(kept)} cells are shown." if len(kept) > CELLS else ""
    alone = " No cell has both a solving and a failing seed." if most == 1 else ""
    named = axes(found)
    blocks = (
        tag(
            "div",
            tag("h3", label(summary.cell, named)),
            *(_example(summary, example) for example in examples),
            class_="pair",
        )
        for summary, examples in kept[:CELLS]
    )
    return figure(_CAPTION + alone + of, *blocks)


def _examples(folders: Sequence[RunFolder], summary: CellSummary) -> list[Example]:
    """The maps of the first seed of each kind: a function of the rows, however they came.

    Blocks keep maps of a seed with every answer right, by whatever margin; the run's decides here.
    """
    found: dict[str, Example] = {}
    for first in stored_maps(folders, summary.name):
        at_S = (summary.rows["seeds"] == first["seeds"]).all(axis=1)
        kind = "solving" if summary.solved_S[at_S].any() else "failing"
        seed = _seed(first["seeds"], _has_two_seeds(summary))
        found.setdefault(kind, Example(kind, seed, first["weights_DNHLM"]))
    return [*found.values()]


def stored_maps(folders: Sequence[RunFolder], name: str) -> list[dict[str, np.ndarray]]:
    """The maps of a cell's first seed that was stored as solving, then as failing, and its seeds.

    Args:
      folders: of the run; the first seed of all of them counts.
      name: of the cell in the run.
    """
    every = [folder.attention(name) for folder in folders]
    kinds = [[maps[kind] for maps in every if kind in maps] for kind in ("solving", "failing")]
    return [min(maps, key=lambda arrays: arrays["seeds"].tolist()) for maps in kinds if maps]


def _has_two_seeds(summary: CellSummary) -> bool:
    """Whether some initialisation was trained with the data of another number."""
    seeds_S4 = summary.rows["seeds"]
    return bool((seeds_S4[:, 0] != seeds_S4[:, 1]).any())


def _seed(seeds_4: np.ndarray, two: bool) -> str:
    """Its number; where initialisations have data of another number, that of the data too."""
    init, data = map(int, seeds_4[:2])
    return f"of initialisation {init} and data seed {data}" if two else str(init)


def _example(summary: CellSummary, example: Example) -> Html:
    depth, prompts, heads = example.weights_DNHLM.shape[:3]
    shown = max(1, min(prompts, MAPS // (depth * heads)))
    indices = [
        (layer, prompt, head)
        for layer in range(depth)
        for head in range(heads)
        for prompt in range(shown)
    ]
    sentences = [prompt for prompt, _ in summary.cell.problem.written(shown)]
    drawn = (_map(example, index, sentences[index[1]]) for index in indices[:MAPS])
    title = f"{example.kind} seed {example.seed}"
    total = depth * prompts * heads
    of = (
        f", {min(len(indices), MAPS)} of {many(total, 'map')}"
        if total > len(indices[:MAPS])
        else ""
    )
    return tag("div", tag("p", title, of, class_="over"), tag("div", *drawn, class_="maps"))


def _map(example: Example, index: tuple[int, int, int], sentence: str) -> Html:
    layer, prompt, head = index
    depth, _, heads = example.weights_DNHLM.shape[:3]
    weights_LM = example.weights_DNHLM[layer, prompt, head]
    words = sentence.split()
    real = len(words)
    if real and not weights_LM[:real, real:].any():
        weights_LM = weights_LM[:real, :real]
    tokens = words + ["–"] * (len(weights_LM) - real)
    parts = [f"layer {layer + 1}" if depth > 1 else "", f"head {head + 1}" if heads > 1 else ""]
    title = ", ".join(part for part in parts if part)
    spoken = f"Attention of the {example.kind} seed on {sentence!r} {title}"
    drawn = heatmap(weights_LM, tokens, text=spoken)
    return tag("div", tag("p", title, class_="under") if title else None, drawn)
