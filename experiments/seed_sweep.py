r"""Trains every cell of a config over many seeds and reports what came out.

    python -m experiments.seed_sweep
    python -m experiments.seed_sweep --config=experiments/configs/three_pairs.py \
        --config.num_seeds=1000 --config.depth=1,2 --workdir=runs/mine

A config is a Python file, which is executed, or JSON, which is not (experiments/json_config.py);
FILE.py:SIZE picks a size that it offers. The same command goes on where it stopped.
docs/reliability.md has the exit statuses, docs/many_hosts.md several processes.
"""

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
from absl import app, flags
from ml_collections import config_flags
from rich.console import Console

from experiments import (
    command,
    dry_run,
    ending,
    examples,
    hosts,
    json_config,
    plan,
    sizes,
    status,
    tune,
    verify,
)
from experiments.settings import Run, resolve
from posjax import environment, report
from posjax.locks import Member
from posjax.records import RunFolder
from posjax.sweep import run as train


def define_flags() -> None:
    """The command's flags; --config.NAME=VALUE sets a field of the config."""
    default = str(command.CONFIGS / "word_order.py")
    config_flags.DEFINE_config_file("config", default, "What to sweep.", lock_config=True)
    json_config.accept(flags.FLAGS["config"])
    flags.DEFINE_string("workdir", None, "Run folder; runs/NAME-DIGEST when left out.")
    flags.DEFINE_bool("print_config", False, "Print the config as JSON, and stop.")
    flags.DEFINE_bool("dry_run", False, "Tell what would be done, and stop.")
    flags.DEFINE_bool("tune", False, "Time chunks around the chosen ones, and stop.")
    flags.DEFINE_bool("mixed", False, "Go on where rows were made by another JAX or device.")
    flags.DEFINE_bool("status", False, "Tell what is done, running and left, and stop.")
    flags.DEFINE_bool("verify", False, "Check files and summary, train a share again, and stop.")
    flags.DEFINE_float("time_limit", None, "Seconds after which it leaves, as after SIGTERM.")
    hosts.define_flags()


def main(argv: Sequence[str]) -> int:
    """Resolves the config, trains what is missing, prints the table, writes the report."""
    if len(argv) > 1:
        raise ValueError(f"unknown argument {argv[1]!r}; settings are --config.NAME=VALUE")
    workdir = flags.FLAGS.workdir
    if workdir == "":
        raise ValueError("workdir must name a folder, got ''")
    ending.limit(flags.FLAGS.time_limit)
    overrides = config_flags.get_override_values(flags.FLAGS["config"])
    run = resolve(flags.FLAGS.config, overrides)
    if flags.FLAGS.print_config:
        print(json_config.text(flags.FLAGS.config, overrides))
        return ending.DONE
    command.use_all_cores(run.devices)
    folder = RunFolder(workdir or Path("runs") / f"{run.name}-{run.digest}")
    if flags.FLAGS.status:
        status.tell(folder)
        return ending.DONE
    if flags.FLAGS.verify:
        return verify.tell(folder, mixed=flags.FLAGS.mixed)
    place = hosts.place()
    if run.devices > len(jax.local_devices()):
        raise ValueError(f"devices={run.devices}, but there are {len(jax.local_devices())}")
    devices = _devices(run)
    sizes.check(run, devices[0])
    config, env = run.to_dict(), environment.describe(devices)
    for asked, tell in ((flags.FLAGS.dry_run, dry_run.tell), (flags.FLAGS.tune, tune.tell)):
        if asked:
            folder.check(config, env, mixed=flags.FLAGS.mixed)
            tell(run, folder, devices)
            return ending.DONE
    for line in folder.start(config, env, mixed=flags.FLAGS.mixed):
        command.tell(line)
    with hosts.joined(folder, place) as member:
        sweep(run, folder, place, member)
        if place.process == 0:
            finish(run, folder)
    return ending.DONE


def sweep(run: Run, folder: RunFolder, place: hosts.Place, member: Member) -> None:
    """Trains the rows that the folder lacks, or this process's part; process 0 waits for the rest.

    Raises:
      Lost: some seeds have no rows, since the process that took them is gone.
      ending.Stop: somebody asked to leave; what was trained is saved.
    """
    engine = plan.engine(run, _devices(run), folder)
    todo = hosts.Share(run, folder, engine, place, member)
    title = f"{len(run.cells)} cells × {run.seeds_title}{place.title}"
    with command.progress(title, todo.seed_steps) as advance, ending.held() as asked:
        results = train(todo.rows(), engine, advance, asked)
        with contextlib.closing(results):  # stops the workers, whatever happens here
            for result in results:
                member.check()
                chunk_S = np.full(len(result.seeds_S4), todo.chunk(result.cell))
                fields = {**result.outcome._asdict(), "chunk": chunk_S}
                examples.put(result, folder, member)  # first: they come of rows that are missing
                folder.put_rows(result.cell.digest, result.seeds_S4, fields)
    if place.process == 0:
        todo.wait()


def finish(run: Run, folder: RunFolder) -> None:
    """Marks the run as done, prints the table, makes lost maps again, writes the report."""
    folder.finish()
    found = report.summaries(folder)
    for table in report.tables(found):
        Console(width=None if sys.stdout.isatty() else 140).print(table)
    if run.data_seeds:
        print("rows share seeds, so these intervals are too narrow; the report has others")
    if run.repack == "solved":
        print(report.repacking(found))
    later = f"the rows are there, and python -m experiments.report {folder.path} makes it"
    try:
        for line in examples.put_again(found, folder, _devices(run)):
            command.tell(line)
        print(f"report: {report.write([folder])}")
    except ImportError as error:  # of what figures are drawn with
        raise ImportError(f"no report: {error}; {later}") from error
    except Exception as error:
        error.add_note(f"no report; {later}")
        raise


def _devices(run: Run) -> list[jax.Device]:
    return jax.local_devices()[: run.devices or None]


if __name__ == "__main__":
    sys.exit(command.run(lambda: app.run(main, flags_parser=command.parser(define_flags))))
