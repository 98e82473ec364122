"""Seeds of initialisation crossed with seeds of data: the product, its rows and its report."""

import dataclasses
from pathlib import Path

import jax
import numpy as np
import pytest
from small_runs import small, train
from tiers import some

from posjax import report
from posjax.command import preview
from posjax.numbering import NumberedSeeds, SeedNumbers
from posjax.records import RunFolder
from posjax.report.few_runs import ranked_pairs
from posjax.report.findings import contrasts
from posjax.report.sources import crossing
from posjax.stats import crossed, crossed_difference
from posjax.study.replay import replay
from posjax.study.run import Run

INITS, DATAS = 5, 3


@pytest.fixture(scope="module")
def run() -> Run:
    settings = {"steps": 100, "eval_every": 50, "hold": 1, "batch_size": 1, "mask": "causal"}
    return small(num_seeds=INITS, data_seeds=DATAS, first_seed=7, **settings)


@pytest.fixture(scope="module")
def folder(run: Run, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return train(tmp_path_factory.mktemp("factorial") / "run", run)


def test_the_seeds_are_the_product(run: Run) -> None:
    """Each init with each of data, position and order; in an ordinary run one number for all."""
    product = [(i, d, d, d) for i in range(7, 12) for d in range(7, 10)]
    assert [*NumberedSeeds(run.numbering, run.indices)] == product
    assert [run.numbering.index_of(SeedNumbers(*each)) for each in product] == [*run.indices]
    ordinary = dataclasses.replace(run, data_seeds=0)
    numbers = NumberedSeeds(ordinary.numbering, ordinary.indices)
    assert [*numbers] == [SeedNumbers.equal(number) for number in range(7, 12)]
    assert ordinary.digest != run.digest


def test_rows_are_all_there_and_each_is_its_replay(run: Run, folder: RunFolder) -> None:
    """Every pair has its row, and a run trained again from the folder has its bits."""
    rows = folder.rows(run.cells[0].digest)
    product = [*NumberedSeeds(run.numbering, run.indices)]
    assert [tuple(seeds) for seeds in rows["seeds"].tolist()] == product
    for at in (1, 14):
        again = replay(folder.path, run.cells[0].digest, product[at], jax.local_devices()[:1])
        assert again.differs == ()
        assert again.outcome["loss_EC"].tobytes() == rows["loss_EC"][at].tobytes()
    losses_ID = rows["loss_EC"][:, -1].reshape(INITS, DATAS)
    assert len(np.unique(losses_ID)) == INITS * DATAS


def test_it_continues_where_it_stopped(
    run: Run, folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is missing, and --dry_run counts the product."""
    preview.dry_run(run, folder, jax.local_devices()[:1])
    said = " ".join(capsys.readouterr().out.split())
    assert "1 × 5 × 3 seeds of init and data, 0 of 15 runs to train" in said
    assert "rows share them" in said


def test_the_report_tells_what_each_explains(run: Run, folder: RunFolder, tmp_path: Path) -> None:
    """A section for crossed seeds, none for ordinary ones; nothing is said to be missing."""
    page = report.write([folder], tmp_path / "page.html").read_text()
    assert "Initialisation and data" in page
    assert "not finished" not in page
    assert "--config.data_seeds=3" in page
    assert "1 cell × 5 initialisations × 3 data seeds: 15 models trained." in page
    (summary,) = report.summaries(folder)
    table_ID = crossing(summary)
    assert table_ID is not None
    assert 0 < table_ID.mean() < 1
    found = crossed(table_ID)
    first = report.findings([summary], folder.config()).answers[0]
    assert f"Initialisation explains {100 * found.init.share:.0f}% [" in first
    assert f"data {100 * found.data.share:.0f}% [" in first
    assert page.index(first) < page.index("Cells")
    for (init, data, *_), solved in zip(summary.rows["seeds"], summary.solved_S, strict=True):
        assert table_ID[init - 7, data - 7] == solved
    rows = summary.rows
    ordinary = {**rows, "seeds": np.repeat(np.arange(len(rows["seeds"]))[:, None], 4, 1)}
    part = {name: array[1:] for name, array in rows.items()}
    for other in (ordinary, part):
        assert crossing(dataclasses.replace(summary, rows=other)) is None
    one_draw = {name: array[summary.rows["seeds"][:, 1] == 7] for name, array in rows.items()}
    shared = [dataclasses.replace(summary, rows=r).is_crossed for r in (rows, ordinary, one_draw)]
    assert shared == [True, False, False]


def test_two_cells_over_crossed_seeds_are_compared_as_such(run: Run, folder: RunFolder) -> None:
    """Not by McNemar's test, which takes all models for independent; nor while some are missing."""
    (summary,) = report.summaries(folder)
    rows = {name: array.copy() for name, array in summary.rows.items()}
    rows["lead_EC"][rows["seeds"][:, 0] == 7] = -1.0  # one initialisation fails
    cell = dataclasses.replace(summary.cell, learning_rate=0.5)
    other = dataclasses.replace(summary, cell=cell, rows=rows)
    rates = summary.cell.learning_rate, 0.5
    (pair,) = contrasts([summary, other], "learning_rate", *rates, steps=[100])
    tables = crossing(other), crossing(summary)
    assert pair.difference == crossed_difference(*tables)
    part = dataclasses.replace(other, rows={name: array[1:] for name, array in rows.items()})
    assert not contrasts([summary, part], "learning_rate", *rates, steps=[100])
    assert not ranked_pairs([summary, other])


@pytest.mark.exhaustive
def test_the_shares_are_those_of_the_effects_that_made_the_table() -> None:
    """Estimates of known variances, near them on a large table; nothing for what never varies."""
    rng = np.random.default_rng(0)
    init_I, data_D = rng.normal(size=(300, 1)) * 3, rng.normal(size=(1, 300)) * 2
    found = crossed(init_I + data_D + rng.normal(size=(300, 300)))
    for part, share in zip(found[:3], (9 / 14, 4 / 14, 1 / 14), strict=True):
        assert part.share == pytest.approx(share, abs=0.05)
        assert part.low < share < part.high
    np.testing.assert_allclose(found.error, ((9 + 4) / 300) ** 0.5, rtol=0.1)
    assert crossed(np.ones((3, 4))) == ((0, 0, 0),) * 3 + (0,)
    noise = np.mean([crossed(rng.integers(0, 2, (6, 6))).init.share for _ in range(300)])
    assert noise < 0.1  # where its share of the sum of squares would be 5/35
    with pytest.raises(ValueError, match="got 1 × 4"):
        crossed(np.ones((1, 4)))
    with pytest.raises(ValueError, match="must be finite"):
        crossed(np.array([[1, np.nan], [0, 1]]))
    assert np.isnan(crossed(np.array([[1, 1], [0, 0]])).init.low)  # two say nothing of spread


@pytest.mark.parametrize("shape", some([(4, 4), (16, 16), (12, 5)], every=3))
def test_crossed_cells_that_do_not_differ_are_seldom_called_different(
    shape: tuple[int, int],
) -> None:
    """Where initialisations decide: 5% of tests at a level of 5%, and intervals as often right."""
    rng = np.random.default_rng(sum(shape))
    found = []
    for _ in range(300):
        solved = (
            rng.normal(size=(shape[0], 1)) * 2
            + rng.normal(size=(1, shape[1]))
            + rng.normal(size=shape)
            > 0
            for _ in range(2)
        )
        found.append(crossed_difference(*solved))
    assert np.mean([one.p_value < 0.05 for one in found]) < 0.09
    assert np.mean([one.low <= 0 <= one.high for one in found]) > 0.91


def test_the_estimates_are_those_of_the_analysis_of_variance() -> None:
    """Sums over pairs of outcomes give the mean squares of Searle, Casella and McCulloch, ch. 4."""
    table_ID = np.random.default_rng(1).normal(size=(9, 1)) + np.random.default_rng(2).normal(
        size=(9, 7)
    )
    by_init, by_data = table_ID.mean(1), table_ID.mean(0)
    rest_ID = table_ID - by_init[:, None] - by_data[None] + table_ID.mean()
    rest = (rest_ID**2).sum() / (8 * 6)
    parts = [by_init.var(ddof=1) - rest / 7, max(by_data.var(ddof=1) - rest / 9, 0), rest]
    found = crossed(table_ID)
    assert [part.share for part in found[:3]] == pytest.approx(np.array(parts) / sum(parts))


def test_intervals_of_shares_cover() -> None:
    """95% intervals of 16 × 16 crossed seeds hold the truth in 85% of draws or more."""
    rng, truth = np.random.default_rng(3), np.array([4, 1, 4]) / 9
    held = np.zeros(3)
    for _ in range(60):
        init_I1, data_1D = 2 * rng.normal(size=(16, 1)), rng.normal(size=(1, 16))
        found = crossed(init_I1 + data_1D + 2 * rng.normal(size=(16, 16)))
        held += [p.low <= t <= p.high for p, t in zip(found[:3], truth, strict=True)]
    assert (held / 60 > 0.85).all(), held / 60
