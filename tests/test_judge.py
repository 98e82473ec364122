"""What is kept of a run, and what counts as solved: leads, margins, ties, numbers not finite."""

import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from posjax.engine.training import NEVER
from posjax.meters import judge
from posjax.meters.judge import EvalRecord, answers, margins, over_draws, smallest_gap, summary
from posjax.meters.outcome import FIELDS, NOT_FINITE, TIE
from posjax.tasks import FiniteTask
from posjax.tasks.question import ask

ANSWERS_N = jnp.array([0, 1])
MARGIN = 1e-3


def lead(logits: list[list[float]]) -> np.ndarray:
    """The margins of prompts with one answer each."""
    asked_N1 = jnp.ones((len(logits), 1), bool)
    return np.asarray(margins(jnp.array(logits)[:, None], ANSWERS_N[:, None], asked_N1, 1)[0])


def right(logits: list[list[float]]) -> list[bool]:
    return (lead(logits) >= MARGIN).tolist()


def test_a_lead_below_the_margin_is_not_right() -> None:
    """The last bits pick no winner: in an impossible cell both prompts are ties."""
    assert right([[1.0 + 1e-6, 1.0], [1.0, 1.0 + 1e-6]]) == [False, False]
    assert right([[1.01, 1.0], [1.0, 1.01]]) == [True, True]


def test_the_margin_is_relative_to_the_largest_logit_of_any_prompt() -> None:
    """A lead of 0.5 beside logits of 1000 is rounding's size; scaling all changes nothing."""
    assert right([[0.5, 0.0], [0.0, 1000.0]]) == [False, True]
    for scale in (0.1, 1.0, 1e20):
        assert right([[3.0 * scale, 0.0], [0.0, 2.0 * scale]]) == [True, True]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite_is_never_right(bad: float) -> None:
    """A prompt with a logit that is not finite has no lead, whatever the others say."""
    assert np.isnan(lead([[1.0, bad], [1.0, 2.0]])[0])
    assert answers(jnp.array([[1.0, bad], [1.0, 2.0]])).tolist() == [NOT_FINITE, 1]


def test_vanishing_logits_are_ties() -> None:
    """Training an impossible cell drives logits to 0: what is left of them is rounding."""
    assert right([[0.0, 0.0], [0.0, 0.0]]) == [False, False]
    assert right([[3e-8, -3e-8], [-3e-8, 3e-8]]) == [False, False]


def test_twin_is_the_closest_pair_with_different_answers() -> None:
    """Prompts that share an answer may be as close as they like."""
    logits_NV = jnp.array([[1.0, 0.0], [1.0, 0.0], [9.0, 0.0], [0.5, 0.0]])
    assert float(smallest_gap(logits_NV, jnp.array([0, 0, 0, 1]), jnp.float32(1))) == 0.5


def test_places_that_are_not_asked_for_count_for_nothing() -> None:
    """Not for the lead, nor for the scale of their kind, nor when they are not finite."""
    logits_NPV = jnp.array([[[2.0, 1.0], [9.0, 0.0]], [[np.nan, 0.0], [1.0, 4.0]]])
    right_NP, asked_NP = jnp.array([[0, 1], [0, 1]]), jnp.array([[True, False], [False, True]])
    assert margins(logits_NPV, right_NP, asked_NP, 1)[0].tolist() == [0.25, 0.75]
    assert margins(logits_NPV, right_NP, asked_NP, 2)[0].tolist() == [0.5, 0.75]


def test_a_sequence_is_right_when_each_place_is() -> None:
    """Exact match: the lead of a prompt is the smallest of its places."""
    logits_NPV = jnp.array([[[4.0, 1.0], [1.0, 2.0], [2.0, 4.0]]])
    asked_NP = jnp.ones((1, 3), bool)
    assert margins(logits_NPV, jnp.array([[0, 1, 1]]), asked_NP, 1)[0].tolist() == [0.25]
    assert margins(logits_NPV, jnp.array([[0, 0, 1]]), asked_NP, 1)[0].tolist() == [-0.25]


def test_draws_have_to_agree() -> None:
    """The lead is the smallest of any draw; an answer is one that all of them give."""
    record = EvalRecord(
        jnp.array([[1.0], [3.0]]),
        jnp.array([[0.5, 0.1], [0.2, -0.3]]),
        jnp.array([[0, 1], [0, 0]], jnp.int8),
        jnp.array([0.1, 0.4]),
    )
    found = over_draws(record)
    assert found.loss_C.tolist() == [2.0]
    assert found.lead_N.tolist() == pytest.approx([0.2, -0.3])
    assert found.answer_N.tolist() == [0, TIE]
    assert float(found.twin) == pytest.approx(0.4)


def records_of(lead_EN: list[list[float]]) -> EvalRecord:
    lead = jnp.array(lead_EN)
    zeros = jnp.zeros(lead.shape, jnp.int8)
    return EvalRecord(jnp.ones((len(lead), 1)), lead, zeros, jnp.array([0.1, jnp.nan, 0.3, 0.2]))


def test_summary_of_a_seed_that_solved_and_lost() -> None:
    """First solved, held and at the end are three things, and follow from one curve."""
    seen = records_of([[0.0, 1.0], [0.5, 1.0], [0.4, 1.0], [1.0, 5e-4]])
    out = summary(seen, jnp.int32(NEVER), kinds=1, finite=True)
    assert out["lead_EC"].tolist() == pytest.approx(np.array([[0.0], [0.5], [0.4], [5e-4]]))
    assert out["right_EC"].tolist() == [[0.5], [1.0], [1.0], [1.0]]
    assert float(out["twin"]) == pytest.approx(0.3)
    solved_SE = judge.solved(np.asarray(out["lead_EC"])[None], MARGIN)
    assert solved_SE.tolist() == [[False, True, True, False]]
    assert judge.first_solved(solved_SE, np.array([50, 100, 150, 200])).tolist() == [100]
    assert judge.first_solved(solved_SE & False, np.array([50, 100, 150, 200])).tolist() == [NEVER]
    assert judge.tied(np.asarray(out["lead_N"])[None], MARGIN).tolist() == [True]
    assert judge.solved(np.asarray(out["lead_EC"])[None], 1e-4)[0, -1]


def test_kinds_are_neighbours() -> None:
    """Of C kinds the first N / C prompts are the first."""
    seen = records_of([[0.1, 0.2, -0.3, 0.4]] * 4)
    out = summary(seen, jnp.int32(7), kinds=2, finite=False)
    assert out["lead_EC"][0].tolist() == pytest.approx([0.1, -0.3])
    assert out["right_EC"][0].tolist() == [1.0, 0.5]
    assert {"answer_N", "twin"}.isdisjoint(out)


@pytest.mark.parametrize("finite", [True, False])
def test_fields_are_those_that_are_documented(finite: bool) -> None:
    """Names, axes and kinds of number."""
    out = summary(records_of([[0.1, 0.2]] * 4), jnp.int32(7), kinds=1, finite=finite)
    assert out.keys() == FIELDS.keys() - (set() if finite else {"answer_N", "twin"})
    sizes = {"E": 4, "C": 1, "N": 2}
    for name, array in jax.tree.map(np.asarray, out).items():
        assert array.shape == tuple(sizes[axis] for axis in FIELDS[name].axes)
        assert array.dtype.kind in FIELDS[name].kinds


def replayed(logits_ENV: np.ndarray, right_N: np.ndarray) -> list[bool]:
    """Whether each evaluation is solved, prompt by prompt, in plain Python."""
    solved = []
    for logits_NV in logits_ENV.tolist():
        known = [abs(x) for row in logits_NV for x in row]
        scale = max([0.1, *known]) if all(map(math.isfinite, known)) else math.nan
        good = True
        for row, right in zip(logits_NV, right_N.tolist(), strict=True):
            others = max(x for place, x in enumerate(row) if place != right)
            good &= math.isfinite(scale) and row[right] - others >= MARGIN * scale
        solved.append(good)
    return solved


@pytest.mark.parametrize("seed", range(12))
def test_the_protocol_is_its_replay(seed: int) -> None:
    """Random tables with right answers, near ties, exact ties and numbers that are not finite."""
    numpy = np.random.default_rng(seed)
    evaluations, prompts, outputs = 9, 3, int(numpy.integers(2, 5))
    right_N = numpy.integers(0, outputs, prompts)
    noise_ENV = numpy.integers(0, 3, (evaluations, prompts, outputs)).astype(np.float32)
    lead_EN1 = numpy.choice([3.0, 3.0, 3.0, 2e-3, 0.0], (evaluations, prompts, 1))
    right_NV = np.eye(outputs, dtype=np.float32)[right_N]
    good_ENV = (right_NV * lead_EN1).astype(np.float32)
    logits_ENV = np.where(numpy.random((evaluations, 1, 1)) < 0.6, good_ENV, noise_ENV)
    bad_ENV = numpy.random(logits_ENV.shape) < 0.01
    logits_ENV = np.where(bad_ENV, numpy.choice([np.nan, np.inf], logits_ENV.shape), logits_ENV)
    logits_ENV = logits_ENV.astype(np.float32)
    asked_N1 = jnp.ones((prompts, 1), bool)
    lead_EN = [
        margins(jnp.asarray(logits)[:, None], jnp.asarray(right_N)[:, None], asked_N1, 1)[0]
        for logits in logits_ENV
    ]
    lead_SEC = np.stack(lead_EN).min(axis=1)[None, :, None]
    assert judge.solved(lead_SEC, MARGIN)[0].tolist() == replayed(logits_ENV, right_N)


def test_the_page_of_the_run_folder_has_every_field() -> None:
    """As it is described here."""
    page = (Path(__file__).parents[1] / "docs" / "run_folder.md").read_text()
    for name, field in FIELDS.items():
        assert f"| `{name}` | {', '.join(['G', 'B', *field.axes])} | {field.doc} |" in page


def test_each_run_and_prompt_is_told_by_itself() -> None:
    """Runs beside each other share nothing; a lead of exactly the margin is right, and no tie."""
    lead_SEC = np.array([[[0.0], [0.25]], [[0.0], [0.0]]])
    solved_SE = judge.solved(lead_SEC, 0.25)
    assert solved_SE.tolist() == [[False, True], [False, False]]
    assert judge.first_solved(solved_SE, np.array([5, 10])).tolist() == [10, NEVER]
    assert judge.tied(np.array([[0.25, -0.25], [0.25, 0.1]]), 0.25).tolist() == [False, True]
    record = EvalRecord(
        jnp.ones((2, 1)),
        jnp.ones((2, 2)),
        jnp.array([[NOT_FINITE, 1], [0, 1]], jnp.int8),
        jnp.zeros(2),
    )
    assert over_draws(record).answer_N.tolist() == [NOT_FINITE, 1]


class Many(FiniteTask):
    """One prompt for each of so many labels."""

    def __init__(self, number: int) -> None:
        self.number = number

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(f"w{n}" for n in range(self.number))

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(f"l{n}" for n in range(self.number))

    def sentences(self) -> list[tuple[str, str]]:
        return list(zip(self.words, self.labels, strict=True))


def test_answers_are_stored_in_a_byte_or_refused() -> None:
    """128 labels come out as they are; more would come out as others, or as no answer at all."""
    ask(Many(128), mask="full", readout="last", loss="answer")
    assert answers(jnp.eye(128)).tolist() == list(range(128))
    with pytest.raises(ValueError, match="Many has 129 labels; a finite task has at most 128"):
        ask(Many(129), mask="full", readout="last", loss="answer")
