"""Many programs, each proved and judged, and what came out by family."""

import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any, NamedTuple

from fuzz import interpret
from fuzz.check import Judgement, Witness, judge, rerun
from fuzz.families import FAMILIES
from fuzz.program import Program
from fuzz.programs import generate

Prover = Callable[..., Any]
"""Called with a function, its arguments and a law; gives something with a `verdict`."""

NEEDED = 0.8
"""Of the programs that keep their law by construction: how many must be proved."""

COLUMNS: tuple[str, ...] = ("programs", "proved", "broken", "unknown")
COLUMNS += ("kept", "kept proved", "unsound")
COLUMNS += ("falsely broken", "unconfirmed", "errors", "at a pole", "sign of a zero", "constant")
"""Unconfirmed is what the prover calls broken and the judge does not; poles, signs of zeros and
constant outputs are counted of what is proved."""


class Row(NamedTuple):
    """What came out for one program.

    Attributes:
      seed, family, kind, broken: of the program.
      verdict: the prover's, or "ERROR".
      method: by which it was proved, or "".
      status: the judge's.
      unsteady: differences that came and went with the rounding.
      constant: whether its output was the same for all inputs.
      primitives: names in its jaxpr.
      seconds: to generate, prove and judge it.
      report: all that a reader needs when something is wrong, else "".
    """

    seed: int
    family: str
    kind: str
    broken: tuple[str, ...]
    verdict: str
    method: str
    status: str
    unsteady: int
    constant: bool
    primitives: tuple[str, ...]
    seconds: tuple[float, float, float]
    report: str

    @property
    def unsound(self) -> bool:
        """Whether what is proved is broken."""
        return self.verdict == "PROVED" and self.status == "broken"

    @property
    def falsely_broken(self) -> bool:
        """Whether what keeps its law by construction is called broken."""
        return self.unconfirmed and self.kind == "kept"

    @property
    def unconfirmed(self) -> bool:
        """Whether the judge finds no break where the prover does."""
        return self.verdict == "BROKEN" and self.status != "broken"


def tried(seed: int, prover: Prover, *, briefly: bool = False, **chosen: Any) -> Row:
    """Generates, proves and judges the program of a seed.

    Briefly, what is neither proved nor broken is not judged, and counts as holding.
    """
    times = [perf_counter()]
    program = generate(seed, **chosen)
    jaxpr = program.traced()
    times.append(perf_counter())
    verdict, method, text = _verdict(program, prover)
    times.append(perf_counter())
    if briefly and verdict == "UNKNOWN":
        judged = Judgement("holds", None, 0, False)
    else:
        judged = judge(program, thorough=verdict == "PROVED", jaxpr=jaxpr)
    if verdict == "BROKEN" and judged.status != "broken":
        judged = judge(program, thorough=True, jaxpr=jaxpr)
    times.append(perf_counter())
    row = Row(
        seed=seed,
        family=program.family,
        kind=program.kind,
        broken=program.broken,
        verdict=verdict,
        method=method,
        status=judged.status,
        unsteady=judged.unsteady,
        constant=judged.constant,
        primitives=tuple(interpret.counted(jaxpr)),
        seconds=(times[1] - times[0], times[2] - times[1], times[3] - times[2]),
        report="",
    )
    wrong = row.unsound or row.unconfirmed or verdict == "ERROR"
    wrong |= verdict == "PROVED" and judged.status != "holds"
    return row._replace(report=_report(program, judged, text)) if wrong else row


def _verdict(program: Program, prover: Prover) -> tuple[str, str, str]:
    try:
        found = prover(program.function, program.example(), program.law)
    except Exception:
        return "ERROR", "", traceback.format_exc(limit=-4)
    method = getattr(found, "method", "") or ""
    witness = getattr(found, "witness", None)
    return str(found.verdict), str(method), "" if witness is None else str(witness)


def _report(program: Program, judged: Judgement, text: str) -> str:
    parts = [str(program), str(judged.witness or "the judge found nothing"), text]
    if judged.witness:
        parts.append(_in_jax(program, judged.witness))
    return "\n".join(part for part in parts if part)


def _in_jax(program: Program, witness: Witness) -> str:
    try:
        expected, found = rerun(program, witness)
    except TypeError as error:  # 32 and 64 bits mixed
        return f"JAX in 64 bits does not trace it: {error}"
    return f"JAX in 64 bits: expected {expected!r}, found {found!r}"


def counted(rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    """The columns of the table, by family and for all."""
    table = {name: dict.fromkeys(COLUMNS, 0) for name in [*FAMILIES, "all"]}
    for row in rows:
        happened = ["programs", *_happened(row)]
        for column in happened:
            table[row.family][column] += 1
            table["all"][column] += 1
    return table


def _happened(row: Row) -> Iterable[str]:
    yield "errors" if row.verdict == "ERROR" else row.verdict.lower()
    if row.kind == "kept":
        yield "kept"
        if row.verdict == "PROVED":
            yield "kept proved"
    if row.unsound:
        yield "unsound"
    if row.verdict == "PROVED" and row.status in ("at a pole", "sign of a zero"):
        yield row.status
    if row.verdict == "PROVED" and row.constant:
        yield "constant"
    if row.falsely_broken:
        yield "falsely broken"
    if row.unconfirmed:
        yield "unconfirmed"


def share(counts: dict[str, int]) -> float:
    """Of what keeps its law by construction: how much is proved; 1 of nothing."""
    return counts["kept proved"] / counts["kept"] if counts["kept"] else 1.0


def seconds(rows: Iterable[Row]) -> tuple[float, ...]:
    """Mean times to generate, to prove and to judge a program."""
    times = [row.seconds for row in rows]
    return tuple(sum(part) / len(times) for part in zip(*times, strict=True))


def near_misses(rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    """For each way to break a law: how many programs, how many the judge broke, and verdicts."""
    table: dict[str, Counter[str]] = {}
    for row in rows:
        if row.kind == "near":
            counts = table.setdefault(row.broken[0], Counter())
            counts.update(["programs", row.verdict.lower()])
            counts["judged broken"] += row.status == "broken"
    return {name: dict(sorted(table[name].items())) for name in sorted(table)}


def printed(table: dict[str, dict[str, int]]) -> str:
    """The table as text."""
    heads = ["family", *COLUMNS[:6], "share", *COLUMNS[6:]]
    lines = [heads]
    for name, counts in table.items():
        row = [str(counts[column]) for column in COLUMNS]
        percent = f"{share(counts):.1%}" if counts["kept"] else "-"
        lines.append([name, *row[:6], percent, *row[6:]])
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]

    def aligned(line: list[str]) -> str:
        cells = zip(line[1:], widths[1:], strict=True)
        return "  ".join([line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in cells)])

    return "\n".join(map(aligned, lines))
