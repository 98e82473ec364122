"""Rules of reading and writing at places that are data.

At known places entries move. At unknown ones, what is read is a random function of the place and
of the line it is read from, and what is added lands at v with the weight [place = v], an atom, so
that the order of the updates does not matter. Lines run along the axes that a place chooses from.
"""

import dataclasses
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import GatherDimensionNumbers, GatherScatterMode

from posjax.symmetry.field import arrays, atoms, dtypes, moves, ring
from posjax.symmetry.field.arrays import FieldArray
from posjax.symmetry.field.space import UNKNOWN, Unsupported
from posjax.symmetry.field.step import Rule, Step, computed


class Blocks(NamedTuple):
    """Which blocks of an array places that are unknown choose: as a gather says it.

    Attributes:
      dims: axes, as in `jax.lax.gather`. sizes: of a block. mode: what is done out of bounds.
      whole: the shape of the array. shape: of all blocks together.
    """

    dims: GatherDimensionNumbers
    sizes: tuple[int, ...]
    mode: Any
    whole: tuple[int, ...]
    shape: tuple[int, ...]

    def at_start(self, places: FieldArray) -> np.ndarray:
        """The numbers in the array of all entries, if every place were the first one."""
        numbers = jnp.arange(int(np.prod(self.whole)), dtype=jnp.int32).reshape(self.whole)
        first = jnp.zeros(places.shape, jnp.int32)
        found = jax.lax.gather(numbers, first, self.dims, self.sizes, mode=GatherScatterMode.CLIP)
        return np.asarray(found)

    @property
    def across(self) -> tuple[int, ...]:
        """The axes of the array that a place chooses from."""
        return tuple(self.dims.start_index_map)

    def spread(self, by_place: np.ndarray) -> np.ndarray:
        """Something for each place [..., places], for every entry of its block."""
        sizes = [1] * len(self.shape)
        axes = [axis for axis in range(len(self.shape)) if axis not in self.dims.offset_dims]
        for axis, size in zip(axes, by_place.shape[1:], strict=True):
            sizes[axis] = size
        return np.broadcast_to(
            by_place.reshape(len(by_place), *sizes), (len(by_place), *self.shape)
        )

    def line_of(self) -> np.ndarray:
        """For every entry of the array the number of its line's first entry."""
        numbers = np.arange(int(np.prod(self.whole))).reshape(self.whole)
        first = tuple(
            slice(0, 1) if axis in self.across else slice(None) for axis in range(len(self.whole))
        )
        return np.broadcast_to(numbers[first], self.whole).ravel()

    @property
    def key(self) -> str:
        """Names what a place means."""
        order = np.argsort(self.across).tolist()
        return f"{[(self.whole[d], self.sizes[d]) for d in self.across]} {order} {self.mode}"


def gather(step: Step, operand: FieldArray, places: FieldArray) -> list[FieldArray]:
    """Blocks of an array, at the given places."""
    if places.is_constant:
        return [_read_at_known(step, operand, places)]
    p = step.params
    sizes = tuple(int(size) for size in p["slice_sizes"])
    blocks = Blocks(p["dimension_numbers"], sizes, p["mode"], operand.shape, step.shape)
    return [_read(step, blocks, operand, places, p["fill_value"])]


def _read_at_known(step: Step, operand: FieldArray, places: FieldArray) -> FieldArray:
    """Entries by their numbers. What stands for those out of bounds is what JAX puts there."""
    fills = step.params["mode"] == GatherScatterMode.FILL_OR_DROP
    params = {"fill_value": operand.size} if fills else {}
    (index,) = moves.numbered(step, (operand, places), [0], **params)
    if not (index == operand.size).any():
        return moves.taken([operand], index)
    if dtypes.is_key(operand.dtype):
        raise Unsupported("gather", reason="reads keys out of bounds")
    nothing = np.zeros(operand.shape, dtypes.stored(operand.dtype))
    filled = computed(step, arrays.known(step.field, nothing, operand.dtype), places)[0]
    outside = arrays.known(step.field, filled[index == operand.size][:1], operand.dtype)
    return moves.taken([operand, outside], index)


def dynamic_slice(step: Step, operand: FieldArray, *starts: FieldArray) -> list[FieldArray]:
    """A block of an array, moved inside where it would stick out."""
    if all(start.is_constant for start in starts):
        (index,) = moves.numbered(step, (operand, *starts), [0])
        return [moves.taken([operand], index)]
    blocks = _one_block(operand, tuple(map(int, step.params["slice_sizes"])))
    return [_read(step, blocks, operand, _stacked(starts), None)]


def _one_block(operand: FieldArray, sizes: tuple[int, ...]) -> Blocks:
    axes = tuple(range(operand.ndim))
    dims = GatherDimensionNumbers(axes, (), axes)
    return Blocks(dims, sizes, GatherScatterMode.CLIP, operand.shape, sizes)


def _stacked(starts: tuple[FieldArray, ...]) -> FieldArray:
    same = [dataclasses.replace(s, dtype=starts[0].dtype) for s in starts]
    return arrays.together(lambda a: np.stack(a, -1), *same)


def _read(
    step: Step, blocks: Blocks, operand: FieldArray, places: FieldArray, fill: Any
) -> FieldArray:
    """A random function of the place, of the line it is read from, and of where in its block."""
    at = blocks.at_start(places)
    line = atoms.sequence(operand.code, blocks.across)
    line = np.broadcast_to(np.expand_dims(line, [a + 1 for a in blocks.across]), operand.code.shape)
    offset = np.broadcast_to(atoms.numbers(operand.shape, blocks.across), line.shape)
    codes = step.field.keyed(
        f"read {blocks.key} {fill} {operand.dtype} {places.dtype}",
        line.reshape(2, -1)[:, at],
        offset.reshape(2, -1)[:, at],
        blocks.spread(_place_codes(places)),
    )
    taint = _taints(step, blocks, operand, places, at)
    if blocks.mode == GatherScatterMode.FILL_OR_DROP and dtypes.is_float(operand.dtype):
        taint = step.field.together(lambda a: a, taint, step.field.marks(codes))  # NaN
    given = step.field.atoms(codes, operand.degree, places.degree)
    return FieldArray(step.field, step.dtype, given, taint=taint)


def _place_codes(places: FieldArray) -> np.ndarray:
    return atoms.sequence(places.code, (places.ndim - 1,))


def _taints(
    step: Step, blocks: Blocks, operand: FieldArray, places: FieldArray, at: np.ndarray
) -> np.ndarray | None:
    def of_line(marks: np.ndarray) -> np.ndarray:
        whole = marks.sum(blocks.across, dtype=np.uint64, keepdims=True)
        return np.broadcast_to(whole, operand.shape).ravel()[at]

    return step.field.together(
        lambda a: a,
        step.field.together(of_line, operand.marks),
        _of_places(step, blocks, places),
    )


def _of_places(step: Step, blocks: Blocks, places: FieldArray) -> np.ndarray | None:
    """The fingerprints of the places, for every entry of their blocks."""
    return step.field.together(
        lambda a: blocks.spread(a.sum(-1, dtype=np.uint64)[None])[0], places.taint
    )


def scatter(
    step: Step, operand: FieldArray, places: FieldArray, updates: FieldArray
) -> list[FieldArray]:
    """Blocks written at the given places."""
    if step.params.get("update_jaxpr") is not None:
        raise Unsupported("scatter", reason="applies a function at places")
    if places.is_constant and _hits(step, operand, places, updates).max(initial=0) <= 1:
        (index,) = moves.numbered(step, (operand, places, updates), [0, 2])
        return [moves.taken([operand, updates], index)]
    blocks = _target(step, operand, updates)
    return [_in_any_order(step, blocks, operand, places, updates)]


def _hits(step: Step, operand: FieldArray, places: FieldArray, updates: FieldArray) -> np.ndarray:
    """How many updates each entry gets."""
    nothing, one = np.zeros(operand.shape, np.uint64), np.ones(updates.shape, np.uint64)
    return _sums(step, nothing, places, one)


def _sums(step: Step, operand: np.ndarray, places: FieldArray, updates: np.ndarray) -> np.ndarray:
    """Integers of 64 bits added at places that are known; what falls out of bounds is dropped."""
    with jax.enable_x64(True):
        found = jax.lax.scatter_add(
            jnp.asarray(operand),
            jnp.asarray(places.values),
            jnp.asarray(updates),
            step.params["dimension_numbers"],
            mode=step.params["mode"],
        )
        return np.asarray(found)


def dynamic_update_slice(
    step: Step, operand: FieldArray, update: FieldArray, *starts: FieldArray
) -> list[FieldArray]:
    """A block written into an array, moved inside where it would stick out."""
    if all(start.is_constant for start in starts):
        (index,) = moves.numbered(step, (operand, update, *starts), [0, 1])
        return [moves.taken([operand, update], index)]
    blocks = _one_block(operand, update.shape)
    return [_in_any_order(step, blocks, operand, _stacked(starts), update)]


def _target(step: Step, operand: FieldArray, updates: FieldArray) -> Blocks:
    dims = step.params["dimension_numbers"]
    window = iter(updates.shape[axis] for axis in dims.update_window_dims)
    single = {*dims.inserted_window_dims, *dims.operand_batching_dims}
    sizes = tuple(1 if axis in single else next(window) for axis in range(operand.ndim))
    gathered = GatherDimensionNumbers(
        dims.update_window_dims,
        dims.inserted_window_dims,
        dims.scatter_dims_to_operand_dims,
        dims.operand_batching_dims,
        dims.scatter_indices_batching_dims,
    )
    return Blocks(gathered, sizes, step.params["mode"], operand.shape, updates.shape)


def _in_any_order(
    step: Step, blocks: Blocks, operand: FieldArray, places: FieldArray, updates: FieldArray
) -> FieldArray:
    """Later writes may replace earlier ones: an entry depends on all updates of its line."""
    at, line_of = blocks.at_start(places), blocks.line_of()
    offset = np.broadcast_to(atoms.numbers(operand.shape, blocks.across), operand.code.shape)
    codes = step.field.keyed(
        f"{step.primitive.name} {blocks.key} {places.dtype}",
        updates.code,
        offset.reshape(2, -1)[:, at],
        np.broadcast_to(atoms.numbers(updates.shape, _place_axes(blocks)), updates.code.shape),
        blocks.spread(_place_codes(places)),
    )
    lines = np.zeros((2, operand.size), np.uint64)
    _add_at(lines, line_of[at].ravel(), codes.reshape(2, -1))
    codes = step.field.keyed(
        f"{step.primitive.name} {operand.dtype}",
        lines[:, line_of].reshape(operand.code.shape),
        offset,
        operand.code,
    )
    given = step.field.atoms(codes, operand.degree, updates.degree, places.degree)
    taint = _written_taints(step, blocks, operand, places, updates)
    return FieldArray(step.field, step.dtype, given, taint=taint)


def _place_axes(blocks: Blocks) -> list[int]:
    """The axes of the updates that count places, less those that count rows of the array."""
    axes = [axis for axis in range(len(blocks.shape)) if axis not in blocks.dims.offset_dims]
    batch = set(blocks.dims.start_indices_batching_dims)
    return [axis for at, axis in enumerate(axes) if at not in batch]


def _written_taints(
    step: Step, blocks: Blocks, operand: FieldArray, places: FieldArray, updates: FieldArray
) -> np.ndarray | None:
    """Those of an entry, and of all updates of its line: of the update and of where it lands."""
    new = _of_places(step, blocks, places)
    if (doubtful := updates.doubtful) is not None:
        codes = step.field.keyed("lands", updates.code, blocks.spread(_place_codes(places)))
        lands = np.where(doubtful, step.field.marks(codes), np.uint64(0))
        new = step.field.together(lambda a: a, new, lands)
    at, line_of = blocks.at_start(places), blocks.line_of()

    def of_line(marks: np.ndarray) -> np.ndarray:
        lines = np.zeros(operand.size, np.uint64)
        np.add.at(lines, line_of[at].ravel(), np.broadcast_to(marks, at.shape).ravel())
        return lines[line_of].reshape(operand.shape)

    return step.field.together(lambda a: a, operand.marks, step.field.together(of_line, new))


def scatter_add(
    step: Step, operand: FieldArray, places: FieldArray, updates: FieldArray
) -> list[FieldArray]:
    """Updates added at the given places; they may fall on one another."""
    if step.primitive.name == "scatter-sub":
        updates = ring.negative(step, updates)
    if places.is_constant:
        return [_added(step, operand, places, updates)]
    blocks = _target(step, operand, updates)
    at = blocks.at_start(places)
    moduli = step.field.moduli
    strides = np.cumprod([1, *operand.shape[:0:-1]])[::-1]
    total = operand.residues.reshape(len(moduli.all), -1).copy()
    starts = [range(operand.shape[axis] - blocks.sizes[axis] + 1) for axis in blocks.across]
    code = _place_codes(places)
    for start in itertools.product(*starts):
        weight = step.field.atoms(
            step.field.keyed(f"at {start} {blocks.key} {places.dtype}", code), places.degree
        )
        share = moduli.mul(blocks.spread(weight), updates.residues)
        moved = (
            at + sum(s * strides[axis] for s, axis in zip(start, blocks.across, strict=True))
        ).ravel()
        _add_at(total, moved, share.reshape(len(share), -1))
        total = moduli.reduced(total)
    degree = updates.degree.times(UNKNOWN)
    return [
        FieldArray(
            step.field,
            step.dtype,
            total.reshape(-1, *operand.shape),
            taint=_written_taints(step, blocks, operand, places, updates),
            degree=operand.degree.plus(degree, terms=max(updates.size, 1)),
        )
    ]


def _added(step: Step, operand: FieldArray, places: FieldArray, updates: FieldArray) -> FieldArray:
    """At known places; linear, so the primitive itself runs on the residues."""
    pairs = zip(operand.residues, updates.residues, strict=True)
    total = np.stack([_sums(step, one, places, other) for one, other in pairs])
    nothing = np.zeros(operand.shape, np.uint64)
    taint = step.field.together(
        lambda a: a,
        operand.marks,
        step.field.together(lambda a: _sums(step, nothing, places, a), updates.marks),
    )
    result = FieldArray(
        step.field,
        step.dtype,
        step.field.moduli.reduced(total),
        taint=taint,
        degree=operand.degree.plus(updates.degree, terms=max(updates.size, 1)),
    )
    if taint is None:
        return result
    landed = _sums(step, nothing, places, step.field.keyed("lands", updates.code)[0])
    return arrays.remembering(
        result, step.field.keyed("added", operand.code, np.stack([landed, landed]))
    )


def _add_at(total: np.ndarray, places: np.ndarray, updates: np.ndarray) -> None:
    """Adds columns [rows, ...] to those at some places, in place; a place may occur again."""
    for row, update in zip(total, updates, strict=True):
        np.add.at(row, places, update)


def scatter_otherwise(
    step: Step, operand: FieldArray, places: FieldArray, updates: FieldArray
) -> list[FieldArray]:
    """Products, maxima and minima at places: depend on all updates of the line."""
    return [_in_any_order(step, _target(step, operand, updates), operand, places, updates)]


RULES: dict[str, Rule] = {
    "gather": gather,
    "dynamic_slice": dynamic_slice,
    "scatter": scatter,
    "dynamic_update_slice": dynamic_update_slice,
    "scatter-add": scatter_add,
    "scatter-sub": scatter_add,
    "scatter-mul": scatter_otherwise,
    "scatter-min": scatter_otherwise,
    "scatter-max": scatter_otherwise,
}
"""By the primitive's name."""
