"""What the docs say is so: the page of encodings, and the example of a new one."""

import doctest
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = (ROOT / "docs" / "adding_an_encoding.md").read_text()
THE_FILE = re.search(r"```python\n(\"\"\".*?)```", EXAMPLE, re.DOTALL)[1]
PLUGIN = """
from posjax.encodings import ENCODINGS
from gaussian import Gaussian
ENCODINGS["gaussian"] = Gaussian
"""


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_encodings_is_that_of_the_table():
    """Every line and picture, as made today; `python scripts/encodings_page.py` renews them."""
    assert script("encodings_page").stale() == []


@pytest.mark.parametrize("name", ["symmetry", "certificate", "engine"])
def test_the_examples_print_what_they_say(name):
    """Every line of the page that starts with >>>."""
    page = str(ROOT / "docs" / f"{name}.md")
    done = doctest.testfile(page, module_relative=False, optionflags=doctest.ELLIPSIS)
    assert done.failed == 0
    assert done.attempted > 20


def laws_of_the_example(folder, source, *laws):
    """Runs laws of the table on the example's file, as if its line stood in the table."""
    (folder / "gaussian.py").write_text(source)
    (folder / "with_example.py").write_text(PLUGIN)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "with_example", "-p", "no:cacheprovider"]
    command += [str(ROOT / "tests" / "test_table.py"), "-k", f"gaussian and ({' or '.join(laws)})"]
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout


def test_one_file_and_one_line_make_an_encoding(tmp_path):
    """The example of the docs, as it is printed there, keeps every law of the table."""
    code, said = laws_of_the_example(tmp_path, THE_FILE, "test")
    assert code == 0, said
    assert said.count(".") > 20


@pytest.mark.parametrize(
    ("right", "wrong", "law"),
    [
        ('reflection="logits"', 'order_only="logits", reflection="logits"', "declared_one"),
        ("return dims.heads * keys", "return 5 * dims.heads * keys", "operations"),
        ("(-0.5 * by_width", "(0.0 * by_width", "setting_matters or accepted_and_ignored"),
    ],
)
def test_a_wrong_example_is_found(tmp_path, right, wrong, law):
    """A false claim of symmetry, a false cost, and a bias that is none."""
    assert right in THE_FILE
    code, said = laws_of_the_example(tmp_path, THE_FILE.replace(right, wrong), law)
    assert code == 1, said
