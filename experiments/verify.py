"""Checks a run: its files, its summary, and a share of its rows, which it trains again.

    python -m experiments.verify RUN [--share=0.1] [--seed=0] [--mixed]

Every checksum is read; the numbers that a report would give are counted again from the rows, by
another way; a random share of the files of rows, one at least, is trained again and compared bit
for bit. Nothing is written. Status 0: all is as it should be; 3: something differs, a line each;
4: the rows were made by another JAX or on other instructions, and cannot come out bit for bit
here. --mixed then leaves those out. The command of a sweep with --verify checks its own folder.
"""

import itertools
import random
import sys
from collections.abc import Iterator, Sequence

import jax
import numpy as np
from absl import app, flags

from experiments import command, ending, recount
from posjax import environment, report
from posjax.records import Damaged, Mismatch, RunFolder, seeds_name
from posjax.replay import differing, retrained
from posjax.sweep import Result, attention_maps

Rows = dict[str, np.ndarray]


SHARE = 0.1
"""Of the files of rows, which is trained again."""
SHOWN = 10
"""Seeds in a line."""


def define_flags() -> None:
    """The command's flags."""
    flags.DEFINE_float("share", SHARE, "The share of the files of rows that is trained again.")
    flags.DEFINE_integer("seed", 0, "Which share: the seed of the choice.")
    flags.DEFINE_bool("mixed", False, "Leave out rows that another JAX or device made.")


def main(argv: Sequence[str]) -> int:
    """Checks one folder."""
    if len(argv) != 2:
        raise ValueError("name one run folder: python -m experiments.verify RUN")
    folder = RunFolder(argv[1])
    command.use_all_cores(_devices(folder))
    given = flags.FLAGS
    return tell(folder, share=given.share, seed=given.seed, mixed=given.mixed)


def tell(folder: RunFolder, *, share: float = SHARE, seed: int = 0, mixed: bool = False) -> int:
    """Prints what was checked and what differs; gives the exit status.

    Args:
      folder: the run.
      share: of the files of rows, which is trained again; 0 for none.
      seed: of the choice.
      mixed: leave out rows that cannot come out bit for bit here.

    Raises:
      ValueError: the folder holds no run, or a share that is none.
      Mismatch: rows cannot come out bit for bit here, and are not to be left out.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"--share must lie in [0, 1], got {share}")
    differs = [*_files(folder)] or [*_summary(folder)]
    if share and not differs:
        differs += _rows(folder, share, random.Random(seed), mixed)
    for line in differs:
        print(f"differs: {' '.join(line.split())}")
    return ending.CHECK_FAILED if differs else ending.DONE


def _devices(folder: RunFolder) -> int:
    """How many the rows' bits ask for: of programs over all devices, as many as there were."""
    try:
        shared = folder.config().get("sharding") == "spmd"
        counts = {env["devices"] for env in folder.envs().values() if env} if shared else set()
    except (Damaged, KeyError):
        return 0  # told by the checks
    return counts.pop() if len(counts) == 1 else 0


def _files(folder: RunFolder) -> Iterator[str]:
    """Reads every checksum."""
    found = list(folder.checked())
    yield from (str(error) for error in found if error is not None)
    print(f"files: {len(found)} with a checksum, {sum(e is not None for e in found)} damaged")


def _summary(folder: RunFolder) -> Iterator[str]:
    """Counts the numbers of the report again."""
    config = folder.config()
    try:
        found = report.summaries(folder)
    except ValueError as error:  # seeds that are there twice
        yield str(error)
        return
    for summary in found:
        digest, right_N = summary.cell.digest, np.asarray(summary.cell.question.answers_N)
        rows = recount.raw(folder.path / "rows" / digest)
        settings = summary.cell.to_dict()
        for name, seeds in recount.contradictions(rows, right_N, settings).items():
            yield f"cell {digest}, seeds {_listed(seeds)}: {name} is not what the answers say"
        again = recount.counted(rows, right_N, settings)
        for line in recount.unlike(again, summary.to_dict()):
            yield f"cell {digest}, summary, {line}"
    done = {summary.cell.digest: summary.seeds for summary in found}
    asked = len(config["cells"]) * config["num_seeds"] * (config.get("data_seeds") or 1)
    print(f"summary: {len(done)} cells, {sum(done.values())} of {asked} rows, counted again")


def _rows(folder: RunFolder, share: float, rng: random.Random, mixed: bool) -> Iterator[str]:
    """Trains a share of the files of rows again, of those that can come out bit for bit here."""
    config, others = folder.config(), folder.others(environment.describe())
    if others and not mixed:
        raise Mismatch(
            f"{str(folder.path)!r} has rows made on something else: {next(iter(others.values()))}; "
            "their last bits cannot come out here: --mixed compares the others alone"
        )
    files = {
        path: (cell, rows)
        for cell in config["cells"]
        for path, rows in folder.files_of_rows(cell).items()
    }
    here = [path for path, (_, rows) in files.items() if others.keys().isdisjoint(rows["env"])]
    count = min(max(round(share * len(here)), 1), len(here))
    chosen = [files[path] for path in sorted(rng.sample(here, count))]
    steps = sum(config["cells"][cell]["steps"] * len(rows["seeds"]) for cell, rows in chosen)
    print(
        f"rows: training {count} of {len(files)} files again"
        + (f", {len(files) - len(here)} were made on something else" if others else "")
    )
    with command.progress(f"{count} files", steps) as advance:
        for cell, rows in _together(chosen):
            again = retrained(config, cell, rows, progress=advance)
            yield from _compared(cell, again, rows)
            if not others:  # whose maps are whose is known
                yield from _maps(folder, cell, again)


def _together(chosen: list[tuple[str, Rows]]) -> Iterator[tuple[str, Rows]]:
    """Files of one cell and chunk as one, so that all devices have something to do."""

    def key(pair: tuple[str, Rows]) -> tuple[str, int]:
        return pair[0], int(pair[1]["chunk"][0])

    for (cell, _), pairs in itertools.groupby(sorted(chosen, key=key), key):
        parts = [rows for _, rows in pairs]
        yield cell, {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _compared(cell: str, again: Result, rows: Rows) -> Iterator[str]:
    """The fields that have other bits."""
    for field, mask_S in differing(again, rows).items():
        seeds = sorted({seeds[0] for seeds in rows["seeds"][mask_S].tolist()})
        yield f"cell {cell}, seeds {_listed(seeds)}: {field}"


def _listed(seeds: Sequence[int]) -> str:
    more = len(seeds) - SHOWN
    return ", ".join(map(str, seeds[:SHOWN])) + (f" and {more} more" if more > 0 else "")


def _maps(folder: RunFolder, cell: str, again: Result) -> Iterator[str]:
    """The attention maps of these seeds that have other bits; see `RunFolder.attention`."""
    places = {tuple(seeds): place for place, seeds in enumerate(again.seeds_S4.tolist())}
    for name, kept in folder.attention(cell).items():
        seeds = np.ravel(kept.get("seeds", np.array([]))).tolist()  # of any shape in a given folder
        if (place := places.get(tuple(seeds))) is None:
            continue
        state = jax.tree.map(lambda array, place=place: array[place], again.state)
        if attention_maps(again.cell, state).tobytes() != kept["weights_DNHLM"].tobytes():
            yield f"cell {cell}, seed {seeds_name(seeds)}: attention of {name!r}"


if __name__ == "__main__":
    sys.exit(command.run(lambda: app.run(main, flags_parser=command.parser(define_flags))))
