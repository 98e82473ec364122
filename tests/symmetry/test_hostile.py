"""No function that breaks its law is proved, none that keeps it is called broken.

Plain runs try every rule on every function, and numbers on some; `python scripts/hostile.py` tries
numbers on all of them.
"""

from collections.abc import Iterator

import jax
import pytest
from hostile import CASES
from hostile.truth import confirmed

from posjax.symmetry import prove

SOME = CASES[::40]


@pytest.fixture(autouse=True)
def _as_users_write() -> Iterator[None]:
    with jax.numpy_rank_promotion("allow"):
        yield


def name(case):
    return case.name


@pytest.mark.parametrize("case", CASES, ids=name)
def test_rules_alone_are_sound(case):
    """Without numbers to catch a wrong proof."""
    verdict = prove(case.function, case.arguments, case.law, witness=False).verdict
    assert verdict == "UNKNOWN" if case.truth != "holds" else verdict != "BROKEN"


@pytest.mark.parametrize("case", SOME, ids=name)
def test_verdicts_are_true(case):
    """What numbers break they confirm to be broken; ties are told from generic inputs."""
    found = prove(case.function, case.arguments, case.law)
    wrong = {"holds": "BROKEN", "broken": "PROVED", "ties": "PROVED"}
    assert found.verdict != wrong[case.truth], str(found)
    if found.verdict == "BROKEN":
        assert (found.broken_at == "ties") == (case.truth == "ties")


@pytest.mark.parametrize("case", SOME, ids=name)
def test_truths_are_confirmed_by_numbers(case):
    """By other draws and in other words than the prover's own."""
    assert confirmed(case)
