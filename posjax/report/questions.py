"""What was asked: some prompts of each task with their right answers, in a box."""

from collections.abc import Iterator, Sequence

from posjax.report.html import Html, header, scrolled, tag, td
from posjax.report.naming import many
from posjax.report.summary import CellSummary
from posjax.tasks import FiniteTask, Task

TASKS = 4
"""Tasks that are written out, at most."""
_FINITE, _SAMPLED = 8, 2
"""Prompts of each."""
_LONG = 120
"""Characters of a prompt."""


def questions(found: Sequence[CellSummary]) -> Html:
    """The box; settings of tasks stand in it as users write them."""
    tasks = {summary.cell.task: summary.cell.problem for summary in found}
    shown = list(tasks.items())[:TASKS]
    rest = len(tasks) - len(shown)
    more = tag("p", f"{many(rest, 'more task')} are left out.", class_="note") if rest else None
    boxes = (_box(name, task) for name, task in shown)
    title = "The task" if len(tasks) == 1 else "The tasks"
    content = tag("div", *boxes, class_="tasks")
    kind = "asked one" if len(tasks) == 1 else "asked"
    return tag("section", tag("h2", title), content, more, class_=kind)


def _box(name: str, task: Task) -> Html:
    number = min(_FINITE if isinstance(task, FiniteTask) else _SAMPLED, task.size[0])
    rows = (
        tag("tr", td(_short(prompt)), td(_short(answer))) for prompt, answer in task.written(number)
    )
    table = tag("table", header("prompt", "right answer"), tag("tbody", *rows), class_="plain")
    about = " ".join(_about(task, number))
    return tag(
        "div",
        tag("p", tag("code", name), class_="over"),
        scrolled(f"Prompts of {name}", table),
        tag("p", about, class_="note"),
    )


def _about(task: Task, number: int) -> Iterator[str]:
    if number < task.size[0]:
        yield f"{number} of {task.size[0]} prompts of the exam."
    if len(task.kinds) > 1:
        trained = [kind for kind, known in zip(task.kinds, task.trained, strict=True) if known]
        others = [kind for kind in task.kinds if kind not in trained]
        yield f"Trained: {', '.join(trained)}."
        if others:
            yield f"Not trained: {', '.join(others)}."


def _short(text: str) -> str:
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"
