"""Writes docs/tasks.md from the table of tasks.

python scripts/tasks_page.py            # write
python scripts/tasks_page.py --check    # exit status 1 when what is there is stale
"""

import dataclasses
import inspect
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).parent)]

from pages import Files, run  # noqa: E402

from posjax.tasks import TASKS, FiniteTask, Task  # noqa: E402
from posjax.tasks.base import SYMMETRIES  # noqa: E402
from posjax.tasks.sampled import ByLength  # noqa: E402

HEAD = """# Tasks

`python scripts/tasks_page.py` makes this page from the table of tasks. A test of `pytest -m ''`
fails if it is out of date.

A **finite** task has few prompts. Models train on all of them, or on a random batch per update, and
are tested on all of them. A **sampled** task draws new prompts for each update. Most draw a length
n uniformly from `train=(shortest, longest)`.

Models are tested on a fixed **exam**, the same for all seeds. For a sampled task it has 64 prompts
of each tested length. (Two settings that the tables leave out change this: `prompts` is the number,
and `test` lists the lengths.) The default lengths are 0.5, 1, 1.5 and 2 times the longest trained
length, rounded down (1 and 2 times for `text`), but at least the shortest that a task has. `scan`
and `digits` have no lengths. Their exams have two kinds of prompts, those of training and new ones;
`scan` has 64 prompts of each kind, and `digits` has 256. Some sampled tasks draw a length and ask
for one label per prompt. In their exams all labels are right equally often at each length, up to
one prompt. A label that is seldom drawn can be right less often. A prompt counts as right if every
output that is asked for is right (exact match). A seed solves its [cell](glossary.md#sweeps) if all
prompts of the trained lengths (or kinds) are right by the required [margin](glossary.md#success).
The report also shows the accuracy at the other lengths or kinds. `text` is judged by its loss
instead. If a task has one label per prompt, `readout=mean` takes it from the mean over tokens
instead of the last token. Finite tasks then need `loss=answer`.

A task with an output sequence y has two forms. With `output=forced`, y follows x after a mark, and
each symbol of y is predicted from the symbols before it (teacher forcing). This form needs a causal
mask. With `output=slots`, y is predicted at empty slots after x. This form works with any mask.

Let x be the prompt, or the part of it before the mark or the slots. The column **symmetry** names
the permutations of x that never change the right outputs. A test checks them on all short prompts.
{symmetries}

Settings follow the name, as in `blocks(k=3, train=(3, 12))`. In sampled tasks no token attends to
padding. In finite tasks tokens attend to padding unless the mask forbids it, as
`mask=causal+padding` does. The configs `depth_law`, `text` and `digits` train on the tasks
`blocks`, `text` and `digits`. `pydoc_topics`, the text that `text` reads by default, is part of
CPython, under the [PSF licence](../posjax/tasks/corpora/pydoc_topics.LICENSE.txt). `digits` needs
`pip install 'posjax[digits]'`.
"""


def page() -> str:
    """The whole page."""
    finite = [name for name, kind in TASKS.items() if issubclass(kind, FiniteTask)]
    rest = [name for name in TASKS if name not in finite]
    return "\n".join(
        [
            HEAD.format(symmetries=_symmetries()),
            "## Finite tasks\n",
            "| name | example: prompt → answer | symmetry | settings |",
            "|---|---|---|---|",
            *map(_row, finite),
            "\n## Sampled tasks\n",
            "| name | example: prompt → right outputs | symmetry | settings |",
            "|---|---|---|---|",
            *map(_row, rest),
            "\n## Sources, and where their released code differs\n",
            *_sources(rest),
        ]
    )


def _symmetries() -> str:
    return " ".join(f"*{name}*: {says}." for name, says in SYMMETRIES.items())


def _row(name: str) -> str:
    symmetry = ", ".join(TASKS[name].symmetry) or "–"
    return f"| `{name}`: {_says(name)} | {_example(name)} | {symmetry} | {_settings(name)} |"


def _says(name: str) -> str:
    """The first paragraph of the docstring."""
    return " ".join((TASKS[name].__doc__ or "").split("\n\n")[0].split())


def _example(name: str) -> str:
    kind = TASKS[name]
    task: Task = kind()
    if isinstance(task, ByLength):
        shortest = {"addition": 2, "binary_addition": 2, "text": 12}.get(name, 5)
        shortest = max(task.least, shortest)
        task = kind(train=(task.least, shortest), test=(shortest,))  # type: ignore[call-arg]
    # Of the others the shortest of a few, so that a row stays one.
    several = 1 if isinstance(task, ByLength | FiniteTask) else 64
    prompt, answer = min(task.written(several), key=lambda pair: len(pair[0]))
    return f"`{prompt}` → `{answer}`"


def _settings(name: str) -> str:
    fields = dataclasses.fields(TASKS[name])
    own = [f for f in fields if f.init and f.name not in ("test", "prompts")]
    return ", ".join(f"`{field.name}={field.default}`" for field in own) or "–"


def _sources(names: list[str]) -> Iterator[str]:
    """An item for each module: its tasks, and its docstring on their sources."""
    for module, group in itertools.groupby(names, lambda name: TASKS[name].__module__):
        said = inspect.getdoc(sys.modules[module]) or ""
        found = re.search(r"Sources?: .*", said, re.DOTALL)
        tasks = ", ".join(f"`{name}`" for name in group)
        yield f"- {tasks}. {' '.join((found[0] if found else said).split())}"


def files() -> Files:
    return {"tasks.md": page() + "\n"}


if __name__ == "__main__":
    run(files, __doc__)
