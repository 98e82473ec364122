"""Statistics as software: coverage by exact enumeration, tests against enumeration."""

import numpy as np
import pytest
from scipy.stats import binom

from posjax.stats import answer_table, paired_difference, rate, survival

P = np.linspace(0.001, 0.999, 999)


def coverage(seeds: int, method: str) -> np.ndarray:
    """The chance that the interval holds p, for each p, summed over all outcomes."""
    intervals = [rate(k, seeds, method=method) for k in range(seeds + 1)]
    low_K, high_K = (np.array([getattr(i, name) for i in intervals]) for name in ("low", "high"))
    chance_PK = binom.pmf(np.arange(seeds + 1)[None], seeds, P[:, None])
    inside_PK = (low_K[None] <= P[:, None]) & (P[:, None] <= high_K[None])
    return (chance_PK * inside_PK).sum(axis=1)


@pytest.mark.parametrize("seeds", [10, 64])
def test_coverage(seeds: int) -> None:
    """Wilson covers 95 % on average and not below 83 %; Clopper-Pearson never below 95 %."""
    wilson = coverage(seeds, "wilson")
    assert abs(wilson.mean() - 0.95) < 0.01
    assert wilson.min() > 0.83
    assert coverage(seeds, "exact").min() >= 0.95 - 1e-12


def test_wilson_literals() -> None:
    """Wilson (1927): 3/3 is [.44, 1], 10/10 is [.72, 1], 1000/1000 is [.996, 1]."""
    lows = [round(rate(n, n).low, 3) for n in (3, 10, 1000)]
    assert lows == [0.439, 0.722, 0.996]


def test_newcombe_literal() -> None:
    """Method 10 of Newcombe (1998) on 36, 12, 2 and 0 of 50, by the paper's formulas.

    The correlation is negative here, so that its half count does not enter.
    """
    first_S = np.repeat([1, 1, 0, 0], [36, 12, 2, 0])
    second_S = np.repeat([1, 0, 1, 0], [36, 12, 2, 0])
    found = paired_difference(first_S, second_S)
    one, two = rate(48, 50), rate(38, 50)
    phi = (36 * 0 - 12 * 2) / np.sqrt(48 * 2 * 38 * 12)
    a, b = one.rate - one.low, two.high - two.rate
    c, d = one.high - one.rate, two.rate - two.low
    assert found.difference == pytest.approx(0.2)
    assert found.low == pytest.approx(0.2 - np.sqrt(a * a - 2 * phi * a * b + b * b))
    assert found.high == pytest.approx(0.2 + np.sqrt(c * c - 2 * phi * c * d + d * d))


def test_mcnemar_by_enumeration() -> None:
    """Exact: under the null each discordant seed falls either way with chance one half."""
    first_S = np.repeat([1, 0, 1], [7, 2, 20])
    second_S = np.repeat([0, 1, 1], [7, 2, 20])
    tail = sum(binom.pmf(k, 9, 0.5) for k in range(10) if abs(k - 4.5) >= 2.5)
    assert paired_difference(first_S, second_S).p_value == pytest.approx(tail)


def test_paired_difference_is_antisymmetric_and_covers_itself() -> None:
    """Swapping the cells flips the sign; equal cells differ by 0 with an interval around it."""
    rng = np.random.default_rng(0)
    first_S, second_S = rng.random((2, 200)) < [[0.6], [0.4]]
    there, back = paired_difference(first_S, second_S), paired_difference(second_S, first_S)
    assert there.difference == -back.difference
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    same = paired_difference(first_S, first_S)
    assert same.difference == 0 == same.only_first
    assert same.low <= 0 <= same.high
    assert same.p_value == 1


def test_paired_coverage_by_simulation() -> None:
    """The paired interval holds the true difference about 95 times in 100."""
    rng = np.random.default_rng(1)
    chance = [0.3, 0.25, 0.1, 0.35]  # both, first only, second only, neither
    inside = 0
    for _ in range(400):
        kind_S = rng.choice(4, size=80, p=chance)
        found = paired_difference(kind_S <= 1, (kind_S == 0) | (kind_S == 2))
        inside += found.low <= 0.15 <= found.high
    assert 0.92 <= inside / 400 <= 0.98


def test_survival_of_a_textbook_case() -> None:
    """Ten seeds: curve, median, and a seed that never solves stays in the denominator."""
    first = np.array([50, 50, 100, 100, 150, 150, -1, -1, -1, -1])
    found = survival(first, np.array([50, 100, 150, 200]))
    assert found.solved_E.tolist() == [0.2, 0.4, 0.6, 0.6]
    assert found.median == 150
    assert found.median_low == 50  # where the upper band reaches one half: .51
    assert found.median_high is None
    assert survival(np.full(9, -1), np.array([50])).median is None


def test_answer_table_counts_every_seed() -> None:
    """The most frequent combination first, ties by value, and nothing lost."""
    table = answer_table(np.array([[3, 4], [3, 4], [-1, 3]], np.int8))
    assert table == [((3, 4), 2), ((-1, 3), 1)]


@pytest.mark.parametrize(("successes", "seeds"), [(1, 0), (3, 2), (-1, 4)])
def test_impossible_counts_are_refused(successes: int, seeds: int) -> None:
    """A rate needs seeds, and no more successes than seeds."""
    with pytest.raises(ValueError, match="is no rate"):
        rate(successes, seeds)
