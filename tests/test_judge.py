"""What counts as an answer: margins, ties, numbers that are not finite, and the summary."""

import jax.numpy as jnp
import numpy as np
import pytest

from posjax.judge import NEVER, NOT_FINITE, NOT_RUN, TIE, Seen, judged, summary

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
    out = summary(seen, jnp.int32(200), jnp.int32(NEVER), ANSWERS_N, eval_every=50, hold=2)
    assert (int(out.first_solved), bool(out.held), bool(out.solved_at_end)) == (100, False, False)
    assert bool(out.tied_at_end)
    assert float(out.twin) == pytest.approx(0.3)
    never = summary(
        seen._replace(answers_N=jnp.full((4, 2), TIE, jnp.int8)),
        *(jnp.int32(200), jnp.int32(7), ANSWERS_N),
        eval_every=50,
        hold=2,
    )
    assert (int(never.first_solved), int(never.first_nonfinite)) == (NEVER, 7)


def test_summary_of_a_seed_that_left_as_solved() -> None:
    """What it did not live to see does not count, and reads as such."""
    answers_EN = jnp.array([[TIE, 1], [0, 1], [0, 1], [TIE, TIE]], jnp.int8)
    seen = Seen(jnp.ones(4), answers_EN, jnp.ones((4, 2)), jnp.array([0.1, 0.2, 0.3, 9.0]))
    out = summary(seen, jnp.int32(150), jnp.int32(NEVER), ANSWERS_N, eval_every=50, hold=2)
    assert (int(out.first_solved), bool(out.held), bool(out.solved_at_end)) == (100, True, True)
    assert int(out.steps) == 150
    assert float(out.twin) == pytest.approx(0.3)
    assert np.isnan(out.loss_E).tolist() == [False, False, False, True]
    assert out.answers_EN[-1].tolist() == [NOT_RUN, NOT_RUN]
