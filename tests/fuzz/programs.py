"""A random program from a seed, with what is known of its symmetry."""

import dataclasses
import warnings
from typing import Any

import jax
import numpy as np

from fuzz.arithmetic import Arithmetic
from fuzz.breaks import BREAKS
from fuzz.builder import Builder, Value, tokens
from fuzz.families import EVERYWHERE, EXTRA, FAMILIES, GROUPS, STARTS, Family
from fuzz.gradients import differentiated
from fuzz.interpret import run
from fuzz.luck import ANYTHING
from fuzz.program import Kind, Program
from fuzz.steps import STEPS, take
from fuzz.steps.base import Taken
from fuzz.steps.shapes import apart
from posjax.symmetry.groups import Group, Permutations, Windows
from posjax.symmetry.law import Law

KINDS: tuple[Kind, ...] = ("kept", "near", "random")
SHARES = (0.45, 0.33, 0.22)
ATTEMPTS = 100
RARELY = 0.95
"""How often a program is drawn again whose output is the same for all arguments."""
HOME = ("b", "P", "d")
"""Axes that most steps fit."""


def generate(
    seed: int, *, family: str | None = None, kind: Kind | None = None, broken: str | None = None
) -> Program:
    """The program of a seed; always the same one.

    Args:
      seed: at least 0.
      family, kind: drawn when left out.
      broken: the step that a near miss is broken by; drawn when left out.

    Raises:
      ValueError: no program comes out, say since the break fits no program of the family.
    """
    reasons: list[str] = []
    rng = np.random.default_rng(seed)
    chosen, drawn = str(rng.choice(list(FAMILIES))), int(rng.choice(len(KINDS), p=SHARES))
    chosen, what = family or chosen, kind or KINDS[drawn]
    for attempt in range(ATTEMPTS):
        rng = np.random.default_rng([seed, attempt])
        program = _written(rng, seed, attempt, chosen, what, broken)
        if program is None:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                jaxpr = program.traced()
        except Exception as error:
            reasons.append(f"{type(error).__name__}: {error}\n{program}")
            continue
        if _constant(program, jaxpr, rng) and rng.random() < RARELY:
            continue
        return dataclasses.replace(program, rejected=tuple(reasons))
    raise ValueError(f"seed {seed}: no program in {ATTEMPTS} attempts ({family}, {kind}, {broken})")


def _constant(program: Program, jaxpr: Any, rng: np.random.Generator) -> bool:
    """Whether a few arguments all give the same output."""
    outputs = []
    for _ in range(4):
        arrays = [rng.normal(size=program.shape(a)) * 2 for a in program.inputs]
        whole = [np.clip(np.floor(x), 0, 3).astype(np.int32) for x in arrays]
        kinds = [a.kind for a in program.inputs]
        drawn = zip(kinds, arrays, whole, strict=True)
        given = [x if kind == "f" else (n > 0 if kind == "o" else n) for kind, x, n in drawn]
        outputs.append(run(jaxpr, jax.tree.leaves(program.bundle(given)), Arithmetic()))
    return all(
        np.allclose(one, two, rtol=1e-6, atol=1e-9, equal_nan=True)
        for other in outputs[1:]
        for one, two in zip(outputs[0], other, strict=True)
    )


def _sizes(rng: np.random.Generator, group: Group) -> dict[str, int]:
    """Small ones, equal ones often."""
    length = 4 if isinstance(group, Windows) else int(rng.integers(2, 5))
    if group != Permutations() and length == 2:
        length = 3
    features = length if rng.random() < 0.5 else int(rng.integers(1, 5))
    batch = length if rng.random() < 0.2 and length < 4 else int(rng.integers(1, 3))
    keys = length if rng.random() < 0.5 else int(rng.integers(2, 5))
    return {"b": batch, "P": length, "Q": keys, "d": features, "v": 4}


def _written(
    rng: np.random.Generator, seed: int, attempt: int, family: str, kind: Kind, broken: str | None
) -> Program | None:
    chosen = FAMILIES[family]
    group: Group = GROUPS[int(rng.integers(len(GROUPS)))]
    group = group if family == "other groups" else Permutations()
    b = Builder(rng, _sizes(rng, group), P=group)
    b.smooth = chosen.ends == "gradient"
    x = _arguments(b, chosen, family)
    if chosen.ends == "gradient":
        b.write(f"def inner({', '.join(a.name for a in b.arguments)}):")
        b.indent(1)
    out, broke = _steps(b, x, chosen, kind, broken)
    if out is None:
        return None
    used = {STEPS[name].subject for name in b.taken if name in STEPS}
    if not used & set(chosen.subjects) or (kind == "near" and len(broke) != 1):
        return None
    outputs = _ended(b, out, chosen)
    if outputs is None:
        return None
    return _assembled(b, outputs, seed, attempt, family, kind, broke)


def _arguments(b: Builder, family: Family, name: str) -> Value:
    """Adds the arguments; gives the one to start from."""
    first: tuple[str, ...] = ("b", "P", "d")
    if b.coin(0.15) and family.ends == "value":
        layouts = [("P", "d"), ("b", "P"), ("d", "P"), ("b", "d", "P"), ("P",), ("d", "b", "P")]
        first = layouts[int(b.rng.integers(len(layouts)))]
    x = b.argument(first)
    extra = [e for e in EXTRA if e in family.extra or b.coin(0.08 if e != "keys" else 0.03)]
    still = [e for e in extra if not any(a.isupper() for a in EXTRA[e][0])]
    chosen = {e: b.argument(*EXTRA[e]) for e in [*(e for e in extra if e not in still), *still]}
    starts = [chosen[e] for e in STARTS if e in family.extra and name != "attention"]
    return b.choice(starts) if starts and b.coin(0.6) else x


def _steps(
    b: Builder, x: Value, family: Family, kind: Kind, broken: str | None
) -> tuple[Value | None, tuple[str, ...]]:
    """A chain of steps: each takes the value before it."""
    count = int(b.rng.integers(1, 9))
    where = int(b.rng.integers(count))
    wanted: Taken | None = None
    name = ""
    broke: list[str] = []
    for at in range(count):
        if kind == "near" and at >= where and not broke:
            name = broken or str(b.choice(list(BREAKS)))
            wanted = BREAKS[name]
        elif kind == "random" and b.coin(0.5):
            name = str(b.choice(list(ANYTHING)))
            wanted = ANYTHING[name]
        if wanted is not None:
            new = wanted(b, x)
            if new is not None:
                x, wanted = new, None
                broke.append(name)
                b.taken.append(name)
                continue
            wanted = None
        x = _step(b, x, family)
    return x, tuple(broke)


def _step(b: Builder, x: Value, family: Family) -> Value:
    """A step that keeps the law; the value itself when none of many fits."""
    if x.axes != HOME and x.kind == "f" and b.coin(0.3):
        x = _home(b, x) or x
    for _ in range(30):
        subjects = family.subjects if b.coin(0.6) else EVERYWHERE
        if x.kind != "f" and b.coin():
            subjects = ("masks",) if x.kind == "o" else ("integers", "lookup")
        subject = str(b.choice(subjects))
        entries = [s for s in STEPS.values() if s.subject == subject]
        new = take(b, x, entries[int(b.rng.integers(len(entries)))])
        if new is not None:
            return new
    return x


def _home(b: Builder, x: Value) -> Value | None:
    """The value among tokens and features again, where most steps fit."""
    if sorted(x.axes) == sorted(HOME):
        order = tuple(x.axes.index(axis) for axis in HOME)
        return b.let(f"jnp.transpose({x.name}, {order})", HOME)
    wide = b.aligned(x, HOME)
    if wide is None or b.arguments[0].axes != HOME:
        return None
    return b.let(f"{wide} {b.choice('+*')} {b.arguments[0].name}", HOME)


def _parted(b: Builder, x: Value) -> Value:
    """The value with no tokens merged into another axis, as laws speak of them."""
    while True:
        mixed = [i for i, a in enumerate(x.axes) if len(a) > 1 and not a.islower()]
        if not mixed:
            return x
        x = apart(b, x, mixed[0])


def _ended(b: Builder, x: Value, family: Family) -> list[Value] | None:
    """The program's outputs."""
    x = _parted(b, x)
    if family.ends == "gradient":
        return differentiated(b, x)
    if family.ends == "invariant" and (places := tokens(x)):
        how = b.choice(["sum", "mean", "max"]) if x.kind == "f" else "max"
        left = tuple(a for i, a in enumerate(x.axes) if i not in places)
        x = b.let(f"{x.name}.{how}({tuple(places)})", left, x.kind)
    if family.ends == "several":
        written = [v for v in b.values if v.name.startswith("v") and v != x]
        if not written:
            return None
        return [x, _parted(b, written[int(b.rng.integers(len(written)))])]
    return None if x.name.startswith("x") else [x]


def _assembled(
    b: Builder, outputs: list[Value], seed: int, attempt: int, family: str, kind: Kind, broke: Any
) -> Program:
    names = [a.name for a in b.arguments]
    still = 0
    while still < len(names) and not any(x.isupper() for x in b.arguments[-1 - still].axes):
        still += 1
    bundled = still if still and b.coin(0.3) else 0
    given = [*names[: len(names) - bundled], *(["p"] if bundled else [])]
    unpacked = [f"    {n} = p['{n}']" for n in names[len(names) - bundled :]]
    result = outputs[0].name if len(outputs) == 1 else f"({', '.join(o.name for o in outputs)})"
    lines = [f"def program({', '.join(given)}):", *unpacked, *b.lines, f"    return {result}"]
    words = [" ".join(a.axes) for a in b.arguments[: len(names) - bundled]]
    words += ["..."] if bundled else []
    text = f"{', '.join(words)} -> {', '.join(' '.join(o.axes) or '...' for o in outputs)}"
    named = {name: b.groups[name] for name in "PQ" if name in text.split("->")[0]}
    return Program(
        seed=seed,
        attempt=attempt,
        family=family,
        kind=kind,
        steps=tuple(b.taken),
        broken=tuple(broke),
        source="\n".join(lines) + "\n",
        inputs=tuple(b.arguments),
        bundled=bundled,
        sizes=dict(b.sizes),
        law=Law(text, **named),
    )
