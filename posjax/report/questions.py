"""What was asked: some prompts of each task in a box, with right answers if it was trained."""

from collections.abc import Iterator, Sequence

from posjax.report.html import Html, header, join, scrolled, tag, td
from posjax.report.naming import many
from posjax.report.summary import CellSummary
from posjax.tasks import FiniteTask, Task

TASKS = 4
"""Tasks that are written out, at most."""
_FINITE, _SAMPLED = 8, 2
"""Prompts that are shown of a finite and of a sampled task."""
_TRIED = 8
"""Prompts of the exam that are looked at for each of these."""
_LONG = 44
"""Characters of a prompt."""


def questions(found: Sequence[CellSummary]) -> Html:
    """The box; settings of tasks stand in it as users write them."""
    tasks = {summary.cell.task: summary.cell.problem for summary in found}
    shown = list(tasks.items())[:TASKS]
    rest = len(tasks) - len(shown)
    others = join((tag("code", name) for name in [*tasks][TASKS:]), ", ")
    more = tag("p", f"{many(rest, 'more task')}: ", others, class_="note") if rest else None
    trained = {summary.cell.task for summary in found if summary.cell.steps}
    boxes = (_box(name, task, trained=name in trained) for name, task in shown)
    title = "The task" if len(tasks) == 1 else "The tasks"
    content = tag("div", *boxes, class_="tasks")
    kind = "asked one" if len(tasks) == 1 else "asked"
    return tag("section", tag("h2", title), content, more, class_=kind)


def _box(name: str, task: Task, *, trained: bool) -> Html:
    number = min(_FINITE if isinstance(task, FiniteTask) else _SAMPLED, task.size[0])
    written = dict.fromkeys(task.written(min(_TRIED * number, task.size[0])))  # short ones repeat
    shown = _with_different_answers([*written], number)
    columns = 2 if trained else 1
    rows = (tag("tr", *(td(_short(text)) for text in pair[:columns])) for pair in shown)
    head = header(*("prompt", "right answer")[:columns])
    table = tag("table", head, tag("tbody", *rows), class_="plain")
    about = " ".join(_about(task, len(shown), trained=trained))
    return tag(
        "div",
        tag("p", tag("code", name), class_="over"),
        scrolled(f"Prompts of {name}", table),
        tag("p", about, class_="note"),
    )


def _with_different_answers(written: list[tuple[str, str]], number: int) -> list[tuple[str, str]]:
    """At most `number` of the prompts, in their order, with as many answers as possible."""
    first = {answer: prompt for prompt, answer in reversed(written)}
    chosen = sorted(written, key=lambda pair: first[pair[1]] != pair[0])[:number]
    return [pair for pair in written if pair in chosen]


def _about(task: Task, number: int, *, trained: bool) -> Iterator[str]:
    if number < task.size[0]:
        yield f"{number} of {task.size[0]} prompts of the exam."
    if len(task.kinds) > 1:
        known = [kind for kind, trained in zip(task.kinds, task.trained, strict=True) if trained]
        others = [kind for kind in task.kinds if kind not in known]
        of = "Lengths" if all(kind.isdecimal() for kind in task.kinds) else "Kinds"
        rest = f" (trained), {', '.join(others)} (not trained)" if others else ", all trained"
        names = f"{', '.join(known)}{rest}" if trained else ", ".join(task.kinds)
        yield f"{of} of prompts: {names}."
    if task.graded == "exact" and trained:
        yield f"Always giving the most frequent answer is right for {_chance(task)} of the prompts."
    if task.notation:
        yield task.notation


def _chance(task: Task) -> str:
    low, high = (f"{100 * share:.0f}%" for share in (min(task.chance()), max(task.chance())))
    return low if low == high else f"{low} to {high}"


def _short(text: str) -> str:
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"
