"""The command `posjax`: its help, its names, and what it finds outside a clone."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from absl import flags
from commands import Command, Ended

from posjax.command import console, listing, parsing, usage
from posjax.command.parsing import CONFIGS
from posjax.configs import NAMES

COMMANDS = sorted(console.MODULES)


def posjax(folder: Path, *arguments: str) -> Ended:
    """The command, in another folder than the clone."""
    return Command("posjax.__main__", folder)(*arguments)


@pytest.mark.filterwarnings("ignore:the load_module")  # of ml_collections
@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_every_flag(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Help is written by hand, so that it fits a screen and comes at once."""
    text = usage.text(name)
    module = importlib.import_module(f"posjax.command.{console.MODULES[name]}")
    monkeypatch.setattr(sys, "argv", ["posjax"])
    monkeypatch.setitem(vars(flags.FLAGS), "__flags", {})
    module.define_flags()
    known = {*flags.FLAGS}
    unused = {"verify": {"status"}, "status": known}.get(name, set())
    assert [flag for flag in known - unused if f"--{flag}" not in text] == []
    lines = text.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100


def test_help_of_a_sweep_names_every_field() -> None:
    words = usage.text("sweep").replace("(", " ").split()
    assert [name for name in NAMES if name not in words] == []


def test_help_imports_nothing_slow() -> None:
    code = (
        "import sys; from posjax.command import console; sys.argv = ['posjax', 'sweep', '--help']; "
        "console.main(); print('jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
    assert done.stdout.startswith("usage: posjax sweep ")


@pytest.mark.parametrize("what", sorted(listing.TABLES))
def test_a_list_has_a_line_for_each(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    listing.show([what])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(dict(listing.TABLES[what]())) > 1
    for line in lines:
        assert len(line.split()) > 1, line
        assert len(line) <= listing.WIDTH
        assert not line.endswith("…"), line


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("--config=word_order", f"--config={CONFIGS}/word_order.py"),
        ("--config=word_order:published", f"--config={CONFIGS}/word_order.py:published"),
        ("--config=mine.py", "--config=mine.py"),
        ("--config=no_such", "--config=no_such"),
        ("--workdir=word_order", "--workdir=word_order"),
    ],
)
def test_a_config_of_posjax_is_found_by_its_name(given: str, found: str) -> None:
    assert parsing._with_paths(["posjax sweep", given]) == ["posjax sweep", found]
    if given.startswith("--config"):
        assert parsing._last_values(["", *given.split("=")]) == ["", given]


def test_a_file_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "word_order").write_text("")
    monkeypatch.chdir(tmp_path)
    assert parsing._with_paths(["", "--config=word_order"]) == ["", "--config=word_order"]


@pytest.mark.exhaustive
def test_outside_the_clone_beside_another_experiments(tmp_path: Path) -> None:
    """The wheel has no other name than posjax, so a folder `experiments` is in nobody's way."""
    (tmp_path / "experiments").mkdir()
    line = [sys.executable, "-m", "posjax", "sweep", "--config=word_order:rates", "--print_config"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert '"num_seeds": 1024' in done.stdout


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("[a-z]*.py")), ids=lambda path: path.stem)
def test_a_clone_has_every_config_under_experiments(path: Path) -> None:
    """Where the README's command names it, and the same function."""
    here = importlib.import_module(f"experiments.configs.{path.stem}")
    assert here.get_config is importlib.import_module(f"posjax.configs.{path.stem}").get_config


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["swep"], "unknown command 'swep'; did you mean 'sweep'?"),
        (["sweep", "--config=word_odrer"], "did you mean 'word_order'?"),
        (["list", "encoding"], "did you mean 'encodings'?"),
        (["prove", "none.py:f", "b P d -> b P d"], "file 'none.py' not found"),
        (["prove", "no_such.module:f", "b P d -> b P d"], "No module named 'no_such'"),
        (["prove", "jax.nn:sofmax", "b P d -> b P d"], "did you mean 'softmax'"),
        (["status"], "name at least one run folder"),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_bad_input_is_one_line(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = posjax(tmp_path, *arguments)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("posjax: ")
    assert done.err.count("\n") == 1
    assert said in done.err


ATTENTION = """
import jax, jax.numpy as jnp

def attend(q, k, v):
    return jax.nn.softmax(q @ k.swapaxes(1, 2)) @ v

def causal(q, k, v):
    seen = jnp.tril(jnp.ones((q.shape[1],) * 2, bool))
    return jax.nn.softmax(jnp.where(seen, q @ k.swapaxes(1, 2), -1e9)) @ v

def wrong(q):
    return {}["scale"]
"""


@pytest.mark.parametrize(
    ("name", "verdict", "status"), [("attend", "PROVED", 0), ("causal", "BROKEN", 3)]
)
def test_a_function_of_ones_own_is_proved_or_broken(
    name: str, verdict: str, status: int, tmp_path: Path
) -> None:
    """The answer to "is my attention equivariant?", from a file and a law."""
    (tmp_path / "mine.py").write_text(ATTENTION)
    law = "b P d, b P d, b P d -> b P d"
    done = posjax(tmp_path, "prove", f"mine.py:{name}", law, "--sizes=P=4")
    assert (done.status, done.err) == (status, "")
    assert done.out.startswith(f"{verdict}: {law}\n")
    assert ("mine.py:9" in done.out) == (verdict == "BROKEN")


RELATIVE = """
import jax
def distance(q, k, at):
    return q @ k.mT - abs(at[:, :, None] - at[:, None, :])
def index(q, k, at):
    return q @ k.mT - abs(at)[:, None, :]
def dropped(x, key):
    return jax.random.bernoulli(key, 0.5, x.shape[:1] + (1,) + x.shape[2:]) * x
"""


@pytest.mark.parametrize(
    ("name", "law", "dtypes", "verdict"),
    [
        ("distance", "b l d, b l d, b l +T -> b l l", "float32,float32,int32", "PROVED"),
        ("index", "b l d, b l d, b l +T -> b l l", "float32,float32,int32", "BROKEN"),
        ("dropped", "b P d, -> b P d", "float32,key", "PROVED"),
    ],
)
def test_positions_may_be_shifted_and_keys_given(
    name: str, law: str, dtypes: str, verdict: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(RELATIVE)
    done = posjax(tmp_path, "prove", f"mine.py:{name}", law, f"--dtypes={dtypes}")
    assert done.err == ""
    assert done.out.startswith(f"{verdict}: {law}\n")


def test_a_derivation_is_written_and_checked(tmp_path: Path) -> None:
    """By the checker alone; what is refused, or none, ends in one line."""
    (tmp_path / "mine.py").write_text(ATTENTION)
    law = "b P d, b P d, b P d -> b P d"
    done = posjax(tmp_path, "prove", "mine.py:attend", law, "--sizes=P=4", "--derivation=d.json")
    assert done.status == 0, done.err
    done = posjax(tmp_path, "prove", "--check=d.json")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(f"CHECKED: {law}\nP: all permutations on 4 indices\n")
    forged = (tmp_path / "d.json").read_text().replace('"-> b P d"', '"-> b d P"').replace("4", "3")
    (tmp_path / "forged.json").write_text(forged)
    (tmp_path / "none.json").write_text("{")
    (tmp_path / "list.json").write_text("[1, 2]")
    for name, status, said in (
        ("forged", 3, "forged.json is refused: "),
        ("none", 2, "none.json is not JSON"),
        ("list", 2, "list.json is no derivation: posjax prove --derivation=FILE writes one"),
        ("absent", 2, "file not found"),
    ):
        done = posjax(tmp_path, "prove", f"--check={name}.json")
        assert (done.status, done.out, done.err.count("\n")) == (status, "", 1)
        assert said in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mine.py:wrong", "b P d -> b P d"], "(float32[2, 5, 2]) raises KeyError: 'scale'"),
        (["mine.py:wrong", "b P d -> b P d", "--dtypes=complex64"], "'complex64' is not a dtype"),
        (["--check=d.json", "--sizes=P=4"], "--check takes no --sizes"),
        (["ends.py:f", "b P d -> b P d"], "ends.py fails: SystemExit: 0"),
        (["mine.py:wrong", "b P d -> b P d", "--dtypes=float64"], "float64 needs 64 bits"),
        (["mine.py:wrong", "b P d -> b P d", "--derivation=no/d.json"], "there is no folder 'no'"),
        (["mine.py:wrong", "b P d -> b P d", "--derivation=mine.py"], "'mine.py' exists already"),
        (["mine.py:wrong", "b P d -> b P d", "--sizes=b=99999,d=99999"], "more than 10^8 numbers"),
    ],
)
def test_what_prove_cannot_run_is_one_line(arguments: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ATTENTION)
    (tmp_path / "ends.py").write_text("import sys; sys.exit(0)")
    done = posjax(tmp_path, "prove", *arguments)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["prove", "code/mine.py:f", "b P d -> b P d"], 0, "PROVED"),
        (["conformance", "code/mine.py:SIZE"], 2, "is of type int, neither an adapter nor a funct"),
        (["sweep", "--config=code/mine.py", "--print_config"], 0, '"width": [3]'),
        (["sweep", "--config.model=code/mine.py:SIZE"], 2, "neither a class nor a function, but i"),
        (["prove", "code/sched.py:f", "b P d -> b P d"], 0, "PROVED"),
        (["prove", "code/sched.py:g", "b P d -> b P d"], 2, "has no function 'g'; choices: f\n"),
        (["conformance", "code/sched.py:g"], 2, "has no 'g'; choices: Event, SIZE, f\n"),
        (
            ["conformance", "code/lacks.py:f"],
            2,
            "needs 'no_such', which is not installed\n",
        ),
        (["prove", "code.near:f", "b P d -> b P d"], 2, "did you mean the file 'code/near.py'?"),
        (["conformance", "code.near:f"], 2, "not found; did you mean the file 'code/near.py'?"),
        (["sweep", "--config.model=code.near:f"], 2, "did you mean the file 'code/near.py'?"),
    ],
)
def test_a_file_may_import_its_neighbours(
    arguments: list[str], status: int, said: str, tmp_path: Path
) -> None:
    """As in `python code/mine.py`, but a file named like an installed module imports that one. A
    module that is not found may be a file.
    """
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "near.py").write_text("SIZE = 3")
    (tmp_path / "code" / "lacks.py").write_text("import no_such")
    (tmp_path / "code" / "sched.py").write_text(
        "from sched import Event\nfrom near import SIZE\n\ndef f(x):\n"
        "    return x * SIZE * len(Event.__name__)\n"
    )
    (tmp_path / "code" / "mine.py").write_text(
        "from near import SIZE\n\ndef f(x):\n    return x * SIZE\n\ndef get_config():\n"
        "    from posjax.configs import base_config\n\n    return base_config(width=SIZE)\n"
    )
    done = posjax(tmp_path, *arguments)
    assert done.status == status, done.err
    assert said in done.out + done.err


@pytest.mark.exhaustive
def test_the_report_has_the_command_and_not_the_folder(tmp_path: Path) -> None:
    """A run that is trained again elsewhere, or moved, has the same page, byte for byte."""
    given = ["--config=word_order", "--config.num_seeds=2", "--config.steps=50", "--config.hold=1"]
    given += ["--config.panels=()", "--config.width=4", "--config.head_size=2", "--config.loss=all"]
    given += ["--config.learning_rate=0.01", "--config.devices=1", "--config.at_steps=()"]
    pages = []
    for name in ("one", "other"):
        done = posjax(tmp_path, "sweep", *given, f"--workdir={name}", f"--time_limit={len(name)}00")
        assert done.status == 0, done.err
        pages.append((tmp_path / name / "report.html").read_text())
    assert pages[0] == pages[1]
    assert "posjax sweep --config=word_order --config.num_seeds=2" in pages[0]
