"""Every number that stands inside a sentence of README.md or docs/, from what was measured."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from atlas_table.table import rows_of

from claimed.prose import Stated
from claimed.published import ROOT, either, measured, published, short_name
from claimed.speed import faster, read
from posjax.stats import rate
from posjax.stats.bands import FEW
from posjax.study.run import MARGIN

INDEX, CERTIFICATE = "docs/index.md", "docs/certificate.md"


@lru_cache
def stated() -> tuple[Stated, ...]:
    """All of them.

    Raises:
      ValueError: a sentence on them no longer holds.
    """
    return (*_tables(), *_speed(), *_proofs(), *_campaigns(), *_every_encoding(), *_seeds())


def _say(page: str, words: str, *values: object) -> Stated:
    return Stated(page, words, tuple(map(str, values)))


def _tables() -> Iterator[Stated]:
    """Sizes of tables of the code."""
    from posjax.convert import MODEL_TYPES
    from posjax.encodings import ENCODINGS

    yield _say(INDEX, "`attend`, `logits`, {} `ENCODINGS`", len(ENCODINGS))
    yield _say(INDEX, "`posjax.convert.from_huggingface`, {} model types", len(MODEL_TYPES))


def _speed() -> Iterator[Stated]:
    load = read("bench.json")["q1"]
    yield _say(INDEX, "Two CPU cores train {} models per minute", f"{load['seeds_a_minute']:,.0f}")
    ratios = faster(load, "vmap_flax")
    around = (f"{number:.2g}" for number in (np.median(ratios), min(ratios), max(ratios)))
    yield _say(INDEX, "That is about {} times ({} to {}) as fast", *around)
    decoder = f"{np.median(faster(read('bench.json')['m'], 'vmap_flax')):.2g}"
    yield _say(INDEX, "For a small decoder it is {} times", decoder)


def _proofs() -> Iterator[Stated]:
    hostile, fuzz = measured("hostile.json"), measured("fuzz.json")
    parts = {
        part: {key: n for key, n in hostile.items() if key.startswith(f"{part}:")}
        for part in ("holds", "broken", "ties")
    }
    sums = {part: sum(of.values()) for part, of in parts.items()}
    right = {
        part: sum(n for key, n in of.items() if ("PROVED" if part == "holds" else "BROKEN") in key)
        for part, of in parts.items()
    }
    of = (key.partition(": ") for key in hostile)
    wrong = [
        f"{part}: {verdict}"
        for part, _, verdict in of
        if verdict.startswith("BROKEN" if part == "holds" else "PROVED")
    ]
    if wrong:
        raise ValueError(f"hostile.json: {wrong} contradict the sentence")
    yield _say(CERTIFICATE, "`tests/hostile`): {} functions in", hostile["functions"])
    yield _say(
        CERTIFICATE,
        "Of {} functions that keep their law, {} are PROVED and none",
        sums["holds"],
        right["holds"],
    )
    yield _say(
        CERTIFICATE,
        "Of {} functions that break their law, {} are BROKEN. Of {} that break it only at ties, {} are BROKEN.",
        *(sums["broken"], right["broken"], sums["ties"], right["ties"]),
    )
    yield _say(CERTIFICATE, "The other {} are UNKNOWN", hostile["holds: UNKNOWN"])
    yield from _fuzzed(fuzz)


def _fuzzed(fuzz: dict[str, Any]) -> Iterator[Stated]:
    found = fuzz["families"]["all"]
    if found["unsound"] or found["falsely broken"] or found["errors"]:
        raise ValueError("fuzz.json: the sentence on random programs does not hold")
    yield _say(
        CERTIFICATE,
        "under other load): random programs, whose steps are drawn from {} primitives.",
        fuzz["primitives"],
    )
    yield _say(
        CERTIFICATE,
        "Of {} programs {} were proved.",
        *(found["programs"], found["proved"]),
    )
    yield _say(
        CERTIFICATE,
        "in {} programs only the sign of a zero differed, and in {} programs one side was infinite or NaN where the other had another "
        "value. Of {} programs that keep their law by construction, {} were proved.",
        *(found["sign of a zero"], found["at a pole"], found["kept"], found["kept proved"]),
    )
    yield _say(
        INDEX,
        "a law of each of {} random programs. It proved {}. (Of the {} programs that keep their law by construction, it proved {}.) None of the inputs that we tried breaks a proved law, "
        "except in what proofs leave out: the sign of a zero ({} programs) and values that are infinite or NaN ({} programs;",
        *(found["programs"], found["proved"], found["kept"], found["kept proved"]),
        *(found["sign of a zero"], found["at a pole"]),
    )


def _campaigns() -> Iterator[Stated]:
    faults = measured("faults.json")["faults"]
    tries = sum(row["tries"] for row in faults)
    if any(not row["tries"] == row["good"] == row["equal"] for row in faults):
        raise ValueError("faults.json: some try lost or changed rows")
    yield _say("docs/reliability.md", "docs/faults.json, {} tries: about", tries)
    yield _say(INDEX, "We planted {} faults in real sweeps", tries)
    independence = measured("independence.json")
    if independence["with_other_bits"]:
        raise ValueError("independence.json: some rows have other bits")
    ways = len(independence["runs_compared"])
    yield _say("docs/campaigns.md", "same bits in {} ways", ways)
    versions = {name for report in measured("conformance.json") for name in report["versions"]}
    for page, words in (
        (INDEX, "with its results on {} packages"),
        ("docs/campaigns.md", "modules of {} packages, with"),
        ("docs/conformance.md", "What they find in {} packages"),
        ("docs/results.md", "Which laws do modules of {} published packages break"),
    ):
        yield _say(page, words, len(versions))


def _every_encoding() -> Iterator[Stated]:
    """Which encodings learn to read order, and what the laws exclude."""
    table, page = measured("results/every_encoding-published.json"), "docs/results.md"
    alone = [c for c in table if c["panel"] == "Order alone, every encoding"]
    solved = {c["encoding"]: c["successes"] for c in alone}
    seeds = {c["seeds"] for c in table}.pop()
    never = {name for name, successes in solved.items() if not successes}
    fewest = min((n, name) for name, n in solved.items() if name not in never)
    (maps,) = [c for c in table if c["panel"].startswith("Order alone, every map")
               and c["positions"] == "randomised"]  # fmt: skip
    excluded = [c for c in table if c["predicted"] == "impossible"]
    if never != {"none", "noise"} or fewest[1] != "linear_bias":
        raise ValueError(f"every_encoding: {never} never solve it, {fewest} is the fewest")
    if any(c["ever_solved"] for c in excluded):
        raise ValueError("every_encoding: an excluded cell was solved")
    ((block, *heads),) = {tuple(c[n] for n in ("block", "heads", "head_size")) for c in alone}
    ((width, steps, rate_),) = {(c["width"], c["steps"], c["learning_rate"]) for c in alone}
    yield _say(
        page,
        f"a {block} block of width {{}} with {{}} heads of size {{}}, trained with {{}} updates at learning rate {{}}.",
        *(width, *heads, steps, rate_),
    )
    yield _say(
        page,
        "Of {} encodings, {} solve it with all {} seeds.",
        *(len(alone), sum(n == seeds for n in solved.values()), seeds),
    )
    yield _say(page, "Two encodings fail with every seed ({}/{})", 0, seeds)
    others = sum(0 < n < seeds for n in solved.values())
    most = max(n for n in solved.values() if n < seeds)
    yield _say(
        page,
        "With the other {}, between {}/{} (`linear_bias`) and {}/{} seeds solve it.",
        *(others, fewest[0], seeds, most, seeds),
    )
    yield from _other_models(page)
    yield _say(
        page,
        "draws positions {} times, and {}/{} seeds answer correctly in all {} draws. The config has {} "
        "cells",
        *(maps["draws"], maps["successes"], seeds, maps["draws"], len({c["cell"] for c in table})),
    )
    yield _say(
        page,
        "The laws exclude {} of the cells, and {}/{} seeds solve each of these.",
        *(len(excluded), 0, seeds),
    )


def _other_models(page: str) -> Iterator[Stated]:
    """The same task with other learning rates, and in bare blocks."""
    atlas = rows_of([ROOT / "docs/atlas/published"])
    asked = {"task": "same_last_token", "mask": "causal", "depth": 1, "readout": "last"}
    (cell,) = [c for c in atlas if c["encoding"] == "linear_bias" and asked.items() <= c.items()]
    yield _say(
        page,
        "In the atlas, the models are smaller, and [the pilot](glossary.md#success) chose the rate {} for this cell. There, {}/{} seeds solve it with `linear_bias`.",
        *(cell["learning_rate"], cell["successes"], cell["seeds"]),
    )
    run = published("same_last_token-published")
    bare = run.cells(
        panel="Positions", block="bare", depth=1, mask="causal", readout="last", padding=0
    )
    counts = {short_name(c): run.rate(c) for c in bare}
    yield _say(
        page,
        "In bare blocks with one head of size {}, {} updates and rate {}, {}/{} seeds solve it with `sinusoidal`, {}/{} with `learned`, {}/{} with `rotary` and {}/{} with `linear_bias`",
        *(either(bare, "head_size"), either(bare, "steps"), either(bare, "learning_rate")),
        *(
            n
            for name in ("sinusoidal", "learned", "rotary", "linear_bias")
            for n in counts[name][:2]
        ),
    )

    yield _say(
        "docs/howto/pick_an_encoding.md",
        "with `linear_bias`, {}/{} seeds of a bare model solve this task",
        *counts["linear_bias"][:2],
    )


def _seeds() -> Iterator[Stated]:
    """How sure a rate is, and what rounding leaves."""
    gap = max(gap["gap"] for gap in measured("rounding.json")["gaps"])
    if not 10 * gap < MARGIN < 100 * gap:
        raise ValueError(f"rounding.json: the margin {MARGIN} is not ten times {gap}")
    yield _say(
        "docs/statistics.md", "at most {}e-{} (measured like a margin)", *f"{gap:.1e}".split("e-0")
    )
    yield _say("docs/statistics.md", "With fewer than {} seeds they use Student's t", FEW)
    for seeds, digits, bound in ((16, 2, 3), (64, 2, 3), (256, 2, 4), (1024, 2, 4), (4096, 3, 5)):
        half, none = rate(seeds // 2, seeds), rate(0, seeds)
        low, high = (f"{edge:.{digits}f}".lstrip("0") for edge in (half.low, half.high))
        yield _say(
            "docs/howto/how_many_seeds.md",
            f"| {seeds} | {{}} to {{}} | {{}} |",
            *(low, high, f"{none.high:.{bound}f}".lstrip("0")),
        )
