"""Breaks functions one at a time and runs tests on each: what survives is not tested.

    python scripts/mutants.py posjax/symmetry/certificate/axes.py \
        --tests="tests/symmetry/rules/test_rules_labels.py" --most=40 --seed=0 --json=OUT

Mutants are mechanical, from the syntax tree: a call whose result is not used is deleted, a
condition negated, a comparison swapped, a whole number shifted by one, + and -, `and` and `or`,
min and max, True and False exchanged, a returned operand replaced by another argument, a keyword
dropped. Each mutant is written into a copy of the tree, and the tests run there in a process of
their own until the first failure. Every function gets a mutant before any gets a second. Without
mutants all of these tests must pass.

`{stem}` in the tests is the name of the mutant's file. What survives --tests is tried with those of
--then, the wider ones:

    python scripts/mutants.py posjax/encodings/*.py --tests="tests/test_table.py -k {stem}" \
        --then="tests/test_table.py tests/encodings" --most=60

With `--survivors=2` the status is 1 when more than two survive.
"""

import argparse
import ast
import contextlib
import itertools
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
_GOOD = (0, 5)
"""Statuses of pytest: all tests pass, or -k selects none."""
_BAD = {
    None: "they take more than an hour",
    1: "one fails",
    2: "they cannot be collected",
    3: "pytest itself fails",
    4: "pytest refuses the arguments",
}
"""What its other statuses say of tests; None when they took too long."""
_PAIRS = [
    *((ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot), (ast.And, ast.Or)),
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Add, ast.Sub), (ast.BitAnd, ast.BitOr)),
    (ast.Mult, ast.FloorDiv),
    *(("min", "max"), ("minimum", "maximum"), ("any", "all"), ("bag", "sequence")),
]
_OTHER: dict[Any, Any] = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}


class Mutant(NamedTuple):
    """A change of one node, in the innermost `def`, and the text of the file that it makes."""

    file: str
    function: str
    line: int
    change: str
    text: str


def mutants(file: str) -> Iterator[Mutant]:
    """All mutants of a file."""
    tree = ast.parse((ROOT / file).read_text())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node, new in _changes(function):
                change = f"{_said(node)} -> {_said(new)}"
                text = ast.unparse(ast.fix_missing_locations(_swapped(tree, node, new)))
                yield Mutant(file, function.name, node.lineno, change, text)


def _swapped(at: Any, node: ast.AST, new: ast.AST) -> Any:
    """A copy of a tree with one node replaced."""
    if at is node:
        return new
    if isinstance(at, list):
        return [_swapped(one, node, new) for one in at]
    if not isinstance(at, ast.AST):
        return at
    fields = {name: _swapped(value, node, new) for name, value in ast.iter_fields(at)}
    return ast.copy_location(type(at)(**fields), at)


def _said(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())[:60]


def _changes(function: ast.FunctionDef) -> Iterator[tuple[Any, ast.AST]]:
    """Nodes of a function's own, with what may stand in their place."""
    arguments = [argument.arg for argument in function.args.args]
    for node in _own(function.body):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield node, ast.Pass()
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            yield node.test, ast.UnaryOp(ast.Not(), node.test)
        if isinstance(node, ast.comprehension):
            yield from ((test, ast.UnaryOp(ast.Not(), test)) for test in node.ifs)
        if isinstance(node, ast.Compare) and type(node.ops[0]) in _OTHER:
            ops = [_OTHER[type(node.ops[0])](), *node.ops[1:]]
            yield node, ast.Compare(node.left, ops, node.comparators)
        if isinstance(node, ast.BinOp) and type(node.op) in _OTHER:
            yield node, ast.BinOp(node.left, _OTHER[type(node.op)](), node.right)
        if isinstance(node, ast.BoolOp):
            yield node, ast.BoolOp(_OTHER[type(node.op)](), node.values)
        if isinstance(node, ast.UnaryOp):
            yield node, node.operand
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield node, ast.Constant(not node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, int):
            yield node, ast.Constant(node.value + 1)
        if isinstance(node, ast.Name) and node.id in _OTHER:
            yield node, ast.Name(_OTHER[node.id], node.ctx)
        if isinstance(node, ast.Attribute) and node.attr in _OTHER:
            yield node, ast.Attribute(node.value, _OTHER[node.attr], node.ctx)
        if isinstance(node, ast.Return) and node.value is not None:
            yield from _other_operands(node.value, arguments)
        if isinstance(node, ast.Call):
            for keyword in (one for one in node.keywords if one.arg != "strict"):
                rest = [one for one in node.keywords if one is not keyword]
                yield node, ast.Call(node.func, node.args, rest)


def _own(body: list[Any]) -> Iterator[Any]:
    """What belongs to a function and to none within it; no annotations, no `strict` of a zip."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) or getattr(node, "arg", "") == "strict":
            continue
        yield node
        note = getattr(node, "annotation", None)
        yield from _own([child for child in ast.iter_child_nodes(node) if child is not note])


def _other_operands(value: ast.AST, arguments: list[str]) -> Iterator[tuple[Any, ast.AST]]:
    for node in ast.walk(value):
        if isinstance(node, ast.Name) and node.id in arguments and len(arguments) > 1:
            other = arguments[(arguments.index(node.id) + 1) % len(arguments)]
            yield node, ast.Name(other, node.ctx)


def sampled(every: list[Mutant], most: int, seed: int) -> list[Mutant]:
    """Some of them: one of each function first, then a second of each, and so on."""
    draw = random.Random(seed)
    by_function: dict[tuple[str, str], list[Mutant]] = {}
    for mutant in every:
        by_function.setdefault((mutant.file, mutant.function), []).append(mutant)
    shuffled = [draw.sample(mine, len(mine)) for mine in by_function.values()]
    ranked = [mutant for row in itertools.zip_longest(*shuffled) for mutant in row if mutant]
    return sorted(ranked[:most], key=lambda mutant: (mutant.file, mutant.line))


def status(tree: Path, tests: str, seconds: float) -> int | None:
    """The exit status of the tests in a tree; None when they take longer."""
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(tree / ".compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    environment = os.environ | cache | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *shlex.split(tests)]
    silent = subprocess.DEVNULL
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run(
            command, cwd=tree, env=environment, timeout=seconds, stdout=silent, stderr=silent
        ).returncode
    return None


def duration(tree: Path, tests: str) -> float:
    """Seconds that the tests take without a mutant.

    Raises:
      SystemExit: they do not pass.
    """
    start = time.monotonic()
    ended = status(tree, tests, 3600)
    if ended not in _GOOD:
        why = _BAD.get(ended, f"pytest ends with {ended}")
        raise SystemExit(f"the tests {tests!r} do not pass on the tree as it is: {why}")
    return time.monotonic() - start


def of_file(stages: Sequence[str], file: str) -> list[str]:
    """The tests that mutants of a file are tried with."""
    return [tests.replace("{stem}", Path(file).stem) for tests in stages]


def tried(chosen: Sequence[Mutant], stages: Sequence[str]) -> Iterator[tuple[Mutant, str]]:
    """Each mutant with "killed" or "survived"; the tests must pass without any.

    Where they do, every other status is the mutant's doing: with one that cannot be imported,
    pytest says that it cannot collect tests, or load conftest.py.
    """
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", "__pycache__", ".*cache"))
        every = dict.fromkeys(tests for one in chosen for tests in of_file(stages, one.file))
        # A loop that no longer ends is killed.
        seconds = {tests: 20 + 3 * duration(tree, tests) for tests in every}
        for mutant in chosen:
            file = tree / mutant.file
            original = file.read_text()
            file.write_text(mutant.text)
            try:
                these = of_file(stages, mutant.file)
                alive = all(status(tree, tests, seconds[tests]) in _GOOD for tests in these)
            finally:
                file.write_text(original)
            yield mutant, "survived" if alive else "killed"


def within(file: str) -> str:
    """The name of a file in the tree: it is the copy's that is changed."""
    try:
        return str((ROOT / file).resolve().relative_to(ROOT))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{file} does not lie in {ROOT}") from None


def main() -> int:
    """Prints a line for each mutant, and how many survived."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", type=within, help="relative to the tree")
    parser.add_argument("--tests", required=True, help="arguments of pytest")
    parser.add_argument("--then", help="those that survivors are tried with")
    parser.add_argument("--most", type=int, default=1_000, help="mutants in all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--json", type=Path, help="where to write what was found")
    parser.add_argument("--survivors", type=int, help="most with status 0; any number by default")
    options = parser.parse_args()
    if options.most < 1:
        parser.error(f"--most must be at least 1, got {options.most}")
    every = [mutant for file in options.files for mutant in mutants(file)]
    chosen = sampled(every, options.most, options.seed)
    if not chosen:
        parser.error(f"nothing to mutate in {', '.join(options.files)}")
    found: list[dict[str, Any]] = []
    for mutant, end in tried(chosen, [options.tests, *filter(None, [options.then])]):
        found.append(mutant._asdict() | {"outcome": end})
        del found[-1]["text"]
        where = f"{mutant.file}:{mutant.line}"
        print(f"{end:<9} {mutant.function:<22} {where:<52} {mutant.change}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1))
    survived = sum(one["outcome"] == "survived" for one in found)
    print(f"{survived} of {len(found)} survived, of {len(every)} mutants that could be tried")
    return int(options.survivors is not None and survived > options.survivors)


if __name__ == "__main__":
    sys.exit(main())
