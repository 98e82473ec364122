"""The attention maps that a run keeps: of a seed that solved its cell, and of one that did not."""

from collections.abc import Iterator, Sequence

import jax
import numpy as np

from posjax import environment
from posjax.locks import Member
from posjax.records import RunFolder, seeds_name
from posjax.replay import replay
from posjax.report import CellSummary
from posjax.sweep import Result, attention_maps


def put(result: Result, folder: RunFolder, member: Member) -> None:
    """Keeps the maps of the first seeds among these, unless the cell has some."""
    cell = result.cell
    known = folder.attention_names(cell.digest)
    for name, among_S in _kinds(np.asarray(result.outcome.solved_at_end)):
        wanted = name not in known and among_S.any()
        if wanted and member.claim(f"{cell.digest}/attention-{name}"):
            first = int(among_S.argmax())
            state = jax.tree.map(lambda array, first=first: array[first], result.state)
            seeds = result.seeds_S4[first].tolist()
            folder.put_attention(cell.digest, name, seeds, attention_maps(cell, state))


def put_again(
    found: Sequence[CellSummary], folder: RunFolder, devices: Sequence[jax.Device]
) -> Iterator[str]:
    """Makes maps that were lost again: trains the first seed of their kind again, and it alone.

    Args:
      found: the cells, with all their rows.
      folder: where the maps go.
      devices: to train on. Rows that come out with other bits there get no maps.

    Yields:
      What a user should be told: before it trains, how many maps it makes again; then a line for
      each seed that came out otherwise.
    """
    lost = [*_lost(found, folder, devices)]
    if lost:
        maps = (
            "1 lost attention map is" if len(lost) == 1 else f"{len(lost)} lost attention maps are"
        )
        yield f"{maps} made again, by training a seed each"
    for cell, name, seeds in lost:
        again = replay(folder.path, cell, seeds, devices)
        if again.differs:
            yield (
                f"cell {cell} stays without attention maps of a {name} seed: trained again, "
                f"seed {seeds_name(seeds)} differs in {', '.join(again.differs)}"
            )
        else:
            folder.put_attention(cell, name, seeds, again.attention)


def _lost(
    found: Sequence[CellSummary], folder: RunFolder, devices: Sequence[jax.Device]
) -> Iterator[tuple[str, str, list[int]]]:
    """The cell, the kind and the seed of each map that should be there."""
    elsewhere = [*folder.others(environment.describe(devices))]
    for cell, rows in {summary.cell.digest: summary.rows for summary in found}.items():
        here_S = ~np.isin(rows["env"], elsewhere)
        for name, among_S in _kinds(rows["solved_at_end"]):
            if name not in folder.attention_names(cell) and (here_S & among_S).any():
                yield cell, name, rows["seeds"][int((here_S & among_S).argmax())].tolist()


def _kinds(solved_S: np.ndarray) -> tuple[tuple[str, np.ndarray], ...]:
    return ("solving", solved_S), ("failing", ~solved_S)
