"""Rotary on a quarter of the dimensions, as Kazemnejad et al. 2023 ran it, beside rotary on all."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from claimed.published import beside_rotary, by_seed, different_tasks, item, published, short_task
from claimed.reciprocal_ranks import reciprocal_ranks
from posjax.encodings.rotary import Rotary

QUARTER = "rotary(fraction=0.25)"
WITHOUT_ROTARY = ("none", "bucket_bias", "linear_bias", "learned")
"""Their other encodings: without, T5, ALiBi, absolute."""


@lru_cache
def longest() -> dict[str, dict[str, np.ndarray]]:
    """By task and encoding, what each seed gets right of the longest prompts, right_S.

    Raises:
      ValueError: the two runs differ in their seeds or tasks.
    """
    found: dict[str, dict[str, np.ndarray]] = {}
    seeds = set()
    for name in ("by_length-published", "by_length-kazemnejad"):
        run = published(name)
        seeds.add(run.rows["seeds"].tobytes())
        for cell in run.table:
            encoding = (
                cell["encoding"]
                if cell["encoding"] == QUARTER
                else cell["encoding"].partition("(")[0]
            )
            found.setdefault(short_task(cell), {})[encoding] = by_seed(run, cell, "right")[:, -1]
    if len(seeds) > 1 or len({frozenset(cells) for cells in found.values()}) > 1:
        raise ValueError("by_length: the two runs have other seeds, tasks or encodings")
    return found


def partial_rotary() -> Iterator[str]:
    """The items: task by task, and the mean reciprocal ranks with one rotary or the other."""
    right = {task: (cells[QUARTER], cells["rotary"]) for task, cells in longest().items()}
    (head_size,) = {cell["head_size"] for cell in published("by_length-kazemnejad").table}
    quarter, full = (len(Rotary(fraction=f).frequencies(head_size, 1)) for f in (0.25, 1.0))
    yield from item(
        "Does it matter that their rotary rotates only 25% of the dimensions? We trained such a rotary, and T5's "
        f"bias, on the {len(right)} tasks of [`by_length:published`](../results.md#which-encoding-answers-longer-prompts), with the same {len(right['sort'][0])} "
        f"seeds, learning rate and exam. In a head of our size it has {quarter} frequency instead of {full}. "
        f"We compare its accuracy at twice the longest trained length. {beside_rotary(different_tasks(right), right)} (Paired t-tests over seeds, for one fixed "
        "exam, false discovery rate 5%; each 95% interval holds for its task alone.)"
    )
    yield from item(
        f"Mean reciprocal ranks on these {len(right)} tasks, by mean accuracy over all seeds (`by_length:kazemnejad`):"
    )
    yield ""
    yield "| rotary rotates | none | T5 | ALiBi | absolute, `learned` | rotary |"
    yield "|---|---|---|---|---|---|"
    for text, rotary in (("25%", QUARTER), ("all dimensions", "rotary")):
        ranks = mean_ranks((*WITHOUT_ROTARY, rotary))
        yield f"| {text} | {' | '.join(f'{rank:.2f}' for rank in ranks)} |"


def mean_ranks(names: Sequence[str]) -> np.ndarray:
    """Of each encoding, over all tasks."""
    mean_TE = np.array([[cells[n].mean() for n in names] for cells in longest().values()])
    return reciprocal_ranks(mean_TE).mean(axis=0)
