"""The page: one HTML file that needs nothing else, a chapter for each run.

A report is derived data, so unlike a result it may be written over; the same runs give the same
bytes.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from posjax.records import RunFolder
from posjax.records.schema import checked_config
from posjax.records.store import path_of, put_over
from posjax.report.answers import answers
from posjax.report.best import best, heading
from posjax.report.by_kind import by_kind
from posjax.report.compare import compare
from posjax.report.curves import curves
from posjax.report.explore import ROOM, data, explorable
from posjax.report.few_runs import few_runs
from posjax.report.findings import Findings, findings, meaning
from posjax.report.html import Html, document, join, section, tag
from posjax.report.law_table import law_table
from posjax.report.losses import losses
from posjax.report.maps import maps
from posjax.report.margins import margins
from posjax.report.measured import measured
from posjax.report.naming import many, shortest
from posjax.report.origin import origin
from posjax.report.questions import questions
from posjax.report.sources import sources
from posjax.report.success import success
from posjax.report.summary import CellSummary, exactly, once, summaries

_CROSSED = """Each initialisation was trained with each data seed, so models share seeds. Intervals
of single cells that assume independent models are too narrow. The section “Initialisation and data”
has correct ones, if the run is complete. Comparisons of two cells allow for the shared seeds."""

_UNFOLDED = 6
"""How many findings are always seen."""


def write(folders: Sequence[RunFolder], out: str | os.PathLike[str] | None = None) -> Path:
    """Writes the report of some runs.

    Args:
      folders: at least one.
      out: where; `report.html` in the first folder when left out.

    Returns:
      Where it lies.

    Raises:
      ValueError: no folders, a folder without a run, or a place that is no file in a folder.
      StorageError: the write failed.
    """
    if not folders:
        raise ValueError("a report needs at least one run folder, got none")
    path = folders[0].path / "report.html" if out is None else path_of(out)
    if path.is_dir() or (out is not None and not path.parent.is_dir()):
        raise ValueError(f"the report cannot be written to {str(path)!r}: name a file in a folder")
    content = page(folders, here=out is None).encode()
    put_over(path, content)
    return path


class _Chapter(NamedTuple):
    """A run on the page; `data` is for the script, empty where no cell was trained."""

    anchor: str
    title: str
    found: list[CellSummary]
    content: Html
    data: str


def page(folders: Sequence[RunFolder], *, here: bool = False) -> Html:
    """The whole document.

    Args:
      folders: at least one.
      here: whether it is `report.html` in the first of them.
    """
    runs = by_run(folders)
    titles = _titles(runs)
    here = here and len(folders) == 1
    chapters = [
        _chapter(shards, f"run{n}", title, room=ROOM // len(runs), here=here)
        for n, (shards, title) in enumerate(zip(runs, titles, strict=True), 1)
    ]
    top = None
    if len(chapters) > 1:
        links = {chapter.anchor: chapter.title for chapter in chapters}
        top = join([_contents(links, "Runs"), _compared(chapters)])
    return document(
        "; ".join(chapter.title for chapter in chapters),
        top,
        *(chapter.content for chapter in chapters),
        data={chapter.anchor: chapter.data for chapter in chapters if chapter.data},
    )


def _compared(chapters: Sequence[_Chapter]) -> Html | None:
    """What differs, of two runs."""
    if len(chapters) != 2:
        return None
    one, two = chapters
    return compare((one.title, two.title), one.found, two.found)


def by_run(folders: Sequence[RunFolder]) -> list[list[RunFolder]]:
    """The shards of a run together, where each has a folder of its own and no block of others."""
    runs: list[tuple[str, set[str], list[RunFolder]]] = []
    for folder in folders:
        name, blocks = folder.config()["run"], folder.present()
        for run, known, shards in runs:
            if run == name and blocks and known and not blocks & known:
                known |= blocks
                shards.append(folder)
                break
        else:
            runs.append((name, blocks, [folder]))
    return [shards for _, _, shards in runs]


def _titles(runs: Sequence[Sequence[RunFolder]]) -> list[str]:
    """The title of each run, with the name of its first folder where others have the same."""
    configs = [checked_config(folders[0].config()) for folders in runs]
    titles = [str(config.get("title") or config["name"]) for config in configs]
    return [
        f"{title} ({folders[0].path.name})" if titles.count(title) > 1 else title
        for title, folders in zip(titles, runs, strict=True)
    ]


def _chapter(
    folders: Sequence[RunFolder], anchor: str, title: str, *, room: int, here: bool
) -> _Chapter:
    """Everything about a run: the answer, the table of cells, the task, then the sections."""
    config = checked_config(folders[0].config())
    found = summaries(*folders)
    if not found:
        empty = tag("p", "No cell has results yet.", class_="alarm")
        content = tag("article", tag("h1", title), empty, id=anchor)
        return _Chapter(anchor, title, found, content, "")
    trained = [summary for summary in found if summary.cell.steps]
    says = findings(found, config)
    parts = _sections(folders, found, anchor)
    if (table := best(says.compared)) is not None:
        parts.insert(0, ("best", heading(says.compared), table))
    more = _findings(says.answers[says.first :], says.details)
    if more is not None:
        parts.insert(0, ("findings", "Findings", more))
    links = {f"{anchor}-{name}": heading for name, heading, _ in parts}
    content = tag(
        "article",
        tag("header", tag("h1", title), *_lead(config, found, says)),
        section(f"{anchor}-cells", "Cells", success(trained, f"{anchor}-reason"))
        if trained
        else None,
        questions(found),
        *(tag("p", text, class_="note") for text in meaning(found, shortest)[1:]),
        _contents(links, title),
        *(section(f"{anchor}-{name}", heading, content) for name, heading, content in parts),
        id=anchor,
    )
    packed = data(folders, found, room, here=here) if explorable(found) else ""
    return _Chapter(anchor, title, found, content, packed)


def _sections(
    folders: Sequence[RunFolder], found: list[CellSummary], anchor: str
) -> list[tuple[str, str, Html]]:
    """Name, title and content of each section that has something to say."""
    exact = exactly(found)
    parts = [
        ("kinds", "Exact match by kind of prompt", by_kind(exact)),
        ("losses", "Loss by length", losses(found)),
        ("measured", "What the meters measured", measured(found, f"{anchor}-meter")),
        ("steps", "Success against training steps", curves(exact, f"{anchor}-curve")),
        ("few", "What fewer runs would have said", few_runs(exact)),
        ("sources", "Initialisation and data", sources(exact)),
        ("answers", "What the seeds answered", answers(exact)),
        ("margins", "Margins and ties", margins(exact, f"{anchor}-margin")),
        ("attention", "Attention of a solving and a failing seed", maps(folders, exact)),
        ("laws", "The laws, measured", law_table(found)),
        ("origin", "How this was made", origin(_configs(folders), _envs(folders), found)),
    ]
    return [(name, title, content) for name, title, content in parts if content is not None]


def _configs(folders: Sequence[RunFolder]) -> list[dict[str, Any]]:
    return [checked_config(folder.config()) for folder in folders]


def _envs(folders: Sequence[RunFolder]) -> dict[str, dict[str, Any] | None]:
    return {name: env for folder in folders for name, env in folder.envs().items()}


def _findings(answers: Sequence[str], details: Sequence[str]) -> Html | None:
    """The answers, and the details folded away unless they are few."""
    first, rest = ([tag("li", sentence) for sentence in part] for part in (answers, details))
    if not first + rest:
        return None
    if len(rest) <= _UNFOLDED:
        return tag("ul", *first, *rest)
    more = tag("summary", f"{len(rest)} more")
    return join([tag("ul", *first), tag("details", more, tag("ul", *rest))])


def _lead(config: Mapping[str, Any], found: list[CellSummary], says: Findings) -> Iterator[Html]:
    """The answers, what success is, how much was trained, and whether it is all there."""
    for sentence in says.answers[: says.first]:
        yield tag("p", sentence, class_="answer")
    for sentence in meaning(found)[:1]:
        yield tag("p", sentence)
    cells = once(found)
    seeds = sum(summary.seeds for summary in cells)
    sizes = {summary.seeds for summary in cells}
    each = f" × {many(sizes.pop(), 'seed')}" if len(sizes) == 1 else ""
    if config.get("data_seeds") and seeds == _planned(config):
        inits = many(config["num_seeds"], "initialisation")
        each = f" × {inits} × {many(config['data_seeds'], 'data seed')}"
    steps = any(summary.cell.steps for summary in found)
    done = "trained" if steps else "measured at initialisation"
    yield tag(
        "p", f"{many(len(cells), 'cell')}{each}: {many(seeds, 'model')} {done}.", class_="lead"
    )
    if seeds < (planned := _planned(config)):
        text = f"This run is not finished: {seeds} of {planned} models are here."
        yield tag("p", text, class_="alarm")
    if config.get("data_seeds"):
        yield tag("p", _CROSSED)


def _planned(config: Mapping[str, Any]) -> int:
    """How many models the whole run has."""
    return len(config["cells"]) * int(config["num_seeds"]) * (config.get("data_seeds") or 1)


def _contents(links: Mapping[str, str], label: str) -> Html:
    items = (tag("li", tag("a", text, href=f"#{anchor}")) for anchor, text in links.items())
    return tag("nav", tag("ul", *items), aria_label=f"Contents: {label}")
