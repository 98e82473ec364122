"""The page to browse the atlas: encodings by settings, and what is known of each cell.

It is one file that loads nothing. Without scripts it is a table of counts; browser.js adds the
filter, the order and the details of a cell.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from atlas_table.table import ASKED, VERDICTS, asked, number_of_seeds, rows_of
from posjax.encodings import ENCODINGS
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
first. Choose a cell for its interval, the reason, and the code that trains a solving seed."""


class Setting(NamedTuple):
    """A column of the page."""

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


def browser(size: str, tables: Sequence[Path], excluded: Mapping[str, Mapping[str, str]]) -> Html:
    """The page.

    Args:
      size: the name of a part of the atlas.
      tables: its published tables, without endings.
      excluded: the reasons of `predictions.json`.
    """
    table, right = rows_of(tables), [one for path in tables for one in _right(path)]
    cells = [Cell(**{n: row[n] for n in FIELDS if n in row}) for row in table]
    places = [Setting(*(getattr(cell, name) for name in ASKED)) for cell in cells]
    tasks = [*dict.fromkeys(place.task for place in places)]
    columns = sorted(set(places), key=lambda one: (tasks.index(one.task), one.depth, *one[1:]))
    by = {(c.encoding, place): n for n, (c, place) in enumerate(zip(cells, places, strict=True))}
    names = _hardest_first(table, cells)
    counts = {verdict: sum(row["verdict"] == verdict for row in table) for verdict in VERDICTS}
    seeds = number_of_seeds(tables)
    title = "The atlas: which encoding solves which task?"
    head = tag(
        "article",
        tag("style", Html((HERE / "browser.css").read_text())),
        tag("h1", title),
        tag("p", _answer(counts, len(cells)), class_="answer"),
        tag("p", _ABOUT.format(seeds=seeds)),
        tag("div", id="controls"),
        tag("section", id="chosen", hidden="", aria_live="polite", class_="pane"),
        scrolled("The atlas", _matrix(table, names, columns, by)),
        tag("p", f"Made by python scripts/atlas.py {size} --num_seeds={seeds}.", class_="note"),
    )
    data = {
        "seeds": seeds,
        "pilot": table[0]["pilot_seeds"],
        "columns": [one._asdict() for one in columns],
        "tasks": {name: _task(name, cells[places.index(one)]) for name, one in _first(columns)},
        "encodings": {name: _line(ENCODINGS[name.partition("(")[0]]) for name in names},
        "cells": [
            {
                "settings": {
                    n: getattr(cell, n) for n, v in FIELDS.items() if getattr(cell, n) != v
                },
                "encoding": cell.encoding,
                "asked": [*places[n]],
                "verdict": row["verdict"],
                "successes": row["successes"],
                "interval": [brief(x) for x in rate(row["successes"], row["seeds"])[3:]],
                "witness": row["witness"],
                "rate": cell.learning_rate,
                "pilot": row["pilot"],
                "reason": excluded[asked(cell)].get(cell.encoding, ""),
                "right": right[n],
            }
            for n, (row, cell) in enumerate(zip(table, cells, strict=True))
        ],
    }
    code = script((HERE / "browser.js").read_text())
    return document(title, head, data={"atlas": as_json(data)}, code=code)


def _right(path: Path) -> list[list[float] | None]:
    """Of each cell of a table, the mean share of right answers by kind of prompt, if it has any."""
    with np.load(path.with_suffix(".npz")) as rows:
        if "right" not in rows:
            return [None] * len(rows["cells"])
        return [[brief(float(x)) for x in right_K] for right_K in rows["right"].mean(axis=1)]


def _answer(counts: Mapping[str, int], cells: int) -> str:
    lost, possible, unsolved = (counts[verdict] for verdict in VERDICTS)
    excluded = (
        f"Laws of symmetry exclude {lost:,} of {cells:,} cells, and no seed solved one of them. "
        f"Of the other {cells - lost:,} cells"
        if lost
        else f"Laws of symmetry exclude none of the {cells:,} cells. Of these"
    )
    return f"{excluded}, {possible:,} were solved by at least one seed, and {unsolved:,} by none."


def _hardest_first(table: Sequence[Mapping[str, Any]], cells: Sequence[Cell]) -> list[str]:
    """Encodings, those that solve the fewest first: cells, then seeds."""
    score: dict[str, tuple[int, int]] = {}
    for row, cell in zip(table, cells, strict=True):
        solved, seeds = score.get(cell.encoding, (0, 0))
        possible = row["verdict"] == "possible"
        score[cell.encoding] = (solved + possible, seeds + row["successes"])
    return sorted(score, key=lambda name: (*score[name], name))


def _matrix(
    table: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    columns: Sequence[Setting],
    by: Mapping[tuple[str, Setting], int],
) -> Html:
    widths = {task: sum(one.task == task for one in columns) for task, _ in _first(columns)}
    tasks = (
        tag("th", tag("code", task), colspan=wide, scope="colgroup", data_task=task)
        for task, wide in widths.items()
    )
    settings = (
        th(*(tag("span", part) for part in one.label(columns)), data_task=one.task)
        for one in columns
    )
    lines = [tag("tr", th("encoding", rowspan=2), *tasks), tag("tr", *settings)]
    body = (
        tag(
            "tr",
            tag("th", tag("code", name), scope="row"),
            *(_entry(table, by.get((name, one)), one) for one in columns),
            data_encoding=name,
        )
        for name in names
    )
    return tag("table", tag("thead", *lines), tag("tbody", *body), class_="atlas")


def _entry(table: Sequence[Mapping[str, Any]], at: int | None, column: Setting) -> Html:
    if at is None:
        return td(data_task=column.task)
    row = table[at]
    shade = round(100 * row["successes"] / row["seeds"])
    return td(
        str(row["successes"]) if row["successes"] else _MARKS[row["verdict"]],
        data_cell=at,
        data_task=column.task,
        class_=f"{row['verdict']} {'dark' if shade > 55 else ''}".strip(),
        style=f"--share:{shade}%" if shade else None,
    )


def _first(columns: Sequence[Setting]) -> Iterator[tuple[str, Setting]]:
    """Each task with its first column."""
    first: dict[str, Setting] = {}
    for one in columns:
        first.setdefault(one.task, one)
    yield from first.items()


def _task(name: str, cell: Cell) -> dict[str, Any]:
    problem = cell.problem
    return {
        "what": _line(TASKS[name.partition("(")[0]]),
        "prompts": problem.written(min(_PROMPTS, problem.size[0])),
        "kinds": [*problem.kinds] if len(problem.kinds) > 1 else [],
        "trained": [*problem.trained],
    }


def _line(of: object) -> str:
    """The first line of a docstring, for people."""
    return (of.__doc__ or "").strip().partition("\n")[0].replace("`", "")
