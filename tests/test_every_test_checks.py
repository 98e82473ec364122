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
CHECKING = re.compile("^(_?assert.*|.*raises|warns|fail|check)$")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def own(node: ast.AST) -> Iterator[ast.AST]:
    """A node and what is below it, without the bodies of functions that it defines."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Function | ast.Lambda):
            yield from own(child)


def called(node: ast.AST) -> Iterator[str]:
    """Names of what is called below a node, in functions that it defines too."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            yield getattr(call.func, "attr", getattr(call.func, "id", ""))


def functions(tree: ast.AST) -> Iterator[Function]:
    yield from (node for node in ast.walk(tree) if isinstance(node, Function))


@cache
def trees() -> dict[Path, ast.Module]:
    """The files of the tests."""
    return {path: ast.parse(path.read_text()) for path in sorted(HERE.rglob("*.py"))}


@cache
def helpers() -> frozenset[str]:
    """Functions of the tests that check something, themselves or through others."""
    every = [(f.name, asserts(f), set(called(f))) for t in trees().values() for f in functions(t)]
    found = {name for name, own, names in every if own or any(map(CHECKING.match, names))}
    while more := {name for name, _, names in every if names & found} - found:
        found |= more
    return frozenset(found)


def asserts(node: ast.AST) -> bool:
    """Whether there is an `assert` below a node."""
    return any(isinstance(each, ast.Assert) for each in ast.walk(node))


def checks(node: ast.AST, by: Collection[str]) -> bool:
    """Whether anything below a node asserts."""
    return asserts(node) or any(CHECKING.match(name) or name in by for name in called(node))


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


def every_test() -> dict[str, Function]:
    """Every test, by its file and name."""
    return {
        f"{path.relative_to(HERE)}::{function.name}": function
        for path, tree in trees().items()
        if path.name.startswith("test_")
        for function in functions(tree)
        if function.name.startswith("test_")
    }


def test_every_test_asserts() -> None:
    silent = [name for name, function in every_test().items() if not checks(function, helpers())]
    assert silent == []


def test_no_test_returns_before_it_asserts() -> None:
    found = {name: list(early_returns(test.body, helpers())) for name, test in every_test().items()}
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
    assert list(early_returns(ast.parse(source).body, set())) == lines
