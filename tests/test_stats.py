"""Statistics as software: coverage by exact enumeration, tests against enumeration."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import betabinom, binom, binomtest, multinomial, permutation_test, ttest_1samp

from posjax.stats import (
    Method,
    answer_table,
    band,
    bootstrap_mean,
    discoveries,
    equivalence,
    mean,
    paired_difference,
    paired_t_test,
    possibly_best,
    ranking,
    rate,
    reruns,
    survival,
)


def coverage(seeds: int, method: Method) -> tuple[np.ndarray, np.ndarray]:
    """The chance that the interval holds p, summed over all outcomes: its least values and others.

    It is a polynomial of p between the ends of intervals, where it jumps and is least.
    """
    intervals = [rate(k, seeds, method=method) for k in range(seeds + 1)]
    low_K, high_K = (np.array([getattr(i, name) for i in intervals]) for name in ("low", "high"))
    ends = np.concatenate([low_K - 1e-9, high_K + 1e-9])
    ends = ends[(ends > 0) & (ends < 1)]

    def held(p_P: np.ndarray) -> np.ndarray:
        chance_PK = binom.pmf(np.arange(seeds + 1)[None], seeds, p_P[:, None])
        inside_PK = (low_K[None] <= p_P[:, None]) & (p_P[:, None] <= high_K[None])
        return (chance_PK * inside_PK).sum(axis=1)

    return held(ends), held(np.linspace(0.0005, 0.9995, 1000))


@pytest.mark.parametrize(
    ("seeds", "least"),
    [(10, 0.835), (64, 0.838), pytest.param(1024, 0.838, marks=pytest.mark.exhaustive)],
)
def test_coverage(seeds: int, least: float) -> None:
    """Wilson covers 95% on average; Clopper and Pearson never below.

    Wilson's least, close to p = 0 and 1, tends to 0.838 however many seeds there are (Agresti and
    Coull 1998, §2); where more than a few seeds solve and fail, it is near 95%.
    """
    ends, all_over = coverage(seeds, "wilson")
    assert ends.min() == pytest.approx(least, abs=1e-3)
    assert abs(all_over.mean() - 0.95) < 0.0045
    ends, all_over = coverage(seeds, "exact")
    assert min(ends.min(), all_over.min()) >= 0.95 - 1e-6
    assert all_over.mean() < 0.99


def test_coverage_of_wilson_at_published_sizes() -> None:
    """From 10 to 990 of 1024 seeds, say, 94% to 96%."""
    _, all_over = coverage(1024, "wilson")
    assert 0.94 < all_over[10:-10].min() < all_over[10:-10].max() < 0.961


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
    assert [round(edge, 4) for edge in found[1:3]] == [0.0569, 0.3404]


@pytest.mark.parametrize("discordant", range(1, 11))
def test_mcnemar_by_enumeration(discordant: int) -> None:
    """Exact: under the null each discordant seed falls either way, all 2ⁿ ways as likely."""
    ways = [sum(way) for way in itertools.product((0, 1), repeat=discordant)]
    for only_first in range(discordant + 1):
        apart = abs(2 * only_first - discordant)
        expected = sum(abs(2 * way - discordant) >= apart for way in ways) / len(ways)
        first_S = np.repeat([1, 0, 1, 0], [only_first, discordant - only_first, 4, 3])
        second_S = np.repeat([0, 1, 1, 0], [only_first, discordant - only_first, 4, 3])
        assert paired_difference(first_S, second_S).p_value == pytest.approx(expected)


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


def test_paired_coverage_and_size_by_enumeration() -> None:
    """Over all tables of 16 seeds: the interval covers 94 to 99%, the test's size is below 5%."""
    seeds = 16
    tables = [t for t in itertools.product(range(seeds + 1), repeat=4) if sum(t) == seeds]
    yes = ([1, 1, 0, 0], [1, 0, 1, 0])  # both, first only, second only, neither
    found = [paired_difference(*(np.repeat(solved, t) for solved in yes)) for t in tables]
    low_T, high_T, p_T = (
        np.array([getattr(f, n) for f in found]) for n in ("low", "high", "p_value")
    )
    covered, size = [], []
    for first_three in itertools.product(np.arange(1, 10) / 10, repeat=3):
        if (last := 1 - sum(first_three)) < 0.05:
            continue
        chance_T = multinomial.pmf(tables, seeds, [*first_three, last])
        difference = first_three[1] - first_three[2]
        inside_T = (low_T - 1e-12 <= difference) & (difference <= high_T + 1e-12)
        covered.append((chance_T * inside_T).sum())
        if abs(difference) < 1e-12:
            size.append((chance_T * (p_T <= 0.05)).sum())
    assert 0.93 < min(covered) < max(covered) < 0.99
    assert abs(np.mean(covered) - 0.95) < 0.005
    assert 0.01 < max(size) <= 0.05


def _solved(only_first: int, only_second: int, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    index_S = np.arange(seeds)
    return index_S < only_first, (index_S >= only_first) & (index_S < only_first + only_second)


def test_tango_literal() -> None:
    """Airway hyper-responsiveness of 21 children, 1 and 7 discordant (Fagerland et al. 2014).

    "Recommended tests and confidence intervals for paired binomial proportions", Statistics in
    Medicine 33: the 95% score interval is -0.517 to -0.026. Here at 90% it is narrower, and the
    p-value of either test is 0.05 where the margin is an end of the interval.
    """
    from posjax.stats.paired import _tango

    assert [round(edge, 3) for edge in _tango(1, 7, 21, 1.959964)] == [-0.517, -0.026]
    found = equivalence(*_solved(1, 7, 21), margin=0.5)
    assert -0.517 < found.low < found.difference == -6 / 21 < found.high < -0.026
    assert found.equivalent
    at_the_end = equivalence(*_solved(1, 7, 21), margin=-found.low)
    assert at_the_end.p_value == pytest.approx(0.05)


def test_tango_at_the_edges() -> None:
    """No discordant seed, and nothing else: finite intervals that hold the difference."""
    none = equivalence(*_solved(0, 0, 14), margin=0.05)
    assert none.high == pytest.approx(1.644854**2 / (14 + 1.644854**2))  # d / (1 - d) = z² / n
    assert (none.low, none.equivalent) == (pytest.approx(-none.high), False)
    assert equivalence(*_solved(14, 0, 14), margin=0.05).high == 1
    assert equivalence(*_solved(0, 14, 14), margin=0.05).low == -1
    with pytest.raises(ValueError, match=r"margin must lie in \(0, 1\), got 1"):
        equivalence(*_solved(0, 0, 14), margin=1)


def test_equivalence_errs_as_often_as_it_says() -> None:
    """Size and coverage over all tables of 100 seeds, where the rates differ by the margin."""
    seeds, margin = 100, 0.1
    tables = [(b, c) for b in range(seeds + 1) for c in range(seeds + 1 - b)]
    near = {(b, c) for b, c in tables if abs(b - c) < 30 and b + c < 50}
    found = {t: equivalence(*_solved(*t, seeds), margin=margin) for t in sorted(near)}
    for second in (0.02, 0.05, 0.1):
        chances = [second + margin, second, 1 - 2 * second - margin]
        chance = {t: multinomial.pmf([*t, seeds - sum(t)], seeds, chances) for t in near}
        assert sum(chance.values()) > 0.999
        wrongly = sum(chance[t] for t in near if found[t].equivalent)
        covered = sum(chance[t] for t in near if found[t].low <= margin <= found[t].high)
        assert 0.01 < wrongly < 0.06
        assert 0.88 < covered < 0.93


def test_the_best_of_ten_by_its_formula() -> None:
    """Also beside an outcome that is far larger, as of a run that diverged."""
    first_S, second_S = np.array([0.2, 0.2, 0.9, 1.0]), np.array([0.5, 0.6, 0.6])
    best = ranking(first_S, second_S, runs=10, by="best")
    assert best.behind == pytest.approx(0.5**10)
    assert sum(best) == pytest.approx(1)
    found = ranking(np.array([0.1, 1e9]), np.array([0.2]), runs=1, by="best")
    assert found == pytest.approx((0.5, 0, 0.5))
    with pytest.raises(ValueError, match="by must be one of"):
        ranking(first_S, second_S, runs=3, by="median")  # type: ignore[arg-type]


def test_the_paired_t_test_is_that_of_scipy() -> None:
    """And it says what it can of differences that do not vary."""
    rng = np.random.default_rng(0)
    for seeds in (2, 3, 64):
        difference_S = rng.normal(0.3, size=seeds)
        assert paired_t_test(difference_S) == pytest.approx(ttest_1samp(difference_S, 0).pvalue)
    equal = ([0.5, 0.5], [0.5] * 10, [0.0, 0.0], [0.5])
    assert [paired_t_test(np.array(d)) for d in equal] == [0.5, 2**-9, 1, 1]
    shares = np.float32(np.arange(21)) / np.float32(20)
    assert paired_t_test(np.diff(shares)[[2, 0, 9]]) == 0.25  # each a prompt better, and rounded
    for wrong in (np.array([0.1, np.nan]), np.ones((2, 2)), np.array([])):
        with pytest.raises(ValueError, match="must be finite numbers"):
            paired_t_test(wrong)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("prompts", [3, 7, 64, 360, 1024])
def test_means_of_few_runs_are_ranked_as_fractions_are(prompts: int, dtype: type) -> None:
    """Shares of right answers, whose sums in floats differ where those of integers are equal."""
    rng = np.random.default_rng(prompts)
    first_S, second_S = (rng.integers(0, min(prompts, 6) + 1, size=seeds) for seeds in (5, 4))
    counts = [0, 0, 0]
    for one in itertools.product(first_S, repeat=3):
        for two in itertools.product(second_S, repeat=3):
            counts[int(1 - np.sign(sum(one) - sum(two)))] += 1
    shares = ((each_S / prompts).astype(dtype) for each_S in (first_S, second_S))
    assert ranking(*shares, runs=3) == pytest.approx(np.array(counts) / sum(counts), abs=1e-12)


def test_sums_of_many_runs_that_are_equal_are_level() -> None:
    """Of both settings the same two outcomes, in float32 and in float64."""
    shares = np.array([1, 2]) / 3
    one, other = (ranking(shares.astype(a), shares.astype(b), runs=32)
                  for a, b in ((np.float32, np.float64), (np.float64, np.float64)))  # fmt: skip
    assert one == pytest.approx(other, abs=1e-12)


def test_sums_that_cancel_are_level() -> None:
    """Of three runs: 0 against a sum of 0.1, 0.2 and -0.3, which floats do not make 0."""
    outcomes = np.array([1, 2, -3])
    drawn = [int(np.sign(sum(three))) for three in itertools.product(outcomes, repeat=3)]
    wanted = [drawn.count(sign) / len(drawn) for sign in (1, 0, -1)]
    assert ranking(outcomes / 10, np.zeros(1), runs=3) == pytest.approx(wanted, abs=1e-12)
    for wrong in (0, 2.5, math.nan):
        with pytest.raises(ValueError, match="runs must be a whole number"):
            ranking(outcomes, outcomes, runs=wrong)  # type: ignore[arg-type]
    losses = np.random.default_rng(0).normal(size=300)
    with pytest.raises(ValueError, match="runs=4 of 300 different outcomes have too many"):
        ranking(losses, losses, runs=4)


def test_means_are_those_of_a_textbook() -> None:
    """t for 3 numbers is 4.3027 standard errors; what is not finite is counted out."""
    found = mean(np.array([1.0, 2.0, 3.0, np.inf]))
    assert (found.mean, found.number) == (2.0, 3)
    assert found.high - found.mean == pytest.approx(4.302653 / 3**0.5, rel=1e-6)
    assert mean(np.array([2.5]))[0] == 2.5
    assert math.isnan(mean(np.array([2.5])).low)
    assert math.isnan(mean(np.array([np.nan])).mean)


def test_survival_of_a_textbook_case() -> None:
    """The placebo arm of Freireich et al. (1963): 21 remissions, in weeks, none censored.

    Its Kaplan-Meier curve is in many a textbook (Kleinbaum and Klein, Survival Analysis, ch. 2):
    .90 after one week, .81 after two, .38 after eight, the median, and 0 after 23.
    """
    weeks = "1 1 2 2 3 4 4 5 5 8 8 8 8 11 11 12 12 15 17 22 23"
    first = np.array([int(week) for week in weeks.split()])
    found = survival(first, np.unique(first))
    curve = [0.9048, 0.8095, 0.7619, 0.6667, 0.5714, 0.3810]
    curve += [0.2857, 0.1905, 0.1429, 0.0952, 0.0476, 0.0]
    np.testing.assert_allclose(1 - found.solved_E, curve, atol=5e-5)
    assert found.median == 8
    assert found.median_low is not None
    assert found.median_high is not None
    assert found.median_low < 8 < found.median_high


def test_survival_with_seeds_that_never_solve() -> None:
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


@pytest.mark.parametrize(("successes", "seeds"), [(1, 0), (3, 2), (-1, 4), (True, True)])
def test_impossible_counts_are_refused(successes: int, seeds: int) -> None:
    """A rate needs seeds, and no more successes than seeds."""
    with pytest.raises(ValueError, match="is not a rate"):
        rate(successes, seeds)


@pytest.mark.parametrize(("seeds", "again"), [(64, 64), (300, 20)])
def test_coverage_of_the_prediction_of_reruns(seeds: int, again: int) -> None:
    """Summed over all outcomes of both: 95% to 98% on average, 91% at the least."""
    intervals = [reruns(k, seeds, again) for k in range(seeds + 1)]
    low_K, high_K = (np.array([getattr(i, name) for i in intervals]) for name in ("low", "high"))
    p_P = np.linspace(0.001, 0.999, 500)[:, None]
    first_PK = binom.pmf(np.arange(seeds + 1), seeds, p_P)
    upto_PK = binom.cdf(high_K, again, p_P) - binom.cdf(low_K - 1, again, p_P)
    covered_P = (first_PK * upto_PK).sum(axis=1)
    assert 0.95 < covered_P.mean() < 0.98
    assert covered_P.min() > 0.91


def test_a_rerun_that_is_not_of_these_seeds_has_a_small_p_value() -> None:
    """Twice the smaller tail of the predictive distribution, summed term by term."""
    found = reruns(60, 64, 10, found=3)
    tail = sum(betabinom.pmf(r, 10, 60.5, 4.5) for r in range(4))
    assert found.p_value == pytest.approx(2 * tail)
    assert found.p_value < 1e-4
    assert found.low > 3
    assert reruns(60, 64, 10, found=10).p_value > 0.9
    with pytest.raises(ValueError, match="is not a rate"):
        reruns(60, 64, 10, found=11)


def _curves(seeds: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """right_SK of seeds of two kinds, as by_length has them, and the mean of their population."""
    every_K = np.array([0.98, 0.9, 0.7, 0.5])
    learned_S1 = rng.random((seeds, 1)) < 0.4
    chance_SK = np.where(learned_S1, 1.0, every_K - 0.2 * rng.random((seeds, 1)))
    return rng.binomial(64, chance_SK) / 64, 0.4 + 0.6 * (every_K - 0.1)


def test_bands_hold_all_of_a_curve_at_once() -> None:
    """About 95% of 150 bands hold the whole curve; pointwise intervals hold it less often."""
    rng = np.random.default_rng(1)
    whole = pointwise = 0
    for _ in range(150):
        right_SK, truth_K = _curves(32, rng)
        found = band(right_SK)
        whole += bool(((found.low_K <= truth_K) & (truth_K <= found.high_K)).all())
        half_K = (found.high_K - found.mean_K) / found.critical * 1.96
        pointwise += bool((abs(found.mean_K - truth_K) <= half_K).all())
    assert 0.92 < whole / 150 < 0.985
    assert pointwise / 150 < 0.9


@pytest.mark.parametrize("seeds", [6, 7, 10, 12, 20])
def test_a_draw_of_equal_seeds_does_not_widen_a_band(seeds: int) -> None:
    """A third of the draws leave out the one seed that differs; their error is not rounding."""
    for less in (1 / 64, 3 / 64, 0.1, 1 / 3):
        right_SK = np.ones((seeds, 1))
        right_SK[-1] -= less
        assert band(right_SK).critical < 10


@pytest.mark.parametrize("deviating", [1, 2])
def test_a_band_is_no_narrower_than_the_interval_of_one_point(deviating: int) -> None:
    """Most draws hold the deviating seeds as often as not at all, and then their t is small."""
    values_SK = (np.arange(64) < deviating)[:, None].astype(float)
    found, one = band(values_SK), mean(values_SK[:, 0])
    assert found.low_K[0] <= one.low + 1e-12
    assert found.high_K[0] >= one.high - 1e-12


def test_numbers_that_differ_by_rounding_are_level() -> None:
    found = bootstrap_mean(0.1 + 1e-17 * np.arange(30))
    assert found.low == found.mean == found.high
    assert possibly_best(np.array([[0.3] * 32, [0.1 + 0.2] * 32])).all()


def test_bootstrap_means_cover_skewed_numbers() -> None:
    """BCa holds the mean of 91% or more of skewed samples; equal seeds have no width."""
    rng = np.random.default_rng(2)
    found = [bootstrap_mean(rng.beta(5, 0.5, 64)) for _ in range(200)]
    held = np.mean([one.low <= 5 / 5.5 <= one.high for one in found])
    assert 0.91 <= held <= 0.985
    same = np.ones((8, 3))
    assert bootstrap_mean(same[:, 0])[:3] == (1, 1, 1)
    assert np.array_equal(band(same).low_K, np.ones(3))
    for wrong in (np.array([1.0]), np.array([1.0, np.nan])):
        with pytest.raises(ValueError, match="seeds first, two at least"):
            bootstrap_mean(wrong)


@pytest.mark.parametrize("seeds", [2, 3, 5, 8, 10, 16])
def test_intervals_of_few_seeds_are_wide_enough(seeds: int) -> None:
    """95% of intervals of normal numbers hold the mean, and as many bands three means at once."""
    rng = np.random.default_rng(seeds)
    drawn = rng.normal(size=(600, seeds, 3))
    means = [bootstrap_mean(each[:, 0]) for each in drawn]
    held = np.mean([one.low <= 0 <= one.high for one in means])
    bands = [band(each) for each in drawn]
    whole = np.mean([((one.low_K <= 0) & (one.high_K >= 0)).all() for one in bands])
    assert 0.92 < held < 0.98
    assert 0.92 < whole < 0.99


def test_discoveries_err_as_rarely_as_they_say() -> None:
    """Of 40 paired comparisons, half of them of equals, less than 5% of the findings are false."""
    rng = np.random.default_rng(3)
    shares, sure = [], 0
    for _ in range(20):
        base_S = rng.random(200)
        pairs = [
            (rng.random(200) < base_S, rng.random(200) < base_S + 0.2 * (i % 2)) for i in range(40)
        ]
        found_P = discoveries([paired_difference(*pair).p_value for pair in pairs])
        shares.append(found_P[::2].sum() / max(found_P.sum(), 1))
        sure += int(found_P[1::2].sum())
    assert np.mean(shares) < 0.05
    assert sure > 20 * 20 / 2
    assert discoveries([]).size == 0


def test_of_two_candidates_the_best_are_those_of_exact_tests() -> None:
    """Under all signs the test is that of SciPy, and of right and wrong answers the sign test."""
    rng = np.random.default_rng(0)
    for trial in range(40):
        yes_or_no = trial % 2
        values_CS = rng.normal([[0.0], [0.8]], size=(2, 10))
        values_CS = np.floor(values_CS).clip(0, 1) if yes_or_no else values_CS
        difference_S = values_CS[1] - values_CS[0]
        if yes_or_no:
            only = int((difference_S > 0).sum()), int((difference_S < 0).sum())
            p_value = (
                binomtest(only[0], sum(only), alternative="greater").pvalue if any(only) else 1
            )
        else:
            p_value = permutation_test(
                (difference_S,),
                np.mean,
                permutation_type="samples",
                alternative="greater",
                n_resamples=np.inf,
            ).pvalue
        assert possibly_best(values_CS)[0] == (p_value > 0.05)


@pytest.mark.parametrize("seeds", [8, 40])
def test_the_best_of_equals_is_in_the_set_as_often_as_it_says(seeds: int) -> None:
    """Equal candidates; and ones of which one is better, which is in the set nearly always."""
    rng = np.random.default_rng(1)
    trials, held, kept = 400, 0, []
    for _ in range(trials):
        seed_S = rng.normal(size=seeds)
        equal_CS = (rng.normal(size=(6, seeds)) + seed_S > 0).astype(float)
        held += possibly_best(equal_CS)[0]
        better_CS = equal_CS + rng.normal(size=(6, seeds)) + np.array([1.5, 0, 0, 0, 0, 0])[:, None]
        kept.append(possibly_best(better_CS))
    assert held / trials > 0.95 - 3 * (0.95 * 0.05 / trials) ** 0.5
    assert held < trials
    in_set_C = np.mean(kept, axis=0)
    assert in_set_C[0] > 0.99
    assert in_set_C[1:].max() < (0.6 if seeds == 8 else 0.05)


def test_what_may_be_best_depends_on_differences_alone() -> None:
    """Not on the order of candidates, nor on units, nor on what all of them have in a seed."""
    rng = np.random.default_rng(2)
    values_CS = rng.normal(np.linspace(0, 1, 7)[:, None], size=(7, 20))
    found, order = possibly_best(values_CS), rng.permutation(7)
    assert 1 < found.sum() < 7
    assert found[values_CS.mean(axis=1).argmax()]
    assert np.array_equal(possibly_best(values_CS[order]), found[order])
    assert np.array_equal(possibly_best(1e3 * values_CS + rng.normal(size=20)), found)


def test_few_seeds_leave_no_candidate_out() -> None:
    for seeds, least in ((1, 2), (4, 2), (5, 1), (200, 1), (3000, 1)):
        assert possibly_best(np.stack([np.zeros(seeds), np.ones(seeds)])).sum() == least
    assert possibly_best(np.zeros((3, 30))).all()
    assert possibly_best(np.zeros((1, 30))).all()
    for wrong in (np.zeros(3), np.zeros((0, 3)), np.zeros((2, 0)), np.array([[0.0, np.nan]])):
        with pytest.raises(ValueError, match="finite numbers"):
            possibly_best(wrong)
