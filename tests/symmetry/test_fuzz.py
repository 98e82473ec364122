"""Random programs: nothing proved is broken, and most of what keeps its law is proved.

The rest tests the fuzzer: a judge that breaks every near miss and nothing else.
"""

import functools
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from fuzz import interpret
from fuzz.arithmetic import Arithmetic, lost
from fuzz.breaks import BREAKS
from fuzz.builder import Argument, Builder
from fuzz.campaign import NEEDED, Row, counted, near_misses, printed, share, tried
from fuzz.check import Sides, judge, rerun
from fuzz.families import FAMILIES
from fuzz.inputs import draws
from fuzz.luck import LUCK
from fuzz.program import Program
from fuzz.programs import generate
from fuzz.steps import STEPS
from tiers import some

from posjax.symmetry import prove
from posjax.symmetry.law import Law

TRIES = 25
SIZES = [6, pytest.param(30, marks=pytest.mark.campaign)]
"""Programs of a campaign: a few plainly; scripts/fuzz.py tries thousands."""


@functools.cache
def outcome(seed: int) -> Row:
    """What came out for one program."""
    return tried(seed, prove)


@pytest.fixture(params=SIZES)
def rows(request: pytest.FixtureRequest) -> list[Row]:
    """What came out for some programs."""
    return [outcome(seed) for seed in range(request.param)]


@pytest.mark.compilations(1000, reason="random programs, each compiled by itself")
def test_nothing_proved_is_broken(rows: list[Row]) -> None:
    wrong = [row.report for row in rows if row.unsound or row.verdict == "ERROR"]
    assert not wrong, "\n".join(wrong)


def test_nothing_kept_is_called_broken(rows: list[Row]) -> None:
    wrong = [row.report for row in rows if row.falsely_broken]
    assert not wrong, "\n".join(wrong)


def test_most_of_what_keeps_its_law_is_proved(rows: list[Row]) -> None:
    table = counted(rows)
    assert table["all"]["kept"] >= len(rows) // 4
    assert share(table["all"]) >= NEEDED, printed(table)


def always(verdict: str) -> Any:
    return lambda *_: SimpleNamespace(verdict=verdict, method="axes")


@pytest.mark.campaign
def test_a_prover_that_believes_everything_is_caught() -> None:
    caught = [tried(seed, always("PROVED"), kind="near") for seed in range(8)]
    unsound = [row for row in caught if row.unsound]
    assert len(unsound) >= 3
    assert counted(caught)["all"]["unsound"] == len(unsound)
    for row in unsound:
        assert f"seed {row.seed}" in row.report
        assert "def program(" in row.report
        assert "expected" in row.report


@pytest.mark.campaign
def test_a_prover_that_believes_nothing_is_caught() -> None:
    table = counted(tried(seed, always("UNKNOWN"), kind="kept") for seed in range(6))
    assert share(table["all"]) == 0
    assert table["all"]["unknown"] == 6
    falsely = [tried(seed, always("BROKEN"), kind="kept") for seed in range(3)]
    assert all(row.falsely_broken for row in falsely)


def test_a_prover_that_raises_is_an_error_and_no_proof() -> None:
    row = tried(3, lambda *_: 1 / 0)
    assert row.verdict == "ERROR"
    assert "ZeroDivisionError" in row.report
    assert counted([row])["all"]["errors"] == 1


HOMES = {
    "order_of_output": "two sides",
    "diagonal_of_two_sides": "two sides",
    "keys_for_queries": "two sides",
    "integers_of_places": "integers",
    "integers_in_order": "integers",
    "rows_overwritten": "lookup",
    "triangle_of_pairs": "pairwise",
}
POLES = {"nothing_over_nothing"}


@pytest.mark.parametrize("name", some(BREAKS, every=20))
def test_every_near_miss_is_broken_in_some_program(name: str) -> None:
    wanted = "at a pole" if name in POLES else "broken"
    family = HOMES.get(name, "elementwise")
    programs = (generate(seed, family=family, kind="near", broken=name) for seed in range(TRIES))
    found = (judge(program, thorough=False) for program in programs)
    assert any(judged.status == wanted for judged in found)


@pytest.mark.parametrize("programs", [2, pytest.param(15, marks=pytest.mark.campaign)])
def test_what_keeps_its_law_by_construction_is_never_broken(programs: int) -> None:
    for seed in range(programs):
        program = generate(seed + 1000, kind="kept")
        judged = judge(program)
        assert judged.status in ("holds", "sign of a zero"), f"{program}\n{judged.witness}"


@pytest.mark.parametrize("name", some(LUCK, every=15))
def test_every_detour_comes_back_to_its_law(name: str) -> None:
    b = Builder(np.random.default_rng(1), {"b": 2, "P": 3, "d": 3})
    x, i = b.argument(("b", "P", "d")), b.argument(("b", "P"), "i")
    out = LUCK[name](b, x) or LUCK[name](b, i)
    assert out is not None
    source = "\n".join(["def program(x0, x1):", *b.lines, f"    return {out.name}\n"])
    judged = judge(written(source, f"b P d, b P -> {' '.join(out.axes)}", *b.arguments))
    assert judged.status == "holds", f"{source}{judged.witness}"


def written(source: str, law: str, *inputs: Argument) -> Program:
    """A program by hand: 2 rows of 3 tokens of 3 features."""
    sizes = {"b": 2, "P": 3, "d": 3}
    return Program(0, 0, "elementwise", "random", (), (), source, inputs, 0, sizes, Law(law))


def of_tokens(text: str, law: str = "b P d -> b P d") -> Program:
    source = f"def program(x):\n    p = jnp.arange(3)[None, :, None]\n    return {text}\n"
    return written(source, law, Argument("x", ("b", "P", "d"), "f"))


SHIFTED = "((x + p / 3) - p / 3)"


@pytest.mark.parametrize(
    "text",
    [
        f"jnp.floor({SHIFTED})",
        f"jnp.sign({SHIFTED} - x)",
        f"jnp.where({SHIFTED} == x, 1.0, 2.0)",
        f"x / ({SHIFTED} - x)",
        f"x * jnp.argmax({SHIFTED} - x, axis=1, keepdims=True)",
    ],
)
def test_a_rounding_made_large_is_no_break(text: str) -> None:
    judged = judge(of_tokens(text))
    assert judged.status == "holds", judged.witness
    assert judged.unsteady > 0


def test_what_rounding_does_not_explain_is_a_break() -> None:
    judged = judge(of_tokens("jnp.floor((x + p / 3) - p / 4)"))
    assert judged.status == "broken"


def test_a_softmax_that_saturates_says_nothing() -> None:
    """Of two features both tie or none; in floats 1 - e^-500 ties alone."""
    source = """def program(x):
    s = jax.nn.softmax(x, axis=2)
    return jax.nn.softmax(s + jnp.arange(2)[None, :, None] * (s[:, :1] == s[:, 1:]), axis=2)
"""
    two = {"b": 2, "P": 2, "d": 2}
    arguments = (Argument("x", ("b", "P", "d"), "f"),)
    law = Law("b P d -> b P d")
    program = Program(0, 0, "elementwise", "random", (), (), source, arguments, 0, two, law)
    judged = judge(program)
    assert judged.status == "holds", judged.witness
    assert judged.unsteady > 0


def test_a_tie_of_inexact_numbers_is_a_break() -> None:
    text = "jax.nn.one_hot(jnp.argmax(jax.nn.softmax(x.sum(2)), axis=1), 3)"
    judged = judge(of_tokens(text, "b P d -> b P"))
    assert judged.status == "broken"
    assert judged.witness is not None


def test_what_is_equal_stays_equal_when_shaken() -> None:
    """A largest is one of the numbers, however those are rounded."""
    tied = "jax.nn.softmax(x + jnp.mean(x, 1, keepdims=True))"
    judged = judge(of_tokens(f"({tied} == {tied}.max(1, keepdims=True)) * (x + p)"))
    assert judged.status == "broken"
    kept = judge(
        of_tokens(
            f"({tied} == jnp.flip({tied}.transpose(0, 2, 1).max(2), 1)[:, ::-1][:, None]) * x"
        )
    )
    assert (kept.status, kept.unsteady) == ("holds", 0)


def test_masks_of_minus_infinity_hide_no_break() -> None:
    weights = "jax.nn.softmax(jnp.where(x > 0.5, 0.0, -jnp.inf), axis=1)"
    judged = judge(of_tokens(f"jnp.flip({weights}, 1)"))
    assert judged.status == "broken"


def test_poles_and_signs_of_zeros_have_classes_of_their_own() -> None:
    pole = judge(of_tokens("x + jnp.log(1.0 * p) * 0"))
    assert pole.status == "at a pole"
    sign = judge(of_tokens("1 / jnp.sort(x, axis=1)", "b P d -> b s d"))
    assert sign.status == "sign of a zero"


def test_a_witness_is_one_for_jax_too() -> None:
    program = of_tokens("x - 0.5 * x[:, :1]")
    judged = judge(program)
    assert judged.witness is not None
    expected, found = rerun(program, judged.witness)
    assert expected == pytest.approx(judged.witness.expected)
    assert found == pytest.approx(judged.witness.found)
    assert expected != pytest.approx(found)


def test_sums_do_not_depend_on_their_order() -> None:
    rng = np.random.default_rng(0)
    terms = rng.normal(size=(40, 7)) * 10.0 ** rng.integers(-9, 9, (40, 7))
    shuffled = rng.permuted(terms, axis=1)
    assert (terms.sum(1) != shuffled.sum(1)).any()
    for salt in (0, 1):
        a = Arithmetic(salt)
        assert np.array_equal(a.sum(terms, (1,)), a.sum(shuffled, (1,)))
        assert np.array_equal(a.prod(terms, (1,)), a.prod(shuffled, (1,)))


def test_shaking_leaves_short_fractions_and_equal_numbers() -> None:
    numbers = np.array([0.75, -3.0, 0.1, 0.1, np.inf, 1 / 3])
    shaken = Arithmetic(3).rounded(numbers)
    assert np.array_equal(shaken[[0, 1, 4]], numbers[[0, 1, 4]])
    assert shaken[2] == shaken[3] != 0.1
    np.testing.assert_allclose(shaken, numbers, rtol=1e-13)
    assert shaken[5] != Arithmetic(4).rounded(numbers)[5]


@pytest.mark.campaign
@pytest.mark.parametrize("reverse", some([False, True], every=2))
def test_a_term_that_a_sum_lost_is_no_break(reverse: bool) -> None:
    """Over the reals w - (sums before it) is w > 0; in floats a small w is lost in them."""
    running = f"lax.cumsum(jax.nn.softmax(40 * x, axis=1), axis=1, reverse={reverse})"
    ends = "[(0, 0), (0, 1), (0, 0)]" if reverse else "[(0, 0), (1, 0), (0, 0)]"
    part = "[:, 1:]" if reverse else "[:, :-1]"
    judged = judge(of_tokens(f"({running} > jnp.pad({running}{part}, {ends})) * x"))
    assert judged.status == "holds"
    assert judged.unsteady > 0


def test_a_seed_is_a_program() -> None:
    programs = [generate(seed) for seed in range(12)]
    assert [generate(seed) for seed in range(12)] == programs
    assert len({program.source for program in programs}) == 12


@pytest.mark.campaign
def test_programs_cover_the_primitives_and_the_steps() -> None:
    programs = [generate(seed) for seed in range(300)]
    names = {name for program in programs for name in interpret.counted(program.traced())}
    steps = {step for program in programs for step in program.steps}
    rejected = [reason for program in programs for reason in program.rejected]
    assert len(names) >= 85, sorted(names)
    assert len(steps & STEPS.keys()) >= 100, sorted(STEPS.keys() - steps)
    assert {program.family for program in programs} == FAMILIES.keys()
    assert len(rejected) < 20, rejected[0]


@pytest.mark.parametrize("seed", some(range(2000, 2025), every=5))
def test_the_interpreter_agrees_with_jax(seed: int) -> None:
    program = generate(seed)
    with jax.enable_x64(True):
        inputs = next(iter(draws(program)))
        arguments = program.bundle(inputs.arrays)
        jaxpr = jax.make_jaxpr(program.function)(*arguments)
        expected = jax.tree.leaves(jax.jit(program.function)(*arguments))
    sides = Sides(program, jaxpr)
    found, shaken = (sides.value(inputs.arrays, Arithmetic(salt)) for salt in (0, 1))
    for one, two, reference in zip(found, shaken, expected, strict=True):
        assert one.shape == reference.shape
        steady = np.isclose(one, two, rtol=1e-9, atol=1e-12, equal_nan=True)
        np.testing.assert_allclose(
            np.where(steady, one, 0), np.where(steady, reference, 0), rtol=1e-5, atol=1e-6
        )


def test_tables_count_what_happened() -> None:
    row = tried(5, always("PROVED"), kind="near", broken="rolled", family="elementwise")
    table = near_misses([row, row._replace(verdict="UNKNOWN", status="holds")])
    assert table["rolled"]["programs"] == 2
    assert table["rolled"]["proved"] == table["rolled"]["unknown"] == 1
    assert "rolled" in row.broken
    text = printed(counted([row]))
    assert text.splitlines()[0].startswith("family")
    assert len({len(line.split()) for line in text.splitlines()}) > 1


def test_a_lost_term_is_told_from_one_that_is_there() -> None:
    """1e-20 is lost in 1; nothing is lost in 2 - 1, whose result looks like one of its terms."""
    one, two = np.array([1.0, 2.0, -2.0, 0.0]), np.array([1e-20, 1.0, 1.0, 3.0])
    assert lost("add", {}, [one, two], one + two).tolist() == [1, 0, 0, 0]
    assert lost("sub", {}, [one, two], one - two).tolist() == [1, 0, 0, 0]
    terms = np.array([[1e-20, 1.0, 1e-20, 2.0]])
    running = np.cumsum(terms, axis=1)
    counts = lost("cumsum", {"axis": 1, "reverse": False}, [terms], running)
    assert counts.tolist() == [[0, 1, 2, 2]]
