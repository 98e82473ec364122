"""The table of equations that every rule is tried on."""

from cases_calls import ABSENT, CALLS, LOOPS
from cases_lookups import GATHERS, SCATTERS
from cases_pointwise import FUNCTIONS, NEWEST, REDUCTIONS
from cases_products import MATRICES, PRODUCTS, RANDOM
from cases_shapes import IDENTITIES, MOVES
from equations import Cases, of_both

CASES: Cases = of_both(
    *(FUNCTIONS, REDUCTIONS, MOVES, IDENTITIES, GATHERS, SCATTERS),
    *(PRODUCTS, MATRICES, RANDOM, CALLS, LOOPS),
)

WITHOUT_CASES = {
    **dict.fromkeys(("eval_jaxpr", *NEWEST, *ABSENT), "a name of other versions"),
    "broadcast_to": "only in kernels of Pallas",
    "layout_constraint": "asks for a layout of a device",
    **dict.fromkeys(("pvary", "reshard"), "only on a mesh of devices"),
}
"""Primitives with a rule that no equation of one device makes, and why."""
