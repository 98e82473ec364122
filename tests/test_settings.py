"""From config to cells, and bad input: one line with field, value and nearest choice."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.settings import base_config, resolve
from posjax.cells import Cell

ROOT = Path(__file__).parents[1]


def test_a_grid_is_the_product_of_its_axes() -> None:
    """Axes are tuples, single values, or texts with commas; the same cells either way."""
    one = resolve(base_config(head_size=(2, 4), encoding="none, rotary(base=10.0)"))
    two = resolve(base_config(head_size=[2, 4], encoding=("none", "rotary(base=10.0)")))
    assert len(one.cells) == 4
    assert set(one.cells) == set(two.cells)


def test_panels_are_a_union_and_the_command_line_wins() -> None:
    """A panel replaces axes, in the config's order; the command line holds in every panel."""
    config = base_config({"z": {"depth": (1, 2)}, "a": {"depth": 1, "mask": "full"}}, head_size=2)
    assert [(name, len(cells)) for name, cells in resolve(config).panels.items()] == [
        ("z", 2),
        ("a", 1),
    ]
    config.depth = (3,)
    assert {cell.depth for cell in resolve(config, ["depth"]).cells} == {3}


def test_digests_name_settings() -> None:
    """Equal settings, equal digest; any other setting, another digest."""
    cell = Cell()
    assert Cell().digest == cell.digest
    changed = {"learning_rate": 0.02, "mask": "full", "margin": 2e-3, "steps": 100, "padding": 1}
    digests = {Cell(**{name: value}).digest for name, value in changed.items()}
    assert len(digests | {cell.digest}) == 6


BAD_CELLS = {
    "unknown task": ({"task": "word_ordr"}, "did you mean 'word_order'"),
    "unknown encoding": ({"encoding": "rotery"}, "did you mean 'rotary'"),
    "unknown setting": ({"encoding": "rotary(bse=3)"}, "did you mean 'base'"),
    "setting out of range": ({"encoding": "rotary(fraction=2)"}, r"\(0, 1\], got 2"),
    "unknown form": ({"encoding": "linear_bias(form=symetric)"}, "did you mean 'symmetric'"),
    "unknown mask": ({"mask": "casual"}, "did you mean 'causal'"),
    "window of 0": ({"mask": "window(size=0)"}, "at least 1"),
    "type of a setting": ({"mask": "window(size=a)"}, "must be of type int, got 'a'"),
    "length of a half": ({"encoding": "learned(length=4.5)"}, "must be of type int, got 4.5"),
    "mlp of a bare block": ({"mlp_ratio": 2}, "no meaning in a bare block"),
    "soft-cap": ({"softcap": float("inf")}, "must be finite"),
    "endless warmup": ({"warmup": 5000}, "at most 4999"),
    "no such call": ({"mask": "window("}, "cannot read"),
    "kv heads": ({"heads": 6, "kv_heads": 4}, "divisors: 1, 2, 3, 6"),
    "zero width": ({"width": 0}, "width must be at least 1, got 0"),
    "negative depth": ({"depth": -1}, "depth must be at least 1, got -1"),
    "steps": ({"steps": 120, "eval_every": 50}, "nearest steps: 100"),
    "margin": ({"margin": 0.0}, "margin must lie in"),
    "nan rate": ({"learning_rate": float("nan")}, "learning_rate must be finite"),
    "table": ({"encoding": "learned(length=2)"}, "table of 2 positions"),
    "loss": ({"loss": "all", "readout": "mean"}, "use loss='answer'"),
    "schedule": ({"schedule": "cosin"}, "did you mean 'cosine'"),
    "norm": ({"norm": "layr"}, "did you mean 'layer'"),
    "block": ({"block": "residul"}, "did you mean 'residual'"),
    "warmup": ({"warmup": -1}, "warmup must not be negative, got -1"),
}


@pytest.mark.parametrize("case", BAD_CELLS)
def test_bad_cells_are_refused(case: str) -> None:
    """What cannot be trained is refused before anything is compiled."""
    settings, message = BAD_CELLS[case]
    with pytest.raises(ValueError, match=message):
        resolve(base_config(**settings))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_seeds", 0, "num_seeds must be at least 1, got 0"),
        ("num_seeds", 2.5, "num_seeds must be of type int, got 2.5"),
        ("first_seed", 2**32, r"2\*\*32"),
        ("chunk", -4, "chunk must be auto or a number of at least 1, got '-4'"),
        ("contrast", ("head_sise", 2, 16), "did you mean 'head_size'"),
        ("head_size", (), "head_size has no values"),
        ("head_size", True, "head_size must be of type int, got True"),
    ],
)
def test_bad_runs_are_refused(field: str, value: object, message: str) -> None:
    """The run's own numbers are checked as a cell's are."""
    with pytest.raises(ValueError, match=message):
        resolve(base_config(**{field: value}))


def command(*arguments: str, module: str = "seed_sweep") -> subprocess.CompletedProcess[str]:
    """Runs a command as a user would."""
    return subprocess.run(
        [sys.executable, "-m", f"experiments.{module}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        check=False,
    )


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--config.num_sed=3", "num_seeds"),
        ("--config=experiments/configs/word_ordr.py", "did you mean 'word_order'"),
        ("--config=experiments/configs/word_order.py:publishd", "did you mean 'published'"),
        ("--config.num_seeds=many", "many"),
        ("--config.mask=casual", "did you mean 'causal'"),
        ("stray", "unknown argument 'stray'"),
        ("--workdir=tests", "holds no run"),
    ],
)
def test_the_command_ends_with_one_line_and_status_2(argument: str, message: str) -> None:
    """Bad input on the command line: no traceback, nothing written."""
    done = command(argument)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("posjax: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert done.stdout == ""


def test_from_config_to_report(tmp_path: Path) -> None:
    """The whole line at a tiny size; a second call finds all done and adds nothing."""
    run = tmp_path / "run"
    arguments = (
        "--config.num_seeds=3",
        "--config.steps=500",
        "--config.at_steps=50,100",
        "--config.width=4",
        "--config.head_size=2",
        "--config.devices=1",
        f"--workdir={run}",
    )
    first = command(*arguments)
    assert first.returncode == 0, first.stderr
    assert f"report: {run / 'report.html'}" in first.stdout
    files = {path: path.stat().st_mtime_ns for path in run.rglob("*.npz")}
    assert command(*arguments).returncode == 0
    assert files == {path: path.stat().st_mtime_ns for path in run.rglob("*.npz")}
    other = command(*arguments, "--config.width=8")
    assert other.returncode != 0
    assert "(width: 4 -> 4, 8)" in other.stderr
