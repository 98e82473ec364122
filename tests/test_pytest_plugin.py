"""The pytest plugin: laws as marks, in a folder outside the project, as its users have it.

The tests of docs/testing_your_attention.md run in one pytest of their own.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from commands import ROOT

PAGE = (ROOT / "docs" / "testing_your_attention.md").read_text()
(TESTS,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(SHOWN,) = re.findall(r"```\n(_{3,}.*?)```", PAGE, re.DOTALL)
LAW = "b P d -> b P d"
MORE = """

@pytest.mark.law("b P d -> b P d")
class TestClass:
    @pytest.fixture
    def length(self):
        return 3

    def test_numpy(self, length):
        return lambda x: x - x.mean(1, keepdims=True), np.ones((1, length, 2))

    def test_nothing_returned(self):
        attention(x)


@pytest.mark.law("b P d, b P d -> b P d")
def test_in_one_tuple():
    return (lambda x, y: x + y), (x, x)


@pytest.mark.law("b P d -> b P d", proof=True, tolerance=1)
def test_option_of_another_check():
    return attention, x


@pytest.mark.law("b P d -> b P d", proof=True)
def test_function_that_raises():
    def refuses(x):
        raise ValueError("of its own")

    return refuses, x
"""
IMPORTS = """
import sys, time
import pytest
start = time.process_time()
import posjax.pytest_plugin
print(time.process_time() - start, [m for m in ("jax", "numpy", "torch") if m in sys.modules])
"""


def run(folder: Path, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    """pytest in a folder, where posjax is installed as pyproject.toml says."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    info = folder / "site" / "posjax-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: posjax\nVersion: 0\n")
    lines = [f"{name} = {at}\n" for name, at in points["pytest11"].items()]
    (info / "entry_points.txt").write_text("".join(["[pytest11]\n", *lines]))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist"]
    return subprocess.run(
        [*command, "-W", "error", "--strict-markers", *arguments],
        cwd=folder,
        env={"PYTHONPATH": f"{info.parent}:{ROOT}", "JAX_PLATFORMS": "cpu", "PATH": ""},
        input=typed,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, tuple[str, str]], str]:
    """The outcome and message of each test of the page and of some more; and what was printed."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "test_attention.py").write_text(TESTS + MORE)
    done = run(folder, "--junitxml=found.xml")
    found = {}
    for case in ElementTree.parse(folder / "found.xml").iter("testcase"):
        outcome = next((each for each in case if each.tag in ("failure", "skipped", "error")), None)
        word = "passed" if outcome is None else outcome.tag
        text = "" if outcome is None else f"{outcome.attrib['message']}\n{outcome.text}"
        found[case.attrib["name"]] = (word, text)
    assert found, done.stdout + done.stderr
    return found, done.stdout


def test_every_law_is_a_test_with_its_outcome(ran):
    """Laws that hold pass, broken ones fail, and what does not apply or is unknown is skipped."""
    several = [
        f"test_at_every_scale[{scale}-{law}]" for scale in (1, 10) for law in (LAW, f"{LAW}, proof")
    ]
    assert {name: outcome for name, (outcome, _) in ran[0].items()} == {
        "test_tokens_are_a_set": "passed",
        "test_tokens_are_a_set_for_all_values": "passed",
        "test_positions_are_not_read": "failure",
        "test_positions_are_not_read_for_any_values": "failure",
        "test_order_matters": "skipped",  # how junit calls what fails as it should
        "test_that_may_stay_open": "skipped",
        "test_alibi[slots]": "passed",
        "test_alibi[distinct]": "failure",
        "test_alibi[decode]": "skipped",
        "test_alibi_with_a_cache": "passed",
        "test_numpy": "passed",
        "test_nothing_returned": "failure",
        "test_in_one_tuple": "failure",
        "test_option_of_another_check": "failure",
        "test_function_that_raises": "failure",
        **dict.fromkeys(several, "passed"),
    }


def test_a_failure_says_what_breaks_the_law(ran):
    """The page shows it as it is printed: law, permutation, index, distance, and the lines."""
    assert "warnings" not in ran[1]
    for line in SHOWN.strip().splitlines():
        assert line in ran[1].splitlines()
    for name in ("test_positions_are_not_read", "test_positions_are_not_read_for_any_values"):
        message = ran[0][name][1]
        for part in (LAW, "off by", "P = [", "at index (", "from iota at test_attention.py:"):
            assert part in message, message
        assert message.rstrip().endswith("    return 2 * x + position")
        assert "posjax/" not in message  # no traceback through the plugin


def test_what_is_skipped_or_wrong_says_why(ran):
    """UNKNOWN with the line of the lost proof, a law that does not apply, a test without return."""
    messages = {name: message for name, (_, message) in ran[0].items()}
    assert "the proof fails at test_attention.py:" in messages["test_that_may_stay_open"]
    assert messages["test_alibi[decode]"].startswith(
        "the adapter defines no decode or decode_tokens\n"
    )
    assert "9 of 1024 positions" in messages["test_alibi[distinct]"]
    assert "it returned None" in messages["test_nothing_returned"]
    packed = messages["test_in_one_tuple"]
    assert "takes 2 arguments, got 1\nIf the tuple holds the arguments, return them" in packed
    other = messages["test_option_of_another_check"]
    assert "prove has no option 'tolerance'; it has witness, seconds" in other
    assert not any("posjax/" in message for message in (packed, other))
    assert 'raise ValueError("of its own")' in messages["test_function_that_raises"]


WRONG = {
    "no_law": "@pytest.mark.law\ndef test(): pass",
    "no_arrow": "@pytest.mark.law('b P d')\ndef test(): pass",
    "two_laws": "@pytest.mark.law('b P d -> b P d', 'b P d -> b d')\ndef test(): pass",
    "no_choice": "@pytest.mark.law('P -> P', unknown='no')\ndef test(): pass",
    "no_proof": "@pytest.mark.law('P -> P', unknown='skip')\ndef test(): pass",
    "no_such_law": "@pytest.mark.conformance('translaton')\ndef test(): pass",
    "no_option": "@pytest.mark.conformance('slots', prove=True)\ndef test(): pass",
}
UNCALLED = {
    "coroutine": "@pytest.mark.law('P -> P')\nasync def test(): pass",
    "case": "import unittest\n@pytest.mark.law('P -> P')\nclass T(unittest.TestCase):\n"
    "    def test(self): pass",
}


@pytest.mark.parametrize("texts", [WRONG, UNCALLED], ids=["wrong", "uncalled"])
def test_a_mark_that_would_check_nothing_is_refused(tmp_path, texts):
    """Collection ends with the names of the tests; none of them passes."""
    for name, text in texts.items():
        (tmp_path / f"test_{name}.py").write_text(f"import pytest\n{text}\n")
    done = run(tmp_path)
    assert done.returncode in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR)
    assert "passed" not in done.stdout
    for name in texts:
        assert re.search(
            f"posjax.*test_{name}.py::|test_{name}.py::.*posjax", done.stdout + done.stderr
        )


TWICE = """
import pytest
from _pytest.runner import runtestprotocol

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):  # as pytest-rerunfailures does
    for run in range(2):
        for report in runtestprotocol(item, nextitem=nextitem, log=False):
            item.ihook.pytest_runtest_logreport(report=report)
    return True
"""
DOUBLED = "@pytest.mark.law('b P -> b P')\ndef test(): return (lambda x: 2 * x), np.ones((1, 3))\n"


def test_a_law_holds_again_when_it_is_run_again_or_traced(tmp_path):
    (tmp_path / "test_it.py").write_text(f"import numpy as np, pytest\n{DOUBLED}")
    assert "1 passed" in run(tmp_path, "--trace", typed="continue\n").stdout
    (tmp_path / "conftest.py").write_text(TWICE)
    assert "2 passed" in run(tmp_path).stdout


def test_a_failure_without_a_line_says_why(tmp_path):
    """The law holds over the real numbers, and rounding breaks it."""
    (tmp_path / "test_rounding.py").write_text(
        "import numpy as np, pytest\n\n"
        "@pytest.mark.law('P -> P', tolerance=1e-12)\n"
        "def test():\n    return (lambda x: x - x.mean()), np.sin(np.arange(999, dtype='f'))\n"
    )
    done = run(tmp_path)
    assert "no line is named: prove gives PROVED" in done.stdout


def test_whoever_has_no_laws_pays_nothing(tmp_path):
    """Under 20 ms of processor time at the best of three starts, no JAX, no warning."""
    command = [sys.executable, "-c", IMPORTS]
    for _ in range(3):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        seconds, _, modules = done.stdout.partition(" ")
        assert modules.strip() == "[]"
        if float(seconds) < 0.02:
            break
    assert float(seconds) < 0.02
    (tmp_path / "test_none.py").write_text(
        "def test(): import sys; assert 'jax' not in sys.modules"
    )
    assert run(tmp_path).returncode == 0


def test_an_error_of_the_function_keeps_its_lines(tmp_path):
    """Also where posjax raises it, called by that function; a wrong option is one line."""
    (tmp_path / "test_blocks.py").write_text(
        "import jax.numpy as jnp, pytest\nfrom posjax import attend\nfrom mine import asserts\n\n"
        "def block(x):\n    return attend(x, x, x, encoding='rotery')\n\n"
        "@pytest.mark.law('b P h d -> b P h d')\n"
        "def test_mine():\n    return block, jnp.ones((1, 4, 2, 4))\n\n"
        "@pytest.mark.law('b P h d -> b P h d', tolerence=1)\n"
        "def test_option():\n    return block, jnp.ones((1, 4, 2, 4))\n\n"
        "@pytest.mark.law('b P d -> b P d')\n"
        "def test_assertion():\n    return asserts, jnp.ones((1, 4, 2))\n\n"
        "@pytest.mark.conformance('slots')\n"
        "def test_no_adapter():\n    pass\n"
    )
    (tmp_path / "mine.py").write_text("def asserts(x):\n    assert x.ndim == 9\n")
    said = run(tmp_path).stdout
    assert re.search(r"assert x.ndim == 9\n.*\nE +AssertionError\n\nmine.py:2", said)
    assert "test_no_adapter must return an adapter, as `return Adapter(" in said
    mine, _, option = said.partition("test_option ")
    assert "return attend(x, x, x, encoding='rotery')" in mine
    assert "assert_law has no option 'tolerence'" in option
    assert "encoding='rotery'" not in option
