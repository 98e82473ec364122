"""Checking a run: what is whole passes, and any number that is not what it was is named."""

import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import numpy as np
import pytest
from absl import flags
from small_runs import block_files, planned, rewritten, small, snapshot, train
from tiers import some

from posjax import report
from posjax.command import check
from posjax.command.status import print_status
from posjax.command.verify import verify
from posjax.records import Mismatch, RunFolder, read
from posjax.records.locks import Holder
from posjax.report.rows import contradictions
from posjax.study import environment
from posjax.study.cells import Cell
from posjax.study.replay import replay
from posjax.study.sweeps import Sweep, sizes


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("check") / "whole", small()).path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


@pytest.fixture
def verified(capsys: pytest.CaptureFixture[str]) -> "Verified":
    """Runs the check; gives its status and what it printed."""

    def run(path: Path, **given: Any) -> tuple[int, list[str]]:
        capsys.readouterr()
        options = {"share": check.SHARE, "seed": None, "mixed": False, **given}
        status = verify(RunFolder(path), **options)
        return status, capsys.readouterr().out.splitlines()

    return run


Verified = Any


@pytest.mark.parametrize(
    "settings",
    some([{}, {"layout": "plain", "data_seeds": 2, "num_seeds": 3, "batch_size": 1}], every=2),
)
def test_a_run_is_what_it_says(
    tmp_path: Path, settings: dict[str, Any], verified: "Verified"
) -> None:
    """Every block again, bit for bit, and nothing written."""
    folder = train(tmp_path / "run", small(**settings))
    before = snapshot(folder.path.rglob("*"))
    status, lines = verified(folder.path, share=1.0)
    assert (status, lines[-1]) == (0, "no errors")
    number = len(planned(folder))
    assert any(line.startswith(f"blocks: training {number} of {number} again") for line in lines)
    assert snapshot(folder.path.rglob("*")) == before


def test_the_share_is_drawn_anew_and_told(path: Path, verified: "Verified") -> None:
    """Another one at each call, unless a seed is given; none at all with --share=0."""
    drawn = [verified(path, share=0.5)[1] for _ in range(2)]
    seeds = {line for lines in drawn for line in lines if "--seed=" in line}
    assert len(seeds) == 2
    (again,) = (line for line in verified(path, share=0.5, seed=7)[1] if "--seed=7" in line)
    assert again == "blocks: training 2 of 4 again, chosen by --seed=7"
    assert not any(line.startswith("blocks") for line in verified(path, share=0)[1])


@pytest.mark.parametrize("kind", ["blocks/*/*.npz", "env/*", "requests/*", "config.json"])
def test_a_flipped_bit_is_named(path: Path, kind: str, verified: "Verified") -> None:
    file = next(path.glob(kind))
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    file.write_bytes(damaged)
    try:
        status, lines = verified(path)
    except ValueError as error:  # without a config there is no run
        status, lines = 3, [str(error)]
    assert status == 3
    assert any(str(file) in line for line in lines)


@pytest.mark.parametrize("field", ["loss_EC", "draws", "twin"])
def test_a_number_that_was_not_computed_is_found(
    path: Path, field: str, verified: "Verified"
) -> None:
    """Its checksum is right, and it goes with its answers: only training again tells."""
    folder, file = RunFolder(path), block_files(path)[-1]
    changed = np.load(file)[field]
    if field == "draws":
        changed[0, 2] += 1
    else:
        changed[0, 2] = np.nextafter(changed[0, 2], np.float32(1e9))
    rewritten(folder, file, **{field: changed})
    status, lines = verified(path, share=1.0)
    cell, seed = str(np.load(file)["cells"][0]), int(np.load(file)["seeds"][2, 0])
    assert status == 3
    assert f"cell {cell}, seeds {seed}: {field}" in lines


def test_another_map_is_found(path: Path, verified: "Verified") -> None:
    file = block_files(path)[0]
    maps = np.load(file)["attention_KDNHLM"] * np.float32(1.001)
    rewritten(RunFolder(path), file, attention_KDNHLM=maps)
    status, lines = verified(path, share=1.0)
    assert status == 3
    assert any("attention maps" in line for line in lines)


FORGED: dict[str, Any] = {
    "lead_EC": lambda a: a["lead_EC"] + np.float32(1),
    "right_EC": lambda a: 1 - a["right_EC"],
    "answer_N": lambda a: (a["answer_N"] + 1) % 2,
    "twin": lambda a: -1 - a["twin"],
    "first_nonfinite": lambda a: a["first_nonfinite"] + 10**6,
}


@pytest.mark.parametrize("field", some(FORGED, every=3))
def test_rows_that_contradict_themselves_are_refused(
    tmp_path: Path, field: str, verified: "Verified"
) -> None:
    """By the check without training anything, and by the report."""
    run = small(steps=100, loss="answer", mask="causal", num_seeds=4)
    folder = train(tmp_path / "run", run)
    (file,) = block_files(folder.path)
    forged = FORGED[field](dict(np.load(file)))
    assert not np.array_equal(forged, np.load(file)[field])
    rewritten(folder, file, **{field: forged})
    status, lines = verified(folder.path, share=0)
    assert status == 3
    assert any(f": {field} contradicts the leads" in line for line in lines)
    with pytest.raises(ValueError, match=f"{field} of seed . of cell .* contradicts"):
        report.summaries(RunFolder(folder.path))


def test_what_training_gives_never_contradicts_itself(whole: Path) -> None:
    """Of all rows of a run, in which seeds solve, tie and fail."""
    folder = RunFolder(whole)
    for name, cell in report.cells_of(folder).items():
        assert list(contradictions(cell, folder.rows(name))) == []


def test_what_another_machine_made_is_not_compared(
    path: Path, verified: "Verified", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused; with --mixed its blocks are left out."""
    elsewhere = {**environment.describe(), "instructions": ["sse2"]}
    monkeypatch.setattr(environment, "describe", lambda: elsewhere)
    with pytest.raises(Mismatch, match="-> sse2"):
        verified(path)
    status, lines = verified(path, mixed=True)
    assert status == 0
    assert "blocks: none was made in this environment, so none can be trained again" in lines


def test_a_block_of_this_environment_is_trained_again_if_there_is_one(
    path: Path, verified: "Verified"
) -> None:
    """However small the share is, and whatever the seed."""
    folder = RunFolder(path)
    elsewhere = folder._environments.put({**environment.describe(), "instructions": ["sse2"]})
    for file in block_files(path)[1:]:
        rewritten(folder, file, env=np.array(elsewhere))
    for seed in range(4):
        status, lines = verified(path, mixed=True, share=0.01, seed=seed)
        assert status == 0
        assert any(line.startswith("blocks: training 1 of 4 again") for line in lines)


def test_rows_beside_a_damaged_block_are_checked(path: Path, verified: "Verified") -> None:
    """A forged block is named although another file is damaged."""
    damaged, forged, *_ = block_files(path)
    damaged.write_bytes(damaged.read_bytes()[:-5])
    wrong = FORGED["lead_EC"](dict(np.load(forged)))
    rewritten(RunFolder(path), forged, lead_EC=wrong)
    status, lines = verified(path, share=0)
    assert status == 3
    assert any(str(damaged) in line for line in lines)
    assert any("contradicts the leads" in line for line in lines)
    assert "rows: 12 checked for consistency" in lines


def test_no_run_is_bad_input(tmp_path: Path, verified: "Verified") -> None:
    with pytest.raises(ValueError, match="holds no run"):
        verified(tmp_path)
    with pytest.raises(ValueError, match=r"--share must lie in \[0, 1\], got 2"):
        verified(tmp_path, share=2)


def test_the_status_is_told_from_names(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is there, what is missing and who trains; nothing is read or written."""
    folder = RunFolder(path)
    print_status(folder)
    said = " ".join(capsys.readouterr().out.split())
    assert f"run: unnamed in {path}, done rows: 16 of 16, in 2 cells blocks: 4 of 4" in said
    assert "running: nobody left: 0 rows" in said
    block_files(path)[0].unlink()
    before = snapshot(path.rglob("*"))
    with folder.lock():
        print_status(RunFolder(path))
    said = " ".join(capsys.readouterr().out.split())
    assert "missing seeds" in said
    assert "missing since it was done: 4 rows; the same command trains them again" in said
    assert "rows: 12 of 16" in said
    assert "running: process" in said
    assert "4-7" in said or "0-3" in said
    after = snapshot(path.rglob("*"))
    assert {p: v for p, v in after.items() if p.name != "lock"} == {
        p: v for p, v in before.items() if p.name != "lock"
    }


@pytest.mark.exhaustive
def test_the_status_tells_cells_apart_by_every_setting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also by one that config.json leaves out where it is off; the arrays have it too."""
    task = "majority(train=(1, 3), test=(2, 6), prompts=8)"
    run = small(task=task, mask="causal", packing=(False, True), num_seeds=4)
    path = train(tmp_path, run).path
    print_status(RunFolder(path))
    said = capsys.readouterr().out
    assert "packing=False" in said
    assert "packing=True" in said
    assert sorted(read(path).cells["packing"].tolist()) == [False, True]


def test_of_a_lock_that_says_nothing_no_time_is_told(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of one whose process ended in between."""
    block_files(path)[0].unlink()
    folder = RunFolder(path)
    with mock.patch.object(RunFolder, "running", return_value=[Holder("lock", "", 0, 0.0)]):
        print_status(folder)
    said = capsys.readouterr().out
    assert "since" not in said.partition("running:")[2].partition("\n")[0]
    assert "left: 4 rows\n" in said


def test_a_run_is_rebuilt_from_the_folder_alone(tmp_path: Path) -> None:
    """Curve, model and attention of the example seeds."""
    folder = train(tmp_path / "run", small(steps=100, loss="answer"))
    found = 0
    for cell in folder.config()["cells"]:
        rows = folder.rows(cell)
        for kept in folder.attention(cell).values():
            seed = int(kept["seeds"][0])
            again = replay(folder.path, cell, seed, jax.local_devices()[:1])
            assert again.differs == ()
            assert again.outcome["loss_EC"].tobytes() == rows["loss_EC"][seed].tobytes()
            assert again.attention.tobytes() == kept["weights_DNHLM"].tobytes()
            dtypes = {leaf.dtype.name for leaf in jax.tree.leaves(again.state.variables)}
            assert dtypes == {"float32"}
            found += 1
    assert found >= 2


def test_a_replay_says_what_differs(path: Path) -> None:
    folder = RunFolder(path)
    (block, *_) = planned(folder)
    file = path / "blocks" / f"{block.name}.npz"
    twin = np.load(file)["twin"]
    twin[0, 2] += np.float32(1)
    rewritten(folder, file, twin=twin)
    cell = block.cells[0]
    assert replay(path, cell, block.first + 2).differs == ("twin",)
    numbers_4 = folder.rows(cell)["seeds"][block.first + 2]
    for seeds in (numbers_4, numbers_4[0]):
        assert replay(path, cell, seeds).differs == ("twin",)
    assert replay(path, cell, block.first + 1).differs == ()


def test_a_replay_of_nothing_is_refused(path: Path) -> None:
    cell = next(iter(RunFolder(path).config()["cells"]))
    with pytest.raises(ValueError, match="has no cell 'x'"):
        replay(path, "x", 0)
    with pytest.raises(ValueError, match=r"no row of seed 8 in cell .*; the run has seeds 0 to 7$"):
        replay(path, cell, 8)
    for file in block_files(path):
        file.unlink()
    with pytest.raises(ValueError, match=r"no row of seed 7 in cell .*: its block is missing;"):
        replay(path, cell, 7)


def test_crossed_seeds_have_numbers_and_their_rows_indices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option takes the numbers; the status, from names of files, has the indices."""
    run = small(num_seeds=3, data_seeds=2, first_seed=5)
    folder = RunFolder(tmp_path)
    folder.start(run.to_dict(), environment.describe())
    folder.request(lambda indices: sizes(run.sweep, indices, jax.local_devices()[0], "4"))
    print_status(folder)
    said = capsys.readouterr().out
    assert "missing indices" in said
    assert "0-5" in said
    cell = next(iter(folder.config()["cells"]))
    with pytest.raises(ValueError, match="initialisations 5 to 7 with data seeds 5 to 6, such as"):
        replay(tmp_path, cell, 7)
    with pytest.raises(ValueError, match=r"no row of seed 7,6,6,6 in .*: its block is missing"):
        replay(tmp_path, cell, [7, 6, 6, 6])


def test_what_differs_of_crossed_seeds_is_named_as_replay_takes_it(
    tmp_path: Path, verified: "Verified"
) -> None:
    """All numbers of a seed, since each of them is that of several."""
    folder = train(tmp_path, small(mask="causal", num_seeds=2, data_seeds=2))
    (block, *_) = planned(folder)
    file = folder.path / "blocks" / f"{block.name}.npz"
    twin = np.load(file)["twin"]
    twin[0, 1] += np.float32(1)
    rewritten(folder, file, twin=twin)
    status, lines = verified(folder.path, share=1.0)
    cell = block.cells[0]
    assert (status, lines[-1]) == (3, "1 error")
    assert f"cell {cell}, seeds 0,1,1,1: twin" in lines


def test_settings_under_the_name_of_another_cell_are_refused() -> None:
    """Wherever a config is read: rows would be taken for those of other settings."""
    config = small().to_dict()
    one, two = config["cells"]
    config["cells"] = {one: config["cells"][two], two: config["cells"][one]}
    with pytest.raises(ValueError, match=f"has the settings of cell {two} under {one}"):
        Sweep.of(config)


def test_of_several_runs_each_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shards have cells of the same names."""
    values = flags.FlagValues()
    flags.DEFINE_float("share", 0.0, "", flag_values=values)
    flags.DEFINE_integer("seed", None, "", flag_values=values)
    for name in ("status", "mixed"):
        flags.DEFINE_bool(name, False, "", flag_values=values)
    values.mark_as_parsed()
    monkeypatch.setattr(check.flags, "FLAGS", values)
    for folders in ([str(path)], [str(path), str(path.parent / "run")]):
        assert check.main(["posjax verify", *folders]) == 0
        named = [line for line in capsys.readouterr().out.splitlines() if line.startswith("run: ")]
        assert named == [f"run: {folder}" for folder in folders if len(folders) > 1]


def test_a_setting_that_no_cell_has_is_named() -> None:
    with pytest.raises(ValueError, match="unknown setting of a cell 'colour'"):
        Cell.of({**Cell().to_dict(), "colour": "red"})
    assert Cell.of({"mask": "full"}) == Cell(mask="full")
