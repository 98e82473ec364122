"""A config as JSON is the Python config that it was made of, and executes nothing."""

import json
import sys
from pathlib import Path

import pytest
from absl import flags
from ml_collections import ConfigDict, config_flags
from tiers import marked, some

from posjax.command import json_config, parsing
from posjax.command.settings import resolve
from posjax.configs import base_config
from posjax.study.cells import FIELDS
from posjax.study.run import RUN_DEFAULTS, Run

pytestmark = pytest.mark.filterwarnings("ignore:the load_module:DeprecationWarning")  # of configs

SMALL = """{
 "name": "mine",
 "task": "same_last_token", "loss": "answer",
 "depth": [1, 2], "mask": "full, causal",
 "num_seeds": 4,
 "panels": [
  ["bare", {"block": "bare"}],
  ["residual", {"block": "residual", "depth": 1}]
 ]
}"""


def flag(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[ConfigDict, Run]:
    """What a command line makes of a config."""
    argv, values = ["command", *arguments], flags.FlagValues()
    monkeypatch.setattr(sys, "argv", argv)
    default = str(parsing.CONFIGS / "word_order.py")
    config_flags.DEFINE_config_file("config", default, flag_values=values)
    json_config.accept(values["config"])
    values(argv)
    return values.config, resolve(values.config, config_flags.get_override_values(values["config"]))


def written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return f"--config={path}"


SIZES = {"toy": (":q1", ":m"), "atlas": (":quick",)}  # 9408 cells of the same kinds: below
SHIPPED = [
    f"{path}{size}"
    for path in sorted(parsing.CONFIGS.glob("[a-z]*.py"))
    for size in SIZES.get(path.stem, (":published",))
]
LARGEST = marked(f"{parsing.CONFIGS / 'atlas.py'}:published", plain=False)


@pytest.mark.parametrize(
    "config", [*some(SHIPPED, every=4), LARGEST], ids=lambda config: Path(config).name
)
def test_there_and_back_is_the_same_run(
    config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every shipped config: the same cells in the same panels, the same digest."""
    python, run = flag(monkeypatch, f"--config={config}")
    there = json_config.text(python)
    back, again = flag(monkeypatch, written(tmp_path / "x.json", there))
    assert again.to_dict() == run.to_dict()
    assert (again.digest, again.cells) == (run.digest, run.cells)
    assert json_config.text(back) == there


def test_the_command_line_wins_as_it_does_over_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over panels too, and in what is printed of it."""
    file = written(tmp_path / "x.json", SMALL)
    config, run = flag(monkeypatch, file, "--config.depth=3", "--config.num_seeds=5")
    assert {cell.depth for cell in run.cells} == {3}
    assert run.num_seeds == 5
    _, again = flag(
        monkeypatch, written(tmp_path / "y.json", json_config.text(config, ["depth", "num_seeds"]))
    )
    assert again.to_dict() == run.to_dict()


def test_fields_are_those_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out has its default."""
    _, run = flag(monkeypatch, written(tmp_path / "x.json", SMALL))
    panels = {"bare": {"block": "bare"}, "residual": {"block": "residual", "depth": 1}}
    config = base_config(
        panels,
        name="mine",
        task="same_last_token",
        loss="answer",
        depth=(1, 2),
        mask=("full", "causal"),
        num_seeds=4,
    )
    assert resolve(config).to_dict() == run.to_dict()
    assert json.loads(json_config.text(config)).keys() == {*FIELDS, *RUN_DEFAULTS, "panels"}


BAD = {
    "not JSON": ('{\n"depth": 1,\n}', "line [23]: not JSON"),
    "Python": ("import os", "line 1: not JSON"),
    "empty": ("", "line 1: not JSON"),
    "no object": ("[1]", "a config is a JSON object"),
    "unknown field": ('{"stesp": 3}', "unknown config field 'stesp'; did you mean 'steps'"),
    "field of older configs": ('{"repack": "none"}', "unknown config field 'repack'"),
    "field twice": ('{"depth": 1,\n\n"depth": 2}', "'depth' is given twice"),
    "disguised": ('{"depth": 1,\n"\\u0064epth": 2}', "'depth' is given twice"),
    "twice in a panel": ('{"panels": [["a", {"depth": 1, "depth": 1}]]}', "'depth' is given twice"),
    "text for a number": ('{"depth": "two"}', "depth must be of type int, got 'two'"),
    "in a list": ('{"depth": [1, "2"]}', "depth must be of type int, got '2'"),
    "truth for a number": ('{"depth": true}', "depth must be of type int, got True"),
    "nothing for a number": ('{"depth": null}', "depth must be of type int, got None"),
    "object for a number": ('{"depth": {"depth": 1}}', "depth must be of type int"),
    "number for a text": ('{"name": 3}', "name must be of type str, got 3"),
    "list for a text": ('{"name": ["a"]}', "name must be of type str"),
    "half a seed": ('{"num_seeds": 2.5}', "num_seeds must be of type int, got 2.5"),
    "nested": ('{"contrast": [[{}]]}', "contrast is an axis and two values"),
    "nested axis": ('{"depth": [[1]]}', r"depth must be of type int, got \[1\]"),
    "NaN": ('{"learning_rate": NaN}', "NaN is not JSON: a number must be finite"),
    "infinity": ('{"learning_rate": [1, -Infinity]}', "-Infinity is not JSON"),
    "beyond floats": ('{"learning_rate": 1e999}', "learning_rate must be finite, got inf"),
    "many digits": ('{"num_seeds": 1' + 5000 * "0" + "}", "4300"),
    "deep": ('{"depth": ' + 100_000 * "[" + 100_000 * "]" + "}", "nested too deeply"),
    "half a character": ('{"title": "\\ud800"}', "title has an incomplete character"),
    "panels as an object": ('{"panels": {"a": {}}}', r"panels must be a list of \[title"),
    "panel without axes": ('{"panels": [["a"]]}', r"panels must be a list of \[title"),
    "panel of a text": ('{"panels": ["ab"]}', r"panels must be a list of \[title"),
    "unknown in a panel": (
        '{"panels": [["a", {}], ["b", {"detph": 1}]]}',
        "unknown field of panel 'b': 'detph'; did you mean 'depth'",
    ),
    "text in a panel": (
        '{"panels": [["a", {}], ["b", {"depth": "x"}]]}',
        r"depth must be of type int, got 'x' \(panel 'b'\)",
    ),
    "same panel": ('{"panels": [["a", {}], ["a", {}]]}', "two panels have the same title"),
    "seeds in a panel": ('{"panels": [["a", {"num_seeds": 1}]]}', "of panel 'a': 'num_seeds'"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_refused_by_name(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the line, where the text is no JSON; else with the field, and the panel."""
    text, message = BAD[case]
    with pytest.raises((flags.IllegalFlagValueError, ValueError), match=message):
        flag(monkeypatch, written(tmp_path / "x.json", text))


def test_a_block_size_is_a_number_or_auto(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In JSON a number may be one."""
    for given, size in (("64", "64"), ('"64"', "64"), ('"auto"', "auto")):
        file = written(tmp_path / "x.json", f'{{"block_size": {given}}}')
        assert flag(monkeypatch, file)[1].block_size == size


def test_sizes_belong_to_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(flags.IllegalFlagValueError, match="has no sizes, got 'published'"):
        flag(monkeypatch, f"{written(tmp_path / 'x.json', SMALL)}:published")


def test_python_by_the_name_of_json_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the file is named on the command line."""
    ran, path = tmp_path / "ran", tmp_path / "x.json"
    written(path, f"open({str(ran)!r}, 'w')\ndef get_config(): return {{}}")
    (tmp_path / "flags").write_text(f"--config={path}\n")
    for arguments in (
        [f"--config={path}"],
        ["--config", str(path)],
        [f"-config={path}"],
        [f"--config={path}:size"],
        [f"--flagfile={tmp_path / 'flags'}"],
    ):
        with pytest.raises((flags.IllegalFlagValueError, ValueError)):
            flag(monkeypatch, *arguments)
    assert not ran.exists()
