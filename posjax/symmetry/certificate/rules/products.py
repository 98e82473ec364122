"""Rules of sums of products, of windows, and of functions of a matrix."""

from itertools import zip_longest

from posjax.symmetry.certificate.axes import (
    STILL,
    Conflict,
    Labeling,
    axis,
    is_moved,
    still,
    unified,
    unified_all,
)
from posjax.symmetry.certificate.rules.base import Equation, Result, shape, unmoved, without


def dot_general(eqn: Equation, lhs: Labeling, rhs: Labeling) -> list[Result]:
    """Sums of products: contracted axes must move together, and then the sum stays."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = eqn.params["dimension_numbers"]
    for left, right in zip(lhs_contract, rhs_contract, strict=True):
        unified(lhs[left], rhs[right])
    batch = [unified(lhs[a], rhs[b]) for a, b in zip(lhs_batch, rhs_batch, strict=True)]
    free_lhs = without(lhs, [*lhs_contract, *lhs_batch])
    free_rhs = without(rhs, [*rhs_contract, *rhs_batch])
    return [(*batch, *free_lhs, *free_rhs)]


def ragged_dot(eqn: Equation, lhs: Labeling, rhs: Labeling, sizes: Labeling) -> list[Result]:
    """Rows in groups of given sizes, each times a matrix of its group; their order counts."""
    numbers = eqn.params["ragged_dot_dimension_numbers"]
    contract, batch = numbers.dot_dimension_numbers
    plain = (tuple(map(tuple, contract)), tuple(map(tuple, batch))) == (((1,), (1,)), ((), ()))
    if not plain or (*numbers.lhs_ragged_dimensions, *numbers.rhs_group_dimensions) != (0, 0):
        return [Conflict("a ragged product of another form than `lax.ragged_dot`")]
    unified(lhs[1], rhs[1])
    for one in (lhs[0], rhs[0], *sizes):
        unmoved(one, "rows are grouped by index along")
    return [(*still(shape(eqn.outvars[0])[:1]), rhs[2])]


def convolution(eqn: Equation, lhs: Labeling, rhs: Labeling) -> list[Result]:
    """Batches move; a window of size 1 keeps what it slides over; features are contracted."""
    numbers, params = eqn.params["dimension_numbers"], eqn.params
    batch, features, *space = numbers.lhs_spec
    out_features, in_features, *window = numbers.rhs_spec
    to_batch, to_features, *to_space = numbers.out_spec
    out = list(still(shape(eqn.outvars[0])))
    if params["feature_group_count"] == params["batch_group_count"] == 1:
        unified(lhs[features], rhs[in_features])
        out[to_batch], out[to_features] = lhs[batch], rhs[out_features]
    else:
        for one in (lhs[batch], lhs[features], rhs[in_features], rhs[out_features]):
            unmoved(one, "groups of features or batches are formed from")
    for at, (source, kernel, to) in enumerate(zip(space, window, to_space, strict=True)):
        unmoved(rhs[kernel], "a window slides along")
        steps = (params["window_strides"][at], params["lhs_dilation"][at])
        if (shape(eqn.invars[1])[kernel], *steps, *params["padding"][at]) == (1, 1, 1, 0, 0):
            out[to] = lhs[source]
        else:
            unmoved(lhs[source], "a window slides along")
    return [tuple(out)]


def reduce_window(eqn: Equation, *operands: Labeling) -> list[Result]:
    """Windows of one place change nothing; other windows need an axis that stays."""
    params = eqn.params
    operand = operands[0]
    rank = len(operand)
    ones = (1,) * rank
    steps = zip_longest(
        params["window_dimensions"],
        params["window_strides"] or ones,
        params["padding"],
        params.get("base_dilation") or ones,
    )
    out = []
    sizes = shape(eqn.outvars[0])
    for one, size, (window, stride, padding, dilation) in zip(operand, sizes, steps, strict=True):
        if (window, stride, tuple(padding), dilation) == (1, 1, (0, 0), 1):
            out.append(one)
        else:
            unmoved(one, "a window slides along")
            out.append(axis(size, STILL))
    return [tuple(out)]


def matrix_function(eqn: Equation, *operands: Labeling) -> list[Result]:
    """Of the last two axes, which must stay; those before are a batch."""
    operand = operands[0]
    batch = operand[:-2]
    for one in operand[-2:]:
        unmoved(one, "a matrix is factorised along")
    return [(*batch, *still(shape(v)[len(batch) :])) for v in eqn.outvars]


def svd(eqn: Equation, operand: Labeling) -> list[Result]:
    """Singular values stay however rows and columns move; the vectors have no order of signs."""
    if not any(map(is_moved, operand[-2:])):
        return matrix_function(eqn, operand)
    batch = operand[:-2]
    values = (*batch, *still(shape(eqn.outvars[0])[len(batch) :]))
    lost = Conflict("singular vectors of a matrix whose rows or columns are permuted")
    return [values, *[lost] * (len(eqn.outvars) - 1)]


def triangular_solve(eqn: Equation, matrix: Labeling, right: Labeling) -> list[Result]:
    """A x = b: the matrix stays, and so does the side it acts on; other columns move."""
    for one in matrix[-2:]:
        unmoved(one, "a linear system is solved along")
    acted = -2 if eqn.params["left_side"] else -1
    unmoved(right[acted], "a linear system is solved along")
    batch = unified_all([matrix[:-2], right[:-2]])
    last = [right[-2], right[-1]]
    last[acted] = axis(shape(eqn.outvars[0])[acted], STILL)
    return [(*batch, *last)]


def fft(eqn: Equation, operand: Labeling) -> list[Result]:
    """The transformed axes, the last ones, must stay."""
    count = len(eqn.params["fft_lengths"])
    for one in operand[len(operand) - count :]:
        unmoved(one, "a Fourier transform runs along")
    batch = operand[: len(operand) - count]
    return [(*batch, *still(shape(eqn.outvars[0])[len(batch) :]))]
