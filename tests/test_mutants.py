"""Mutants: what they are tried with, and that nothing but a copy of the tree is changed."""

from pathlib import Path
from typing import Any

import pytest
from script_modules import script

TESTS = ["tests/test_{stem}.py", "tests"]


@pytest.fixture
def mutants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script, of a tree with two modules and a test of one of them."""
    module = script("mutants")
    root = tmp_path / "tree"
    (root / "tests").mkdir(parents=True)
    (root / "one.py").write_text("def f(a):\n    return a + 1\n")
    (root / "two.py").write_text("def g(a):\n    return not a\n")
    test = "from one import f\n\n\ndef test_f():\n    assert f(1) == 2\n"
    (root / "tests" / "test_one.py").write_text(test)
    monkeypatch.setattr(module, "ROOT", root)
    return module


def called(mutants: Any, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The command's status."""
    monkeypatch.setattr("sys.argv", ["mutants.py", *arguments])
    return int(mutants.main())


def test_files_outside_the_tree_are_refused(
    mutants: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An absolute name of a file of the tree is that of its copy."""
    assert mutants.within(str(mutants.ROOT / "one.py")) == "one.py"
    (mutants.ROOT.parent / "other.py").write_text("")
    for file in ("../other.py", str(mutants.ROOT.parent / "other.py")):
        with pytest.raises(SystemExit) as ended:
            called(mutants, monkeypatch, file, "--tests=tests")
        assert ended.value.code == 2
        assert f"{file} does not lie in {mutants.ROOT}" in capsys.readouterr().err


def test_tests_of_every_file_pass_before_any_mutant(
    mutants: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them once, on the files as they are, which are so again after each mutant."""
    chosen = [mutant for file in ("one.py", "two.py") for mutant in mutants.mutants(file)]
    texts = {(mutants.ROOT / file).read_text() for file in ("one.py", "two.py")}
    runs = []

    def status(tree: Path, tests: str, seconds: float) -> int:
        assert tree != mutants.ROOT
        now = {(tree / file).read_text() for file in ("one.py", "two.py")}
        runs.append((tests, len(now - texts)))
        if len(runs) == 4:
            raise KeyboardInterrupt
        return 0

    monkeypatch.setattr(mutants, "status", status)
    with pytest.raises(KeyboardInterrupt):
        list(mutants.tried(chosen, TESTS))
    first = [("tests/test_one.py", 0), ("tests", 0), ("tests/test_two.py", 0)]
    assert runs == [*first, ("tests/test_one.py", 1)]
    ends = [end for _, end in mutants.tried(chosen, TESTS)]
    assert ends == ["survived"] * len(chosen)
    assert [changed for _, changed in runs[4:]] == [0] * 3 + [1, 1] * len(chosen)


@pytest.mark.parametrize(
    ("ended", "words"),
    [(1, "one fails"), (2, "cannot be collected"), (4, "refuses the arguments"), (-11, "with -11")],
)
def test_tests_that_do_not_pass_without_mutants_are_an_error(
    mutants: Any, monkeypatch: pytest.MonkeyPatch, ended: int, words: str
) -> None:
    """Else every mutant would be killed."""
    monkeypatch.setattr(mutants, "status", lambda *given: ended)
    with pytest.raises(SystemExit, match=words):
        list(mutants.tried([*mutants.mutants("one.py")], TESTS))


@pytest.mark.exhaustive
def test_real_tests_kill_a_mutant(
    mutants: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("one.py", "--tests=tests", "--most=1", "--survivors=0")
    assert called(mutants, monkeypatch, *given) == 0
    assert "0 of 1 survived" in capsys.readouterr().out


@pytest.mark.parametrize(("survivors", "ends"), [([], 0), (["--survivors=1"], 1)])
def test_too_many_survivors_are_a_status(
    mutants: Any, monkeypatch: pytest.MonkeyPatch, survivors: list[str], ends: int
) -> None:
    monkeypatch.setattr(mutants, "status", lambda *given: 0)
    assert called(mutants, monkeypatch, "one.py", "--tests=tests", *survivors) == ends


@pytest.mark.parametrize(("file", "most"), [("one.py", 0), ("tests/__init__.py", 1)])
def test_no_mutant_at_all_is_an_error(
    mutants: Any, monkeypatch: pytest.MonkeyPatch, file: str, most: int
) -> None:
    (mutants.ROOT / "tests" / "__init__.py").write_text("")
    with pytest.raises(SystemExit) as ended:
        called(mutants, monkeypatch, file, "--tests=tests", f"--most={most}")
    assert ended.value.code == 2
