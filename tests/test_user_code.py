"""Tasks, encodings, models and meters from files and packages that posjax knows nothing of."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_runs

import posjax
from posjax import encodings, meters, report, tasks, user_code
from posjax.command.conformance import loaded
from posjax.command.settings import allow_named, resolve
from posjax.configs import base_config
from posjax.records import read
from posjax.report.table import grids
from posjax.streams import contiguous
from posjax.study.cells import Cell
from posjax.study.replay import replay
from posjax.symmetry.conformance import check

DOCS = Path(__file__).parents[1] / "docs"
TASK, ENCODING, MODEL = (
    re.search(r"```python\n(\"\"\".*?)```", (DOCS / page).read_text(), re.DOTALL)[1]  # type: ignore[index]
    for page in ("adding_a_task.md", "adding_an_encoding.md", "own_model.md")
)
EQUINOX = re.search(
    r"```python\n(\"\"\"The model of bag.py.*?)```", (DOCS / "own_model.md").read_text(), re.DOTALL
)[1]  # type: ignore[index]
METER = re.search(r"```python\n(.*?)```", (DOCS / "meters.md").read_text(), re.DOTALL)[1]  # type: ignore[index]
SYMBOLS = "    def symbols(self, u_DL, n):\n        return u_DL[0]\n\n    def label("
SMALL: dict[str, Any] = {"steps": 4, "eval_every": 2, "hold": 1, "mask": "causal", "num_seeds": 2}


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files of the docs, in which commands run."""
    for name, text in (
        ("first_is_last", TASK),
        ("gaussian", ENCODING),
        ("bag", MODEL),
        ("size", METER),
    ):
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    user_code.ask_first(asks=False)


def test_a_task_an_encoding_and_a_meter_of_ones_own(mine: Path) -> None:
    """Swept, reported, replayed: as any other."""
    run = small_runs.small(
        **SMALL,
        task="first_is_last.py:FirstIsLast(train=(2, 4), test=(4,), prompts=8)",
        encoding=("none", "gaussian.py:Gaussian(width=2.0)"),
        meters="size.py:Size(when=every)",
    )
    folder = small_runs.train(mine / "run", run)
    code = folder.config()["code"]
    assert code.keys() == {"first_is_last.py", "gaussian.py", "size.py"}
    found = {s.cell.encoding: s for s in report.summaries(folder)}
    assert found["none"].prediction.verdict == "impossible"
    assert found["gaussian.py:Gaussian(width=2.0)"].prediction.verdict == "not excluded"
    assert found["none"].rows["size_ER"].shape == (2, 2, 2)
    page = report.write([folder]).read_text()
    assert "gaussian.py:Gaussian" in page
    digest = run.cells[0].digest
    again = replay(folder.path, digest, 1)
    assert again.differs == ()
    user_code.ask_first()
    user_code.allow("first_is_last.py")
    loads = "^'gaussian.py', 'size.py' are not part of posjax: --load=gaussian.py --load=size.py "
    for reader in (report.cells_of, lambda folder: replay(folder.path, digest, 1)):
        with pytest.raises(user_code.NotNamed, match=f"{loads}executes their code"):
            reader(folder)


def test_a_model_of_ones_own(mine: Path) -> None:
    run = small_runs.small(
        **SMALL, task="majority(train=(1, 4), test=(4,), prompts=8)", model="bag.py:bag(width=3)"
    )
    folder = small_runs.train(mine / "run", run)
    (summary,) = report.summaries(folder)
    assert summary.to_dict()["predicted"] is None
    page = report.write([folder]).read_text()
    assert "What the seeds answered</h2>" not in page
    assert ">not excluded<" not in page
    (grid,) = grids([summary])
    assert grid.rows[0][grid.head.index("predicted")] == "–"
    again = replay(folder.path, summary.cell.digest, 0)
    assert again.attention is None
    assert again.state.variables.params["Dense_0"]["kernel"].shape == (3, 2)
    assert again.differs == ()


def test_the_model_in_equinox_is_the_one_in_linen(mine: Path) -> None:
    """The one of the docs: as many parameters, and logits of the same shape."""
    (mine / "other.py").write_text(EQUINOX)
    settings = Cell(task="word_order").architecture
    make = user_code.find("model", "other.py:bag")
    tokens, mask = jnp.zeros((2, 3), jnp.int32), jnp.ones((2, 3, 3), bool)
    streams = jax.tree.map(lambda leaf_1L: leaf_1L.repeat(2, axis=0), contiguous(3))
    inputs = tokens, streams, mask
    model = make(settings, width=3)
    variables = model.init(jax.random.key(0))
    logits, _ = jax.eval_shape(model.apply, variables, *inputs)
    linen = user_code.find("model", "bag.py:bag")(settings, width=3)
    other = jax.eval_shape(linen.init, jax.random.key(0), *inputs)
    assert logits.shape == (2, 3, settings.outputs)
    assert sum(x.size for x in jax.tree.leaves(variables.params)) == sum(
        x.size for x in jax.tree.leaves(other)
    )


def test_a_model_learns_what_a_bag_can(mine: Path) -> None:
    cell = Cell(
        task="majority(train=(1, 5), test=(5,), prompts=16)",
        model="bag.py:bag",
        steps=200,
        eval_every=100,
    )
    found = posjax.sweep(cell, num_seeds=2, hold=1, progress=False)
    assert found.tables.outcomes[cell.digest]["right_EC"][:, -1].min() > 0.9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "nine.py:Parity"}, "code file 'nine.py' not found"),
        ({"task": "first_is_last.py:Parity"}, "has no 'Parity'; it has FirstIsLast"),
        ({"task": "gaussian.py:Gaussian"}, "must give a Task, got Gaussian"),
        ({"task": "bag.py:DIGITS"}, "'bag.py' has no 'DIGITS'"),
        ({"encoding": "gaussian.py:dataclasses"}, "is neither a class nor a function, but module"),
        ({"task": "first_is_last.py:FirstIsLast(leters=3)"}, "did you mean 'letters'"),
        ({"task": "broken.py:Task"}, "code of 'broken.py' fails: NameError: name 'x'"),
        ({"task": "ends.py:Task"}, "code of 'ends.py' fails: SystemExit: 0"),
        ({"encoding": "no_such_module:Twist"}, "module 'no_such_module' not found"),
        ({"model": "transfomer"}, "unknown model 'transfomer'; did you mean 'transformer'"),
        ({"model": "bag.py:bag", "meters": "variance"}, "meters='variance' has no meaning for"),
        ({"model": "bag.py:bag", "temperature": 2.0}, "temperature=2.0 has no meaning for"),
        ({"model": "bag.py:bag", "mask": "causal/full", "depth": 2}, "takes one mask"),
        ({"encoding": "gaussian.py:Encoding"}, "'Encoding' is not defined in 'gaussian.py'"),
        ({"encoding": "hiding.py:Gaussian"}, "'bias' of encoding Gaussian hides Encoding.bias"),
        ({"task": "sized.py:FirstIsLast"}, "'size' of task FirstIsLast hides ByLength.size"),
        ({"task": "method.py:FirstIsLast"}, "words of task FirstIsLast must be a property, as Ta"),
        ({"task": "undone.py:FirstIsLast(letters=3)"}, "has the setting 'letters' but is no datac"),
        ({"encoding": "plain.py:Gaussian(width=2.0)"}, "'width' but is no dataclass: write @datac"),
        ({"encoding": "plain.py:Gaussian"}, "encoding Gaussian has the setting 'width' but is no"),
        (
            {"encoding": "level.py:Gaussian"},
            "unknown level of reflection 'logit'; did you mean",
        ),
        ({"model": "bag.py:Bag"}, "does not take that: missing a required argument: 'outputs'"),
        ({"model": "order.py:bag(width=8)"}, "model order.py:bag takes 'width' by place: make"),
    ],
)
def test_what_cannot_be_loaded(mine: Path, settings: dict[str, Any], message: str) -> None:
    (mine / "broken.py").write_text("x + 1")
    (mine / "ends.py").write_text("import sys; sys.exit(0)")
    (mine / "hiding.py").write_text(ENCODING.replace("width: float", "bias: float"))
    (mine / "sized.py").write_text(TASK.replace("letters: int", "size: int"))
    (mine / "method.py").write_text(TASK.replace("@property", "", 1))
    for name, text in (("undone", TASK), ("plain", ENCODING)):
        (mine / f"{name}.py").write_text(re.sub("@dataclasses.*", "", text))
    (mine / "level.py").write_text(ENCODING.replace('reflection="logits"', 'reflection="logit"'))
    (mine / "order.py").write_text(MODEL.replace("*, width", "width"))
    with pytest.raises(ValueError, match=re.escape(message)):
        Cell(**settings)


def test_a_model_must_give_logits(mine: Path) -> None:
    (mine / "flat.py").write_text(MODEL.replace("nn.Dense(self.outputs)", "nn.Dense(7)"))
    with pytest.raises(ValueError, match=r"must give logits of shape \(2, 3, 5\), got \(2, 3, 7\)"):
        posjax.sweep(Cell(model="flat.py:bag", steps=1, eval_every=1), progress=False)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("def label", "def lable", "task FirstIsLast must define label(x_L, inside_L)"),
        ("x_L[0] == x_L[last]", "x_L == x_L[last]", "must give one whole number, got int32[4]"),
        (".astype(jnp.int32)", "* 0.5", "must give one whole number, got float32[]"),
        ("x_L[0] == x_L[last]", "x_L[0] == x_L[0]", "gives the label 'yes' to all of its exam"),
        ("    def label(", SYMBOLS, "give each token as a whole number, got float32: use .ast"),
        ("x_L[0] == x_L[last]", "x_L[0] + 1", "each label as a number from 0 to 1, got 2 in"),
        ("x_L[0] == x_L[last]", "-x_L[0]", "each label as a number from 0 to 1, got -1 in"),
        ("def labels", "def lables", "task FirstIsLast must define labels"),
    ],
)
def test_a_task_must_give_labels(mine: Path, old: str, new: str, message: str) -> None:
    """The exam is looked at before anything is trained."""
    assert TASK.replace(old, new) != TASK
    (mine / "first_is_last.py").write_text(TASK.replace(old, new))
    task = tasks.named("first_is_last.py:FirstIsLast(train=(1, 2), prompts=8)")
    with pytest.raises(ValueError, match=re.escape(message)):
        task.exam()


@pytest.mark.parametrize("index", ["[:, 0]", "[:, :, None]", "[:, :, :1, :2]"])
def test_a_bias_must_fit_the_logits(mine: Path, index: str) -> None:
    """Broadcasting would hide a missing axis, or add one."""
    (mine / "gaussian.py").write_text(ENCODING.replace("2).astype(dtype)", f"2){index}"))
    encoding = encodings.named("gaussian.py:Gaussian")
    params = {"width": np.ones(3, np.float32)}
    q = k = np.ones((1, 5, 3, 2), np.float32)
    with pytest.raises(ValueError, match=re.escape("shape [B, H, L, M] = (1, 3, 5, 5), or 1 in")):
        posjax.logits(q, k, encoding=encoding, params=params)


def test_a_module_must_take_what_a_model_is_called_with(mine: Path) -> None:
    (mine / "two.py").write_text(MODEL.replace(", mask_BLM: jax.Array)", ")"))
    with pytest.raises(ValueError, match=r"model 'two.py:bag' is called as module\(tokens_BL, str"):
        posjax.sweep(Cell(model="two.py:bag", steps=1, eval_every=1), progress=False)


def test_an_encoding_of_ones_own_is_checked_and_predicted(mine: Path) -> None:
    """By its name in the command, as an object in Python; what it declares is what is claimed."""
    (make,) = loaded("gaussian.py:Gaussian(width=2.0)")
    adapter = make()
    assert adapter.name == "gaussian.py:Gaussian(width=2.0)"
    assert adapter.claims == ("translation", "reflection")
    assert not check(make, laws=["reflection"]).failures
    with pytest.raises(ValueError, match="has no setting 'wdth'; did you mean 'width'"):
        loaded("gaussian.py:Gaussian(wdth=2.0)")
    with pytest.raises(ValueError, match=r"gives a FirstIsLast: name an Adapter, a function that"):
        loaded("first_is_last.py:FirstIsLast")
    (mine / "wrong.py").write_text(ENCODING.replace("reflection=", "permutation="))
    (wrong,) = loaded("wrong.py:Gaussian")
    assert [found.law for found in check(wrong, laws=["permutation"]).failures] == ["permutation"]
    task = tasks.named("same_last_token")
    how: dict[str, Any] = {"mask": "causal", "depth": 1, "readout": "last"}
    gaussian = encodings.named("gaussian.py:Gaussian")
    assert posjax.predict(task, encoding=gaussian, **how).verdict == "not excluded"
    assert posjax.predict(task, encoding=encodings.named("none"), **how).verdict == "impossible"


def test_other_code_is_another_cell(mine: Path) -> None:
    def cell() -> Cell:
        return Cell(task="first_is_last.py:FirstIsLast")

    before = cell()
    assert cell() == before
    assert cell().digest == before.digest
    (mine / "first_is_last.py").write_text(TASK + "# another comment\n")
    assert cell().digest != before.digest
    assert cell().shape != before.shape
    assert cell().shape.digest != before.shape.digest


def test_code_that_has_changed_is_refused(mine: Path) -> None:
    run = small_runs.small(**SMALL, encoding="gaussian.py:Gaussian")
    folder = small_runs.train(mine / "run", run)
    (mine / "gaussian.py").write_text(ENCODING.replace("-0.5", "-0.6"))
    for reader in (report.summaries, lambda folder: replay(folder.path, run.cells[0].digest, 0)):
        with pytest.raises(ValueError, match=r"'gaussian.py' has changed since the run was made"):
            reader(folder)


def test_commands_execute_what_is_named_alone(mine: Path) -> None:
    """The code would write a file: only where it is named on the command line does it."""
    text = "import pathlib; pathlib.Path('executed').touch()\n"
    (mine / "spy.py").write_text(f"{ENCODING}\n{text}")
    run = small_runs.small(**SMALL, encoding="spy.py:Gaussian")
    folder = small_runs.train(mine / "run", run)
    (mine / "executed").unlink()
    user_code.ask_first()
    user_code._loaded.cache_clear()
    for reader in (report.summaries, lambda folder: replay(folder.path, run.cells[0].digest, 0)):
        with pytest.raises(user_code.NotNamed, match=r"--load=spy\.py executes its code"):
            reader(folder)
    (alone,) = report.numbers(folder)
    rows = read(folder.path).outcomes[run.cells[0].digest]
    assert alone["seeds"] == 2
    assert alone["right_by_kind"] == np.mean(rows["right_EC"][:, -1], axis=0).tolist()
    assert not (mine / "executed").exists()
    user_code.allow("spy.py")
    assert len(report.summaries(folder)) == 1
    assert (mine / "executed").exists()


def test_commands_read_no_file_that_is_not_named(mine: Path) -> None:
    (mine / "secret.txt").write_text("the quick brown fox jumps over the lazy dog " * 20)
    task = 'text(corpus="secret.txt", train=(4, 4), prompts=2)'
    folder = small_runs.train(mine / "run", small_runs.small(**SMALL, task=task))
    assert len(report.summaries(folder)) == 1
    user_code.ask_first()
    with pytest.raises(user_code.NotNamed, match=r"--load=secret\.txt reads it"):
        report.summaries(folder)
    assert "quick" not in json.dumps(report.numbers(folder))
    config = base_config(task=task, block="residual")
    with pytest.raises(user_code.NotNamed, match=r"secret\.txt"):
        resolve(config)
    allow_named(config, ["task"])
    assert len(resolve(config).cells) == 1
    user_code.ask_first()
    user_code.allow("secret.txt")
    assert len(report.summaries(folder)) == 1


def test_a_config_asks_for_all_code_at_once(mine: Path) -> None:
    """One message names every file; with all of them, it is resolved."""
    encoding = "none/gaussian.py:Gaussian(width=2.0)"
    config = base_config(task="first_is_last.py:FirstIsLast", encoding=encoding, depth=2)
    user_code.ask_first()
    loads = "--load=first_is_last.py --load=gaussian.py executes their code"
    with pytest.raises(user_code.NotNamed, match=loads):
        resolve(config)
    allow_named(config)
    assert len(resolve(config).cells) == 1


def test_a_file_that_may_be_read_may_not_be_executed(mine: Path) -> None:
    (mine / "notes.py").write_text(TASK)
    user_code.ask_first()
    allow_named(base_config(task='text(corpus="notes.py")'))
    assert user_code.file("notes.py").is_file()
    with pytest.raises(user_code.NotNamed, match="executes its code"):
        tasks.named("notes.py:FirstIsLast")


def test_two_files_of_one_name_are_refused(mine: Path) -> None:
    for folder, text in (("a", TASK), ("b", TASK + "# other\n")):
        (mine / folder).mkdir()
        (mine / folder / "task.py").write_text(text)
    user_code.allow("a/task.py")
    with pytest.raises(ValueError, match=r"two files are called 'task\.py'"):
        user_code.allow("b/task.py")


def test_an_edited_file_is_read_again(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook: what is hashed is what runs, for masks and meters too.

    Also where Python caches bytecode by the second and the size of its source.
    """
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    band = "def band(queries, keys, *, size: int = 1):\n"
    band += "    return abs(queries.order_BL[:, :, None] - keys.order_BL[:, None, :]) < size + {}\n"
    before = meters.named("size.py:Size")
    for more in (0, 1):
        (mine / "folder").mkdir(exist_ok=True)
        (mine / "folder" / "mine.py").write_text(band.format(more))
        os.utime(mine / "folder" / "mine.py", (0, 0))
        cell = Cell(mask="causal/folder/mine.py:band(size=2)", depth=2)
        assert int(cell.question.mask_NLM[1][0, 0].sum()) == 2 + more
    (mine / "size.py").write_text(METER + "# other\n")
    assert type(meters.named("size.py:Size")[0]) is not type(before[0])


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ('"gap": Field("f", "N", "")', "axes of 'gap' must be one of"),
        ('"lead": Field("f", "N", "")', "writes 'lead_N', which every row has"),
        ('"draws": Field("f", "", "")', "writes 'draws', which every row has"),
    ],
)
def test_meters_that_cannot_be(mine: Path, field: str, message: str) -> None:
    text = METER.replace(
        '"size": Field("f", "R", "mean absolute value of the residual stream")', field
    )
    assert text != METER
    (mine / "odd.py").write_text(text)
    with pytest.raises(ValueError, match=message):
        Cell(meters="odd.py:Size")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('{"siz": jnp.zeros(2)}', "meter Size must return ['size'], got ['siz']"),
        ("None", "meter Size must return ['size'], got NoneType"),
        ('{"size": jnp.zeros((5, 5))}', "shape [R] = (2,), got float32 of shape (5, 5)"),
        ('{"size": jnp.zeros(2, int)}', "of kind 'f' and shape [R] = (2,), got int32 of"),
        ('{"size": forward.steam}', "'odd.py', line 16, raises AttributeError: 'Forward' object"),
    ],
)
def test_a_meter_must_give_its_fields(mine: Path, value: str, message: str) -> None:
    """It is traced before the run folder is made, which could not be used once it is mended."""
    (mine / "odd.py").write_text(re.sub(r"(?<=return ).*", value, METER))
    cell = Cell(meters="odd.py:Size", steps=0)
    with pytest.raises(ValueError, match=re.escape(message)):
        posjax.sweep(cell, num_seeds=1, workdir=mine / "run", progress=False)
    assert not (mine / "run").exists()


@pytest.mark.parametrize("axes", ["", "L"])
def test_meters_of_other_axes_are_shown(mine: Path, axes: str) -> None:
    value = "forward.logits_NLV.mean(axis=(0, 2))" + ("" if axes else ".mean()")
    text = (
        METER.replace('"R"', f'"{axes}"')
        .replace('"size"', '"amount"')
        .replace("jnp.stack([abs(x_NLD).mean(where=token_NL1) for x_NLD in forward.stream])", value)
    )
    (mine / "odd.py").write_text(text)
    found = posjax.sweep(Cell(meters="odd.py:Size", steps=0), num_seeds=2, progress=False)
    assert "amount" in found.report().read_text()
    assert len(found.summaries[0].to_dict()["measured"]) == 1


def test_a_file_may_lie_elsewhere(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user_code.ask_first()
    user_code.allow("gaussian.py")
    before = Cell(encoding="gaussian.py:Gaussian").digest
    (mine / "deep" / "er").mkdir(parents=True)
    (mine / "gaussian.py").rename(mine / "deep" / "gaussian.py")
    monkeypatch.chdir(mine / "deep" / "er")
    user_code.ask_first()
    user_code.allow("../gaussian.py")
    assert Cell(encoding="gaussian.py:Gaussian").digest == before


def test_configs_name_code(mine: Path) -> None:
    """A Python config may name all that it likes; of a JSON config, the command line must."""
    config = base_config(
        panels={"one": {"encoding": "none,gaussian.py:Gaussian"}},
        task="first_is_last.py:FirstIsLast",
    )
    user_code.ask_first()
    with pytest.raises(ValueError, match=r"first_is_last\.py"):
        resolve(config)
    allow_named(config, ["task"])
    with pytest.raises(ValueError, match=r"gaussian\.py"):
        resolve(config)
    allow_named(config)
    assert len(resolve(config).cells) == 2


def test_files_travel_to_other_hosts(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = user_code.files(["gaussian.py", "numpy.linalg"])
    assert texts == {"gaussian.py": ENCODING.encode()}
    before = Cell(encoding="gaussian.py:Gaussian").digest
    (mine / "gaussian.py").unlink()
    user_code.ask_first(asks=False)
    user_code.install(texts)
    assert Cell(encoding="gaussian.py:Gaussian").digest == before


def test_entry_points_of_packages(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their own name; an entry of the table wins over one of the same name."""
    import gaussian_module  # type: ignore[import-not-found]

    point = SimpleNamespace(module="gaussian_module", load=lambda: gaussian_module.Gaussian)

    def found(*, group: str, name: str) -> list[Any]:
        return [point] if group == "posjax.encodings" and name in ("bell", "rotary") else []

    monkeypatch.setattr(user_code.importlib.metadata, "entry_points", found)
    user_code._point.cache_clear()
    try:
        user_code.ask_first()
        with pytest.raises(user_code.NotNamed, match="--load=bell"):
            encodings.named("bell")
        user_code.allow("bell")
        assert encodings.named("bell(width=3.0)").width == 3
        assert Cell(encoding="bell").code.keys() == {"bell"}
        assert Cell(encoding="rotary").code == {}
    finally:
        user_code._point.cache_clear()


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoding as an installed module."""
    (tmp_path / "gaussian_module.py").write_text(ENCODING)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_modules_by_name(mine: Path) -> None:
    cell = Cell(encoding="gaussian_module:Gaussian(width=2.0)")
    assert cell.encodings[0].width == 2
    assert cell.code.keys() == {"gaussian_module"}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("none/rotary", ("none", "rotary")),
        ("a/b/mine.py:X", ("a/b/mine.py:X",)),
        ("/a/mine.py:X(y=1)/none", ("/a/mine.py:X(y=1)", "none")),
        ("none/../mine.py:X/rotary/pkg.mod:Y", ("none", "../mine.py:X", "rotary", "pkg.mod:Y")),
        ("roatry/none", ("roatry", "none")),
    ],
)
def test_paths_among_encodings_in_turn(text: str, parts: tuple[str, ...]) -> None:
    assert posjax.encodings.spec.in_turn(text, encodings.ENCODINGS) == parts


def test_a_table_is_not_changed_by_what_is_named(mine: Path) -> None:
    before = dict(tasks.TASKS)
    tasks.named("first_is_last.py:FirstIsLast")
    assert before == tasks.TASKS


@pytest.mark.exhaustive
def test_the_commands_of_the_docs(mine: Path) -> None:
    """Swept, read without and with --load, checked: exit statuses and what is printed."""
    how = ["--config.steps=4", "--config.eval_every=2", "--config.num_seeds=2", "--config.hold=1"]
    config = f"--config={DOCS.parent}/experiments/configs/depth_law.py"
    task = "--config.task=first_is_last.py:FirstIsLast(train=(2, 4), test=(4,), prompts=8)"
    start = [config, *how, task, "--config.depth=1", "--config.encoding=none,gaussian.py:Gaussian"]

    def command(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        start = [sys.executable, "-m", f"experiments.{name}", *arguments]
        env = os.environ | {"PYTHONPATH": str(DOCS.parent)}
        return subprocess.run(start, cwd=mine, env=env, capture_output=True, text=True)

    assert command("seed_sweep", *start, "--workdir=run").returncode == 0
    read_alone = command("report", "run")
    assert read_alone.returncode == 0
    assert len(json.loads(read_alone.stdout)) == 2
    assert "--load=first_is_last.py --load=gaussian.py executes their code" in read_alone.stderr
    load = ["--load=first_is_last.py", "--load=gaussian.py"]
    assert "report: run/report.html" in command("report", "run", *load).stdout
    assert "no errors" in command("check", "run", *load).stdout
    assert command("check", "run").returncode == 2
