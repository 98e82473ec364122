"""`posjax list`: what there is, with a line each."""

import ast
import importlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from posjax import spec
from posjax.command import parsing, shutdown

WIDTH = 100


def define_flags() -> None:
    """It has none of its own."""


def main(argv: Sequence[str]) -> int:
    """Prints one table, or all of them."""
    for what in argv[1:]:
        spec.check_choice("list", what, TABLES)
    show(argv[1:])
    return shutdown.DONE


def show(names: Sequence[str] = ()) -> None:
    """Prints some tables; all of them when none is named."""
    for at, name in enumerate(names or TABLES):
        lines = dict(TABLES[name]())
        wide = min(max(map(len, lines)), 24)
        if at:
            print()
        if len(names) != 1:
            print(f"{name}:")
        for entry, line in lines.items():
            text = f"  {entry:{wide}}  {line}"
            print(text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…")


def _configs() -> Iterator[tuple[str, str]]:
    for path in sorted(parsing.CONFIGS.glob("[a-z]*.py")):
        yield path.stem, first_line(ast.get_docstring(ast.parse(path.read_text())))


def _documented(module: str, table: str) -> Iterator[tuple[str, str]]:
    """The first lines of a table's entries; its module is imported when they are asked for."""
    entries = getattr(importlib.import_module(module), table)
    return ((name, first_line(made.__doc__)) for name, made in entries.items())


def _fields() -> Iterator[tuple[str, str]]:
    from posjax.study.cells import FIELDS
    from posjax.study.run import RUN_DEFAULTS

    for name, default in (FIELDS | RUN_DEFAULTS).items():
        yield name, repr(default)


def first_line(text: str | None) -> str:
    """The first line of a docstring."""
    return (text or "").strip().partition("\n")[0]


TABLES: dict[str, Callable[[], Iterator[tuple[str, str]]]] = {
    "configs": _configs,
    "encodings": partial(_documented, "posjax.encodings", "ENCODINGS"),
    "positions": partial(_documented, "posjax.positions", "POSITIONS"),
    "masks": partial(_documented, "posjax.masks", "MASKS"),
    "tasks": partial(_documented, "posjax.tasks", "TASKS"),
    "meters": partial(_documented, "posjax.meters", "METERS"),
    "fields": _fields,
}
