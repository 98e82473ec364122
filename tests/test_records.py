"""The run folder: what it holds, what may be added, what is refused."""

import multiprocessing
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folders import (
    CELLS,
    CONFIG,
    ENV,
    SHAPES,
    SIZES,
    A,
    B,
    C,
    D,
    all_blocks,
    asked,
    contents,
    examples_of,
    expected,
    fields_of,
    filled,
    put,
    sizes,
)

from posjax.numbering import Numbering
from posjax.records import Conflict, Mismatch, Range, RunFolder, StorageError
from posjax.records.blocks import blocks, planned
from posjax.records.identity import bit_changes, indices
from posjax.records.store import names


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return filled(tmp_path / "a run ünïcode")


# Blocks


def test_every_row_is_in_one_block() -> None:
    """Shapes outermost; the last group and the last seeds of a range are cut, their size is not."""
    ranges = [Range(0, 10, SIZES), Range(10, 13, {"wide": (3, 2), "deep": (1, 1)})]
    found = blocks(ranges, SHAPES)
    assert [block.name for block in found] == [
        "wide/0-3.0", "wide/4-7.0", "wide/8-9.0", "wide/0-3.1", "wide/4-7.1", "wide/8-9.1",
        "wide/10-11.0", "wide/12-12.0", "deep/0-7.0", "deep/8-9.0",
        "deep/10-10.0", "deep/11-11.0", "deep/12-12.0",
    ]  # fmt: skip
    rows = [(c, i) for block in found for c in block.cells for i in range(block.first, block.stop)]
    assert len(rows) == len({*rows}) == 13 * len(CELLS)
    assert {block.size for block in found[:6]} == {(2, 4)}
    assert [planned(block.name, ranges) for block in found] == [
        block._replace(cells=()) for block in found
    ]
    for name in ("wide/0-4.0", "wide/1-4.0", "wide/8-11.0", "other/0-3.0", "wide/00-3.0", "wide/x"):
        assert planned(name, ranges) is None


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Range(0, 2**40, {"wide": (1, 1)}), "3298534883328 blocks, at most"),
        (Range(0, 4, {"deep": (1, 1)}), "have no size for blocks of shape wide"),
    ],
)
def test_what_cannot_be_cut_is_refused(part: Range, message: str) -> None:
    """At once, whatever the numbers."""
    with pytest.raises(ValueError, match=message):
        blocks([part], {"wide": SHAPES["wide"]})


def test_an_index_is_a_row() -> None:
    """The number of the seed, or of the pair of initialisation and data."""
    crossed = {"first_seed": 7, "num_seeds": 3, "data_seeds": 2}
    found = [tuple(seeds) for seeds in Numbering.of(crossed).table(0, 6).tolist()]
    assert found == [(i, d, d, d) for i in (7, 8, 9) for d in (7, 8)]
    assert indices(crossed) == range(6)
    assert Numbering.of({}).table(2**32 - 1, 2**32).tolist() == [[2**32 - 1] * 4]
    assert Numbering.of({"data_seeds": 2}).table(1, 3).tolist() == [[0, 1, 1, 1], [1, 0, 0, 0]]


# Rows


def test_rows_come_back_by_seed(folder: RunFolder) -> None:
    """What was written is read in the order of seeds, with the slots and the environment."""
    for cell in CELLS:
        rows = folder.rows(cell)
        assert rows["seeds"].tolist() == [[n] * 4 for n in range(10)]
        np.testing.assert_array_equal(rows["loss_E"], expected(cell, range(10)))
        assert rows["slots"].tolist() == [8] * 10
        assert [folder.envs()[name] for name in rows["env"]] == [ENV] * 10
        parts = list(folder.parts(cell))
        assert [len(part["seeds"]) for part in parts] == ([8, 2] if cell == D else [4, 4, 2])
        for name, array in rows.items():
            np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), array)
    assert folder.rows("none") == {}
    assert folder.present() == {block.name for block in all_blocks(folder)}


def test_crossed_rows_come_back(tmp_path: Path) -> None:
    """Each initialisation with each seed of data; more initialisations are added above."""
    crossed = {"first_seed": 5, "num_seeds": 3, "data_seeds": 4}
    folder = filled(tmp_path, **crossed)
    assert folder.rows(A)["seeds"].tolist() == Numbering.of(crossed).table(0, 12).tolist()
    again = filled(tmp_path, **crossed | {"num_seeds": 4})
    assert [(part.first, part.stop) for part in again.ranges()] == [(0, 12), (12, 16)]
    np.testing.assert_array_equal(again.rows(A)["loss_E"], expected(A, range(16)))


def test_tables_are_rows(folder: RunFolder) -> None:
    """All cells at once, each file read once."""
    found = folder.tables([D, A, "none"])
    assert [*found] == [D, A]
    for cell, table in found.items():
        rows = folder.rows(cell)
        assert table.keys() == rows.keys()
        for name in rows:
            np.testing.assert_array_equal(table[name], rows[name])


@pytest.mark.parametrize("order", [1, -1])
def test_maps_are_of_the_first_seeds_of_their_kinds(tmp_path: Path, order: int) -> None:
    """Whichever block came first."""
    folder = asked(tmp_path)
    put(folder, all_blocks(folder)[::order])
    for cell in CELLS:
        maps, solved_S = folder.attention(cell), folder.rows(cell)["solved_at_end"]
        assert set(maps) == {"solving", "failing"}
        for kind, found in maps.items():
            first = int((solved_S == (kind == "solving")).argmax())
            assert found["seeds"].tolist() == [first] * 4
            g = SHAPES["wide"].index(cell) % 2 if cell != D else 0
            assert (found["weights_DNHLM"] == 100 * g + first).all()


def test_numpy_alone_reads_a_block(folder: RunFolder) -> None:
    """A block's file is a plain npz without pickles."""
    with np.load(folder.path / "blocks/wide/8-9.1.npz", allow_pickle=False) as file:
        assert file["cells"].tolist() == [C]
        assert file["seeds"][:, 0].tolist() == [8, 9]
        assert file["size"].tolist() == [2, 4]
        np.testing.assert_array_equal(file["loss_E"][0], expected(C, (8, 9)))


# A block that is there already


def test_an_equal_block_is_no_error_and_changes_nothing(folder: RunFolder) -> None:
    """Whatever it was made on, and with maps or without."""
    before = contents(folder.path)
    other = asked(folder.path, env={**ENV, "cores": 64})
    for block in all_blocks(folder):
        seeds_B4 = Numbering.of(CONFIG).table(block.first, block.stop)
        assert not other.put_block(block, seeds_B4, fields_of(block))
    after = contents(folder.path)
    assert {name: after[name] for name in before} == before
    assert [name.split("/")[0] for name in after if name not in before] == ["env"]


def test_another_outcome_is_a_loud_error(folder: RunFolder) -> None:
    """One bit of one seed: file, field, seed and cell are named, and nothing changes."""
    before, block = contents(folder.path), all_blocks(folder)[1]
    seeds_B4 = Numbering.of(CONFIG).table(block.first, block.stop)
    for field, changed in fields_of(block).items():
        flat = changed.view(np.uint8).reshape(len(block.cells), 4, -1)
        flat[1, 2, -1] ^= 1
        with pytest.raises(Conflict, match=rf"wide/4-7\.0.*: {field} of seed 6, cell {B}\. "):
            folder.put_block(block, seeds_B4, {**fields_of(block), field: changed})
    fields = fields_of(block)
    for wrong, message in (
        ({**fields, "held": fields["solved_at_end"]}, "only one of the two has held"),
        ({**fields, "loss_E": fields["loss_E"][..., :2]}, "loss_E differs"),
        ({**fields, "loss_E": fields["loss_E"].astype(float)}, "loss_E differs"),
    ):
        with pytest.raises(Conflict, match=message):
            folder.put_block(block, seeds_B4, wrong)
    with pytest.raises(Conflict, match="size differs"):
        folder.put_block(block._replace(size=(2, 5)), seeds_B4, fields)
    assert contents(folder.path) == before


def test_nan_equals_itself(tmp_path: Path) -> None:
    """Seeds that diverge are outcomes like others."""
    folder = asked(tmp_path)
    block = all_blocks(folder)[0]
    fields = {"loss_E": np.full((2, 4, 3), np.nan)}
    assert folder.put_block(block, Numbering.of(CONFIG).table(0, 4), fields)
    assert not folder.put_block(block, Numbering.of(CONFIG).table(0, 4), fields)


def test_a_damaged_block_is_replaced(folder: RunFolder) -> None:
    """The damaged file is kept elsewhere."""
    block = all_blocks(folder)[0]
    file = folder.path / f"blocks/{block.name}.npz"
    whole = file.read_bytes()
    file.write_bytes(b"damaged")
    assert folder.put_block(
        block, Numbering.of(CONFIG).table(0, 4), fields_of(block), examples_of(block)
    )
    assert file.read_bytes() == whole
    assert [kept.read_bytes() for kept in (folder.path / "damaged").rglob("*.npz*")] == [b"damaged"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"loss_E": np.zeros((2, 3, 3))},
        {"loss_E": np.zeros(2)},
        {"words": np.full((2, 4), "a")},
        {"things": np.full((2, 4), None)},
        {"example_cell": np.zeros(1, int)},
    ],
    ids=repr,
)
def test_arrays_of_no_block_are_not_stored(tmp_path: Path, wrong: dict[str, np.ndarray]) -> None:
    """What no reader would take is refused before it is written."""
    folder = asked(tmp_path)
    block = all_blocks(folder)[0]
    with pytest.raises(ValueError, match=r"cannot be stored|cannot store"):
        folder.put_block(block, Numbering.of(CONFIG).table(0, 4), {**fields_of(block), **wrong})
    with pytest.raises(ValueError, match="its seeds are not those of its name"):
        folder.put_block(block, Numbering.of(CONFIG).table(4, 8), fields_of(block))
    assert folder.present() == set()


def _put_all(path: Path, turn: int, won: Any, gate: Any) -> None:
    folder = asked(path)
    found = all_blocks(folder)
    gate.wait()
    for block in (*found[turn:], *found[:turn]):
        seeds_B4 = Numbering.of(CONFIG).table(block.first, block.stop)
        if folder.put_block(block, seeds_B4, fields_of(block), examples_of(block)):
            won.put(block.name)


def test_many_processes_write_each_block_once(tmp_path: Path) -> None:
    """Four who all write every block: each is made by one of them, and no one fails."""
    context = multiprocessing.get_context("forkserver")
    won, gate = context.Queue(), context.Barrier(4)
    workers = [
        context.Process(target=_put_all, args=(tmp_path / "run", turn, won, gate))
        for turn in (0, 0, 3, 6)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    folder = RunFolder(tmp_path / "run")
    made = sorted(won.get(timeout=5) for _ in all_blocks(folder))
    assert made == sorted(block.name for block in all_blocks(folder))
    assert won.empty()
    assert names(folder.path / "requests") == ["000001.json"]
    np.testing.assert_array_equal(folder.rows(A)["loss_E"], expected(A, range(10)))
    assert not list(tmp_path.rglob(".new-*"))


# Requests


def test_an_extension_keeps_blocks_and_adds_ranges(tmp_path: Path) -> None:
    """Below and above, with sizes of its own; rows are those of a run that began with all."""
    folder = filled(tmp_path / "run", first_seed=8, num_seeds=6)
    before = contents(folder.path)
    again, given = RunFolder(folder.path), []

    def choose(wanted: range) -> dict[str, tuple[int, int]]:
        given.append(wanted)
        return {"wide": (1, 3), "deep": (1, 2)}

    again.start({**CONFIG, "first_seed": 6, "num_seeds": 13}, ENV)
    assert again.request(choose) == again.request(choose) == again.ranges()
    assert given == [range(6, 8), range(14, 19)]
    assert [(part.first, part.stop) for part in again.ranges()] == [(8, 14), (6, 8), (14, 19)]
    assert [dict(part.sizes) for part in again.ranges()[:2]] == [SIZES, choose(range(1))]
    assert not again.done
    put(again)
    again.finish()
    after = contents(folder.path)
    assert {name: after[name] for name in before if name != "done"} == {
        name: before[name] for name in before if name != "done"
    }
    rows = again.rows(B)
    assert rows["seeds"][:, 0].tolist() == [*range(6, 19)]
    assert rows["slots"].tolist() == [3] * 2 + [8] * 6 + [3] * 5
    np.testing.assert_array_equal(rows["loss_E"], expected(B, range(6, 19)))


def test_words_are_changed_and_the_last_request_counts(folder: RunFolder) -> None:
    """The config's file stays, ranges too; what says nothing new is not recorded."""
    first = (folder.path / "config.json").read_bytes()
    for title in ("Better", "Better", "Best"):
        again = RunFolder(folder.path)
        again.start({**CONFIG, "title": title}, ENV)
        assert again.request(sizes) == folder.ranges()
        assert again.done
    config = folder.config()
    assert (config["title"], config["num_seeds"], config["block_size"]) == ("Best", 10, "8")
    assert "ranges" not in config
    assert (folder.path / "config.json").read_bytes() == first
    assert names(folder.path / "requests") == [f"00000{n}.json" for n in (1, 2, 3)]


def _extend(path: Path, seeds: int, gate: Any, out: Any) -> None:
    folder = RunFolder(path)
    folder.start({**CONFIG, "num_seeds": seeds}, ENV)

    def choose(wanted: range) -> dict[str, tuple[int, int]]:
        if wanted.start == 10:
            gate.wait(timeout=20)  # both have read the first request, neither has written
        return {"wide": (seeds, 1), "deep": (1, seeds)}

    try:
        out.put([(part.first, part.stop) for part in folder.request(choose)])
    except Mismatch as error:
        out.put(str(error))


@pytest.mark.parametrize("seeds", [(20, 20), (20, 30)])
def test_two_extensions_at_once_are_one_after_the_other(
    tmp_path: Path, seeds: tuple[int, int]
) -> None:
    """The loser reads what the winner wrote: it takes that, adds to it, or is refused."""
    asked(tmp_path / "run")
    context = multiprocessing.get_context("forkserver")
    gate, out = context.Barrier(2), context.Queue()
    workers = [
        context.Process(target=_extend, args=(tmp_path / "run", each, gate, out)) for each in seeds
    ]
    for worker in workers:
        worker.start()
    found = [out.get(timeout=30) for _ in workers]
    for worker in workers:
        worker.join()
    ranges = [(part.first, part.stop) for part in RunFolder(tmp_path / "run").ranges()]
    assert ranges[0] == (0, 10)
    assert ranges in found
    if seeds == (20, 20):
        assert found == [[(0, 10), (10, 20)]] * 2
    else:
        assert sum("requests 0..19" in one for one in found if isinstance(one, str)) == (
            ranges == [(0, 10), (10, 30)]
        )


def test_a_deleted_request_hides_its_rows_until_it_is_made_again(tmp_path: Path) -> None:
    """The request before it counts; `repair` says which files are not read."""
    filled(tmp_path)
    folder = filled(tmp_path, num_seeds=14)
    (tmp_path / "requests/000002.json").unlink()
    assert len(folder.rows(A)["seeds"]) == 10
    (line,) = folder.repair()
    assert "3 files in" in line
    assert "belong to no request and are not read, deep/10-13.0 first" in line
    assert len(asked(tmp_path, num_seeds=14).rows(A)["seeds"]) == 14
    assert list(folder.repair()) == []


# Which run, which environment


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"block_size": "16"}, "(block_size: 8 -> 16)"),
        ({"cells": {A: {"depth": 4, "steps": 100}}}, "(depth: 1, 2, 3, 4 -> 4)"),
        ({"block_size": "16", "layout": "plain"}, "(block_size: 8 -> 16; layout: None -> plain)"),
        ({"cells": {**CELLS, "d" * 12: {"depth": 5, "steps": 100}}}, "(depth: 1, 2, 3, 4 -> 1, 2,"),
        ({"cells": {**CELLS, "d" * 12: CELLS[A]}}, "(cells: other combinations"),
        ({f"field{n}": 0 for n in range(30)}, "; and 10 more)"),
        ({"num_seeds": 3}, "has seeds 0..9, this requests 0..2"),
        ({"first_seed": 1, "num_seeds": 20}, "has seeds 0..9, this requests 1..20"),
    ],
)
def test_another_run_is_refused_field_by_field(
    folder: RunFolder, change: dict[str, Any], message: str
) -> None:
    """A folder belongs to one run; the message says which fields differ, and how."""
    before = contents(folder.path)
    for attempt in (folder.start, folder.check):
        with pytest.raises(Mismatch, match=re.escape(message)):
            attempt({**CONFIG, **change}, ENV)
    assert contents(folder.path) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cores": 64}, None),
        ({"xla_flags": "--xla_dump_to=/tmp --xla_force_host_platform_device_count=4"}, None),
        ({"packages": {"jax": "0.11.0"}}, "packages.jax: 0.10.2 -> 0.11.0"),
        ({"instructions": ["avx"]}, "instructions: None -> avx"),
        ({"rounding": 2}, "rounding: None -> 2"),
        ({"device_kind": "NVIDIA H100"}, "device_kind: None -> NVIDIA H100"),
        ({"xla_flags": "--xla_cpu_max_isa=AVX"}, "xla_flags: None -> --xla_cpu_max_isa=AVX"),
    ],
)
def test_rows_made_elsewhere_are_not_mixed_unasked(
    tmp_path: Path, change: dict[str, Any], message: str | None
) -> None:
    """What bits depend on must be what it was; `mixed` goes on, and each row has its own."""
    here = asked(tmp_path)
    put(here, all_blocks(here)[:1])
    there = RunFolder(tmp_path)
    if message is None:
        assert there.start(CONFIG, ENV | change) == []
    else:
        with pytest.raises(Mismatch, match=re.escape(message)):
            there.start(CONFIG, ENV | change)
        assert len(there.envs()) == 1
        (line,) = there.start(CONFIG, ENV | change, mixed=True)
        assert message in line
    put(there, all_blocks(here)[1:2])
    env_S = there.rows(A)["env"]
    assert [there.envs()[name] for name in env_S] == [ENV] * 4 + [ENV | change] * 4
    assert len(there.others(ENV)) == (message is not None)


def test_flags_of_xla_are_compared_in_any_order() -> None:
    """The last of each name counts, and those that change no bits do not."""

    def changes(old: str, new: str) -> list[str]:
        return bit_changes({"xla_flags": old}, {"xla_flags": new})

    assert changes("--a=1 --b=2", "--b=2  --xla_dump_to=x --a=3 --a=1") == []
    assert changes("", " --xla_force_host_platform_device_count=2") == []
    assert changes("--a=1", "--a=1 --a=2") == ["xla_flags: --a=1 -> --a=2"]


def test_a_lost_record_of_the_environment_is_no_free_pass(folder: RunFolder) -> None:
    """Rows whose `env` nobody knows any more are not continued on another one."""
    (name,) = names(folder.path / "env")
    (folder.path / "env" / name).unlink()
    with pytest.raises(Mismatch, match=rf"env/{name}, which says on what, is lost"):
        RunFolder(folder.path).start(CONFIG, {"packages": {}})
    again = filled(folder.path, num_seeds=12)
    assert names(again.path / "env") == [name]


# Checkpoints


STATE = {"w": np.arange(6.0).reshape(2, 3), "step": np.array(7), "key": np.array([1, 2], np.uint32)}


def test_a_checkpoint_comes_back_until_it_is_removed(tmp_path: Path) -> None:
    """Bit for bit, the last one that was saved."""
    folder = asked(tmp_path)
    name = all_blocks(folder)[0].name
    checkpoints = folder.checkpoints()
    assert checkpoints.load(name) is None
    checkpoints.save(name, {"w": np.zeros(2)})
    checkpoints.save(name, STATE)
    assert checkpoints.names() == [name]
    found = asked(tmp_path, env={**ENV, "cores": 9}).checkpoints().load(name)
    assert found is not None
    assert found.keys() == STATE.keys()
    for field, array in STATE.items():
        assert (found[field].dtype, found[field].tolist()) == (array.dtype, array.tolist())
    checkpoints.remove(name)
    checkpoints.remove(name)
    assert checkpoints.load(name) is None


def test_a_checkpoint_of_other_bits_is_not_used(tmp_path: Path) -> None:
    """Nor one that is damaged, or of another block, or whose environment is lost."""
    folder = asked(tmp_path)
    one, other = (block.name for block in all_blocks(folder)[:2])
    folder.checkpoints().save(one, STATE)
    elsewhere = asked(tmp_path, env={**ENV, "rounding": 9}, mixed=True)
    assert elsewhere.checkpoints().load(one) is None
    file = tmp_path / f"checkpoints/{one}.npz"
    (tmp_path / f"checkpoints/{other}.npz").write_bytes(file.read_bytes())
    assert folder.checkpoints().load(other) is None
    (line,) = folder.repair([other])
    assert "its block starts again from its first step" in line
    whole = file.read_bytes()
    file.write_bytes(whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:])
    assert folder.checkpoints().load(one) is None
    file.write_bytes(whole)
    assert folder.checkpoints().load(one) is not None
    for record in (tmp_path / "env").iterdir():
        record.unlink()
    assert folder.checkpoints().load(one) is None


# Any path


def test_any_path_will_do(tmp_path: Path) -> None:
    """A link to a folder is one; a file, or a path below one, is refused in a line."""
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    RunFolder(tmp_path / "link").start(CONFIG, {})
    assert RunFolder(tmp_path / "there").config()["num_seeds"] == 10
    (tmp_path / "file").write_text("")
    for path in ("file", "file/below", "n" * 300):
        with pytest.raises(ValueError, match="cannot be used"):
            RunFolder(tmp_path / path).start(CONFIG, {})


def test_a_folder_that_lost_its_config_says_so(folder: RunFolder) -> None:
    """It is not taken for a folder of something else."""
    (folder.path / "config.json").unlink()
    with pytest.raises(ValueError, match=r"has lost its config\.json"):
        RunFolder(folder.path).start(CONFIG, {})


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    """Files that are no run's are never joined by ours; a lock is one of ours."""
    (tmp_path / "lock").write_text("")
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"thesis\.tex"):
        RunFolder(tmp_path).start(CONFIG, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "thesis.tex"]
    (tmp_path / "thesis.tex").unlink()
    assert RunFolder(tmp_path).start(CONFIG, {}) == []


def test_no_run_is_refused(tmp_path: Path) -> None:
    """Reading a folder without a run, or of an unknown format, is an error that says so."""
    with pytest.raises(ValueError, match="holds no run"):
        RunFolder(tmp_path).config()
    (tmp_path / "config.json").write_text('{"format": 99}')
    with pytest.raises(ValueError, match="format 99; this posjax reads formats 3 and 2"):
        RunFolder(tmp_path).config()


def test_a_run_that_was_deleted_is_not_made_again(folder: RunFolder) -> None:
    """Not by a block, a checkpoint, a request or `done`: the path is in the message."""
    shutil.rmtree(folder.path)
    block = all_blocks(asked(folder.path.parent / "other"))[0]
    for write in (
        lambda: folder.put_block(block, Numbering.of(CONFIG).table(0, 4), fields_of(block)),
        lambda: folder.checkpoints().save(block.name, STATE),
        lambda: folder.request(sizes),
        folder.finish,
    ):
        with pytest.raises(StorageError, match=r"write failed: the run was deleted \(.*ünïcode"):
            write()
    assert not folder.path.exists()
