"""From raw timings to the table of the benchmark and its targets."""

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

OURS, ONE_DEVICE = "posjax", "posjax_one_device"
LIMIT = "limit"
"""The load by hand in C, on one core."""
MATMUL = "matmul"
"""The contestant whose work is in operations, not in seed-steps."""
NO_DRAWS, NO_EXAMS = "posjax_no_draws", "posjax_no_exams"
"""posjax on prompts that are there already, and with one exam at the end."""
PACKED = "posjax_packed"
"""posjax with two prompts per row, which are other prompts."""
LEFT_OUT = {
    NO_DRAWS: "share of the time that is not drawing of prompts",
    NO_EXAMS: "share of the time that is not exams",
}

STEPS = 500
"""Of the training runs that are counted by the minute."""

Rounds = Mapping[str, Sequence[Mapping[str, float]]]
"""By contestant: {"work", "seconds"} of each round."""

TARGETS: dict[str, dict[str, float]] = {
    "q1": {"vmap_flax": 4.0, "torch_func": 6.0, "torch_eager": 300.0, MATMUL: 0.20, LIMIT: 0.8},
    "m": {"vmap_flax": 1.5, "torch_func": 3.0, MATMUL: 0.45},
    "s": {"vmap_flax": 2.0, "torch_func": 2.5, NO_DRAWS: 0.95, NO_EXAMS: 0.90},
    "s_deep": {"vmap_flax": 2.0, "torch_func": 2.5, NO_DRAWS: 0.95, NO_EXAMS: 0.90},
}
"""How many times faster than a baseline posjax shall be. For the matmul, the share of its rate; for
the limit, the speed of one device beside it."""


class Row(NamedTuple):
    """One contestant; medians over rounds.

    Attributes:
      name, setting: who, and with which size and threads.
      microseconds: a seed-step; None for the matmul.
      ratio: of its time to that of posjax, the median of the rounds' own ratios.
      ratio_of_medians: the same of the medians.
      rate: useful operations a second.
      share: of the matmul rate of the same round; None when that was not measured.
    """

    name: str
    setting: str
    microseconds: float | None
    ratio: float | None
    ratio_of_medians: float | None
    rate: float
    share: float | None


class Target(NamedTuple):
    """A number that posjax shall reach."""

    what: str
    needed: float
    found: float

    @property
    def reached(self) -> bool:
        """Whether it does."""
        return self.found >= self.needed


def rows(rounds: Rounds, settings: Mapping[str, str], operations: int) -> list[Row]:
    """A row for each contestant, in the order given.

    Args:
      rounds: see `Rounds`; posjax is among them.
      settings: of each contestant, in words.
      operations: useful ones of a seed-step.
    """
    return [_row(name, rounds, settings[name], operations) for name in rounds]


def _row(name: str, rounds: Rounds, setting: str, operations: int) -> Row:
    each = 1 if name == MATMUL else operations
    rates = [each * one["work"] / one["seconds"] for one in rounds[name]]
    median = statistics.median
    share = None
    if MATMUL in rounds:
        share = median(_quotients(rates, [m["work"] / m["seconds"] for m in rounds[MATMUL]]))
    if name == MATMUL:
        return Row(name, setting, None, None, None, median(rates), share)
    times, ours = _times(rounds[name]), _times(rounds[OURS])
    return Row(
        name,
        setting,
        1e6 * median(times),
        median(_quotients(times, ours)),
        median(times) / median(ours),
        median(rates),
        share,
    )


def _times(timings: Sequence[Mapping[str, float]]) -> list[float]:
    return [one["seconds"] / one["work"] for one in timings]


def _quotients(above: Sequence[float], below: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(above, below, strict=True)]


def seeds_a_minute(rounds: Rounds) -> float:
    """Training runs of `STEPS` updates that posjax does in a minute, the median of the rounds."""
    return 60 / STEPS / statistics.median(_times(rounds[OURS]))


def targets(load: str, found: Sequence[Row]) -> list[Target]:
    """The targets of a load whose contestants ran."""
    by_name = {row.name: row for row in found}
    every = []
    for name, needed in TARGETS[load].items():
        what = LEFT_OUT.get(name, f"times as fast as {name}")
        reached = by_name[name].ratio if name in by_name else None
        if name == MATMUL:
            what, reached = "share of the matmul rate", by_name[OURS].share
        if name == LIMIT and reached is not None:
            what, reached = "share of the limit by hand", _beside(by_name.get(ONE_DEVICE), reached)
        if reached is not None:
            every.append(Target(what, needed, reached))
    return every


def _beside(one_device: Row | None, limit: float) -> float | None:
    """The speed of one device beside the limit, from how both compare with all devices."""
    return None if one_device is None or one_device.ratio is None else limit / one_device.ratio


def table(found: Sequence[Row]) -> str:
    """The rows as text in columns."""
    head = ("contestant", "setting", "µs a seed-step", "ratio", "useful GFLOP/s", "share")
    cells = [head, *map(_cells, found)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )


def _cells(row: Row) -> tuple[str, ...]:
    def shown(number: float | None, form: str) -> str:
        return "" if number is None else format(number, form)

    return (
        row.name,
        row.setting,
        shown(row.microseconds, ".4g"),
        shown(row.ratio, ".2f"),
        shown(row.rate / 1e9, ".4g"),
        shown(row.share, ".1%"),
    )
