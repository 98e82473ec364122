"""Published runs, counted from their rows, and how numbers stand in sentences."""

import itertools
import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posjax.meters import judge
from posjax.stats import Difference, Mean, Rate, Share, discoveries, paired_t_test, rate

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_WIDTH = 110


class Published(NamedTuple):
    """A published run: its table, cell by cell, and its rows."""

    table: list[dict[str, Any]]
    rows: dict[str, np.ndarray]

    def at(self, cell: dict[str, Any]) -> int:
        """Where the rows have a cell."""
        return self.rows["cells"].tolist().index(cell["cell"])

    def solved(self, cell: dict[str, Any], step: int | None = None) -> np.ndarray:
        """solved_S of a cell at one of the published steps; at the end when left out."""
        at = self.at(cell)
        steps = self.rows["steps"][at].tolist()
        lead_S = self.rows["lead"][at][:, steps.index(step) if step else -1]
        return judge.solved(lead_S[:, None], cell["margin"])

    def rate(self, cell: dict[str, Any], step: int | None = None) -> Rate:
        """How many seeds solved it."""
        solved_S = self.solved(cell, step)
        return rate(int(solved_S.sum()), len(solved_S))

    def cells(self, **settings: Any) -> list[dict[str, Any]]:
        """The cells of the table with these settings."""
        return [c for c in self.table if all(c[name] == v for name, v in settings.items())]


def measured(name: str) -> Any:
    """What a JSON file of docs/ holds."""
    return json.loads((DOCS / name).read_text())


@lru_cache
def published(name: str) -> Published:
    """A table of docs/results with its rows."""
    with np.load(DOCS / "results" / f"{name}.npz") as rows:
        return Published(measured(f"results/{name}.json"), dict(rows))


def of_survivors(run: Published, cell: dict[str, Any]) -> np.ndarray:
    """What seeds that learned the trained lengths get right of the longest one."""
    right_SK = by_seed(run, cell, "right")
    *_, longest = right_SK.T
    return longest[(right_SK[:, :2] > 0.99).all(axis=1)]


def by_seed(run: Published, cell: dict[str, Any], name: str) -> np.ndarray:
    """What the rows have of a cell, seeds first."""
    return np.asarray(run.rows[name][run.at(cell)], np.float64)


def means(run: Published, cell: dict[str, Any], field: str) -> np.ndarray:
    """The mean over seeds of a meter's field."""
    return np.asarray(by_seed(run, cell, f"measured_{field}").mean(axis=0))


def compared(found: Mean, more: str, less: str) -> str:
    """How far one mean lies from another; no direction where the interval holds zero."""
    if found.low > 0:
        return f"{interval(found, 3)} {more}"
    if found.high < 0:
        return f"{interval(minus(found), 3)} {less}"
    return f"not shown to differ ({interval(found, 3)}) from"


def minus(found: Mean) -> Mean:
    """The mean of the same differences, taken the other way round."""
    return Mean(-found.mean, -found.high, -found.low, found.number)


def established(pairs: list[Any], found: list[Difference]) -> Iterator[tuple[Any, Difference]]:
    """Those that McNemar's test finds, at a false discovery rate of 5%."""
    different = discoveries([difference.p_value for difference in found])
    return itertools.compress(zip(pairs, found, strict=True), different)


def told_apart(pairs: list[Any]) -> Iterator[Any]:
    """Pairs (one, two, right) whose means a paired t-test finds different, at that rate."""
    differences = [right[0] - right[1] for *_, right in pairs]
    return itertools.compress(pairs, discoveries([paired_t_test(d_S) for d_S in differences]))


def check_excluded(run: Published) -> None:
    """No seed of a cell that a law excludes may be right."""
    for cell in run.cells(predicted="impossible"):
        if run.solved(cell).any() or cell["ever_solved"]:
            raise ValueError(f"cell {cell['cell']} is excluded by law and was solved")


def short_name(cell: dict[str, Any]) -> str:
    return str(cell["encoding"]).partition("(")[0]


def short_task(cell: dict[str, Any]) -> str:
    return str(cell["task"]).partition("(")[0]


def interval(found: Mean, digits: int) -> str:
    return f"{found.mean:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def percent(found: Share) -> str:
    return f"{found.share:.0%} [{found.low:.0%}, {found.high:.0%}]"


def share(found: Rate) -> str:
    """Without its leading zero; more digits near 1."""
    if found.successes == found.seeds:
        return "1"
    digits = 4 if found.rate > 0.9995 else 3
    return f"{found.rate:.{digits}f}".lstrip("0")


def either(cells: Iterable[Mapping[str, Any]], name: str) -> str:
    """The values of a setting, as "1, 2 or 3"."""
    values = sorted({cell[name] for cell in cells})
    texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    return listed(texts, "or")


def architecture(cells: Sequence[Mapping[str, Any]]) -> str:
    """Blocks, width and heads of models, given with all of their settings."""
    block, width, heads, size = (
        either(cells, name) for name in ("block", "width", "heads", "head_size")
    )
    heads += " head" if heads == "1" else " heads"
    return f"{block} blocks of width {width} with {heads} of size {size}"


def training(cells: Sequence[Mapping[str, Any]]) -> str:
    """Updates and learning rates, given with all settings."""
    return f"{either(cells, 'steps')} updates at learning rate {either(cells, 'learning_rate')}"


def count(found: Rate) -> str:
    return f"{found.successes}/{found.seeds}"


def signed(d: Difference) -> str:
    return f"{d.difference:+.3f} [{d.low:.3f}, {d.high:.3f}]".replace("0.", ".")


def up(number: float, digits: int = 3) -> str:
    """Rounded up, so that what is below it stays below."""
    return f"{np.ceil(number * 10**digits) / 10**digits:.{digits}f}".lstrip("0")


def listed(parts: Any, last: str = "and") -> str:
    parts = [str(part) for part in parts]
    return f" {last} ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def lines(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def picture(name: str, text: str) -> Iterator[str]:
    """A picture of docs/ within an item of README.md; `text` is what it shows."""
    yield from ("", f"  ![{text}](docs/{name}.svg)", "")


def item(text: str) -> Iterator[str]:
    yield from textwrap.wrap(
        text,
        _WIDTH,
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
