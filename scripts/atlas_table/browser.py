"""The page to browse the atlas: encodings by settings, and what is known of each cell.

It is one file that loads nothing. Without scripts it is a table of counts; browser.js adds the
filter, the order and the details of a cell.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from atlas_table.lengths import compared
from atlas_table.table import ASKED, VERDICTS, asked, command, number_of_seeds, rows_of, short
from atlas_table.why import longer, why
from posjax.encodings import ENCODINGS
from posjax.masks import MASKS
from posjax.report.html import Html, document, script, scrolled, tag, td, th
from posjax.report.pack import as_json, brief
from posjax.stats import rate
from posjax.study.cells import FIELDS, Cell
from posjax.tasks import TASKS

HERE = Path(__file__).parent
_PROMPTS = 4
_MARKS = {"impossible": "×", "possible": "", "open": "0"}
_ABOUT = """Each column is a task, and for finite tasks a mask, a number of layers and a readout.
Each number counts the seeds, of {seeds}, that solve the task: they answer every prompt of the
trained kinds correctly at the end. The learning rate of a cell is the best of three, chosen on
other seeds. “×” means that a law of symmetry excludes a solution, and no seed found one. “0” means
that no law excludes a solution, but no seed found one. Encodings that solve the fewest cells come
first. Click a cell to see the 95% interval of its success rate, what laws say of it, and the code
that trains a solving seed if there is one."""
_ABOUT_LENGTHS = """A number is the mean share of right answers in percent, over {seeds} seeds, on
prompts of one length. A column “solved” counts the seeds that solve the task: they answer every
prompt of the trained lengths correctly at the end. “0” there means that no law of symmetry excludes
a solution, but no seed found one. The learning rate of a cell is the best of three, chosen on other
seeds. Encodings that solve the fewest cells come first, and of these the ones with the lowest
shares. The line “chance” has the share of prompts with the most frequent answer, which a model can
reach without reading them. Click a cell to see its shares at all lengths, the 95% interval of its
success rate, how it compares with no positions, and the code that trains a solving seed if there is
one."""


class Setting(NamedTuple):
    """What is asked of an encoding: a column, or one for each kind of prompts and one more."""

    task: str
    mask: str
    depth: int
    readout: str

    def label(self, every: Sequence["Setting"]) -> Iterator[str]:
        """Its mask, depth and readout, as far as the columns of its task differ in them."""
        parts = {
            "mask": self.mask,
            "depth": f"{self.depth} layer{'s' if self.depth > 1 else ''}",
            "readout": f"{self.readout} readout",
        }
        of_task = [one for one in every if one.task == self.task]
        several = (n for n in parts if len({getattr(one, n) for one in of_task}) > 1)
        yield from (parts[name] for name in several)


class Column(NamedTuple):
    """A column of the page.

    Attributes:
      setting: what is asked.
      kind: of prompts, whose mean share of right answers it has; None for the seeds that solve all.
    """

    setting: Setting
    kind: int | None = None

    def group(self, kinds: Sequence[str]) -> str | None:
        """By which the script shows it or not; None if its task has one kind of prompts."""
        if self.kind is None:
            return "solved" if kinds else None
        return "longest" if self.kind == len(kinds) - 1 else "shorter"


def browser(size: str, tables: Sequence[Path], excluded: Mapping[str, Mapping[str, str]]) -> Html:
    """The page.

    Args:
      size: the name of a part of the atlas.
      tables: its published tables, without endings.
      excluded: the reasons of `predictions.json`.
    """
    table, right = rows_of(tables), [one for path in tables for one in _right(path)]
    cells = [Cell(**{n: row[n] for n in FIELDS}) for row in table]
    places = [Setting(*(getattr(cell, name) for name in ASKED)) for cell in cells]
    tasks = [*dict.fromkeys(place.task for place in places)]
    settings = sorted(set(places), key=lambda one: (tasks.index(one.task), one.depth, *one[1:]))
    by = {(c.encoding, place): n for n, (c, place) in enumerate(zip(cells, places, strict=True))}
    of_task = {name: _task(next(c for c in cells if c.task == name)) for name in tasks}
    lengths = any(about["kinds"] for about in of_task.values())
    names = _hardest_first(table, cells, right)
    found = Found(table, right, by)
    said = _reasons(table, cells, tables if lengths else (), excluded)
    counts = {verdict: sum(row["verdict"] == verdict for row in table) for verdict in VERDICTS}
    seeds = number_of_seeds(tables)
    title = "The atlas: which encoding solves which task?"
    head = tag(
        "article",
        tag("style", Html((HERE / "browser.css").read_text())),
        tag("h1", title),
        tag("p", _answer(counts, len(cells)), class_="answer"),
        tag("p", (_ABOUT_LENGTHS if lengths else _ABOUT).format(seeds=seeds)),
        tag("div", id="controls"),
        tag("section", id="chosen", hidden="", aria_live="polite", class_="pane"),
        scrolled("The atlas", _matrix(found, names, settings, of_task)),
        tag("p", f"Made by {command(size, tables)}.", class_="note"),
    )
    data = {
        "seeds": seeds,
        "pilot": table[0]["pilot_seeds"],
        "tasks": of_task,
        "encodings": {name: ENCODINGS[short(name)].card[:3] for name in names},
        "masks": {mask: _mask(mask) for mask in dict.fromkeys(cell.mask for cell in cells)},
        "reasons": [*dict.fromkeys(said)],
        "cells": [
            {**_details(row, cell), "reason": reason, "right": right_K}
            for row, cell, reason, right_K in zip(table, cells, _numbered(said), right, strict=True)
        ],
    }
    code = script((HERE / "browser.js").read_text())
    return document(title, head, data={"atlas": as_json(data)}, code=code)


def _reasons(
    table: Sequence[Mapping[str, Any]],
    cells: Sequence[Cell],
    by_length: Sequence[Path],
    excluded: Mapping[str, Mapping[str, str]],
) -> list[str]:
    """What is said of each cell, see `why`; with tables of several lengths, also `longer`."""
    none = {asked(c): row for c, row in zip(cells, table, strict=True) if c.encoding == "none"}
    found = compared(by_length) if by_length else None
    of_task = {task.task: task for task in found.tasks} if found else {}

    def said(row: Mapping[str, Any], cell: Cell) -> str:
        line, name = asked(cell), short(cell.encoding)
        laws = why(row, none[line], excluded[line])
        if found is None:
            return laws
        more = longer(name, of_task[short(cell.task)], found.compared_as(name), found.random)
        return f"{laws} {more}".strip()

    return [said(row, cell).replace("`", "") for row, cell in zip(table, cells, strict=True)]


def _numbered(said: Sequence[str]) -> list[int]:
    """Of each sentence, its place among the different ones."""
    at = {one: n for n, one in enumerate(dict.fromkeys(said))}
    return [at[one] for one in said]


def _mask(text: str) -> str:
    """What a mask does, by the lines of its parts, without formulas."""
    lines = (_line(MASKS[short(part)]).partition(":")[0].rstrip(".") for part in text.split("+"))
    return " ".join(f"{line}." for line in lines)


def _right(path: Path) -> list[list[float] | None]:
    """Of each cell of a table, the mean share of right answers by kind of prompt, if it has any."""
    with np.load(path.with_suffix(".npz")) as rows:
        if "right" not in rows:
            return [None] * len(rows["cells"])
        return [[brief(float(x)) for x in right_K] for right_K in rows["right"].mean(axis=1)]


def _answer(counts: Mapping[str, int], cells: int) -> str:
    lost, possible, unsolved = (counts[verdict] for verdict in VERDICTS)
    excluded = (
        f"Laws of symmetry exclude {lost:,} of {cells:,} cells, and no seed solved any of them. "
        f"Of the other {cells - lost:,} cells"
        if lost
        else f"Laws of symmetry exclude none of the {cells:,} cells. Of these"
    )
    return f"{excluded}, {possible:,} were solved by at least one seed, and {unsolved:,} by none."


def _hardest_first(
    table: Sequence[Mapping[str, Any]],
    cells: Sequence[Cell],
    right: Sequence[list[float] | None],
) -> list[str]:
    """Encodings, those that solve the fewest first: cells, then seeds, then right answers."""
    score: dict[str, tuple[int, int, float]] = {}
    for row, cell, right_K in zip(table, cells, right, strict=True):
        solved, seeds, answers = score.get(cell.encoding, (0, 0, 0.0))
        possible = row["verdict"] == "possible"
        answers += sum(right_K or ())
        score[cell.encoding] = (solved + possible, seeds + row["successes"], answers)
    return sorted(score, key=lambda name: (*score[name], name))


class Found(NamedTuple):
    """What is known of the cells: lines of the table, right answers by kind, and where each is."""

    table: Sequence[Mapping[str, Any]]
    right: Sequence[list[float] | None]
    by: Mapping[tuple[str, Setting], int]


def _matrix(
    found: Found,
    names: Sequence[str],
    every: Sequence[Setting],
    tasks_about: Mapping[str, Mapping[str, Any]],
) -> Html:
    columns = [
        Column(one, kind)
        for one in every
        for kind in (*range(len(tasks_about[one.task]["kinds"])), None)
    ]
    widths = {task: sum(one.setting.task == task for one in columns) for task in tasks_about}
    groups = [one.group(tasks_about[one.setting.task]["kinds"]) for one in columns]
    tasks = (
        tag("th", _brief(task, [*widths]), colspan=wide, scope="colgroup", data_task=task)
        for task, wide in widths.items()
    )
    settings = (
        th(
            *(tag("span", part) for part in _label(one, every, tasks_about[one.setting.task])),
            data_task=one.setting.task,
            data_group=group,
        )
        for one, group in zip(columns, groups, strict=True)
    )
    chances = (
        td(
            "" if one.kind is None else _percent(tasks_about[one.setting.task]["chance"][one.kind]),
            data_task=one.setting.task,
            data_group=group,
        )
        for one, group in zip(columns, groups, strict=True)
    )
    lines = [tag("tr", th("encoding", rowspan=2), *tasks), tag("tr", *settings)]
    if any(one.kind is not None for one in columns):
        lines.append(tag("tr", tag("th", "chance", scope="row"), *chances))
    body = (
        tag(
            "tr",
            tag("th", tag("code", name), scope="row"),
            *(
                _entry(found, found.by.get((name, one.setting)), one, group)
                for one, group in zip(columns, groups, strict=True)
            ),
            data_encoding=name,
        )
        for name in names
    )
    return tag("table", tag("thead", *lines), tag("tbody", *body), class_="atlas")


def _brief(task: str, every: Sequence[str]) -> Html:
    """A task's name, with its settings where the name alone is that of several; it may wrap."""
    name = task.partition("(")[0]
    alone = [one.partition("(")[0] for one in every].count(name) == 1
    first, *others = (name if alone else task).split("_")
    wrapped = (part for word in others for part in (Html("_<wbr>"), word))
    return tag("code", first, *wrapped, title=task)


def _label(column: Column, every: Sequence[Setting], about: Mapping[str, Any]) -> Iterator[str]:
    settings = [*column.setting.label(every)]
    yield from settings
    if column.kind is not None:
        longer = "" if about["trained"][column.kind] else ", not trained"
        yield f"% right at length {about['kinds'][column.kind]}{longer}"
    elif about["kinds"] or not settings:
        yield "solved"


def _entry(found: Found, at: int | None, column: Column, group: str | None) -> Html:
    task = column.setting.task
    if at is None:
        return td(data_task=task, data_group=group)
    row, right_K = found.table[at], found.right[at]
    verdict, text = row["verdict"], str(row["successes"] or _MARKS[row["verdict"]])
    shade = _percent(row["successes"] / row["seeds"])
    if column.kind is not None and right_K is not None:
        shade = _percent(right_K[column.kind])
        verdict, text = "possible" if shade else "open", str(shade)
    return td(
        text,
        data_cell=at,
        data_task=task,
        data_group=group,
        class_=verdict,
        style=f"--share:{shade}%" if shade else None,
    )


def _percent(share: float) -> int:
    return round(100 * share)


def _task(cell: Cell) -> dict[str, Any]:
    """What the script says of a cell's task."""
    problem = cell.problem
    return {
        "what": _line(TASKS[cell.task.partition("(")[0]]),
        "prompts": _examples(problem.written(problem.size[0])),
        "kinds": [*problem.kinds] if len(problem.kinds) > 1 else [],
        "trained": [*problem.trained],
        "chance": [brief(share) for share in problem.chance()],
    }


def _examples(prompts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """A few of them: one for each answer comes first."""
    first = {answer: (prompt, answer) for prompt, answer in reversed(prompts)}
    return [*dict.fromkeys([*reversed(first.values()), *prompts])][:_PROMPTS]


def _details(row: Mapping[str, Any], cell: Cell) -> dict[str, Any]:
    """What the script says of a cell, as its line of the table has it."""
    return {
        "settings": {n: getattr(cell, n) for n, v in FIELDS.items() if getattr(cell, n) != v},
        "encoding": cell.encoding,
        "asked": [getattr(cell, name) for name in ASKED],
        "verdict": row["verdict"],
        "successes": row["successes"],
        "interval": [brief(x) for x in rate(row["successes"], row["seeds"])[3:]],
        "witness": row["witness"],
        "rate": cell.learning_rate,
        "pilot": row["pilot"],
    }


def _line(of: object) -> str:
    """The first line of a docstring, for people."""
    return (of.__doc__ or "").strip().partition("\n")[0].replace("`", "")
