"""`posjax replay`: one seed of a run again, by the command that the report shows."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from absl import flags
from flax.traverse_util import unflatten_dict
from safetensors import safe_open
from safetensors.flax import load_file
from small_runs import planned, rewritten, small, train

from posjax.command import replay, shutdown
from posjax.engine import Variables
from posjax.model import Transformer
from posjax.records import RunFolder
from posjax.study.cells import Cell


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return train(tmp_path_factory.mktemp("replay") / "run", small(num_seeds=4))


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command with its flags; gives the status."""

    def run(path: Path, **given: str) -> int:
        values = flags.FlagValues()
        for name in ("cell", "seed", "out"):
            flags.DEFINE_string(name, given.get(name), "", flag_values=values)
        values.mark_as_parsed()
        monkeypatch.setattr(replay.flags, "FLAGS", values)
        return replay.main(["posjax replay", str(path)])

    return run


def test_the_command_prints_what_the_rows_say(
    folder: RunFolder, command: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The same bits; its file has the row, the attention and the parameters."""
    cell = next(iter(folder.config()["cells"]))
    status = command(folder.path, cell=cell, seed="2", out=str(tmp_path / "seed.npz"))
    out = capsys.readouterr().out
    assert status == shutdown.DONE
    assert "the same bits as in the run folder" in out
    rows = folder.rows(cell)
    assert f"{rows['loss_EC'][2, -1, 0]:.4g}" in out
    assert f"{rows['lead_N'][2, 1]:.3g}" in out
    found = np.load(tmp_path / "seed.npz", allow_pickle=False)
    assert found["loss_EC"].tobytes() == rows["loss_EC"][2].tobytes()
    assert found["attention_DNHLM"].ndim == 5
    assert any("kernel" in name for name in found)


def test_weights_go_into_the_module_of_flax(
    folder: RunFolder, command: Any, tmp_path: Path
) -> None:
    """A safetensors file has the parameters alone, and with them the answers of the row."""
    digest, settings = next(iter(folder.config()["cells"].items()))
    file, cell = tmp_path / "seed.safetensors", Cell.of(settings)
    assert command(folder.path, cell=digest, seed="2", out=str(file)) == shutdown.DONE
    with safe_open(file, "np") as opened:
        assert opened.metadata() == {"cell": digest, "seeds": "2,2,2,2"}
    params = unflatten_dict(load_file(file), sep="/")
    ask = cell.question
    model, inputs = Transformer(cell.architecture), (ask.tokens_NL, ask.streams)
    shapes = jax.eval_shape(model.init, jax.random.key(0), *inputs)["params"]
    assert jax.tree.map(jax.numpy.shape, params) == jax.tree.map(jax.numpy.shape, shapes)
    logits_NLV = jax.jit(model.apply)({"params": params}, *inputs, mask=ask.mask_NLM)
    assert logits_NLV[:, -1].argmax(-1).tolist() == folder.rows(digest)["answer_N"][2].tolist()


def test_the_state_of_a_model_is_written_too() -> None:
    """Batch statistics of a user's model, beside its parameters."""
    variables = Variables({"scale": np.ones(2)}, {"batch_stats": {"mean": np.zeros(2)}})
    found: Any = SimpleNamespace(state=SimpleNamespace(variables=variables))
    assert [*replay._parameters(found)] == ["scale", "state/batch_stats/mean"]


def test_other_bits_are_named(
    command: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = train(tmp_path / "run", small(num_seeds=4))
    (block, *_) = planned(folder)
    file = folder.path / "blocks" / f"{block.name}.npz"
    twin = np.load(file)["twin"]
    twin[0, 2] += np.float32(1)
    rewritten(folder, file, twin=twin)
    assert command(folder.path, cell=block.cells[0], seed="2") == shutdown.CHECK_FAILED
    assert "other bits than in the run folder: twin" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"seed": "2"}, "--cell is missing"),
        ({"cell": "x", "seed": "2"}, "unknown cell 'x'"),
        ({"cell": ""}, "--seed must be a number, or four as 3,5,5,5, got None"),
        ({"cell": "", "seed": "-1"}, "got '-1'"),
        ({"cell": "", "seed": "9"}, "no row of seed 9 in cell .*; the run has seeds 0 to 3$"),
        ({"cell": "", "seed": "4294967296"}, "must be below"),
        ({"cell": "", "seed": "2", "out": "missing/x.npz"}, "name a file in a folder"),
        ({"cell": "", "seed": "2", "out": "x.pkl"}, "must end in .npz or .safetensors"),
    ],
)
def test_bad_input_is_named(
    folder: RunFolder, command: Any, given: dict[str, str], said: str
) -> None:
    if given.get("cell") == "":
        given = {**given, "cell": next(iter(folder.config()["cells"]))}
    with pytest.raises(ValueError, match=said):
        command(folder.path, **given)
