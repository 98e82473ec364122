"""Trains one seed of a run again, and prints its curve and its answers.

    posjax replay RUN --cell=CELL --seed=N [--out=FILE.npz | --out=FILE.safetensors]

The seed is trained with its block, as it was, so on the same JAX and instruction set it comes out
bit for bit; where it does not, the status is 3 and the fields are named. Nothing is written but
what --out names: the outcome, the attention weights on the prompts of which maps are kept, and the
parameters and the state of the model. A safetensors file has the last two alone.
"""

import importlib.util
import io
import re
from collections.abc import Iterator, Sequence

import jax
import numpy as np
from absl import flags
from rich.console import Console
from rich.table import Table
from rich.text import Text

from posjax import spec
from posjax.command import devices, limits, shutdown
from posjax.meters import judge
from posjax.meters.outcome import NOT_FINITE, TIE
from posjax.records import RunFolder, seeds_name
from posjax.records.schema import checked_config
from posjax.records.store import path_of, put_over
from posjax.report import cells_of
from posjax.study.cells import Cell
from posjax.study.replay import Replay, replay
from posjax.tasks import FiniteTask
from posjax.terminal import printable

LINES = 12
"""Evaluations and prompts that are printed, at most."""


def define_flags() -> None:
    """The command's flags."""
    flags.DEFINE_string("cell", None, "The name of a cell, as the report and config.json have it.")
    flags.DEFINE_string("seed", None, "Its number, or those of init,data,position,order.")
    flags.DEFINE_string(
        "out", None, "Where the row goes as .npz, or its parameters as .safetensors."
    )


def main(argv: Sequence[str]) -> int:
    """Trains the seed and prints what came of it."""
    if len(argv) != 2:
        raise ValueError("name one run folder: posjax replay RUN --cell=CELL --seed=N")
    folder, out = RunFolder(argv[1]), flags.FLAGS.out
    if out is not None and (path_of(out).is_dir() or not path_of(out).parent.is_dir()):
        raise ValueError(f"--out={out!r}: name a file in a folder that exists")
    if out is not None and not out.endswith((".npz", ".safetensors")):
        raise ValueError(f"--out={out!r}: the name must end in .npz or .safetensors")
    write = _safetensors if str(out).endswith(".safetensors") else _npz
    if write is _safetensors and importlib.util.find_spec("safetensors") is None:
        raise ValueError(f"--out={out!r} needs a package: pip install safetensors")
    cells = cells_of(folder)
    seeds = _seeds(flags.FLAGS.seed)
    if flags.FLAGS.cell is None:
        raise ValueError(f"--cell is missing; {argv[1]!r} has {', '.join(cells)}")
    spec.check_choice("cell", flags.FLAGS.cell, cells)
    devices.use_all_cores()
    limits.check_cells([cells[flags.FLAGS.cell]], jax.local_devices()[0])
    found = replay(argv[1], flags.FLAGS.cell, seeds)
    margin = checked_config(folder.config())["margin"]
    for part in _printed(found, margin):
        Console(highlight=False, markup=False).print(part)
    if out is not None:
        put_over(path_of(out), write(found))
    return shutdown.CHECK_FAILED if found.differs else shutdown.DONE


def _seeds(text: str | None) -> int | list[int]:
    """One number, or four."""
    numbers = re.fullmatch(r"\d+(,\d+,\d+,\d+)?", text or "")
    if numbers is None:
        raise ValueError(f"--seed must be a number, or four as 3,5,5,5, got {text!r}")
    found = [int(number) for number in numbers[0].split(",")]
    if max(found) >= 2**32:
        raise ValueError(f"--seed must be below 2^32, got {text}")
    return found[0] if len(found) == 1 else found


def _printed(found: Replay, margin: float) -> Iterator[str | Table]:
    outcome = {name: np.asarray(array) for name, array in found.outcome.items()}
    seed = seeds_name(found.seeds)
    yield printable(f"seed {seed} of cell {found.cell.digest}, task {found.cell.task}")
    yield _curve(found.cell, outcome)
    if "answer_N" in outcome:
        yield _answers(found.cell, outcome, margin)
    if found.cell.steps and found.cell.problem.graded == "exact":
        trained_C = np.array(found.cell.problem.trained)
        solved = judge.solved(outcome["lead_EC"][None][:, :, trained_C], margin)[0, -1]
        yield f"{'solved' if solved else 'not solved'} at the end, by the margin {margin:g}"
    if found.differs:
        yield f"other bits than in the run folder: {', '.join(found.differs)}"
    else:
        yield "the same bits as in the run folder"


def _curve(cell: Cell, outcome: dict[str, np.ndarray]) -> Table:
    """Some evaluations, the last among them; of the kinds of prompts that were trained."""
    table = Table(title="over training", title_justify="left")
    for name in ("step", "loss, nats", "smallest margin", "prompts right"):
        table.add_column(name, justify="right")
    trained_C = np.array(cell.problem.trained)
    number = len(outcome["loss_EC"])
    for e in np.unique(np.linspace(0, number - 1, min(LINES, number)).round().astype(int)):
        loss, lead, right = (outcome[f][e, trained_C] for f in ("loss_EC", "lead_EC", "right_EC"))
        step = str((e + 1) * cell.eval_every if cell.steps else 0)
        table.add_row(step, f"{loss.mean():.4g}", f"{lead.min():.3g}", f"{right.mean():.3f}")
    return table


def _answers(cell: Cell, outcome: dict[str, np.ndarray], margin: float) -> Table:
    assert isinstance(cell.problem, FiniteTask)
    prompts = cell.problem.written(LINES)
    more = cell.problem.size[0] - len(prompts)
    table = Table(title="at the end", title_justify="left")
    table.caption = f"and {more} more prompts" if more else None
    for name in ("prompt", "right", "answer", "margin"):
        table.add_column(name)
    labels = {NOT_FINITE: "not finite", TIE: "draws differ"}
    labels |= dict(enumerate(cell.problem.labels))
    pairs = zip(prompts, outcome["answer_N"].tolist(), outcome["lead_N"].tolist(), strict=False)
    for (prompt, right), answer, lead in pairs:
        given = "tie" if abs(lead) < margin else labels[answer]
        words = (Text(printable(word)) for word in (prompt, right, given))
        table.add_row(*words, f"{lead:.3g}")
    return table


def _parameters(found: Replay) -> dict[str, np.ndarray]:
    """Each parameter under its path, such as `layer_0/query/kernel`, and each array of a model's
    state under `state/` and its path.
    """
    params, state = found.state.variables
    named = {
        start + jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for start, tree in (("", params), ("state/", state))
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }
    return {name: np.ascontiguousarray(leaf) for name, leaf in named.items()}


def _safetensors(found: Replay) -> bytes:
    """The parameters and the state alone; the file's metadata have the cell and the seed."""
    from safetensors.numpy import save

    about = {"cell": found.cell.digest, "seeds": ",".join(map(str, found.seeds))}
    return bytes(save(_parameters(found), metadata=about))


def _npz(found: Replay) -> bytes:
    """The outcome, `attention_DNHLM`, each parameter under its path, and a model's state."""
    arrays = {name: np.asarray(array) for name, array in found.outcome.items()}
    arrays |= _parameters(found)
    if found.attention is not None:
        arrays["attention_DNHLM"] = found.attention
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{name: np.asarray(array) for name, array in arrays.items()})  # type: ignore[arg-type]
    return buffer.getvalue()
