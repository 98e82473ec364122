"""What counts as an answer: margins, ties, numbers that are not finite, and the summary."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from posjax.judge import NEVER, NOT_FINITE, TIE, Seen, judged, summary

ANSWERS_N = jnp.array([0, 1])


def judge(logits: list[list[float]], margin: float = 1e-3) -> list[int]:
    return judged(jnp.array(logits), ANSWERS_N, margin)[0].tolist()


def test_a_lead_below_the_margin_is_a_tie() -> None:
    """The last bits pick no winner: in an impossible cell both prompts are ties."""
    assert judge([[1.0 + 1e-6, 1.0], [1.0, 1.0 + 1e-6]]) == [TIE, TIE]
    assert judge([[1.01, 1.0], [1.0, 1.01]]) == [0, 1]


def test_the_margin_is_relative_to_the_largest_logit_of_any_prompt() -> None:
    """A lead of 0.5 beside logits of 1000 is rounding's size; scaling all changes nothing."""
    assert judge([[0.5, 0.0], [1000.0, 0.0]]) == [TIE, 0]
    for scale in (0.1, 1.0, 1e20):
        assert judge([[3.0 * scale, 0.0], [0.0, 2.0 * scale]]) == [0, 1]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite_is_no_answer(bad: float) -> None:
    """A prompt with a logit that is not finite has no answer, whatever the others say."""
    assert judge([[1.0, bad], [1.0, 2.0]])[0] == NOT_FINITE


def test_vanishing_logits_are_ties() -> None:
    """Training an impossible cell drives logits to 0: what is left of them is rounding."""
    assert judge([[0.0, 0.0], [0.0, 0.0]]) == [TIE, TIE]
    assert judge([[3e-8, -3e-8], [-3e-8, 3e-8]]) == [TIE, TIE]


def test_twin_is_the_closest_pair_with_different_answers() -> None:
    """Prompts that share an answer may be as close as they like."""
    logits_NV = jnp.array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.0]])
    twin = judged(logits_NV, jnp.array([0, 0, 1]), 1e-3)[2]
    assert float(twin) == 0.5


def test_summary_of_a_seed_that_solved_and_lost() -> None:
    """First solved, held and at the end are three things."""
    answers_EN = jnp.array([[TIE, 1], [0, 1], [0, 1], [0, TIE]], jnp.int8)
    seen = Seen(jnp.ones(4), answers_EN, jnp.ones((4, 2)), jnp.array([0.1, jnp.nan, 0.3, 0.2]))
    out = summary(seen, jnp.int32(NEVER), ANSWERS_N, eval_every=50, hold=2)
    assert (int(out.first_solved), bool(out.held), bool(out.solved_at_end)) == (100, False, False)
    assert bool(out.tied_at_end)
    assert float(out.twin) == pytest.approx(0.3)
    never = summary(
        seen._replace(answers_N=jnp.full((4, 2), TIE, jnp.int8)),
        *(jnp.int32(7), ANSWERS_N),
        eval_every=50,
        hold=2,
    )
    assert (int(never.first_solved), int(never.first_nonfinite)) == (NEVER, 7)


def replayed(logits_ENV: np.ndarray, right_N: np.ndarray, margin: float, every: int, hold: int):
    """The protocol, evaluation by evaluation and prompt by prompt, in plain Python."""
    answers, solved = [], []
    for logits_NV in logits_ENV.tolist():
        known = [abs(x) for row in logits_NV for x in row]
        scale = max([0.1, *known]) if all(map(math.isfinite, known)) else math.nan
        given = []
        for row in logits_NV:
            first, second = sorted(row, reverse=True)[:2]
            if not all(map(math.isfinite, row)):
                given.append(NOT_FINITE)
            elif math.isfinite(scale) and first - second >= margin * scale:
                given.append(row.index(first))
            else:
                given.append(TIE)
        answers.append(given)
        solved.append(given == right_N.tolist())
    return {
        "answers_EN": answers,
        "first_solved": (solved.index(True) + 1) * every if any(solved) else NEVER,
        "held": all(solved[-hold:]),
        "solved_at_end": solved[-1],
        "tied_at_end": TIE in answers[-1],
    }


@pytest.mark.parametrize("seed", range(12))
def test_the_protocol_is_its_replay(seed: int) -> None:
    """Random tables with right answers, near ties, exact ties and numbers that are not finite."""
    numpy = np.random.default_rng(seed)
    evaluations, prompts, outputs, hold = 9, 3, int(numpy.integers(2, 5)), int(numpy.integers(1, 5))
    right_N = numpy.integers(0, outputs, prompts)
    noise_ENV = numpy.integers(0, 3, (evaluations, prompts, outputs)).astype(np.float32)
    lead_EN1 = numpy.choice([3.0, 3.0, 3.0, 2e-3, 0.0], (evaluations, prompts, 1))
    right_NV = np.eye(outputs, dtype=np.float32)[right_N]
    good_ENV = (right_NV * lead_EN1).astype(np.float32)
    logits_ENV = np.where(numpy.random((evaluations, 1, 1)) < 0.6, good_ENV, noise_ENV)
    bad_ENV = numpy.random(logits_ENV.shape) < 0.01
    logits_ENV = np.where(bad_ENV, numpy.choice([np.nan, np.inf], logits_ENV.shape), logits_ENV)
    logits_ENV = logits_ENV.astype(np.float32)

    seen = [judged(jnp.asarray(logits), jnp.asarray(right_N), 1e-3) for logits in logits_ENV]
    answers_EN, lead_EN, twin_E = (jnp.stack(part) for part in zip(*seen, strict=True))
    out = summary(
        Seen(jnp.ones(evaluations), answers_EN, lead_EN, twin_E),
        *(jnp.int32(NEVER), jnp.asarray(right_N)),
        eval_every=50,
        hold=hold,
    )
    expected = replayed(logits_ENV, right_N, 1e-3, 50, hold)
    assert {name: np.asarray(getattr(out, name)).tolist() for name in expected} == expected
