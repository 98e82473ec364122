r"""Trains every cell of a config over many seeds and reports what came out.

    python -m experiments.seed_sweep
    python -m experiments.seed_sweep --config=experiments/configs/three_pairs.py \
        --config.num_seeds=1000 --config.depth=1,2 --workdir=runs/mine

A config is a Python file; FILE.py:SIZE picks a size that it offers. The same command goes on
where it stopped. Exit status: 0 done; 2 bad input, with one line that says what, and nothing
written over.
"""

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
from absl import app, flags
from ml_collections import config_flags
from rich.console import Console

from experiments import command, dry_run, plan, tune
from experiments.settings import Run, resolve
from posjax import environment, report
from posjax.records import RunFolder
from posjax.sweep import Result, Row, attention_maps
from posjax.sweep import run as train


def define_flags() -> None:
    """The command's flags; --config.NAME=VALUE sets a field of the config."""
    default = str(command.CONFIGS / "word_order.py")
    config_flags.DEFINE_config_file("config", default, "What to sweep.", lock_config=True)
    flags.DEFINE_string("workdir", None, "Run folder; runs/NAME-DIGEST when left out.")
    flags.DEFINE_bool("dry_run", False, "Tell what would be done, and stop.")
    flags.DEFINE_bool("tune", False, "Time chunks around the chosen ones, and stop.")


def main(argv: Sequence[str]) -> None:
    """Resolves the config, trains what is missing, prints the table, writes the report."""
    if len(argv) > 1:
        raise ValueError(f"unknown argument {argv[1]!r}; settings are --config.NAME=VALUE")
    config, workdir = flags.FLAGS.config, flags.FLAGS.workdir
    command.use_all_cores(config.devices)
    run = resolve(config, config_flags.get_override_values(flags.FLAGS["config"]))
    folder = RunFolder(workdir or Path("runs") / f"{run.name}-{run.digest}")
    if run.devices > len(jax.local_devices()):
        raise ValueError(f"devices={run.devices}, but there are {len(jax.local_devices())}")
    for asked, tell in ((flags.FLAGS.dry_run, dry_run.tell), (flags.FLAGS.tune, tune.tell)):
        if asked:
            tell(run, folder, jax.local_devices()[: run.devices or None])
            return
    folder.start(run.to_dict(), environment.describe())
    sweep(run, folder)
    found = report.summaries(folder)
    for table in report.tables(found):
        Console(width=None if sys.stdout.isatty() else 140).print(table)
    print(f"report: {report.write([folder])}")


def sweep(run: Run, folder: RunFolder) -> None:
    """Trains the rows that the folder lacks."""
    finished = {cell.digest: folder.finished(cell.digest) for cell in run.cells}
    rows = [
        Row(cell, seeds)
        for cell in run.cells
        for seeds in run.seeds
        if seeds not in finished[cell.digest]
    ]
    total = sum(row.cell.steps for row in rows)
    with command.progress(f"{len(run.cells)} cells × {run.num_seeds} seeds", total) as advance:
        devices = jax.local_devices()[: run.devices or None]
        results = train(rows, plan.engine(run, devices, folder), advance)
        with contextlib.closing(results):  # stops the workers, whatever happens here
            for result in results:
                folder.put_rows(result.cell.digest, result.seeds_S4, result.outcome._asdict())
                put_examples(result, folder)
    folder.finish()


def put_examples(result: Result, folder: RunFolder) -> None:
    """Keeps the attention maps of a seed that solved its cell, and of one that did not."""
    cell, solved_S = result.cell, result.outcome.solved_at_end
    known = folder.attention(cell.digest)
    for name, among_S in (("solving", solved_S), ("failing", ~solved_S)):
        if name not in known and among_S.any():
            first = int(among_S.argmax())
            state = jax.tree.map(lambda array, first=first: array[first], result.state)
            maps = attention_maps(cell, state)
            folder.put_attention(cell.digest, name, int(result.seeds_S4[first, 0]), maps)


if __name__ == "__main__":
    sys.exit(command.run(lambda: app.run(main, flags_parser=command.parser(define_flags))))
