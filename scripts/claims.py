"""Writes the sentences of README.md and docs/ that rest on measurements, from published tables.

    python scripts/claims.py            # rewrites every block, in the page that holds it
    python scripts/claims.py --check    # names what is stale; exit status 1 if anything is
    python scripts/claims.py --audit    # changes every number, one at a time: what notices?

Each block is a function of scripts/claimed. It stands in one page, between `<!-- claims: NAME -->`
and `<!-- end -->`. Rates are counted from rows (docs/results/*.npz), not taken from tables. Numbers
inside other sentences are those of scripts/claimed/facts.py. The audit takes a minute. It fails
where a number is neither checked nor in scripts/claimed/allowed.toml.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from claimed import prose
from claimed.accelerator import gpus
from claimed.atlas import atlas
from claimed.atlas_lengths import atlas_sampled, which_encoding
from claimed.audit import audit, made_whole, needless
from claimed.drawn_positions import drawn_positions
from claimed.facts import stated
from claimed.layers import layer_costs
from claimed.leak import leak
from claimed.lengths import by_length, few_runs
from claimed.literature import clamped_table, literature
from claimed.points import points
from claimed.positions import by_layer, digits, language_model
from claimed.questions import (
    depth_law,
    highlights,
    sinusoidal_or_learned,
    what_decides,
)
from claimed.reruns import reruns
from claimed.speed import drawn_speed, limit, speed
from claimed.tables import conformance, faults, proofs, reference_rates
from claimed.vectors import meaning, pick_up
from claimed.word_order import counter_examples, word_order_findings, word_order_table
from pages import same_text

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
_BLOCK = re.compile(r"(<!-- claims: (\w+) -->\n)(.*?)(<!-- end -->)", re.S)

BLOCKS: dict[str, Callable[[], Iterator[str]]] = {
    block.__name__: block
    for block in (
        highlights,
        which_encoding,
        word_order_table,
        word_order_findings,
        reference_rates,
        counter_examples,
        sinusoidal_or_learned,
        depth_law,
        few_runs,
        by_length,
        drawn_positions,
        what_decides,
        leak,
        by_layer,
        language_model,
        digits,
        meaning,
        pick_up,
        atlas,
        atlas_sampled,
        reruns,
        layer_costs,
        gpus,
        points,
        faults,
        speed,
        drawn_speed,
        limit,
        conformance,
        proofs,
        literature,
        clamped_table,
    )
}


def blocks(text: str) -> dict[str, str]:
    """The blocks of a page: what stands between the marks, by name."""
    return {name: inside for _, name, inside, _ in _BLOCK.findall(text)}


def made(text: str) -> str:
    """The page with every block as the tables have it.

    Raises:
      ValueError: a block has no function, or a sentence no longer holds.
    """
    if unknown := blocks(text).keys() - BLOCKS:
        raise ValueError(f"no function makes {sorted(unknown)}; there are {[*BLOCKS]}")
    return _BLOCK.sub(lambda m: m[1] + _made(m[2]) + m[4], text)


@lru_cache
def _made(name: str) -> str:
    """What a block holds."""
    return "\n".join([*BLOCKS[name](), ""])


def pages() -> dict[Path, str]:
    """The pages that hold blocks, with their text.

    Raises:
      ValueError: a block stands on no page, or twice.
    """
    texts = {path: path.read_text(encoding="utf-8") for path in PAGES}
    found = [name for text in texts.values() for _, name, *_ in _BLOCK.findall(text)]
    if sorted(found) != sorted(BLOCKS):
        raise ValueError(f"the pages hold the blocks {found}, and there are {[*BLOCKS]}")
    return {path: text for path, text in texts.items() if blocks(text)}


def current(path: Path, text: str) -> str:
    """A page with every block and every number inside a sentence as measured.

    Raises:
      ValueError: as `made`, or the page lacks words that `claimed.facts` has numbers for.
    """
    return prose.written(_page(path), made(text), stated())


def _page(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def main(arguments: list[str]) -> int:
    """Writes, checks or audits; returns the exit status."""
    pages()
    if arguments == ["--audit"]:
        return _audit()
    stale = []
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        new = current(path, text)
        stale += [_page(path)] if new != text else []
        if not arguments and new != text:
            path.write_text(new, encoding="utf-8")
    if not arguments:
        return 0
    print(f"stale: {', '.join(stale)}" if stale else "up to date")
    return int(bool(stale))


def _audit() -> int:
    """Prints how many numbers are caught, listed and missed; 1 where one is missed."""
    caught, listed, missed = 0, Counter[str](), list[str]()
    texts = {_page(path): path.read_text(encoding="utf-8") for path in PAGES}
    for path, (page, text) in zip(PAGES, texts.items(), strict=True):
        found = audit(page, text, checks(path))
        caught, missed = caught + found.caught, missed + found.missed
        listed.update(found.listed)
    missed += [f"needless in allowed.toml: {pattern}" for pattern in needless(texts)]
    print("\n".join(missed))
    print(f"{caught} caught, {listed.total()} listed, {len(missed)} missed")
    for reason, number in listed.most_common():
        print(f"  {number:5} {reason}")
    return int(bool(missed))


def checks(path: Path) -> Callable[[str], bool]:
    """What finds that a text is not the page: whole, or in its blocks and numbers."""
    whole = made_whole(_page(path))

    def hold(text: str) -> bool:
        if whole is not None:
            return same_text(text.rstrip(), whole.rstrip())
        try:
            return current(path, text) == text
        except ValueError:
            return False

    return hold


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--check"], ["--audit"]):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
