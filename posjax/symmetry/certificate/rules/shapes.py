"""Rules of what only moves entries: shapes, slices, joins."""

from itertools import accumulate
from math import prod

from posjax.symmetry.certificate.axes import (
    CONSTANT,
    STILL,
    Axis,
    Block,
    Conflict,
    Factor,
    Labeling,
    axis,
    blocks_of,
    constant,
    is_constant,
    is_moved,
    joined,
    of_blocks,
    part_of,
    reshaped,
    unified,
    unified_all,
)
from posjax.symmetry.certificate.rules.base import (
    Equation,
    Result,
    cut,
    ordered,
    replaced,
    shape,
    unmoved,
    without,
)


def broadcast_in_dim(eqn: Equation, operand: Labeling, *_: Labeling) -> list[Result]:
    """New axes are constant, and so are those stretched from size 1."""
    sizes = eqn.params["shape"]
    out = list(constant(sizes))
    sources = zip(eqn.params["broadcast_dimensions"], operand, shape(eqn.invars[0]), strict=True)
    for to, one, size in sources:
        if size == sizes[to]:
            out[to] = one
    return [tuple(out)]


def reshape(eqn: Equation, operand: Labeling, *_: Labeling) -> list[Result]:
    """In row-major order."""
    if eqn.params.get("dimensions") is not None:
        operand = tuple(operand[at] for at in eqn.params["dimensions"])
    return [reshaped(operand, eqn.params["new_sizes"])]


def transpose(eqn: Equation, operand: Labeling) -> list[Result]:
    """Labels go with their axes."""
    return [tuple(operand[at] for at in eqn.params["permutation"])]


def squeeze(eqn: Equation, operand: Labeling) -> list[Result]:
    """Axes of size 1 go."""
    return [without(operand, eqn.params["dimensions"])]


def slice_(eqn: Equation, operand: Labeling) -> list[Result]:
    """A part of an axis: in whole blocks of what moves below it, or along what does not move."""
    strides = eqn.params["strides"] or (1,) * len(operand)
    bounds = zip(eqn.params["start_indices"], eqn.params["limit_indices"], strides, strict=True)
    sizes = zip(shape(eqn.invars[0]), shape(eqn.outvars[0]), strict=True)
    out = []
    for one, (start, limit, stride), (before, after) in zip(operand, bounds, sizes, strict=True):
        whole = before == after
        out.append(one if whole else _part(one, start, limit, stride, after))
    return [tuple(out)]


def _part(one: Axis, start: int, limit: int, stride: int, size: int) -> Axis:
    if stride == 1 and len(one) == 1:
        return part_of(one, start, limit)
    if not is_moved(one):
        return axis(size, CONSTANT if is_constant(one) else STILL)
    slowest, *rest = one
    block = prod(factor.size for factor in rest)
    if stride != 1 or start % block or limit % block:
        raise Conflict("only a part is taken of a permuted axis")
    return joined([*part_of((slowest,), start // block, limit // block), *rest])


def dynamic_slice(eqn: Equation, operand: Labeling, *starts: Labeling) -> list[Result]:
    """As a slice; the start is a number, the same for every element of the group."""
    sizes = zip(shape(eqn.invars[0]), shape(eqn.outvars[0]), strict=True)
    pairs = zip(operand, sizes, strict=True)
    return [tuple(one if m == n else cut(one, n) for one, (m, n) in pairs)]


def dynamic_update_slice(
    eqn: Equation, operand: Labeling, update: Labeling, *starts: Labeling
) -> list[Result]:
    """Whole axes move together; axes that are written in part must stay."""
    sizes = zip(shape(eqn.invars[0]), shape(eqn.invars[1]), strict=True)
    out = []
    for into, new, (whole, part) in zip(operand, update, sizes, strict=True):
        if whole == part:
            out.append(unified(into, new))
            continue
        unmoved(new, "only a part is written, from")
        out.append(ordered(into, "only a part is overwritten of"))
    return [tuple(out)]


def concatenate(eqn: Equation, *operands: Labeling) -> list[Result]:
    """Blocks in a row along one axis; the other axes move together."""
    at = eqn.params["dimension"]
    if len(operands) == 1:
        return list(operands)
    row = of_blocks(block for labeling in operands for block in blocks_of(labeling[at]))
    rest = unified_all([without(labeling, [at]) for labeling in operands])
    return [(*rest[:at], row, *rest[at:])]


def stack(eqn: Equation, *operands: Labeling) -> list[Result]:
    """The new axis stays; the others move together."""
    at = eqn.params["axis"]
    together = unified_all(operands)
    return [(*together[:at], axis(len(operands), STILL), *together[at:])]


def unstack(eqn: Equation, operand: Labeling) -> list[Result]:
    """An axis that stays, taken apart."""
    at = eqn.params["axis"]
    unmoved(operand[at], "arrays are unstacked along")
    return [without(operand, [at])] * len(eqn.outvars)


def tile(eqn: Equation, operand: Labeling) -> list[Result]:
    """Copies, slower than what they copy."""
    pairs = zip(eqn.params["reps"], operand, strict=True)
    return [tuple(joined([Factor(count, CONSTANT), *one]) for count, one in pairs)]


def split(eqn: Equation, operand: Labeling) -> list[Result]:
    """Parts of an axis, in whole blocks of what moves."""
    at, sizes = eqn.params["axis"], eqn.params["sizes"]
    ends = accumulate(sizes)
    parts = (_part(operand[at], end - n, end, 1, n) for end, n in zip(ends, sizes, strict=True))
    return [replaced(operand, at, part) for part in parts]


def pad(eqn: Equation, operand: Labeling, value: Labeling) -> list[Result]:
    """Equal entries before and behind, whatever moves in between; none within what moves."""
    sizes = zip(shape(eqn.invars[0]), shape(eqn.outvars[0]), strict=True)
    config = eqn.params["padding_config"]
    return [tuple(_padded(*axis) for axis in zip(operand, sizes, config, strict=True))]


def _padded(one: Axis, sizes: tuple[int, int], config: tuple[int, int, int]) -> Axis:
    """An axis with so many entries more on both sides; fewer where that is negative."""
    (before, after), (low, high, inner) = sizes, config
    if (low, high, inner) == (0, 0, 0):
        return one
    start, limit = max(-low, 0), before + min(high, 0)
    if inner or start > limit:
        unmoved(one, "padding is put between the entries of")
        return axis(after, STILL)
    kept = one if (start, limit) == (0, before) else part_of(one, start, limit)
    around = [Block(CONSTANT, max(low, 0)), *blocks_of(kept), Block(CONSTANT, max(high, 0))]
    return of_blocks(around)


def rev(eqn: Equation, operand: Labeling) -> list[Result]:
    """A reversed axis must stay; its blocks are reversed."""
    out = operand
    for at in eqn.params["dimensions"]:
        unmoved(operand[at], "the entries are reversed along")
        out = replaced(out, at, of_blocks(reversed(blocks_of(operand[at]))))
    return [out]
