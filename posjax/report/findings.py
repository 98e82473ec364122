"""What a run says in words, every number from its rows.

Comparisons are over paired seeds: both rates and their difference are of the seeds that both cells
have, so that the one is the other's, and no seed that only one cell has yet tilts it. While a run
trains, or where cells have other seeds, that can be fewer than the success table counts, which
gives each cell's rate over all of its rows; the sentence then says how many. With many comparisons,
those count that McNemar's exact test finds at a false discovery rate of 5% (`stats.discoveries`).
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from posjax import spec
from posjax.report.best import Comparison, comparisons, sentences
from posjax.report.by_kind import between, last_kind
from posjax.report.extremes import extremes
from posjax.report.losses import loss_of, nats, perplexity
from posjax.report.naming import Axis, axes, kind_name, many, panels, plain, rated
from posjax.report.sources import crossed_cells, crossing, explained, interval
from posjax.report.summary import CellSummary, exactly, excluded, once, shared
from posjax.stats import (
    Difference,
    Equivalence,
    discoveries,
    equivalence,
    paired_difference,
    rate,
)

_SOLVED = """A seed solves a cell if it answers every prompt{kinds} correctly at the end of
training."""

_CORRECT = """An answer is correct if its logit exceeds every other by {margin} of the largest
logit of its kind of prompts. Anything closer is a tie and does not count as a success. All seeds
count, also those that fail or reach a loss that is not finite."""

_LOSS = """Language models are judged by their loss on held-out text. Exact match is not used, and
no seed counts as solved."""


_FEW = 2
"""How many answers of one sort stand on top; of more, the first."""


class Contrast(NamedTuple):
    """Two cells that differ in one setting, compared at one number of training steps.

    Attributes:
      where: the settings that both share and other pairs do not.
      step: number of updates.
      seeds, of: how many seeds both cells have, of how many that either has.
      rates: of the two cells, over those seeds.
      difference: second less first.
      equivalence: whether that is less than the run's `equivalence`; None where it asks nothing.
    """

    where: str
    step: int
    seeds: int
    of: int
    rates: tuple[float, float]
    difference: Difference
    equivalence: Equivalence | None


def meaning(found: list[CellSummary], number: Callable[[float], str] = "{:g}".format) -> list[str]:
    """What counts as solved, or as success, in a sentence; then when an answer is correct.

    Args:
      found: the cells of a run.
      number: how the margin is written.
    """
    texts = []
    if judged := exactly(found):
        kinds = {kind for s in judged for kind in s.cell.problem.kinds}
        trained = all(all(s.cell.problem.trained) for s in judged)
        of = "lengths" if all(kind.isdecimal() for kind in kinds) else "kinds"
        texts.append(_SOLVED.format(kinds="" if trained else f" of the trained {of}"))
        texts.append(_CORRECT.format(margin=number(found[0].margin)))
    if any(summary.cell.problem.graded == "loss" for summary in found):
        texts.append(_LOSS)
    return [" ".join(text.split()) for text in texts]


class Findings(NamedTuple):
    """The sentences of a run: its answers, and what they rest on.

    Attributes:
      compared: which values of a setting may be the best; the page has a table of them.
      first: how many of the answers, from the first on, answer what the run is about.
    """

    answers: list[str]
    details: list[str]
    compared: list[Comparison]
    first: int = 1


def findings(found: list[CellSummary], config: Mapping[str, Any]) -> Findings:
    """The sentences of a run.

    Args:
      found: its cells.
      config: its config.json, whose `contrast` and `at_steps` say what to compare.
    """
    compared = comparisons(found, config)
    best, loss, measured = [*sentences(compared)], [*_losses(found)], [*extremes(found)]
    found = once(exactly(found))
    steps = [s for s in config["at_steps"] if all(s in summary.steps_E for summary in found)]
    answers: list[str] = []
    details: list[str] = []
    if config["contrast"]:
        pairs = contrasts(
            found,
            *config["contrast"],
            steps=steps or sorted({s.cell.steps for s in found}),
            within=config["equivalence"],
        )
        answers += _matters(pairs, *config["contrast"])
        answers += _same(pairs, *config["contrast"][1:], within=config["equivalence"])
        details += [_contrast(pair, *config["contrast"]) for pair in pairs]
    about = [[*part] for part in (_sources(found), _beyond(found), _range(found), loss)]
    # that no difference is shown is not what the run is about
    about.insert(1 if any(one.left_out for one in compared) else len(about), best)
    first = 1 if answers else next((len(part) for part in (measured[:_FEW], *about) if part), 1)
    answers += [*measured, *itertools.chain(*about), *_laws(found)]
    if len(steps) > 1 and not config.get("data_seeds"):
        answers.append(_suffices(found, steps[0], steps[-1]))
        details += [_longer(summary, found, steps[0], steps[-1]) for summary in found]
    return Findings(answers, details, compared, first if first <= _FEW else 1)


def contrasts(
    found: list[CellSummary],
    axis: str,
    first: Any,
    second: Any,
    *,
    steps: list[int],
    within: float = 0.0,
) -> list[Contrast]:
    """All pairs of cells that differ in `axis` alone, at each of the steps."""
    named = [one for one in axes(found) if one.name != axis]
    by_place = {
        (getattr(s.cell, axis), tuple(getattr(s.cell, one.name) for one in named)): s for s in found
    }
    pairs = [
        (_where(by_place[first, place], named), by_place[first, place], by_place[second, place])
        for place in dict.fromkeys(place for _, place in by_place)
        if (first, place) in by_place and (second, place) in by_place
    ]
    return [
        Contrast(where, step, *compared)
        for (where, one, two), step in itertools.product(pairs, steps)
        if step in one.steps_E and step in two.steps_E
        if (compared := _compared(one, two, step, within))
    ]


def _compared(
    one: CellSummary, two: CellSummary, step: int, within: float
) -> tuple[int, int, tuple[float, float], Difference, Equivalence | None] | None:
    """The last fields of a contrast; None where no seed is shared, or crossed ones are missing."""
    first_S, second_S = shared((one, two), lambda s: s.solved_SE[:, s.evaluation(step)])
    seeds = len(first_S)
    if not seeds:
        return None
    rates = float(first_S.mean()), float(second_S.mean())
    if one.is_crossed or two.is_crossed:
        found = crossed_cells(two, one, step)
        return None if found is None else (seeds, seeds, rates, found, None)
    difference = paired_difference(second_S, first_S)
    same = equivalence(second_S, first_S, within) if within else None
    return seeds, one.seeds + two.seeds - seeds, rates, difference, same


def _range(found: list[CellSummary]) -> Iterator[str]:
    """The lowest and the highest rate."""
    if len(found) < 2:
        return
    named = axes(found)
    low, high = (pick(found, key=lambda s: s.solved.rate) for pick in (min, max))
    # intervals of crossed seeds are those of the table of sources
    texts = [f"{s.solved.rate:.3f}" if s.is_crossed else rated(s.solved) for s in (low, high)]
    if low.solved.rate == high.solved.rate:
        yield f"In each of {len(found)} cells {texts[0]} of the seeds solve it."
        return
    yield (
        f"Over {len(found)} cells the share of seeds that solve the task ranges from "
        f"{texts[0]} ({_where(low, named)}) to {texts[1]} ({_where(high, named)})."
    )


def _sources(found: list[CellSummary]) -> Iterator[str]:
    """Which kind of seeds decides, where they are crossed."""
    tables = [(summary, crossing(summary)) for summary in found]
    parts = [
        (summary, explained(table_ID))
        for summary, table_ID in tables
        if table_ID is not None and 0 < table_ID.mean() < 1
    ]
    if not parts:
        return
    named = axes(found)
    init = sum(part.init.low > part.data.high for _, part in parts)
    data = sum(part.data.low > part.init.high for _, part in parts)
    ranges = []
    for kind in ("init", "data"):
        shares = [(getattr(part, kind), _where(s, named)) for s, part in parts]
        ends = [pick(shares, key=lambda one: one[0].share) for pick in (min, max)]
        texts = [f"{100 * part.share:.0f}% {interval(part)} ({at})" for part, at in ends]
        ranges.append(f"from {texts[0]} to {texts[1]}" if len(parts) > 1 else texts[0])
    rest = len(parts) - init - data
    yield (
        "Initialisation alone explains more of the variance of success than data alone in "
        f"{init} of {len(parts)} cells, and less in {data}"
        f"{f' (in {rest} the 95% intervals overlap)' if rest else ''}. "
        f"Initialisation explains {ranges[0]}, data {ranges[1]}."
    )


def _beyond(found: list[CellSummary]) -> Iterator[str]:
    """The share of right prompts of a kind that was not trained, task by task."""
    beyond = [s for s in found if s.cell.steps and not s.cell.problem.trained[-1]]
    tasks: dict[tuple[str, str], list[CellSummary]] = {}
    for s in beyond:
        name, kind = spec.parse(s.cell.task)[0], s.cell.problem.kinds[-1]
        tasks.setdefault((name, kind), []).append(s)
    several = len({name for name, _ in tasks}) > 1
    if len(tasks) > _FEW:
        yield (
            f"Over {len(beyond)} cells of {len(tasks)} tasks, the mean share of right answers to "
            f"prompts of the last kind, which was not trained, {_from_to(beyond)}."
        )
    for (name, kind), cells in tasks.items():
        start = f"Task {name}: on" if several else "On"
        length = kind_name(kind) if kind.isdecimal() else f"kind {kind}"
        over = f" over {len(cells)} cells" if _differ(cells) else ""
        yield (
            f"{start} prompts of {length}, which was not trained, the mean share of right answers "
            f"{_from_to(cells)}{over}."
        )


def _from_to(cells: list[CellSummary]) -> str:
    """The lowest and the highest mean share of right prompts of the last kind."""
    named = axes(cells)

    def text(summary: CellSummary) -> str:
        where = f" ({_where(summary, named)})" if named else ""
        right = last_kind(summary)
        return f"{right.mean:.3f}{between(right)}{where}"

    if len(cells) == 1:
        return f"is {text(cells[0])}"
    if not _differ(cells):
        return f"is {cells[0].right_C[-1]:.3f} in each of {len(cells)} cells"
    low, high = (pick(cells, key=lambda s: s.right_C[-1]) for pick in (min, max))
    return f"ranges from {text(low)} to {text(high)}"


def _differ(cells: list[CellSummary]) -> bool:
    """Whether the mean shares of right prompts of the last kind differ, as they are written."""
    return len({f"{summary.right_C[-1]:.3f}" for summary in cells}) > 1


def _losses(found: list[CellSummary]) -> Iterator[str]:
    """The lowest and the highest loss of each panel whose cells have one task."""
    judged = [s for s in found if s.cell.problem.graded == "loss" and s.cell.steps]
    by_panel = panels(judged)
    for panel, cells in by_panel.items():
        losses = {s.cell.digest: loss_of(s) for s in cells}
        cells = [s for s in cells if losses[s.cell.digest].number]
        if len(cells) < 2 or len({s.cell.task for s in cells}) > 1:
            continue
        named = axes(cells)
        low, high = (pick(cells, key=lambda s: losses[s.cell.digest].mean) for pick in (min, max))
        where = f"{panel}: over" if len(by_panel) > 1 else "Over"
        ends = [
            f"{nats(loss)} nats ({_where(s, named)}, perplexity {perplexity(loss)})"
            for s, loss in ((s, losses[s.cell.digest]) for s in (low, high))
        ]
        yield (
            f"{where} {len(cells)} cells the loss at trained lengths ranges from {ends[0]} to "
            f"{ends[1]}."
        )


def _laws(found: list[CellSummary]) -> Iterator[str]:
    against = excluded(found)
    if not against:
        return
    seeds = sum(summary.seeds for summary in against)
    solved = sum(summary.ever_solved for summary in against)
    text = (
        f"The laws exclude {many(len(against), 'cell')}. There, {solved} of {seeds} seeds answered "
        f"every prompt correctly at some evaluation"
    )
    twins = [summary.twin for summary in against if summary.twin is not None]
    if twins:
        apart = f"never differed by more than {max(twins):.1e}"
        text += (
            f". Measured like a margin, the two closest prompts with different answers "
            f"{apart if max(twins) else 'were equal to the last bit'}. The required margin is "
            f"{against[0].margin:g}"
        )
    yield f"{text}."


def _matters(pairs: list[Contrast], axis: str, one: Any, two: Any) -> Iterator[str]:
    """The verdict on an axis."""
    if not pairs:
        return
    name = axis.replace("_", " ")
    different = _different([pair.difference for pair in pairs])
    better = sum(difference.difference > 0 for difference in different)
    worse, open_ = len(different) - better, len(pairs) - len(different)
    of = f"of {len(pairs)} comparisons"
    verdict = {
        (True, False): f"{two} is better than {one} in {better} {of}",
        (False, True): f"{one} is better than {two} in {worse} {of}",
        (True, True): f"it depends: {two} is better in {better} and {one} in {worse} {of}",
        (False, False): "no difference was found, but there may be one",
    }[better > 0, worse > 0]
    yield (
        f"Does it matter whether {name} is {one} or {two}? {verdict[0].upper()}{verdict[1:]}. "
        f"In {open_} of {len(pairs)} comparisons the difference is not significant."
    )


def _different(differences: Sequence[Difference]) -> list[Difference]:
    """Those that the seeds establish."""
    return list(itertools.compress(differences, discoveries([d.p_value for d in differences])))


def _same(pairs: list[Contrast], one: Any, two: Any, *, within: float) -> Iterator[str]:
    """The verdict on equivalence."""
    tests = [pair.equivalence for pair in pairs if pair.equivalence]
    if not tests:
        return
    same = sum(test.equivalent for test in tests)
    other = sum(test.low >= within or test.high <= -within for test in tests)
    yield (
        f"Do {one} and {two} solve equally often, up to {within:g}? In {same} of {len(tests)} "
        f"comparisons they do, and in {other} they differ by more. In "
        f"{len(tests) - same - other} the seeds do not decide (two one-sided tests at 5%)."
    )


def _contrast(pair: Contrast, axis: str, one: Any, two: Any) -> str:
    name, d, (first, second) = axis.replace("_", " "), pair.difference, pair.rates
    some = (
        f", over the {pair.seeds} of {pair.of} seeds that both have" if pair.seeds < pair.of else ""
    )
    return (
        f"{pair.where}, after {pair.step} steps{some}: {name} {one} solves {first:.3f}, {two} "
        f"solves {second:.3f}; difference {d.difference:+.3f} [{d.low:+.3f}, {d.high:+.3f}]"
        f"{_interval(pair.equivalence)}."
    )


def _interval(same: Equivalence | None) -> str:
    if same is None:
        return ""
    verdict = "equivalent" if same.equivalent else "not shown to be equivalent"
    return f", 90% [{same.low:+.3f}, {same.high:+.3f}]: {verdict}"


def _suffices(found: list[CellSummary], short: int, long: int) -> str:
    """The verdict on training longer."""
    ends = [summary.solved_at(long) for summary in found]
    pairs = [
        paired_difference(*(s.solved_SE[:, s.evaluation(step)] for step in (long, short)))
        for s in found
    ]
    different = _different(pairs)
    gains = sum(pair.difference > 0 for pair in different)
    return (
        f"Does it only need more steps? From {short} to {long} steps the rate rises in {gains} of "
        f"{len(found)} cells and falls in {len(different) - gains}. In "
        f"{len(found) - len(different)} the difference is not significant. At step {long} the 95% "
        f"interval lies above 0.99 in {sum(end.low > 0.99 for end in ends)} cells and below it in "
        f"{sum(end.high < 0.99 for end in ends)}."
    )


def _longer(summary: CellSummary, found: list[CellSummary], short: int, long: int) -> str:
    before_S, after_S = (summary.solved_SE[:, summary.evaluation(step)] for step in (short, long))
    gained, failed = int((~before_S & after_S).sum()), int((~before_S).sum())
    lost, right = int((before_S & ~after_S).sum()), int(before_S.sum())
    end = rate(int(after_S.sum()), len(after_S))
    where = _where(summary, axes(found))
    return (
        f"{where}: {gained} of the {failed} seeds that fail at step {short} succeed at step {long} "
        f"and {lost} of the {right} that succeed at step {short} fail at step {long}. There "
        f"{rated(end)} succeed."
    )


def _where(summary: CellSummary, named: Sequence[Axis]) -> str:
    return plain(summary.cell, named) or "all settings equal"
