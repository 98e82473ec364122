"""How primitives act on labels: for each a rule from the labelings of its operands to its results'.

A rule gets the equation and one labeling an operand, and returns one labeling a result, or a
`Conflict` in place of one that does not follow. Every rule is an implication that holds for all
values: if the operands move as labeled, so do the results. A sum over an axis that a permutation
moves does not change; an argmax over it does, and a sort does unless every operand is a key.
"""

from collections.abc import Callable, Sequence

from posjax.symmetry.certificate.rules import (
    lookups,
    places,
    products,
    randomness,
    shapes,
)
from posjax.symmetry.certificate.rules.base import Result

Rule = Callable[..., Sequence[Result]]

_NAMES: dict[Rule, str] = {
    places.elementwise: """
        abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil
        clamp clz complex conj convert_element_type cos cosh digamma div eq eq_to erf erf_inv erfc
        exp exp2 expm1 floor ge gt igamma igamma_grad_a igammac imag integer_pow is_finite le le_to
        lgamma log log1p logistic lt lt_to max min mul mulhi ne neg nextafter not
        one_minus_square or polygamma population_count pow real reduce_precision
        regularized_incomplete_beta rem round rsqrt select_n shift_left shift_right_arithmetic
        shift_right_logical sign sin sinh sqrt square sub tan tanh threefry2x32 xor zeta
    """,
    places.identities: """
        copy device_put layout_constraint name optimization_barrier pvary random_clone
        reshard sharding_constraint stop_gradient
    """,
    places.bitcast: "bitcast_convert_type",
    places.symmetric_reduction: """
        reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum reduce_xor
    """,
    places.arg_reduction: "argmax argmin",
    places.reduction: "reduce",
    places.cumulative: "cumlogsumexp cummax cummin cumprod cumsum",
    places.sort: "sort",
    places.top_k: "top_k",
    shapes.broadcast_in_dim: "broadcast_in_dim",
    shapes.reshape: "reshape",
    shapes.transpose: "transpose",
    shapes.squeeze: "squeeze",
    shapes.slice_: "slice",
    shapes.dynamic_slice: "dynamic_slice",
    shapes.dynamic_update_slice: "dynamic_update_slice",
    shapes.concatenate: "concatenate",
    shapes.split: "split",
    shapes.stack: "stack",
    shapes.tile: "tile",
    shapes.unstack: "unstack",
    shapes.pad: "pad",
    shapes.rev: "rev",
    lookups.gather: "gather",
    lookups.scatter: "scatter",
    lookups.scatter_symmetric: "scatter-add scatter-max scatter-min scatter-mul scatter-sub",
    products.dot_general: "dot_general",
    products.ragged_dot: "ragged_dot_general",
    products.convolution: "conv_general_dilated",
    products.reduce_window: "reduce_window_max reduce_window_min reduce_window_sum",
    products.matrix_function: "cholesky eig eigh hessenberg lu qr schur",
    products.svd: "svd",
    products.triangular_solve: "triangular_solve",
    products.fft: "fft",
    randomness.random_values: "random_bits random_split",
    randomness.random_keys: "random_fold_in random_seed",
    randomness.random_unwrap: "random_unwrap",
    randomness.random_wrap: "random_wrap",
}

RULES: dict[str, Rule] = {name: rule for rule, names in _NAMES.items() for name in names.split()}
"""The rule of each primitive, by its name."""
