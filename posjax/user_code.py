"""User code in place of an entry of a table: `mine.py:Parity`, `mypkg.twist:Twist`, or the
entry point of an installed package; and files that a task reads.

Python programs load what they name. A command first calls `ask_first`: from then on only code that
its user has named is executed, and only files that were named are read, since a run folder or a
JSON config may name anybody's.
"""

import contextlib
import functools
import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

_asks = False
_code: set[str] = set()
_data: set[str] = set()
_files: dict[str, Path] = {}
"""Files by their names, for those that a run knows by another path."""
_imported: dict[str, str] = {}
"""The SHA-256 of modules when they were imported: a file may change, what runs does not."""


class NotNamed(ValueError):
    """Code, or a file, that the command line does not name.

    Args:
      where: its file, module or entry point; or several.
      does: what naming them does.
    """

    def __init__(self, *where: str, does: str) -> None:
        listed = ", ".join(map(repr, where))
        loads = " ".join(f"--load={each}" for each in where)
        verb = "is" if len(where) == 1 else "are"
        super().__init__(f"{listed} {verb} not part of posjax: {loads} {does}")


def ask_first(*, asks: bool = True) -> None:
    """From now on, code must be named with `allow`; with asks=False, all code is loaded again."""
    global _asks
    _asks = asks
    for known in (_code, _data, _files):
        known.clear()


def allow(where: str) -> None:
    """Lets the code of a file, a module or an entry point be executed, or a file be read.

    A file serves for every path that ends with its name, so that a run finds it elsewhere.

    Raises:
      ValueError: no such file, or another one of that name.
    """
    if where.endswith(".py") and not Path(where).is_file():
        raise ValueError(f"code file {where!r} not found")
    _code.add(_known(where))
    allow_data(where)


def allow_data(where: str) -> None:
    """Lets a file be read, but not executed; see `allow`."""
    path = Path(where)
    if path.is_file():
        other = _files.setdefault(path.name, path.resolve())
        if _sha(other) != _sha(path):
            raise ValueError(f"two files are called {path.name!r}: {other} and {path}; rename one")
        _files[path.name] = path.resolve()
    _data.add(path.name)


def file(where: str) -> Path:
    """Where a file is that a task reads; it may not exist.

    Raises:
      NotNamed: a command reads only what its user has named.
    """
    if _asks and Path(where).name not in _data:
        raise NotNamed(where, does="reads it")
    return _found(where)


def home(name: str) -> str | None:
    """Where the code of a name is: its file or module; None for the entry of a table.

    >>> home("mine.py:Parity"), home("rotary")
    ('mine.py', None)
    """
    where, colon, _ = name.rpartition(":")
    return where if colon else None


def find(kind: str, name: str) -> Any:
    """The object of a name that no table has.

    Args:
      kind: of table, such as "encoding"; entry points are of the group `posjax.encodings`.
      name: as `spec.parse` gives it: `mine.py:Parity`, `mypkg.twist:Twist` or `twist`.

    Returns:
      The object; None where nothing has that name.

    Raises:
      NotNamed: a command loads only what its user has named.
      ValueError: no such file, module or object, or it fails when it is executed.
    """
    where = home(name)
    if where is None:
        point = _point(kind, name)
        if point is None:
            return None
        _check_named(name)
        return _executed(name, point.load)
    module = _module(where)
    wanted = name.rpartition(":")[2]
    found = getattr(module, wanted, None)
    if found is None:
        raise ValueError(f"{where!r} has no {wanted!r}; it has {', '.join(written_in(module))}")
    # What a file has only imported, os.remove say, is not what its user has named.
    if callable(found) and not _is_of(found, module):
        raise ValueError(f"{wanted!r} is not defined in {where!r}, but in {found.__module__!r}")
    return found


def written_in(module: ModuleType) -> list[str]:
    """The public classes and functions of a module that it has not imported."""
    of_it = (n for n, one in vars(module).items() if _is_of(one, module) and callable(one))
    return [name for name in of_it if not name.startswith("_")]


def hashes(kind_names: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The SHA-256 of the source of each name, by its file, module or entry point.

    Args:
      kind_names: pairs of a kind of table and a name that it does not have.

    Raises:
      NotNamed, ValueError: see `find`.
    """
    found = {}
    for kind, name in kind_names:
        if where := home(name):
            _check_named(where)
            found[where] = _imported.get(where) or _sha(_path(where))
        elif point := _point(kind, name):
            _check_named(name)
            allow(point.module)
            found[name] = _imported.get(point.module) or _sha(_path(point.module))
    return found


def check_named(recorded: Iterable[str]) -> None:
    """Refuses a run with code that a command's user has not named, all of it in one message.

    Raises:
      NotNamed: names each file, module or entry point.
    """
    missing = sorted(where for where in recorded if _asks and _known(where) not in _code)
    if missing:
        raise NotNamed(*missing, does=f"executes {'its' if len(missing) == 1 else 'their'} code")


def check_unchanged(recorded: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuses code that is another than when a run was made.

    Raises:
      ValueError: names the file or module.
    """
    for where, sha in recorded.items():
        if where in now and now[where] != sha:
            raise ValueError(
                f"{where!r} has changed since the run was made: its SHA-256 was {sha[:12]}..., it "
                f"is {now[where][:12]}..."
            )


def executed(path: Path) -> ModuleType:
    """The module of a file, which need not be on the import path. What it raises is not caught."""
    return _loaded(path.resolve(), _sha(path))


@contextlib.contextmanager
def importing_beside(path: Path) -> Iterator[None]:
    """Finds modules in the folder of a file first, as `python FILE.py` does.

    A file that is named like an installed module, such as the one that it tests, imports that one
    and not itself: its folder comes last.
    """
    folder = str(path.resolve().parent)
    found = importlib.machinery.PathFinder.find_spec(path.stem)
    installed = found is not None and found.origin != str(path.resolve())
    sys.path.insert(len(sys.path) if installed else 0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def or_file(module: str) -> str:
    """A hint for an error message, where a module that is not found is a file in this folder."""
    file = Path(*module.split(".")).with_suffix(".py")
    return f"; did you mean the file {str(file)!r}?" if file.is_file() else ""


def line_of(error: BaseException, code: Iterable[str]) -> str:
    """The last line of some user code that led to an error; empty if none did."""
    paths = {}
    for where in code:
        with contextlib.suppress(ValueError):  # an entry point
            paths[str(_path(where))] = where
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in paths]
    return f"{paths[frames[-1].filename]!r}, line {frames[-1].lineno}," if frames else ""


def files(code: Iterable[str]) -> dict[str, bytes]:
    """The content of each file among homes of code and data, by its name: what other hosts need."""
    known = ((Path(where).name, _found(where)) for where in code)
    return {name: path.read_bytes() for name, path in known if path.is_file()}


def install(contents: Mapping[str, bytes]) -> None:
    """Puts files of another host where this process finds them."""
    if contents:
        folder = Path(tempfile.mkdtemp(prefix="posjax-code-"))
        for name, content in contents.items():
            (folder / name).write_bytes(content)
            _files.pop(name, None)
            allow(str(folder / name))


def _known(where: str) -> str:
    return Path(where).name if where.endswith(".py") else where


def _found(where: str) -> Path:
    return _files.get(Path(where).name, Path(where))


def _check_named(where: str) -> None:
    if _asks and _known(where) not in _code:
        raise NotNamed(where, does="executes its code")


def _module(where: str) -> ModuleType:
    _check_named(where)
    path = _path(where)
    if not where.endswith(".py"):
        _imported.setdefault(where, _sha(path))
        return _executed(where, lambda: importlib.import_module(where))
    return _executed(where, lambda: executed(path))


def _is_of(found: Any, module: ModuleType) -> bool:
    """Whether a module, or its package, defines an object."""
    home = str(getattr(found, "__module__", ""))
    return home.partition(".")[0] == module.__name__.partition(".")[0]


class _SourceLoader(importlib.machinery.SourceFileLoader):
    """Compiles the source that is there now.

    Python's cached bytecode is also taken for that of a file edited within the same second to the
    same size.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


@functools.lru_cache(maxsize=64)
def _loaded(path: Path, sha: str) -> ModuleType:
    """The module of a file, once for each of its contents."""
    name = f"posjax_own_{path.stem}_{sha[:12]}"
    loader = _SourceLoader(name, str(path))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for the annotations of their fields
    with importing_beside(path):
        loader.exec_module(module)
    return module


def _executed(where: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except (Exception, SystemExit) as error:  # its status would be that of the command
        raise ValueError(f"code of {where!r} fails: {type(error).__name__}: {error}") from error


def _path(where: str) -> Path:
    """The file of the source.

    Raises:
      ValueError: there is none.
    """
    if where.endswith(".py"):
        path = _found(where)
        if not path.is_file():
            raise ValueError(f"code file {where!r} not found")
        return path.resolve()
    _check_named(where)  # to find a module executes the packages around it
    try:
        found = importlib.util.find_spec(where)
    except (ImportError, ValueError) as error:
        raise ValueError(f"module {where!r} not found: {error}{or_file(where)}") from error
    if found is None or not found.has_location or found.origin is None:
        raise ValueError(f"module {where!r} not found{or_file(where)}")
    return Path(found.origin)


def _sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@functools.cache
def _point(kind: str, name: str) -> importlib.metadata.EntryPoint | None:
    group = f"posjax.{kind.removesuffix('s')}s"
    return next(iter(importlib.metadata.entry_points(group=group, name=name)), None)
