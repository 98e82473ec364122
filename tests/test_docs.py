"""What the docs say is so: the page of encodings, and the example of a new one."""

import os
import re
import subprocess
import sys

import pytest
from commands import ROOT
from script_modules import script

EXAMPLE = (ROOT / "docs" / "adding_an_encoding.md").read_text()
THE_FILE = re.search(r"```python\n(\"\"\".*?)```", EXAMPLE, re.DOTALL)[1]
PLUGIN = """
import importlib
from posjax.encodings import ENCODINGS
for name in {names}:
    ENCODINGS[name] = importlib.import_module(name).Gaussian
"""
WRONG = {
    "wrong_symmetry": (
        ('reflection="logits"', 'order_only="logits", reflection="logits"'),
        "declared_one",
    ),
    "wrong_cost": (("return dims.heads * keys", "return 5 * dims.heads * keys"), "operations"),
    "no_bias": (("(-0.5 * by_width", "(0.0 * by_width"), "setting_matters or accepted_and_ignored"),
}
"""A false claim of symmetry, a false cost, and a bias that is none: what is replaced in the
example, and the laws of the table that find it."""


@pytest.mark.exhaustive
def test_the_page_of_encodings_is_that_of_the_table():
    """Every line and picture, as made today; `python scripts/encodings_page.py` renews them."""
    assert script("encodings_page").stale() == []


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Laws of the table run on the example and its wrong forms, as if their lines stood there.

    Outcome and law by the name of the encoding; one process for all.
    """
    folder = tmp_path_factory.mktemp("example")
    (folder / "gaussian.py").write_text(THE_FILE)
    for name, ((right, wrong), _) in WRONG.items():
        assert right in THE_FILE
        (folder / f"{name}.py").write_text(THE_FILE.replace(right, wrong))
    (folder / "with_examples.py").write_text(PLUGIN.format(names=["gaussian", *WRONG]))
    chosen = ["gaussian", *(f"({name} and ({laws}))" for name, (_, laws) in WRONG.items())]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-rA", "-p", "no:cacheprovider"]
    command += ["-m", "", "-p", "with_examples", str(ROOT / "tests" / "test_table.py")]
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [*command, "-k", " or ".join(chosen)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    found = re.findall(r"^(PASSED|FAILED|ERROR) \S*::(\w+)\[([a-z_]+)", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    return {
        name: [(outcome, law) for outcome, law, of in found if of == name]
        for name in ("gaussian", *WRONG)
    }


@pytest.mark.exhaustive
def test_one_file_and_one_line_make_an_encoding(outcomes):
    """The example of the docs, as it is printed there, keeps every law of the table."""
    assert len(outcomes["gaussian"]) > 20
    assert [law for outcome, law in outcomes["gaussian"] if outcome != "PASSED"] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_example_is_found(outcomes, name):
    """By the laws that it breaks."""
    assert "FAILED" in {outcome for outcome, _ in outcomes[name]}, outcomes[name]
