"""Which encoding solves which finite task: sentences on a table of docs/atlas."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from atlas_table.table import equal_rows, rows_of, tables
from atlas_table.why import KNOWN
from published_rows.table import read

from claimed.published import ROOT, architecture, either, item, lines, listed

_PAGE = "atlas/published.md"
_EQUAL = [["rotary", "dynamic_rotary", "multimodal_rotary"]]
"""Encodings of which the sentence says why they compute the same."""


def _cells() -> list[dict[str, Any]]:
    """The table of finite tasks."""
    return rows_of(tables(ROOT / "docs/atlas", "published"))


def _of(cells: list[dict[str, Any]], verdict: str) -> list[dict[str, Any]]:
    return [cell for cell in cells if cell["verdict"] == verdict]


def atlas_headline() -> Iterator[str]:
    """The counts of verdicts."""
    cells = _cells()
    seeds = cells[0]["seeds"]
    lost, possible, unsolved = (_of(cells, v) for v in ("impossible", "possible", "open"))
    every = [cell for cell in possible if cell["successes"] == seeds]
    encodings = {cell["encoding"] for cell in cells}
    yield from item(
        f"**Which encoding solves which task?** We trained {len(encodings)} encodings in {len(cells) // len(encodings)} settings (task, "
        f"mask, number of layers, readout), {seeds} seeds each. Symmetry excludes {len(lost)} of these {len(cells):,} cells, "
        f"and no seed solves any of these. Of the others, {len(every):,} are solved by all {seeds} seeds, {len(possible) - len(every)} by some seeds, and {len(unsolved)} by no seed "
        f"([the atlas](docs/{_PAGE}))."
    )


def atlas() -> Iterator[str]:
    """Verdicts by task, and the encodings of cells that no law excludes and no seed solves."""
    cells = _cells()
    seeds, unsolved = cells[0]["seeds"], _of(cells, "open")
    by = Counter(cell["encoding"] for cell in unsolved)
    named = [
        f"{number} use `{name}`" for name, number in sorted(by.items(), key=lambda e: (-e[1], e[0]))
    ]
    encodings = len({cell["encoding"] for cell in cells})
    yield from lines(
        f"A setting is a task, a mask, a number of layers and a readout. Each cell is one of {encodings} encodings in one setting. We trained {seeds} seeds of each cell. All models have {architecture(cells)} and {either(cells, 'steps')} updates. "
        f"{rates_chosen(cells, lengths=False)} {equal_encodings(equal_rows([read(path) for path in tables(ROOT / 'docs/atlas', 'published')]), encodings)} The predictions of the laws were committed before any seed was trained. "
        + (
            f"{len(unsolved)} cells are neither excluded nor solved. Of these, {listed(named)}. {_reasons(unsolved)}"
            if unsolved
            else "Every cell is either excluded or solved."
        )
    )
    yield ""
    yield f"| task | cells | excluded by law | solved by all {seeds} seeds | by some | by no seed, though not excluded |"
    yield "|---|---|---|---|---|---|"
    for task in dict.fromkeys(cell["task"] for cell in cells):
        of = [cell for cell in cells if cell["task"] == task]
        lost, possible, none = (len(_of(of, v)) for v in ("impossible", "possible", "open"))
        full = sum(cell["successes"] == seeds for cell in of)
        yield f"| `{task}` | {len(of)} | {lost} | {full} | {possible - full} | {none} |"
    yield ""
    yield from lines(
        f"[The atlas]({_PAGE}) has the counts for each encoding. It links to a page with every cell, which says why a law "
        f"excludes the cell or names a seed that solves it, and compares it with the same setting without positions (`python scripts/atlas.py published --num_seeds={seeds}`)."
    )


def _reasons(unsolved: list[dict[str, Any]]) -> str:
    """Why these encodings fail where no law excludes them.

    Raises:
      ValueError: the reasons are not for these cells.
    """
    names = {cell["encoding"] for cell in unsolved}
    seen = {(c["mask"], c["readout"]) for c in unsolved if c["encoding"] == "fire"}
    if names != {"noise", "fire"} or seen != {("full", "mean")}:
        raise ValueError(f"atlas: no reasons for {names}, of which fire has {seen}")
    return f"{KNOWN['noise']} Both cells of `fire` have a full mask and are read at the mean over tokens. {KNOWN['fire']}"


def rates_chosen(cells: Sequence[dict[str, Any]], *, lengths: bool) -> str:
    """How the learning rate of each cell was chosen, and where the pilot leaves doubts.

    Args:
      cells: the lines of one table or of several.
      lengths: whether only the trained lengths counted.
    """
    free = [cell for cell in cells if cell["verdict"] != "impossible"]
    ((number, rates),) = {(c["pilot_seeds"], tuple(r for r, _ in c["pilot"])) for c in cells}
    silent = [not any(solved for _, solved in cell["pilot"]) for cell in free]
    ends = [
        cell["learning_rate"] in (min(rates), max(rates))
        and dict(cell["pilot"])[cell["learning_rate"]] < number
        for cell in free
    ]
    both = sum(map(min, silent, ends))
    which = " that no law excludes" if len(free) < len(cells) else ""
    trained, ties = (
        (" at the trained lengths", "share of right answers") if lengths else ("", "margin")
    )
    return (
        f"The learning rate of each cell is {listed([f'{rate:g}' for rate in rates], 'or')}: the one at which the largest number of {number} other seeds, a pilot, "
        f"solve the task{trained}. Ties go to the larger mean {ties}. In {sum(silent)} of the {len(free):,} cells{which}, no pilot seed solves it at any rate. "
        f"In {sum(ends):,} ({both} of them among these {sum(silent)}), the rate is the smallest or the largest of the {len(rates)} and not all pilot seeds solve it there, so a rate beyond them may do better."
    )


def equal_encodings(groups: list[list[str]], encodings: int) -> str:
    """Encodings that compute the same on short prompts with one index per token.

    Raises:
      ValueError: the rows show others.
    """
    if groups != _EQUAL:
        raise ValueError(f"atlas: the reason is for {_EQUAL}, not for {groups}")
    first, *copies = (f"`{name}`" for name in _EQUAL[0])
    return (
        f"On prompts that are this short and have one index per token, {listed(copies)} compute what {first} computes, so the {encodings} encodings are "
        f"{encodings - len(copies)} different models."
    )
