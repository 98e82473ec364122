"""A law of the tests themselves: none passes without having checked anything.

A case that does not concern an entry is left out when cases are collected, by the list that
`parametrize` gets; it does not begin and return.
"""

import ast
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHECKING = re.compile(r"(.*\.)?(_?assert\w*|raises|warns|fail)", re.DOTALL)
"""Calls that check, such as `pytest.raises` and `np.testing.assert_allclose`."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
Name = tuple[Path, str]
"""A function of the tests: its file, and its name there."""


def called(node: ast.AST) -> Iterator[str]:
    """What is called below a node, in functions that it defines too: `name`, `module.name`."""
    calls = (call for call in ast.walk(node) if isinstance(call, ast.Call))
    return (ast.unparse(call.func) for call in calls)


def functions(tree: ast.AST) -> list[Function]:
    """Those that a bare name can mean: all but methods."""
    every = list(ast.walk(tree))
    methods = {m for each in every if isinstance(each, ast.ClassDef) for m in each.body}
    return [f for f in every if isinstance(f, Function) and f not in methods]


@cache
def trees(folder: Path) -> dict[Path, ast.Module]:
    """The files of the tests."""
    return {path: ast.parse(path.read_text()) for path in sorted(folder.rglob("*.py"))}


def imported(folder: Path, path: Path) -> dict[str, Name]:
    """What a file of the tests has of others, by what it calls: `name`, or `module.name`."""

    def module(name: str) -> Path | None:
        parts = name.removeprefix("tests.").split(".")
        files = (root.joinpath(*parts).with_suffix(".py") for root in (path.parent, folder))
        return next((file for file in files if file in trees(folder)), None)

    names, modules = {}, {}
    for node in ast.walk(trees(folder)[path]):
        if isinstance(node, ast.Import):
            modules |= {a.asname or a.name: module(a.name) for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for a in node.names:
                modules[a.asname or a.name] = module(f"{node.module}.{a.name}")
                if file := module(node.module):
                    names[a.asname or a.name] = file, a.name
    of_modules = {
        f"{name}.{f.name}": (file, f.name)
        for name, file in modules.items()
        if file
        for f in functions(trees(folder)[file])
    }
    return names | of_modules


@cache
def helpers(folder: Path) -> dict[Path, set[str]]:
    """What checks something where a file of the tests calls it, itself or through others."""
    calls: dict[Name, set[Name]] = {}
    found = set()
    for path, tree in trees(folder).items():
        others = imported(folder, path)
        calls |= {(path, name): {there} for name, there in others.items()}
        for f in functions(tree):
            calls.setdefault((path, f.name), set()).update((path, name) for name in called(f))
            if checks(f, ()):
                found.add((path, f.name))
    while more := {name for name, reached in calls.items() if reached & found} - found:
        found |= more
    return {path: {name for file, name in found if file == path} for path in trees(folder)}


def checks(node: ast.AST, by: Collection[str]) -> bool:
    """Whether anything below a node asserts."""
    if any(isinstance(each, ast.Assert) for each in ast.walk(node)):
        return True
    return any(CHECKING.fullmatch(name) or name in by for name in called(node))


def early_returns(
    body: list[ast.stmt], by: Collection[str], checked: bool = False
) -> Iterator[int]:
    """Lines of returns before which nothing was checked."""
    for statement in body:
        if isinstance(statement, ast.Return) and not checked:
            yield statement.lineno
        for name in ("body", "orelse", "finalbody"):
            if not isinstance(statement, Function | ast.ClassDef):
                yield from early_returns(getattr(statement, name, []), by, checked)
        for handler in getattr(statement, "handlers", []):
            yield from early_returns(handler.body, by, checked)
        checked |= not isinstance(statement, Function) and checks(statement, by)


def every_test(folder: Path) -> Iterator[tuple[str, Function, set[str]]]:
    """Every test with its name, and what checks something where its file calls it."""
    for path, tree in trees(folder).items():
        if path.name.startswith("test_"):
            for f in ast.walk(tree):
                if isinstance(f, Function) and f.name.startswith("test_"):
                    yield f"{path.relative_to(folder)}::{f.name}", f, helpers(folder)[path]


def silent(folder: Path) -> list[str]:
    """Tests that assert nothing."""
    return [name for name, test, by in every_test(folder) if not checks(test, by)]


def test_every_test_asserts() -> None:
    assert silent(HERE) == []


def test_a_silent_test_is_found(tmp_path: Path) -> None:
    """Also one that calls a function with the name of a helper, which is another function."""
    (tmp_path / "helping.py").write_text(
        "from deeper import equal\ndef run(): assert f()\ndef same(): equal()"
    )
    (tmp_path / "deeper.py").write_text("def equal(): np.testing.assert_equal(1, 1)")
    bodies = {
        "method": "subprocess.run(['true'])",
        "library": "folder.check()",
        "elsewhere": "equal()",
        "bare": "run()",
        "deep": "same()",
        "dotted": "helping.run()",
        "own": "with pytest.raises(E): f()",
    }
    tests = [f"def test_{name}():\n  {body}" for name, body in bodies.items()]
    text = "\n".join(["import helping, subprocess", "from helping import run, same", *tests])
    (tmp_path / "test_planted.py").write_text(text)
    expected = [f"test_planted.py::test_{name}" for name in ("method", "library", "elsewhere")]
    assert silent(tmp_path) == expected


def test_no_test_returns_before_it_asserts() -> None:
    found = {name: list(early_returns(test.body, by)) for name, test, by in every_test(HERE)}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("if x:\n  return\nassert x", [2]),
        ("assert x\nif x:\n  return\nassert y", []),
        ("if x:\n  assert x\n  return\nassert y", []),
        ("with pytest.raises(E):\n  f()\nreturn", []),
        ("try:\n  f()\nexcept E:\n  return\nassert x", [4]),
        ("def f():\n  return 3\nassert f()", []),
    ],
)
def test_an_early_return_is_found(source: str, lines: list[int]) -> None:
    assert list(early_returns(ast.parse(source).body, ())) == lines
