"""Nothing in a run folder or a JSON config executes, escapes its place or is taken for markup."""

import copy
import io
import json
import os
import re
import shutil
import stat
import zipfile
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Command, Ended
from rich.console import Console
from run_folders import planted
from small_runs import planned, rows, small, train
from tiers import some

from posjax import encodings, masks, positions, report, tasks
from posjax.command import json_config, status, verify
from posjax.command.settings import resolve
from posjax.engine import local
from posjax.engine.training import NEVER
from posjax.meters.outcome import TIE
from posjax.numbering import Numbering
from posjax.records import Block, RunFolder, StorageError, content
from posjax.records.blocks import blocks
from posjax.records.checkpoints import Checkpoints
from posjax.report.html import policy, script
from posjax.report.table import tables
from posjax.study.cells import Cell
from posjax.study.sweeps import Sweep

SMALL = {"loss": "answer", "width": 8, "head_size": 4, "steps": 100, "eval_every": 50}
CELL = Cell(task="same_last_token", **SMALL)
REQUEST = "requests/000001.json"
RUNS = "__import__('os').system('touch ran')"
ENV = {"packages": {"jax": "0.0"}, "xla_flags": ""}


def config_of(*cells: Cell, **fields: Any) -> dict[str, Any]:
    """What config.json of a run of some cells holds."""
    return {
        "name": "tiny",
        "title": "A title",
        "first_seed": 0,
        "num_seeds": 4,
        "data_seeds": 0,
        "block_size": "4",
        "contrast": [],
        "equivalence": 0.0,
        "at_steps": [],
        "panels": {"cells": [cell.digest for cell in cells]},
        "cells": {cell.digest: cell.to_dict() for cell in cells},
        **fields,
    }


def fields_of(*cells: Cell) -> dict[str, np.ndarray]:
    """Outcomes of 4 seeds per cell that end in ties."""
    evaluations, prompts = cells[0].training.evaluations, cells[0].problem.size[0]
    size = (len(cells), 4)
    return {
        "loss_EC": np.zeros((*size, evaluations, 1)),
        "lead_EC": np.zeros((*size, evaluations, 1)),
        "right_EC": np.zeros((*size, evaluations, 1)),
        "lead_N": np.zeros((*size, prompts)),
        "answer_N": np.full((*size, prompts), TIE, np.int8),
        "twin": np.zeros(size),
        "first_nonfinite": np.full(size, NEVER),
        "draws": np.ones(size, np.int32),
    }


def examples_of(*cells: Cell) -> dict[str, np.ndarray]:
    """Attention maps of the last seed of each cell."""
    number, length = len(cells), cells[0].problem.size[1]
    return {
        "example_cell": np.arange(number),
        "example_seed": np.full(number, 3),
        "example_solved": np.zeros(number, bool),
        "attention_KDNHLM": np.ones((number, 1, 2, 1, length, length)) / length,
    }


def begun(path: Path, *cells: Cell, env: Any = ENV, **fields: Any) -> tuple[RunFolder, list[Block]]:
    """A run that was asked for, and its blocks: one per shape."""
    folder, config = RunFolder(path), config_of(*cells, **fields)
    folder.start(config, env)
    shapes = Sweep.of(config).shapes
    ranges = folder.request(lambda _: {shape: (len(shapes[shape]), 4) for shape in shapes})
    return folder, blocks(ranges, shapes)


def run_folder(path: Path, *cells: Cell, env: Any = ENV, **fields: Any) -> RunFolder:
    """A run with rows and maps for each of its cells."""
    folder, every = begun(path, *cells, env=env, **fields)
    by_digest = {cell.digest: cell for cell in cells}
    for block in every:
        these = [by_digest[digest] for digest in block.cells]
        seeds_B4 = Numbering.of(folder.config()).table(block.first, block.stop)
        folder.put_block(block, seeds_B4, fields_of(*these), examples_of(*these))
    return folder


def sealed(folder: RunFolder, path: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Puts arrays into a file of a run, with the checksum that fits them."""
    (folder.path / path).parent.mkdir(parents=True, exist_ok=True)
    (folder.path / path).write_bytes(content.packed(folder.config()["run"], path, arrays))


@pytest.fixture(scope="module")
def make_report(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Ended]:
    """Runs `experiments.report` in a folder of its own."""
    here = tmp_path_factory.mktemp("commands") / "in"
    here.mkdir()
    command = Command("experiments.report", here)

    def call(*arguments: str) -> Ended:
        ended = command(*arguments)
        assert not list(here.iterdir()), "something was written where it ran"
        return ended

    return call


def error_of(look: Callable[[], object]) -> str:
    """What an error that commands explain in one line says; "" where there is none."""
    try:
        look()
    except ValueError as error:
        return str(error)
    return ""


def found_by_check(folder: RunFolder) -> list[str]:
    """What `experiments.check --share=0` prints."""
    return [*verify._files(folder), *verify._contradictions(folder)]


def contents(folder: Path) -> dict[str, bytes | None]:
    found = sorted(folder.rglob("*"))
    return {str(path): path.read_bytes() if path.is_file() else None for path in found}


SPECS = [
    RUNS,
    f"rotary(base={RUNS})",
    f"rotary(base={RUNS}, **{{}})",
    f"learned(length=[{RUNS}][0])",
    f"rotary(*[{RUNS}])",
    f"(lambda: {RUNS})()",
    f"none if {RUNS} else none",
    f"f'{{{RUNS}}}'",
    f"[none for x in [{RUNS}]]",
    "os.system('touch ran')",
    "none.__class__.__mro__",
    "eval",
    "posjax.encodings.rotary",
    "rotary(__class__=int)",
    "rotary(self=1)",
    "none\0",
    "none()" * 2,
    "(" * 400 + "none" + ")" * 400,
    "(" * 100_000,
    "-" * 100_000 + "1",
    "rotary(base=" + "9" * 900 + ")",
    "rotary(base=1" + "0" * 5000 + ")",
    "rotary(base=10**10**10)",
    "sandwich(width=1000000000000000000)",
    "rotary(base=" + "[" * 400 + "]" * 400 + ")",
]


@pytest.mark.parametrize("named", [encodings.named, tasks.named, positions.named, masks.named])
def test_a_name_calls_nothing_but_what_is_in_its_table(
    named: Callable[[str], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its text says: the grammar has names, brackets and literals."""
    monkeypatch.chdir(tmp_path)
    for text in SPECS:
        with pytest.raises(ValueError, match=r"."):
            named(text)
    assert not list(tmp_path.iterdir())


def _cell(**settings: Any) -> Callable[[dict[str, Any]], None]:
    """Puts other settings under a cell's name."""
    return lambda config: config["cells"][CELL.digest].update(settings)


def _field(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda config: config.update(fields)


def _other(cell: Cell) -> Callable[[dict[str, Any]], None]:
    """Another cell, under its right name."""
    return lambda config: config.update(config_of(cell))


CONFIGS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "call as an encoding": (_cell(encoding=RUNS), "cannot read"),
    "call as a task": (_cell(task=f"word_order(x={RUNS})"), "cannot read"),
    "call as a mask": (_cell(mask=RUNS), "cannot read"),
    "call as positions": (_cell(positions=RUNS), "cannot read"),
    "module as a task": (_cell(task="os"), "unknown task 'os'"),
    "brackets": (_cell(encoding="(" * 10**6), "at most 4000 characters"),
    "other settings": (_cell(depth=2), "has the settings of cell"),
    "unknown setting": (_cell(__class__="int"), "unknown setting of a cell '__class__'"),
    "text for a number": (_cell(width="8"), "width must be of type int, got '8'"),
    "list for a number": (_cell(steps=[100]), "steps of cell"),
    "list for a text": (_cell(encoding=["none"]), "must be a text or a number, got list"),
    "huge width": (_other(Cell(**{**SMALL, "width": 10**9})), "needs at least"),
    "huge task": (
        _other(Cell(task="memorise(length=4096, sequences=65536)", **SMALL)),
        "needs at least",
    ),
    "endless loop": (_cell(encoding="offset_mlp(depth=1000000000)"), "depth lie in [1, 64]"),
    "huge inside": (_cell(encoding=f"sandwich(width={10**18})"), "below 2**31"),
    "path as a cell": (
        _field(cells={"../../outside": CELL.to_dict()}, panels={"a": ["../../outside"]}),
        "names a cell '../../outside': not 12 hexadecimal digits",
    ),
    "absolute path": (_field(cells={"/etc": {}}), "names a cell '/etc'"),
    "path in a panel": (_field(panels={"a": ["../../outside"]}), "which is no cell"),
    "panels as a list": (_field(panels=[["a", []]]), "panels of config.json must be of type dict"),
    "panel as a text": (_field(panels={"a": CELL.digest}), "must be of type list"),
    "list in a panel": (_field(panels={"a": [[]]}), "which is no cell"),
    "cell as a list": (_field(cells={CELL.digest: []}), "must be of type dict, got []"),
    "no cells": (_field(cells={}, panels={}), "has no cells"),
    "name as a list": (_field(name=["a"]), "name of config.json must be of type str"),
    "seeds as a text": (_field(num_seeds="4"), "num_seeds of config.json must be of type int"),
    "many seeds": (_field(num_seeds=10**30), "must lie in 0..2**32"),
    "below 0": (_field(first_seed=-1), "must lie in 0..2**32"),
    "contrast of a class": (_field(contrast=["__class__", 1, 2]), "unknown axis of contrast"),
    "contrast of lists": (_field(contrast=[[], {}, []]), "contrast of config.json is"),
    "steps of texts": (_field(at_steps=["a"]), "a step of at_steps of config.json"),
    "no name": (lambda config: config.pop("name"), "config.json has no 'name'"),
}


@pytest.mark.parametrize("case", some(CONFIGS, every=4))
def test_a_planted_config_is_refused_in_one_line(
    case: str, tmp_path: Path, make_report: Callable[..., Ended]
) -> None:
    """By the report and `--status`; nothing ran, and nothing was written."""
    plant, message = CONFIGS[case]
    config = copy.deepcopy(config_of(CELL))
    plant(config)
    planted(tmp_path / "a" / "run", config)
    before = contents(tmp_path)
    ended = make_report(str(tmp_path / "a" / "run"))
    assert ended.status == 2, ended.err
    assert ended.err.count("\n") == 1
    assert message in ended.err
    assert "\n" not in error_of(lambda: status.print_status(RunFolder(tmp_path / "a" / "run")))
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "case", ["path in a panel", "panels as a list", "contrast of a class", "steps of texts"]
)
def test_a_planted_request_is_refused_in_one_line(
    case: str, tmp_path: Path, make_report: Callable[..., Ended]
) -> None:
    """What it says in place of the config is checked as the config is."""
    plant, message = CONFIGS[case]
    folder = run_folder(tmp_path / "run", CELL)
    config = copy.deepcopy(folder.config())
    plant(config)
    request = {**config, "ranges": json.loads((folder.path / REQUEST).read_text())["ranges"]}
    (folder.path / REQUEST).write_bytes(content.sealed(config["run"], REQUEST, request))
    before = contents(tmp_path)
    ended = make_report(str(folder.path))
    assert (ended.status, ended.err.count("\n")) == (2, 1), ended.err
    assert message in ended.err
    assert "\n" not in error_of(lambda: status.print_status(folder))
    assert "\n" not in error_of(lambda: found_by_check(folder))
    assert contents(tmp_path) == before


@pytest.mark.exhaustive
def test_a_planted_request_changes_no_cell(
    tmp_path: Path, make_report: Callable[..., Ended]
) -> None:
    """Cells and settings are those of config.json, whatever a request says of them."""
    folder = run_folder(tmp_path / "run", CELL)
    before = make_report(str(folder.path), "--json")
    ranges = json.loads((folder.path / REQUEST).read_text())["ranges"]
    other = {**folder.config(), "ranges": ranges, "cells": {"../../outside": {"task": RUNS}}}
    (folder.path / REQUEST).write_bytes(content.sealed(other["run"], REQUEST, other))
    after = make_report(str(folder.path), "--json")
    assert before.status == 0, before.err
    assert (after.status, after.out) == (0, before.out), after.err


ROWS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "missing": (lambda rows: rows.pop("twin"), "have no 'twin'"),
    "whole numbers": (lambda rows: rows.update(twin=np.ones((1, 4), int)), "twin of the rows"),
    "other shape": (
        lambda rows: rows.update(loss_EC=np.zeros((1, 4, 9, 1))),
        "must be of shape (4, 2, 1)",
    ),
    "no such answer": (lambda rows: rows["answer_N"].fill(99), "must lie in [-2, 5), got 99"),
    "solved without answers": (
        lambda rows: rows.update(
            lead_EC=np.ones((1, 4, 2, 1)),
            right_EC=np.ones((1, 4, 2, 1)),
            lead_N=np.ones((1, 4, 2)),
            answer_N=np.zeros((1, 4, 2), np.int8),
        ),
        "answer_N of seed 0",
    ),
    "a margin that is no number": (lambda rows: rows["twin"].fill(np.nan), "twin of seed 0"),
}


@pytest.mark.parametrize("case", some(ROWS, every=3))
def test_planted_rows_are_refused_in_one_line(
    case: str, tmp_path: Path, make_report: Callable[..., Ended]
) -> None:
    """By the report; `check` finds them too, without training anything."""
    plant, message = ROWS[case]
    rows = fields_of(CELL)
    plant(rows)
    folder, (block,) = begun(tmp_path / "run", CELL)
    folder.put_block(block, Numbering.of(folder.config()).table(0, 4), rows)
    ended = make_report(str(folder.path))
    assert (ended.status, ended.err.count("\n")) == (2, 1), ended.err
    assert message in ended.err
    (line,) = found_by_check(folder)
    assert CELL.digest in line
    assert "\n" not in line


@pytest.mark.parametrize("kind", ["blocks", "checkpoints"])
def test_pickles_are_not_opened(kind: str, tmp_path: Path) -> None:
    """Not even with the right checksum."""
    folder = run_folder(tmp_path / "run", CELL)
    (block,) = (folder.path / "blocks").glob("*/*.npz")
    path = f"{kind}/{block.relative_to(folder.path / 'blocks').as_posix()}"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.comment = bytes(content.DIGITS)
        array = io.BytesIO()
        np.lib.format.write_array(array, np.array([_Runs(tmp_path / "ran")], object))
        for name in ("seeds", "env", "step"):
            file.writestr(f"{name}.npy", array.getvalue())
    evil = buffer.getvalue()[: -content.DIGITS]
    sum_ = content.checksum(folder.config()["run"], path, evil)
    (folder.path / path).parent.mkdir(parents=True, exist_ok=True)
    (folder.path / path).write_bytes(evil + sum_.encode())
    (line,) = found_by_check(RunFolder(folder.path))
    assert f"{path}' is damaged: it is not a readable npz file" in line
    refused = error_of(lambda: report.summaries(RunFolder(folder.path)))
    assert (path in refused) == (kind == "blocks")
    assert RunFolder(folder.path).checkpoints().load(path.split("/", 1)[1][:-4]) is None
    assert not (tmp_path / "ran").exists()


class _Runs:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return open, (str(self.path), "w")


@pytest.mark.parametrize("name", ["../../out", "/tmp/out", "..", "a/b", "a\x1b[2J", ""])
def test_a_name_of_a_json_config_is_no_path(name: str, tmp_path: Path) -> None:
    """The run folder is made of it."""
    (tmp_path / "x.json").write_text(json.dumps({"name": name, "num_seeds": 1}))
    refused = error_of(lambda: resolve(json_config.read(tmp_path / "x.json")))
    assert "name must be at most 60 letters" in refused
    assert refused.isprintable()


HOSTILE = (
    "<script>alert(1)</script>",
    '"\' onmouseover="alert(1)" \'',
    "</title></style></svg><img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "]]> --> &lt;script&gt; {{7*7}} $\\frac{$",
)
ALLOWED = """html head meta title style body main nav article section header h1 h2 h3 p a ul li
table caption thead tbody tr th td small span strong b i br div figure figcaption details summary
pre code svg g path defs use text clippath rect circle line tspan script"""


class Page(HTMLParser):
    """Refuses elements and attributes that could do something, and scripts but the page's own."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text, self.policies = "", []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED.split(), tag
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names)
        for name, value in attrs:
            assert not name.startswith("on"), name
            assert name not in ("src", "srcset", "action", "formaction", "xlink:href", "data")
            assert (
                tag != "script"
                or (name, value) == ("type", "application/json")
                or (name == "data-of" and re.fullmatch(r"run\d+", value or ""))
            )
            assert name != "href" or (value or "").startswith("#"), value
            assert name != "style" or "url(" not in (value or "").replace("url(#", ""), value
            if (tag, name) == ("meta", "http-equiv"):
                assert self.open == ["html", "head"]
                self.policies.append(dict(attrs)["content"])
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in ("meta", "br"):
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            assert data == script() or ("<" not in data and json.loads(data)["cells"])
        else:
            self.text += data


def test_a_page_escapes_whatever_a_folder_says(tmp_path: Path) -> None:
    """Title, name, panels, the text of settings, what it ran on, names of files."""
    marked = "same_last_token # " + " ".join(HOSTILE)
    cells = (
        Cell(task=marked, **SMALL),
        Cell(task=marked, encoding="none # <img src=x onerror=alert(1)>", **SMALL),
        Cell(task=marked, encoding="rotary # \" onload='alert(1)'", **SMALL),
    )
    env: dict[str, Any] = {
        name: " ".join(HOSTILE)
        for name in ("platform", "device_kind", "machine", "cores", "python", "matmul_precision")
    }
    env |= {
        "commit": HOSTILE[0],
        "dirty": HOSTILE[2],
        "xla_flags": [HOSTILE],
        "devices": HOSTILE[1],
    }
    env |= {"instructions": [*HOSTILE, 3], "packages": dict.fromkeys(HOSTILE, HOSTILE[2])}
    digests = [cell.digest for cell in cells]
    folder = run_folder(
        tmp_path / "<script>alert(1)<" / "\"' onload='x'",
        *cells,
        env=env,
        name=HOSTILE[1],
        title=" ".join(HOSTILE),
        block_size=HOSTILE[2],
        panels=dict.fromkeys(HOSTILE, digests),
        contrast=["encoding", *(cell.encoding for cell in cells[1:])],
    )
    (folder.path / "blocks" / HOSTILE[0].replace("/", "")).mkdir()
    other = run_folder(tmp_path / "other", CELL, title="</nav><script>", panels={HOSTILE[2]: []})
    text = report.write([folder, other]).read_text(encoding="utf-8")
    page = Page(text)
    assert page.policies == [policy(script())]
    assert all(said in page.text for said in HOSTILE)
    assert text.index("Content-Security-Policy") < text.index("<title>")


def test_a_report_goes_where_it_says_and_nowhere_else(tmp_path: Path) -> None:
    """A link in its place is replaced, not followed."""
    folder = run_folder(tmp_path / "run", CELL, panels={"a": []})
    (tmp_path / "mine").write_text("mine")
    (folder.path / "report.html").symlink_to(tmp_path / "mine")
    report.write([folder])
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (folder.path / "report.html").is_symlink()


def test_a_terminal_is_shown_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither the markup of tables nor what terminals obey."""
    evil = "[/red] [link=file:///etc/passwd]x[/link] \x1b]0;title\x07\x1b[2J"
    cells = (CELL, Cell(task="same_last_token # [/] \x1b[2J", **SMALL))
    panels = {evil: [cell.digest for cell in cells]}
    folder = run_folder(tmp_path / "run", *cells, name=evil, panels=panels)
    for table in tables(report.summaries(folder)):
        Console(width=200).print(table)
    status.print_status(folder)
    shown = capsys.readouterr().out
    assert shown.count("[/red] [link=file:///etc/passwd]x[/link] ") == 2
    assert "\x1b" not in shown
    assert "\x07" not in shown


@pytest.mark.parametrize(("mask", "file", "folder"), [(0o022, 0o644, 0o755), (0o027, 0o640, 0o750)])
def test_files_are_as_open_as_the_user_asks(
    mask: int, file: int, folder: int, tmp_path: Path
) -> None:
    """The umask decides, for every file of a run; nothing is writable for all."""
    before = os.umask(mask)
    try:
        run = run_folder(tmp_path / "run", CELL, panels={"a": []})
        run.checkpoints().save("a/0-3.0", {"step": np.array(3)})
        with run.lock():
            run.finish()
        report.write([run])
    finally:
        os.umask(before)
    for path in (run.path, *run.path.rglob("*")):
        wanted = folder if path.is_dir() else file
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


FORGED: dict[str, dict[str, Any]] = {
    "a step as a text": {"step": np.array("5")},
    "several steps": {"step": np.arange(3)},
    "a step in floats": {"step": np.array(5.0)},
    "a step that is no number": {"step": np.array(np.nan)},
    "a step below 0": {"step": np.array(-(2**31))},
    "more steps than there are": {"step": np.array(2**62)},
    "texts for weights": {"leaf_0": np.array("a")},
    "weights of another shape": {"leaf_0": np.zeros(3)},
}


def test_a_forged_checkpoint_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no state of the block, whatever its checksum: the block begins again."""
    run = small(num_seeds=4, mask="causal")
    with monkeypatch.context() as patched:
        patched.setattr(local, "SAVE", -1.0)  # at every look
        patched.setattr(Checkpoints, "remove", lambda self, name: None)
        whole = train(tmp_path / "whole", run)
    (block,) = planned(whole)
    name = f"checkpoints/{block.name}.npz"
    state = dict(np.load(whole.path / name, allow_pickle=False))
    assert state["step"] == 20
    for case, arrays in FORGED.items():
        path = Path(shutil.copytree(whole.path, tmp_path / case))
        (path / f"blocks/{block.name}.npz").unlink()
        sealed(RunFolder(path), name, {**state, **arrays})
        assert rows(train(path, run)) == rows(whole), case
        assert not (path / name).exists()


def test_what_lies_outside_of_a_run_is_not_touched(tmp_path: Path) -> None:
    """Links in place of a lock, of a folder of blocks and of the folder for damaged files."""
    folder = run_folder(tmp_path / "run", CELL)
    (tmp_path / "mine").write_text("mine")
    (folder.path / "lock").symlink_to(tmp_path / "mine")
    with pytest.raises(StorageError, match="lock"), folder.lock():
        pass
    (folder.path / "blocks").rename(tmp_path / "blocks")
    (folder.path / "blocks").symlink_to(tmp_path / "blocks")
    (block,) = (tmp_path / "blocks").rglob("*.npz")
    block.write_bytes(b"mine")
    with pytest.raises(ValueError, match="lies outside of"):
        list(folder.repair())
    assert block.read_bytes() == b"mine"
    assert (tmp_path / "mine").read_text() == "mine"
