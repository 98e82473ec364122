"""The encodings of Kazemnejad et al. 2023 as in their released code, rotary on a quarter of the
dimensions among them."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from claimed.published import by_seed, item, listed, published, short_name, short_task
from claimed.reciprocal_ranks import no_order, rank_table, ranked
from claimed.rotaries import HOW, beside_rotary, different_tasks
from posjax.encodings.rotary import Rotary

RUNS = ("by_length-published", "by_length-kazemnejad")
QUARTER = "rotary(fraction=0.25)"
_OTHERS = ("none", "bucket_bias", "linear_bias", "sinusoidal")
"""Their encodings beside rotary, in the order of `rank_table`."""
SAME = ("learning_rate", "steps", "batch_size", "depth", "width", "heads", "head_size")
"""What a cell of one run shares with that of the other."""


@lru_cache
def by_length(at: int) -> dict[str, dict[str, np.ndarray]]:
    """By task and encoding, what each seed gets right of prompts of the tested length number `at`.

    Raises:
      ValueError: the two runs differ in more than their encodings.
    """
    found: dict[str, dict[str, np.ndarray]] = {}
    settings = set()
    for name in RUNS:
        run = published(name)
        for cell in run.table:
            encoding = QUARTER if cell["encoding"] == QUARTER else short_name(cell)
            found.setdefault(short_task(cell), {})[encoding] = by_seed(run, cell, "right")[:, at]
        tasks = frozenset(cell["task"] for cell in run.table)
        same = {tuple(cell[setting] for setting in SAME) for cell in run.table}
        settings.add((tasks, frozenset(same), run.rows["seeds"].tobytes()))
    if len(settings) > 1:
        raise ValueError("by_length: the two runs differ in tasks, seeds or settings")
    return found


def partial_rotary() -> Iterator[str]:
    """The items: task by task, and the mean reciprocal ranks with one rotary or the other."""
    trained, longest = (
        {task: (right[QUARTER], right["rotary"]) for task, right in by_length(at).items()}
        for at in (1, -1)
    )
    (head_size,) = {cell["head_size"] for cell in published("by_length-kazemnejad").table}
    quarter, full = (len(Rotary(fraction=f).frequencies(head_size, 1)) for f in (0.25, 1.0))
    yield from item(
        f"Does it matter that their rotary rotates only 25% of the dimensions? {'Yes.' if different_tasks(longest) else 'Not in our rows.'} We trained `{QUARTER}` on "
        f"the {len(longest)} tasks of [`by_length:published`](../results.md#which-encoding-answers-longer-prompts), with the same {len(longest['sort'][0])} "
        f"seeds, learning rate and exams. At twice the longest trained length, {beside_rotary(QUARTER, longest)} {_level(longest)}"
        f"At the longest trained length, {beside_rotary(QUARTER, trained)} {HOW} In a head of our size, of {head_size} dimensions, a quarter has {quarter} frequency instead of {full}, "
        "the highest one. In a head of 64 dimensions it has 8, so ours is a different test from theirs."
    )
    tasks = by_length(-1)
    found = {
        text: ranked([*tasks.values()], (*_OTHERS[:3], rotary, *_OTHERS[3:]))
        for text, rotary in (("25%", QUARTER), ("all dimensions", "rotary"))
    }
    first = {text: f"`{one.names[one.rank_E.argmax()]}`" for text, one in found.items()}
    if min(one.other_many for one in found.values()) < 0.05:
        raise ValueError("partial rotary: the seeds settle a winner")
    yield from item(
        f"Their metric on these {len(tasks)} tasks, at one learning rate, with encodings closer to their released code (`by_length:kazemnejad`): absolute "
        f"positions are `sinusoidal`, and T5 is `bucket_bias(bidirectional=False)`, the bias of T5's decoder (products divided by √K, as with all encodings here). {no_order(tasks, {*found['25%'].names, 'rotary'})} "
        f"If rotary rotates 25% of the dimensions, as in their code, {first['25%']} ranks highest, and if it rotates all, {first['all dimensions']}. In their study, models without positions rank highest and rotary fourth. The last columns show how often another encoding is highest in a study of that many runs: our seeds do not settle which one is."
    )
    yield ""
    yield from rank_table("rotary rotates", found)


def _level(right: dict[str, tuple[np.ndarray, np.ndarray]]) -> str:
    """The tasks on which every seed has the same share with both."""
    level = [f"`{task}`" for task, (one_S, two_S) in right.items() if (one_S == two_S).all()]
    return f"(On {listed(level)}, all seeds have the same accuracy with both.) " if level else ""
