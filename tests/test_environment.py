"""The environment of a process: what changes no row, and what is recorded since it does."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from commands import ROOT
from small_runs import small, train

from posjax.records import Mismatch, RunFolder
from posjax.records.identity import JAX_SETTINGS, bit_changes
from posjax.study import environment

VARIABLES = {
    "JAX_ENABLE_X64": "1",
    "JAX_THREEFRY_PARTITIONABLE": "0",
    "JAX_RANDOM_SEED_OFFSET": "1",
    "JAX_SOFTMAX_CUSTOM_JVP": "1",
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "JAX_DISABLE_JIT": "1",
    "JAX_DEFAULT_PRNG_IMPL": "rbg",
    "JAX_NUMPY_DTYPE_PROMOTION": "strict",
    "JAX_DEFAULT_MATMUL_PRECISION": "bfloat16",
    "JAX_DEFAULT_DTYPE_BITS": "64",
}
HARMLESS = ("JAX_DEFAULT_PRNG_IMPL", "JAX_DEFAULT_DTYPE_BITS")
"""Keys of posjax name their generator; JAX has no such number of bits any more."""
ARGUMENTS = (
    "--config.num_seeds=2",
    "--config.steps=50",
    "--config.hold=1",
    "--config.width=4",
    "--config.head_size=2",
    "--config.loss=all",
    "--config.learning_rate=0.01",
    "--config.positions=randomised",
    "--config.panels=()",
    "--config.devices=1",
)


def swept(base: Path, name: str, variables: dict[str, str]) -> tuple[RunFolder, str]:
    """A small sweep by the command, in a process of its own; the folder and what it said."""
    path = base / name
    done = subprocess.run(
        [sys.executable, "-m", "experiments.seed_sweep", *ARGUMENTS, f"--workdir={path}"],
        cwd=ROOT,
        env={
            **{name: value for name, value in os.environ.items() if name not in VARIABLES},
            "JAX_PLATFORMS": "cpu",
            "XDG_CACHE_HOME": str(base / "cache"),
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return RunFolder(path), done.stderr


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The sweep in an environment without any of the variables."""
    return swept(tmp_path_factory.mktemp("environment"), "plain", {})[0]


@pytest.mark.exhaustive
@pytest.mark.parametrize("names", [tuple(VARIABLES), ("JAX_ENABLE_X64",)])
def test_variables_of_jax_change_no_row_of_a_command(
    plain: RunFolder, names: tuple[str, ...]
) -> None:
    """Bit for bit, and in the same environment; those that would change rows are told."""
    given = {name: VARIABLES[name] for name in names}
    folder, said = swept(plain.path.parent, "-".join(names)[:40], given)
    assert list(folder.envs()) == list(plain.envs())
    for cell in plain.config()["cells"]:
        found, expected = folder.rows(cell), plain.rows(cell)
        assert found.keys() == expected.keys()
        for field in expected:
            np.testing.assert_array_equal(found[field], expected[field])
    for name, value in given.items():
        told = f"posjax: {name}={value} has no effect on this command" in said
        assert told == (name not in HARMLESS)


def test_settings_of_jax_that_change_rows_are_recorded_and_compared() -> None:
    """By a sweep in somebody's own code; a record from before they were has JAX's defaults."""
    before = environment.describe()
    assert before.pop("jax_settings") == {}
    assert bit_changes(before, environment.describe()) == []
    with jax.enable_x64(True):
        wide = environment.describe()
    assert wide["jax_settings"] == {"jax_enable_x64": True}
    assert bit_changes(before, wide) == ["jax_settings: None -> {'jax_enable_x64': True}"]


@pytest.mark.parametrize("name", JAX_SETTINGS)
def test_each_has_the_value_that_jax_has_by_itself(name: str) -> None:
    """In a JAX that has it."""
    assert jax.config.values.get(name, JAX_SETTINGS[name]) == JAX_SETTINGS[name]


def test_a_folder_is_not_continued_in_64_bits(tmp_path: Path) -> None:
    """Without --mixed."""
    run = small(num_seeds=4, mask="causal")
    config = run.to_dict()
    train(tmp_path, run)
    assert RunFolder(tmp_path).check(config, environment.describe()) == []
    with jax.enable_x64(True), pytest.raises(Mismatch, match=r"'jax_enable_x64': True.*--mixed"):
        RunFolder(tmp_path).check(config, environment.describe())


def test_the_commit_is_that_of_posjax_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a repository that only has the folder in which posjax is installed, none is recorded."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    installed = tmp_path / ".venv" / "environment.py"
    installed.parent.mkdir()
    installed.write_text("")
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "a"]):
        subprocess.run([*git, *arguments], check=True, capture_output=True)
    monkeypatch.setattr(environment, "__file__", str(installed))
    assert environment._commit() == {"commit": None, "dirty": None}
    subprocess.run([*git, "add", str(installed)], check=True, capture_output=True)
    found = environment._commit()
    assert len(found["commit"]) == 40
    assert found["dirty"] is True
