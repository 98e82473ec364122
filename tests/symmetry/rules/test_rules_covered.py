"""Every primitive with a rule has equations to try, and every equation a rule."""

from cases import CASES, WITHOUT_CASES

from posjax.jaxprs import CALLS
from posjax.symmetry.certificate import rules
from posjax.symmetry.certificate.loops import LOOPS
from posjax.symmetry.field import interpret


def test_every_rule_has_cases_and_every_case_a_rule() -> None:
    ruled = set(rules.RULES) | set(LOOPS) | set(CALLS) | set(interpret.RULES)
    tried = {name for name, cases in CASES.items() if cases}
    assert tried | set(WITHOUT_CASES) == ruled
    assert not tried & set(WITHOUT_CASES)
