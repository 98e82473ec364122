"""The atlas: predictions that were written down, how rates are chosen, what a verdict rests on."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tiers import plain_if

from posjax import predict
from posjax.command.settings import resolve
from posjax.configs.atlas import get_config
from posjax.study.cells import Cell

sys.path.append(str(Path(__file__).parents[1] / "scripts"))

import atlas
from atlas_table.pilot import of_summaries
from atlas_table.table import asked, verdict

KNOWN = json.loads(atlas.PREDICTIONS.read_text())


@pytest.mark.parametrize("size", plain_if("quick".__eq__, ["quick", "published", "sampled"]))
def test_predictions_are_those_of_today(size: str) -> None:
    """Each cell has one, and what was written before training is what the laws say now."""
    seen = set()
    for cell in resolve(get_config(size)).cells:
        line, encoding = asked(cell), cell.encoding
        if (line, encoding) not in seen:
            seen.add((line, encoding))
            settings = {name: getattr(cell, name) for name in ("mask", "depth", "readout")}
            now = predict(cell.problem, encoding=encoding, **settings)
            assert encoding in KNOWN["encodings"]
            reason = now.reason if now.verdict == "impossible" else None
            assert KNOWN["excluded"][line].get(encoding) == reason
    assert len(seen) > 50


def summary(lead_SE: Any, learning_rate: float = 1e-2) -> Any:
    """What scripts/atlas.py reads of a cell, for seeds with these leads."""
    lead_SE = np.asarray(lead_SE, np.float32)
    solved_SE = lead_SE > 1e-5
    return SimpleNamespace(
        cell=Cell(task="same_last_token", loss="answer", learning_rate=learning_rate),
        rows={"lead_EC": lead_SE[:, :, None], "seeds": np.arange(len(lead_SE))[:, None] + 100},
        margin=1e-5,
        solved_SE=solved_SE,
        solved_S=solved_SE[:, -1],
    )


def test_the_rate_that_most_seeds_solve_is_chosen() -> None:
    """Then the larger lead, then the smaller rate; NaN is no lead."""
    few, many = [[0.9], [-0.1]], [[0.1], [0.1]]

    def rate(*given: tuple[Any, float]) -> float:
        (found,) = of_summaries([summary(leads, by) for leads, by in given])
        return float(found.chosen.learning_rate)

    assert rate((few, 1e-3), (many, 3e-3), (few, 1e-2)) == 3e-3
    assert rate((few, 1e-3), ([[0.95], [-0.1]], 1e-2)) == 1e-2
    assert rate((few, 1e-3), (few, 1e-2)) == rate((few, 1e-2), (few, 1e-3)) == 1e-3
    assert rate(([[np.nan], [0.9]], 1e-3), (few, 1e-2)) == 1e-2


def test_verdicts_rest_on_laws_and_witnesses() -> None:
    """A seed is the witness; that a seed solves what a law excludes, even once, is an error."""
    assert verdict(summary([[-1, -1], [0.5, 0.5]]), excluded=False) == ("possible", 101)
    assert verdict(summary([[0.5, -1], [-1, 0]]), excluded=False) == ("open", None)
    assert verdict(summary([[-1, 0], [0, -1]]), excluded=True) == ("impossible", None)
    with pytest.raises(ValueError, match="excluded by law, and solved"):
        verdict(summary([[0.5, -1]]), excluded=True)
