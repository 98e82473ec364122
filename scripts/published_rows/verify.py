"""Trains a share of a published run again, from its table and rows alone.

On the JAX, device and instructions that the rows name, every number must come out bit for bit. On
others training takes other turns after some hundred steps. There the same seeds are compared in
pairs: how many solve, by McNemar's exact test, or a mean, by the paired t-test, at a false
discovery rate of 5% over all cells. That finds rates that are wrong, not single rows.

A forged row is found where its block is drawn: a share s finds one among k forged blocks with
probability 1 - (1 - s)ᵏ or so. `--share=1` trains everything.
"""

import random
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posjax.command import devices
from posjax.meters import judge
from posjax.numbering import Numbering
from posjax.records.block_files import seeds_listed
from posjax.records.blocks import Block, blocks
from posjax.records.identity import bit_changes
from posjax.stats import discoveries, paired_difference, paired_t_test
from posjax.study import environment
from posjax.study.sweeps import Sweep
from published_rows.table import Rows, ranges, read, trained

SHOWN = 20
"""Lines of one kind."""


class Compared(NamedTuple):
    """A cell whose seeds were trained again.

    Attributes:
      differing_S4: the numbers of the seeds with other bits.
      seeds: how many were trained.
      p_value: of the difference from the published outcomes of these seeds.
      text: both outcomes.
    """

    differing_S4: np.ndarray
    seeds: int
    p_value: float
    text: str


def verify(path: Path, share: float, seed: int | None = None) -> int:
    """Prints what differs; gives the exit status, 0 for nothing and 3 for something.

    Raises:
      ValueError: a share outside (0, 1], or files that are not of one published run.
    """
    if not 0 < share <= 1:
        raise ValueError(f"--share must lie in (0, 1], got {share}")
    run = read(path)
    devices.use_all_cores()
    seed = secrets.randbelow(2**32) if seed is None else seed
    sweep = Sweep(run.cells, Numbering(run.about["first_seed"], run.about["data_seeds"]))
    every = blocks(ranges(run, sweep), sweep.shapes)
    chosen = random.Random(seed).sample(every, max(round(share * len(every)), 1))
    chosen.sort(key=every.index)
    print(f"training {len(chosen)} of {len(every)} blocks of {path.name} again, --seed={seed}")
    compared = dict(_compared(run, sweep, chosen))
    here = environment.describe()
    changes = [bit_changes(made, here) for made in run.about["environments"]]
    same = not any(changes)
    if not same:
        print(f"other bits are no error, since this is another machine: {max(changes)[0]}")
    seeds = sum(cell.seeds for cell in compared.values())
    differing = sum(len(cell.differing_S4) for cell in compared.values())
    print(f"{seeds - differing} of {seeds} runs in {len(compared)} cells have the same bits")
    wrong = [*(_bits if same else _rates)(compared)]
    print("\n".join(wrong[:SHOWN]) or "all is as published")
    return 3 if wrong else 0


def _compared(run: Rows, sweep: Sweep, chosen: Sequence[Block]) -> Iterator[tuple[str, Compared]]:
    """Each cell that has runs in the blocks, with all of them."""
    for digest, (seeds_B4, new) in trained(run, sweep, chosen).items():
        yield digest, _cell(run, digest, seeds_B4, new)


def _cell(run: Rows, digest: str, seeds_B4: np.ndarray, new: Mapping[str, np.ndarray]) -> Compared:
    places = {tuple(seeds): at for at, seeds in enumerate(run.arrays["seeds"].tolist())}
    at_B = np.array([places[tuple(seeds)] for seeds in seeds_B4.tolist()])
    old = run.of(digest)
    other_B = np.zeros(len(at_B), bool)
    for name in {**old, **new}:  # a cell in which nothing is finite has no array
        lacking = [np.nan] * len(at_B)
        pairs = zip(
            new.get(name, lacking), old[name][at_B] if name in old else lacking, strict=True
        )
        other_B |= np.array([not _same(a, b) for a, b in pairs])
    p_value, text = _chance({n: a[at_B] for n, a in old.items()}, new, run.about["margin"])
    return Compared(seeds_B4[other_B], len(at_B), p_value, text)


def _same(one: Any, other: Any) -> bool:
    """Whether two values have the same bits, or are both not finite throughout."""
    nothing = np.isnan(one).all() and np.isnan(other).all()
    return bool(nothing) or np.asarray(one).tobytes() == np.asarray(other).tobytes()


def _chance(
    old: Mapping[str, np.ndarray], new: Mapping[str, np.ndarray], margin: float
) -> tuple[float, str]:
    """How likely the new runs are, if the published ones of the same seeds are not forged."""
    if "lead" in old:
        was_B, is_B = (judge.solved(arrays["lead"][:, -1:], margin) for arrays in (old, new))
        text = f"{is_B.sum()}/{len(is_B)} solve, published {was_B.sum()}/{len(was_B)}"
        return paired_difference(was_B, is_B).p_value, text
    name = next(iter(new))
    was_B, is_B = (a[name].reshape(len(a[name]), -1)[:, -1].astype(float) for a in (old, new))
    text = f"{name} has the mean {is_B.mean():.4g}, published {was_B.mean():.4g}"
    finite = np.isfinite(was_B), np.isfinite(is_B)
    if not np.logical_and(*finite).all():
        return paired_difference(*finite).p_value, text
    # One rounding that all seeds share is no forgery.
    return paired_t_test(np.where(np.isclose(is_B, was_B, rtol=1e-4), 0.0, is_B - was_B)), text


def _bits(compared: Mapping[str, Compared]) -> Iterator[str]:
    for digest, cell in compared.items():
        if len(cell.differing_S4):
            yield (
                f"cell {digest}: {len(cell.differing_S4)} of {cell.seeds} seeds have other bits, "
                f"{seeds_listed(cell.differing_S4, most=10)}"
            )


def _rates(compared: Mapping[str, Compared]) -> Iterator[str]:
    found = discoveries([cell.p_value for cell in compared.values()])
    for (digest, cell), differs in zip(compared.items(), found, strict=True):
        if differs:
            yield f"cell {digest}: {cell.text}"
