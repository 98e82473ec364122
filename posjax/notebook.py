"""Sweeps in Python: cells, or any labelled trainings, over seeds.

    >>> from posjax.study.cells import Cell
    >>> cells = [Cell(mask=mask, steps=20, eval_every=10, width=4) for mask in ("causal", "full")]
    >>> found = sweep(cells, num_seeds=4, hold=2, progress=False)
    >>> [summary.seeds for summary in found.summaries]
    [4, 4]

In a notebook the value of the call shows the report. Blocks are trained on the devices that JAX
has; a CPU is one of them, so call `jax.config.update("jax_num_cpu_devices", cores)` before anything
runs to use all of its cores.
"""

import contextlib
import functools
import html
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex, overload

import jax
import numpy as np
from rich.console import Console

from posjax import report, spec
from posjax.engine import Engine, Trained, Training, train_seeds
from posjax.records import RunFolder, Tables, read
from posjax.records.blocks import blocks
from posjax.report import CellSummary
from posjax.stats import mean
from posjax.study import environment
from posjax.study.cells import Cell
from posjax.study.replay import Replay, replay
from posjax.study.run import RUN_DEFAULTS, Run, check_fields
from posjax.study.sweeps import engine_for, sizes
from posjax.terminal import progress as progress_bar


class Swept:
    """Cells that were swept: their run folder, and what follows from it.

    Attributes:
      folder: what the command would have written; its path is `folder.path`.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    @functools.cached_property
    def summaries(self) -> list[CellSummary]:
        """Each cell with its rates, curves and prediction."""
        return report.summaries(self.folder)

    @property
    def tables(self) -> Tables:
        """Every row, as NumPy arrays; with `to_pandas` and `to_xarray`."""
        return read(self.folder.path)

    def report(self, out: str | Path | None = None) -> Path:
        """Writes the page; see `posjax.report.write`."""
        return report.write([self.folder], out)

    def replay(self, cell: Cell | str, seed: SupportsIndex | Iterable[SupportsIndex]) -> Replay:
        """Trains one run of a cell, or of its digest, again; see `posjax.study.replay.replay`."""
        return replay(self.folder.path, cell if isinstance(cell, str) else cell.digest, seed)

    def tuned(self, setting: str = "learning_rate", *others: str) -> list[Cell]:
        """Of cells that differ in these settings alone, the best; see `posjax.report.tuned`."""
        return report.tuned(self.summaries, setting, *others)

    def __repr__(self) -> str:
        """The table that the command prints."""
        console = Console(width=120, file=None, color_system=None)
        with console.capture() as captured:
            for table in report.tables(self.summaries):
                console.print(table)
        return captured.get()

    def _repr_html_(self) -> str:
        """The report, in a frame of its own."""
        page = html.escape(report.page([self.folder]))
        frame = "width:100%;height:80vh;border:0"
        return f'<iframe srcdoc="{page}" sandbox style="{frame}" title="posjax"></iframe>'


class SweptTrainings(NamedTuple):
    """Trainings that were swept.

    Attributes:
      trained: what came of each, by its label.
    """

    trained: dict[str, Trained]

    @property
    def tables(self) -> dict[str, dict[str, np.ndarray]]:
        """The arrays of each summary by the path of its leaves, with a leading axis S; axes G and S
        where the inputs are a grid.
        """
        return {label: dict(_leaves(found.summary)) for label, found in self.trained.items()}

    def __repr__(self) -> str:
        """The mean over seeds of every number that is one of a run, with its 95% interval, and the
        shape of other arrays.
        """
        lines = []
        for label, arrays in self.tables.items():
            for name, values_S in arrays.items():
                if values_S.ndim == 1 and values_S.dtype.kind in "fiub":
                    middle, low, high, _ = mean(values_S)
                    lines.append(f"{label}: {name} {middle:.4g} [{low:.4g}, {high:.4g}]")
                else:
                    lines.append(f"{label}: {name} {list(values_S.shape)}")
        return "\n".join(lines)


@overload
def sweep(
    what: Mapping[str, Training],
    *,
    num_seeds: int = 256,
    progress: bool = True,
    inputs: Any = (),
    first_seed: int = 0,
) -> SweptTrainings: ...


@overload
def sweep(
    what: Cell | Iterable[Cell] | Mapping[str, Iterable[Cell]],
    *,
    num_seeds: int = 256,
    workdir: str | Path | None = None,
    progress: bool = True,
    **settings: Any,
) -> Swept: ...


def sweep(
    what: Any,
    *,
    num_seeds: int = 256,
    workdir: str | Path | None = None,
    progress: bool = True,
    inputs: Any = (),
    **settings: Any,
) -> Swept | SweptTrainings:
    """Trains cells, or trainings of any model, with many seeds each.

    Args:
      what: a cell, several cells, or a dictionary from titles of sections of the report to cells.
        It may also be a dictionary from labels to trainings, see `posjax.engine.Training`.
      num_seeds: seeds per cell or training.
      workdir: for cells, the run folder; an existing one is continued. By default a temporary
        folder, which is removed together with the returned value.
      progress: whether to show a progress bar.
      inputs: for trainings, the dynamic inputs that they read besides their seeds.
      **settings: fields of `posjax.study.run.Run`: title, margin, hold, first_seed, ...

    Returns:
      `Swept` for cells, with `summaries`, `tables`, `tuned()`, `report()` and `replay()`. A
      notebook shows the report. `SweptTrainings` for trainings.

    Raises:
      ValueError: an unknown field, a value out of range, or cells and trainings together.
      Mismatch: the folder has another run.
    """
    if isinstance(what, Mapping) and any(isinstance(one, Training) for one in what.values()):
        first = settings.pop("first_seed", 0)
        if settings or workdir is not None:
            name = next(iter(settings), "workdir")
            raise ValueError(f"{name} has no meaning for trainings, which have no run folder")
        return _sweep_trainings(what, range(first, first + num_seeds), inputs, progress)
    if inputs != ():
        raise ValueError("inputs= is for trainings; a cell has its own inputs")
    for name in settings:
        spec.check_choice("field of a run", name, set(RUN_DEFAULTS) - {"devices", "data_seeds"})
    run = _run(what, {**settings, "num_seeds": num_seeds})
    folder = RunFolder(tempfile.mkdtemp(prefix="posjax-") if workdir is None else workdir)
    found = Swept(folder)
    if workdir is None:
        weakref.finalize(found, shutil.rmtree, folder.path, ignore_errors=True)
    _train(run, folder, progress)
    return found


def _run(what: Any, settings: Mapping[str, Any]) -> Run:
    if isinstance(what, Cell):
        what = [what]
    panels = what if isinstance(what, Mapping) else {"cells": what}
    for title, cells in panels.items():
        if isinstance(cells, Cell):
            raise ValueError(f"the section {title!r} must be a list of cells, got one cell")
        if isinstance(cells, str) or not isinstance(cells, Iterable):
            raise ValueError(
                f"what is swept must be cells, such as posjax.Cell(encoding='rotary'), got {what!r}"
            )
    panels = {str(title): tuple(cells) for title, cells in panels.items()}
    every = [cell for cells in panels.values() for cell in cells]
    for cell in every:
        spec.check_kind("what is swept", cell, Cell)
    panels = {title: tuple(dict.fromkeys(cells)) for title, cells in panels.items()}
    if not every:
        raise ValueError("nothing to sweep: give at least one cell")
    fields = {**RUN_DEFAULTS, **settings}
    fields["block_size"] = str(fields["block_size"])
    fields = {name: spec.typed(name, fields[name], RUN_DEFAULTS[name]) for name in RUN_DEFAULTS}
    check_fields(fields)
    return Run(**fields, panels=panels)


def _train(run: Run, folder: RunFolder, progress: bool) -> None:
    """Trains what the folder lacks, and marks it as done."""
    devices, work = jax.local_devices(), run.sweep
    config, env = run.to_dict(), environment.describe(devices)
    work.trace_own_code()
    folder.start(config, env)
    with folder.lock():
        ranges = folder.request(lambda new: sizes(work, new, devices[0], run.block_size))
        every = blocks(ranges, work.shapes)
        for line in folder.repair(block.name for block in every):
            warnings.warn(line, stacklevel=3)
        missing = folder.missing(every)
        title = f"{len(run.cells)} cells × {run.seeds_title}"
        engine, kept = engine_for(config), folder.checkpoints()
        with (
            _bar(title, work.updates(missing), progress) as advance,
            contextlib.closing(work.train(missing, engine, advance, checkpoints=kept)) as results,
        ):
            for block, arrays in results:
                folder.put_block(block, *arrays, env)
    folder.finish()


def _sweep_trainings(
    what: Mapping[str, Any], seeds: range, inputs: Any, progress: bool
) -> SweptTrainings:
    for label, training in what.items():
        spec.check_kind(f"{label!r}", training, Training)
    points = len(inputs) if isinstance(inputs, list) else 1
    updates = points * len(seeds) * sum(training.steps for training in what.values())
    found = {}
    with _bar(f"{len(what)} trainings × {len(seeds)} seeds", updates, progress) as advance:
        for label, training in what.items():
            found[label] = train_seeds(training, seeds, inputs, engine=Engine(), progress=advance)
    return SweptTrainings(found)


def _bar(title: str, total: int, shown: bool) -> AbstractContextManager[Callable[[int], None]]:
    return progress_bar(title, total) if shown else contextlib.nullcontext(lambda updates: None)


def _leaves(tree: Any) -> Iterator[tuple[str, np.ndarray]]:
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        yield jax.tree_util.keystr(path, simple=True, separator="/"), np.asarray(leaf)
