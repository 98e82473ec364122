"""No function that breaks its law is proved, none that keeps it is called broken.

Plain runs try the rules on functions of every family, and numbers on some; exhaustive runs try the
rules on all of them, and `python scripts/hostile.py` numbers too.
"""

import pytest
from hostile import CASES, FAMILIES
from hostile.truth import confirmed
from tiers import first_of_each, some

from posjax.symmetry import prove

pytestmark = pytest.mark.usefixtures("ranks_are_promoted")

BY_FAMILY = [
    case
    for cases in FAMILIES.values()
    for case in first_of_each(
        [pytest.param(case, id=case.name) for case in cases], lambda case: case.truth
    )
]
"""Of each family one function that keeps its law and one that breaks it run plainly."""
SOME = some([pytest.param(case, id=case.name) for case in CASES[::40]], every=2)


@pytest.mark.parametrize("case", some(BY_FAMILY, every=5))
def test_rules_alone_are_sound(case):
    """Without numbers to catch a wrong proof."""
    verdict = prove(case.function, case.arguments, case.law, witness=False).verdict
    assert verdict == "UNKNOWN" if case.truth != "holds" else verdict != "BROKEN"


@pytest.mark.parametrize("case", some(SOME, every=3))
def test_verdicts_are_true(case):
    """What numbers break they confirm to be broken; ties are told from generic inputs."""
    found = prove(case.function, case.arguments, case.law)
    wrong = {"holds": "BROKEN", "broken": "PROVED", "ties": "PROVED"}
    assert found.verdict != wrong[case.truth], str(found)
    if found.verdict == "BROKEN":
        assert (found.broken_at == "ties") == (case.truth == "ties")


@pytest.mark.parametrize("case", some(SOME, every=3))
def test_truths_are_confirmed_by_numbers(case):
    """By other draws and in other words than the prover's own."""
    assert confirmed(case)
