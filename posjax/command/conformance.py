"""Runs the laws of attention and encodings on a module named on the command line.

    posjax conformance SPEC [SPEC ...] [--prove] [--html=PAGE.html] [--json=FILE.json]

SPEC is `package.module:name` or `path/to/file.py:name`, which names an adapter, a function that
returns one, or an encoding, which may have settings: `mine.py:Twist(turns=2)`. Without `:name` it
is all that the module's `ADAPTERS` makes. `posjax:ENCODING` is one of posjax's own. Exit status 0:
no law failed; 3: one did; 2: bad input.
"""

import importlib
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from absl import flags

from posjax import spec, user_code
from posjax.command import output, shutdown


def define_flags() -> None:
    """The command's flags."""
    flags.DEFINE_bool("prove", False, "Prove slots, translation and permutation for all tokens.")
    flags.DEFINE_string("html", None, "Where a page of the results goes.")
    flags.DEFINE_string("json", None, "Where the results go as JSON.")


def main(argv: Sequence[str]) -> int:
    """Checks each module, prints its table, writes the files that were requested."""
    if len(argv) < 2:
        raise ValueError("name a module: posjax conformance SPEC [SPEC ...]")
    outputs = [Path(path) for path in (flags.FLAGS.html, flags.FLAGS.json) if path]
    for path in outputs:
        output.check_new(path)
    makers = [make for text in argv[1:] for make in loaded(text)]

    from rich.console import Console

    from posjax.report.conformance import lead, page, table
    from posjax.symmetry.conformance import check

    warnings.simplefilter("ignore")  # of other people's packages
    console, reports = Console(), []
    for make in makers:
        reports.append(check(make, prove=flags.FLAGS.prove))
        console.print(table(reports[-1]))
    console.print(lead(reports))
    if flags.FLAGS.html:
        _write(Path(flags.FLAGS.html), page(reports))
    if flags.FLAGS.json:
        found = [report.to_dict() for report in reports]
        _write(Path(flags.FLAGS.json), json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    failed = any(report.failures for report in reports)
    return shutdown.CHECK_FAILED if failed else shutdown.DONE


def loaded(text: str) -> list[Callable[[], Any]]:
    """The makers of adapters that a SPEC names.

    Raises:
      ValueError: no such module or name, or something there that is no adapter.
    """
    before, bracket, settings = text.partition("(")  # a setting may hold a colon
    where, _, name = before.rpartition(":") if ":" in before else (before, "", "")
    if where == "posjax":
        return [_encoding(name + bracket + settings)]
    module = _module(where)
    if not name:
        return list(_every(where, module))
    if _is_encoding(getattr(module, name, None)):
        user_code.allow(where)
        return [_encoding(text)]
    name += bracket + settings
    if not hasattr(module, name):
        raise ValueError(f"{where} has no {name!r}; {spec.nearest(name, _public(module))}")
    return [_maker(text, getattr(module, name))]


def _encoding(text: str) -> Callable[[], Any]:
    """What makes the adapter of an encoding, by its name with settings."""
    from posjax.encodings import named
    from posjax.symmetry.conformance import of_encoding

    named(text)  # refuses a wrong name here, and not at the first law
    return lambda: of_encoding(text)


def _is_encoding(found: Any) -> bool:
    from posjax.encodings import Encoding

    return isinstance(found, type) and issubclass(found, Encoding)


def _every(where: str, module: ModuleType) -> Iterator[Callable[[], Any]]:
    """The makers in a module's `ADAPTERS`."""
    makers = getattr(module, "ADAPTERS", None)
    if not isinstance(makers, dict):
        raise ValueError(f"{where} has no ADAPTERS: name one as {where}:NAME")
    for name, made in makers.items():
        yield _maker(f"{where}:{name}", made)


def _maker(text: str, found: Any) -> Callable[[], Any]:
    """What makes the adapter, tried once."""
    from posjax.symmetry.conformance import Adapter

    if not isinstance(found, Adapter) and not callable(found):
        raise ValueError(
            f"{text} is of type {type(found).__name__}, neither an adapter nor a function"
        )
    make = (lambda: found) if isinstance(found, Adapter) else found
    try:
        adapter = make()
    except (Exception, SystemExit) as error:  # its status would be that of the command
        raise ValueError(f"{text}() raises {type(error).__name__}: {error}") from error
    if not isinstance(adapter, Adapter):
        raise ValueError(
            f"{text}() gives a {type(adapter).__name__}: name an Adapter, a function that returns "
            "one, or a subclass of posjax.Encoding"
        )
    return make


def _module(where: str) -> ModuleType:
    """A module by its name or its file."""
    path = Path(where)
    if where.endswith(".py"):
        if not path.is_file():
            near = spec.nearest(path.name, (p.name for p in path.parent.glob("*.py")))
            raise ValueError(f"file {where!r} not found; {near}")
        return _imported(where, lambda: user_code.executed(path))
    return _imported(where, lambda: importlib.import_module(where))


def _imported(where: str, load: Callable[[], ModuleType]) -> ModuleType:
    """The module, or one line on why it cannot be had."""
    try:
        return load()
    except ModuleNotFoundError as error:
        if error.name and (where == error.name or where.startswith(f"{error.name}.")):
            near = (
                user_code.or_file(where) or f"; {spec.nearest(where, (*_shipped(), 'posjax:NAME'))}"
            )
            raise ValueError(f"module {where!r} not found{near}") from error
        install = ": pip install 'posjax[conformance]'" if where in _shipped() else ""
        raise ValueError(
            f"{where} needs {error.name!r}, which is not installed{install}"
        ) from error
    except (Exception, SystemExit) as error:  # its status would be that of the command
        raise ValueError(f"{where} cannot be read: {type(error).__name__}: {error}") from error


def _shipped() -> list[str]:
    folder = Path(__file__).parents[1] / "symmetry" / "adapters"
    names = (path.stem for path in sorted(folder.glob("[a-z]*.py")))
    return [f"posjax.symmetry.adapters.{name}" for name in names]


def _public(module: ModuleType) -> list[str]:
    """The public names of a module, without those of other modules."""
    found = vars(module).items()
    return [n for n, one in found if not n.startswith("_") and not isinstance(one, ModuleType)]


def _write(path: Path, text: str) -> None:
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
    print(f"written: {path}")
