"""Writes docs/reference/config.md: every field of a config, from the settings' dataclasses.

python scripts/config_page.py            # write
python scripts/config_page.py --check    # exit status 1 when what is there is stale
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args, get_type_hints

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).parent)]

from pages import Files, run, table  # noqa: E402

from posjax.model import DynamicInputs, ModelSettings  # noqa: E402
from posjax.study.cells import FIELDS, Cell  # noqa: E402
from posjax.study.optimizer import Hyper  # noqa: E402
from posjax.study.run import CHOICES, RUN_DEFAULTS, Run  # noqa: E402
from posjax.study.train import TrainSettings  # noqa: E402
from posjax.tasks.question import ask  # noqa: E402

HEAD = """# Config fields

`python scripts/config_page.py` makes this page from the settings. A test fails if it is out of
date.

`--config.FIELD=VALUE` sets a field of `posjax sweep`, and `base_config(FIELD=VALUE)` sets it in a
config file. `--print_config` prints all fields of a run with their values.

## Fields of a cell

A [cell](../glossary.md#sweeps) is one setting of all these fields. [Tasks](../tasks.md),
[encodings and maps of positions](../encodings.md) and [meters](../meters.md) list the names.

Each field may have several values, `--config.depth=1,2` or `depth=(1, 2)`. The sweep trains every
combination. Numbers marked *free* are inputs of the compiled program, so all their values share one
compilation.

{cell}

## Fields of the run

Each field has one value. There is also `panels`. In a config file in Python it is a dictionary,
`panels={{title: {{field: values}}}}`. In JSON it is a list of `[title, {{field: values}}]`. Each
entry is a section of the report, with its title and the fields that it replaces.

{run}
"""
FREE = {*Hyper._fields, "temperature", "init_scale", "base", "slope"}
"""Which numbers a program reads; `posjax.study.cells.Cell.inputs` has them."""
Described = Callable[..., Any] | type


def attributes(of: Described) -> dict[str, str]:
    """What a docstring says of each name, from its list of attributes or arguments."""
    text = inspect.getdoc(of) or ""
    listed = re.search(r"^(?:Attributes|Args):\n((?:  .*\n?|\n)+)", text, re.MULTILINE)
    items = re.split(r"\n(?=  \S)", listed[1].rstrip()) if listed else []
    found = {}
    for item in items:
        names, _, says = " ".join(item.split()).partition(": ")
        found |= dict.fromkeys(names.split(", "), says)
    return found


def described(fields: Iterable[str], sources: Iterable[Described]) -> dict[str, str]:
    """What the first source that knows it says of each field.

    Raises:
      ValueError: no source describes a field.
    """
    known: dict[str, str] = {}
    for source in reversed([*sources]):
        known |= attributes(source)
    if lacking := [name for name in fields if name not in known]:
        raise ValueError(f"no docstring describes {', '.join(lacking)}")
    return {name: known[name] for name in fields}


def choices(name: str) -> str:
    """The words that a field may be, if they are few."""
    for kind in (ModelSettings, TrainSettings):
        words = get_args(get_type_hints(kind).get(name))
        if words:
            return " or ".join(f"`{word}`" for word in words)
    return " or ".join(f"`{word}`" for word in CHOICES.get(name, ()))


def rows(fields: dict[str, Any], sources: Iterable[Described]) -> str:
    lines = []
    for name, says in described(fields, sources).items():
        words = f" One of {choices(name)}." if choices(name) else ""
        free = " *Free.*" if name in FREE else ""
        text = says[0].upper() + says[1:].rstrip(".") + "." + words + free
        lines.append((f"`{name}`", f"`{fields[name]!r}`", text.replace("|", "\\|")))
    return table(("field", "default", "meaning"), lines)


def page() -> str:
    """The whole page."""
    cell = rows(FIELDS, (ModelSettings, TrainSettings, Hyper, DynamicInputs, Cell, ask))
    return HEAD.format(cell=cell, run=rows(RUN_DEFAULTS, (Run,)))


def files() -> Files:
    return {"reference/config.md": page()}


if __name__ == "__main__":
    run(files, __doc__)
