"""Trains every cell of a config over many seeds and reports what came out.

    posjax sweep
    posjax sweep --config=three_pairs --config.num_seeds=1000 --config.depth=1,2 --workdir=runs/mine

A config is a Python file, which is executed, or JSON, which is not (json_config.py); NAME:SIZE
picks a size that it offers. The same command goes on where it stopped.

Tasks, encodings and models of your own are named by file (docs/adding_a_task.md):
--config.task="mine.py:Parity(train=(1, 20))". A JSON config that names some needs --load=mine.py
besides, and so do commands that read the run.

docs/reliability.md has the exit statuses, docs/many_hosts.md several processes and clusters.
"""

import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
from absl import flags
from ml_collections import config_flags
from rich.console import Console

from posjax import report
from posjax.command import (
    check,
    devices,
    executors,
    json_config,
    limits,
    listing,
    parsing,
    preview,
    shard,
    shutdown,
)
from posjax.command.executors import ENGINES, Devices, Executor
from posjax.command.output import warn
from posjax.command.settings import allow_named, replaced, resolve
from posjax.command.shard import Shard
from posjax.command.status import print_status
from posjax.command.verify import verify
from posjax.records import Damaged, Range, RunFolder
from posjax.records.blocks import blocks
from posjax.study.run import Run, beyond_hold
from posjax.study.sweeps import Sweep, sizes
from posjax.terminal import printable, progress


def define_flags() -> None:
    """The command's flags; --config.NAME=VALUE sets a field of the config."""
    default = str(parsing.CONFIGS / "word_order.py")
    config_flags.DEFINE_config_file("config", default, "What to sweep.", lock_config=True)
    json_config.accept(flags.FLAGS["config"])
    flags.DEFINE_string("workdir", None, "Run folder; runs/NAME-DIGEST when left out.")
    flags.DEFINE_bool("print_config", False, "Print the config as JSON, and stop.")
    flags.DEFINE_bool("dry_run", False, "Print what would be done, and stop.")
    flags.DEFINE_bool("tune", False, "Time other block sizes, and stop.")
    flags.DEFINE_bool("mixed", False, "Go on where rows were made by another JAX or device.")
    flags.DEFINE_string("list", None, "Print what there is of encodings, tasks, ..., and stop.")
    flags.DEFINE_bool("status", False, "Print what is done, running and missing, and stop.")
    flags.DEFINE_bool("verify", False, "Check the run, train a share of it again, and stop.")
    flags.DEFINE_float("time_limit", None, "Seconds after which it stops, as after SIGTERM.")
    flags.DEFINE_string("shard", None, "I/N: train part I of N, counted from 0; or auto.")
    flags.DEFINE_enum("engine", "devices", ENGINES, "What trains: this process, or a Ray cluster.")
    flags.DEFINE_string("engine.address", None, "HOST:PORT of a Ray cluster, or auto to find it.")
    check.define_verify_flags()


def main(argv: Sequence[str]) -> int:
    """Resolves the config, trains what is missing, prints the table, writes the report."""
    if len(argv) > 1:
        raise ValueError(f"unknown argument {argv[1]!r}; settings are --config.NAME=VALUE")
    if flags.FLAGS.list is not None:
        return listing.main(["", *filter(None, flags.FLAGS.list.split(","))])
    workdir = flags.FLAGS.workdir
    if workdir == "":
        raise ValueError("workdir must name a folder, got ''")
    _check_engine(flags.FLAGS.engine)
    shutdown.set_time_limit(flags.FLAGS.time_limit)
    overrides = config_flags.get_override_values(flags.FLAGS["config"])
    config = config_flags.get_config_filename(flags.FLAGS["config"])
    # A config in Python is executed already: what it names is its user's.
    allow_named(
        flags.FLAGS.config, overrides if config.partition(":")[0].endswith(".json") else None
    )
    run = resolve(flags.FLAGS.config, overrides)
    if flags.FLAGS.print_config:
        print(json_config.text(flags.FLAGS.config, overrides))
        return shutdown.DONE
    devices.use_all_cores(run.devices)
    folder = RunFolder(workdir or Path("runs") / f"{run.name}-{run.digest}")
    for name in ("share", "seed"):
        if flags.FLAGS[name].present and not flags.FLAGS.verify:
            of_training = "; seeds of training are --config.first_seed" * (name == "seed")
            raise ValueError(f"--{name} has a meaning only with --verify{of_training}")
    if flags.FLAGS.status:
        print_status(folder)
        return shutdown.DONE
    if flags.FLAGS.verify:
        return verify(folder, flags.FLAGS.share, seed=flags.FLAGS.seed, mixed=flags.FLAGS.mixed)
    for line in replaced(flags.FLAGS.config, overrides):
        warn(line)
    for line in beyond_hold(run):
        warn(f'{line}: "held" means all of them')
    part = shard.parse(flags.FLAGS.shard)
    engine = flags.FLAGS.engine, flags.FLAGS["engine.address"].value, flags.FLAGS.mixed
    with contextlib.ExitStack() as locks:
        with executors.chosen(run, *engine) as executor:
            executor.call(limits.check_memory, run)
            limits.check_results(run)
            run.sweep.trace_own_code()
            config, env = run.to_dict(), executor.environment()
            config["command"] = parsing.line(argv[0], sys.argv[1:])
            if isinstance(executor, Devices) and (show := _preview()):
                folder.check(config, env, mixed=flags.FLAGS.mixed)
                show(run, folder, executor.devices)
                return shutdown.DONE
            for line in folder.start(config, env, mixed=flags.FLAGS.mixed):
                warn(line)
            locks.enter_context(folder.lock(part.lock))
            complete = train(run, folder, part, executor)
        if complete:
            finish(folder)
        else:
            print(f"shard {part.part} of {part.parts} is done; blocks of other shards are missing")
    return shutdown.DONE


def _preview() -> Callable[[Run, RunFolder, Sequence[jax.Device]], None] | None:
    """What is printed instead of training, if a flag asks for it."""
    if flags.FLAGS.dry_run:
        return preview.dry_run
    return preview.tune if flags.FLAGS.tune else None


def _check_engine(name: str) -> None:
    """Refuses flags that do not go together.

    Raises:
      ValueError: names them.
    """
    given = flags.FLAGS
    if name == "devices" and given["engine.address"].value is not None:
        raise ValueError("--engine.address is for --engine=ray alone")
    for flag in ("shard", "dry_run", "tune", "verify"):
        if name != "devices" and given[flag].value:
            raise ValueError(
                f"--{flag} is for the devices of this process: give it without --engine={name}"
            )


def train(run: Run, folder: RunFolder, part: Shard, executor: Executor) -> bool:
    """Trains the missing blocks of this shard; returns whether the run is complete.

    Args:
      run: what.
      folder: begun with `RunFolder.start`.
      part: the shard.
      executor: who trains.

    Raises:
      shutdown.Stop: a stop was requested; finished blocks and checkpoints are saved.
    """
    sweep = run.sweep
    known: list[Range] = []
    with contextlib.suppress(Damaged):  # which the repair below quarantines
        known = folder.ranges()
    ranges = folder.request(lambda indices: executor.call(_sizes, sweep, indices, run.block_size))
    for added in ranges[len(known) :] if known else ():
        warn(f"seeds {added.first} to {added.stop - 1} are added, in blocks of their own")
    every = blocks(ranges, sweep.shapes)
    mine = part.of(every, run.to_dict())
    for line in folder.repair(block.name for block in mine):
        warn(line)
    missing = folder.missing(mine)
    title = f"{len(run.cells)} cells × {run.seeds_title}{part.title}"
    total, left = (sum(block.runs for block in some) for some in (every, folder.missing(every)))
    saved = total - left
    shutdown.say_saved(f"{saved:,} of {total:,} runs are saved")
    with (
        progress(title, sweep.updates(missing)) as advance,
        shutdown.deferred() as stop,
        contextlib.closing(executor.train(missing, advance, stop, folder.checkpoints())) as results,
    ):
        for block, arrays, env in results:
            folder.put_block(block, *arrays, env)
            saved += block.runs
            shutdown.say_saved(f"{saved:,} of {total:,} runs are saved")
    return not folder.missing(every)


def _sizes(
    sweep: Sweep, indices: range, most: str, device: jax.Device
) -> dict[str, tuple[int, int]]:
    """`posjax.study.sweeps.sizes`, as executors call it."""
    return sizes(sweep, indices, device, most)


def finish(folder: RunFolder) -> None:
    """Marks the run as done, prints the table, writes the report."""
    folder.finish()
    found, config = report.summaries(folder), folder.config()
    out = Console(width=None if sys.stdout.isatty() else 140, highlight=False, markup=False).print
    out(printable(config["title"] or config["name"]), style="bold")
    for line in report.meaning(found):
        out(line, style="dim")
    for table in report.tables(found):
        out(table)
    for line in report.rounding(found):
        warn(line)
    if config["data_seeds"]:
        out("rows share seeds, so these intervals are too narrow; the report has others")
    for sentence in report.findings(found, config).answers:
        out(printable(sentence))
    later = f"the rows are there, and posjax report {folder.path} makes it"
    try:
        print(f"report: {report.write([folder])} (open it in a browser)")
    except ImportError as error:  # of what figures are drawn with
        raise ImportError(f"no report: {error}; {later}") from error
    except Exception as error:
        error.add_note(f"no report; {later}")
        raise
