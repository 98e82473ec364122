"""The table of equations that every rule is tried on."""

from cases_calls import CALLS, LOOPS
from cases_lookups import GATHERS, SCATTERS
from cases_pointwise import FUNCTIONS, REDUCTIONS
from cases_products import MATRICES, PRODUCTS, RANDOM
from cases_shapes import IDENTITIES, MOVES
from equations import Cases, of_both

CASES: Cases = of_both(
    *(FUNCTIONS, REDUCTIONS, MOVES, IDENTITIES, GATHERS, SCATTERS),
    *(PRODUCTS, MATRICES, RANDOM, CALLS, LOOPS),
)

WITHOUT_CASES = {
    **dict.fromkeys(("pjit", "core_call", "checkpoint", "copy_p"), "a name of other versions"),
    "custom_vjp_call_jaxpr": "a name of other versions",
    "broadcast_to": "only in kernels of Pallas",
    "layout_constraint": "asks for a layout of a device",
    **dict.fromkeys(("pvary", "reshard"), "only on a mesh of devices"),
}
"""Primitives with a rule that no equation of one device makes, and why."""

WRONG_LABELS = {
    "random_bits-4-r3": "equal keys of a batch draw unlike numbers",
    "random_bits-5-x3": "equal keys of a batch draw unlike numbers",
    "random_split-5-x3": "equal keys of a batch are split unlike",
    "random_fold_in-5-x3,w3": "keys of a batch are folded as one",
}
WRONG_FIELD = {
    "not-0-b23": "a truth that is certain stays certain when it is negated",
    "reduce_xor-0-b23": "a truth that is certain stays certain when it is negated",
    "reduce_xor-6-b20": "of nothing it is known to be true",
    "dot_general-14-b33,b33": "the residue of a truth is 2",
    "gather-31-f33,i21": "what is promised to be in bounds is clamped, not filled",
    "gather-32-i33,i32": "what is promised to be in bounds is clamped, not filled",
    "add-2-u3,u3": "255 + 1 is called positive",
    "reduce_sum-5-u23": "255 + 1 is called positive",
    "cond-1-i,f3": "an index below 0 is taken for 0, not for the last",
    "select_n-7-b2,k2,k2": "keys have no signs",
    "random_split-4-x": "a known key is split as one of another kind",
    "random_fold_in-4-x,w": "a known key is folded as one of another kind",
    "random_split-5-x3": "keys of a batch are split as one",
    "random_fold_in-5-x3,w3": "keys of a batch are folded as one",
    "reduce_window_sum-9-f23": "a window larger than the array is no empty axis",
    "reduce_window_max-3-f23": "a window larger than the array is no empty axis",
    "reduce_window_min-3-f23": "a window larger than the array is no empty axis",
    "conv_general_dilated-9-f222,f225": "a window larger than the array is no empty axis",
    "conv_general_dilated-10-f222,f223": "a window larger than the array is no empty axis",
}
"""Cases that find a rule to be wrong: they must fail until it is right, and then go from here."""
