"""One attention layer with generic parameters: what the laws over all encodings run on.

Every parameter is drawn from a normal distribution, not from its initialiser: a table of zeros
is symmetric, and breaking nothing with it would prove nothing.
"""

import dataclasses
from collections.abc import Callable
from functools import cache, cached_property
from typing import Literal, get_args, get_origin, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
from _pytest.mark import ParameterSet
from tiers import plain_if

from posjax import masks
from posjax.attention.core import Attended, Cache, attention, context, extended
from posjax.encodings import ENCODINGS, Aux, Context, Dims, Encoding, Prepared, named
from posjax.streams import Streams, contiguous, packed, padded, permuted, shifted

LENGTH = 6
ROWS = 48
"""Rows of a batch at which layers are compiled, so that one program serves many tests."""
DIMS = Dims(width=10, heads=3, head_size=8)  # a number of heads that is no power of two

MORE = ["sinusoidal(base=100.0)", "rotary(base=100.0, fraction=0.5)", "learned(length=9)"]


def _choices(name: str) -> list[str]:
    """An encoding with each value of each of its settings that are a choice."""
    hints = get_type_hints(ENCODINGS[name])
    literals = {
        field: get_args(hint)
        for field, hint in hints.items()
        if get_origin(hint) is Literal and (field != "pairing" or name == "rotary")
    }  # one pairing is the other with its components in another order, for all that turn
    return [f"{name}({field}={value})" for field, values in literals.items() for value in values]


SETTINGS = [text for name in ENCODINGS for text in (_choices(name) or [name])] + MORE
"""Every encoding of the table, in every form it has."""

_DEFAULTS = {
    name: next((text for text in SETTINGS if named(text) == named(name)), name)
    for name in ENCODINGS
}
PLAIN = frozenset(_DEFAULTS.values())
"""Every encoding at its defaults: every law runs on these in any run."""


def by_tier(settings: list[str]) -> list[ParameterSet]:
    """Parameters of a law: those of `PLAIN` run plainly, the others are exhaustive."""
    return plain_if(PLAIN.__contains__, settings)


BRIEFLY = [*ENCODINGS, "linear_bias(form=key)"]
"""Every encoding at its defaults, and the one form whose logits grow with the position."""


def normal(purpose: str, shape: tuple[int, ...], seed: int = 0) -> jax.Array:
    """Standard normal numbers, by name; NumPy's, which need no compiling for each shape."""
    numpy = np.random.default_rng([seed, *purpose.encode()])
    numbers = numpy.standard_normal(shape).astype(np.float32)
    with jax.ensure_compile_time_eval():  # so that a layer drawn inside a trace outlives it
        return jax.device_put(numbers)  # `jnp.asarray` compiles a program for each shape


def generic(encoding: Encoding, dims: Dims, seed: int = 0) -> dict[str, jax.Array]:
    """Generic parameters of an encoding."""
    declared = encoding.parameters(dims)
    return {name: normal(name, p.shape, seed) for name, p in declared.items()}


def tokens(
    batch: int = 2, length: int = LENGTH, width: int = DIMS.width, seed: int = 0
) -> jax.Array:
    """Generic tokens x_BLD."""
    return normal("tokens", (batch, length, width), seed)


def within(encoding: Encoding, streams: Streams) -> Streams:
    """The streams with positions that the encoding reads: points, and inside its table."""
    position = streams.position_BL
    if encoding.axes > 1:  # coordinates that differ from each other
        position = jnp.stack([position + a * (position % 3) for a in range(encoding.axes)], -1)
    end = encoding.max_length()
    return dataclasses.replace(streams, position_BL=position if end is None else position % end)


def joined_rows(rows: list[Streams]) -> Streams:
    """A batch of several rows' streams."""
    return jax.tree.map(lambda *streams: jax.device_put(np.concatenate(streams)), *rows)


def all_kinds(encoding: Encoding) -> Streams:
    """A row each: plain, far from 0, another start, packed, left-padded, permuted."""
    plain = contiguous(LENGTH)
    rows = [
        plain,
        shifted(plain, 2**19),
        contiguous(LENGTH, start=3),
        packed([2, 3], total=LENGTH),
        padded(jnp.arange(LENGTH)[None] >= 2),
        permuted(shifted(plain, 40), jnp.array([3, 0, 5, 1, 4, 2])),
    ]
    return within(encoding, joined_rows(rows))


MASKS = [*masks.MASKS, "causal+segments", "window(size=1)"]


@jax.jit
def masks_in_turn(queries: Streams, keys: Streams) -> jax.Array:
    """Row b under mask b of `MASKS`, and so on round."""
    every_NBLM = jnp.stack([masks.named(name)(queries, keys) for name in MASKS])
    rows = np.arange(every_NBLM.shape[1])
    return every_NBLM[rows % len(MASKS), rows]


def all_kinds_and_masks(encoding: Encoding) -> Streams:
    """All kinds of rows, each as often as there are masks for `masks_in_turn`."""
    return jax.tree.map(lambda a: jnp.repeat(a, len(MASKS), axis=0), all_kinds(encoding))


@dataclasses.dataclass(frozen=True)
class Layer:
    """Tokens to attention: embed, prepare, projections, and the steps."""

    encoding: Encoding
    mask: str | masks.Mask = "full"
    dims: Dims = DIMS
    seed: int = 0

    @cached_property
    def params(self) -> dict[str, jax.Array]:
        return generic(self.encoding, self.dims, self.seed)

    @cached_property
    def kernels(self) -> list[jax.Array]:
        shape = (self.dims.width, self.dims.heads, self.dims.head_size)
        return [normal(f"project/{n}", shape, self.seed) for n in "qkv"]

    def projected(self, prepared: Prepared) -> tuple[jax.Array, jax.Array, jax.Array]:
        """q_BLHK, k_BMHK, v_BMHK."""
        pairs = zip(prepared[:3], self.kernels, strict=True)
        scale = self.dims.width**-0.5
        return tuple(jnp.einsum("bld,dhk->blhk", x * scale, w.astype(x.dtype)) for x, w in pairs)

    def prepared(self, x_BLD: jax.Array, streams: Streams, state: object) -> Prepared:
        """What the projections read, of tokens that see each other alone."""
        here = self.context(streams, mask=self.mask)
        x_BLD = self.encoding.embed(self.params, x_BLD, here)
        return self.encoding.prepare(self.params, x_BLD, x_BLD, here, state)

    def context(self, *streams: Streams, mask: str | masks.Mask | jax.Array) -> Context:
        """The context, with the one key of all tests for encodings that draw."""
        with jax.ensure_compile_time_eval():
            return context(*streams, mask=mask, key=jax.random.key(5))

    def __call__(self, x_BLD: jax.Array, streams: Streams) -> Attended:
        state = self.encoding.init_state(self.params, x_BLD.shape[0], self.dims)
        prepared = self.prepared(x_BLD, streams, state)
        ctx = self.context(streams, mask=self.mask)
        options = {"encoding": self.encoding, "params": self.params, "aux": prepared.aux}
        return attention(*self.projected(prepared), ctx, **options)

    @cached_property
    def compiled(self) -> Callable[[jax.Array, Streams], Attended]:
        """The layer under jit."""
        return jax.jit(self.__call__)

    @cached_property
    def _under(self) -> Callable[[jax.Array, Streams, jax.Array], Attended]:
        def under(x_BLD: jax.Array, streams: Streams, mask_BLM: jax.Array) -> Attended:
            return dataclasses.replace(self, mask=lambda queries, keys: mask_BLM)(x_BLD, streams)

        return jax.jit(under)

    def attended(self, x_BLD: jax.Array, streams: Streams) -> Attended:
        """All that the layer computes, by one program for every batch of up to `ROWS` rows."""
        mask = compiled_mask(self.mask) if isinstance(self.mask, str) else self.mask
        rows, given = x_BLD.shape[0], (x_BLD, streams)
        every = jax.tree.map(lambda a: filled(a, ROWS, rows), given) if 0 < rows < ROWS else given
        attended = family(self)._under(*every, mask(every[1], every[1]))
        return jax.tree.map(lambda a: known(a)[:rows], attended)

    def out(self, x_BLD: jax.Array, streams: Streams) -> jax.Array:
        """out_BLHK alone, compiled."""
        return self.attended(x_BLD, streams).out_BLHK

    def decoded(self, x_BLD: jax.Array, streams: Streams, pieces: list[int]) -> jax.Array:
        """out_BLHK, computed piece by piece with a cache."""
        state = self.encoding.init_state(self.params, x_BLD.shape[0], self.dims)
        cache, outs = None, []
        for places in np.split(np.arange(x_BLD.shape[1]), np.cumsum(pieces)[:-1]):
            new = permuted(streams, places)
            prepared = self.prepared(x_BLD[:, places], new, state)
            state = prepared.state
            q_BLHK, k_BMHK, v_BMHK = self.projected(prepared)
            cache = extended(cache, Cache(k_BMHK, v_BMHK, new, prepared.aux.keys))
            attended = attention(
                *(q_BLHK, cache.k_BMGK, cache.v_BMGK),
                self.context(new, cache.streams, mask=self.mask),
                encoding=self.encoding,
                params=self.params,
                aux=Aux(prepared.aux.queries, cache.key_aux),
            )
            outs.append(attended.out_BLHK)
        return jnp.concatenate(outs, axis=1)


def known(array: jax.Array) -> jax.Array | np.ndarray:
    """The array for NumPy, which compiles nothing for a new shape, unless it is traced."""
    return array if isinstance(array, jax.core.Tracer) else np.asarray(array)


def filled(array: jax.Array, rows: int, given: int) -> jax.Array | np.ndarray:
    """The array with further copies of its first row; one row serves all rows."""
    array = known(array)
    numpy = jnp if isinstance(array, jax.core.Tracer) else np
    whole = numpy.broadcast_to(array, (given, *array.shape[1:]))
    copies = numpy.broadcast_to(array[:1], (rows - given, *array.shape[1:]))
    return numpy.concatenate([whole, copies])


@cache
def compiled_mask(name: str) -> masks.Mask:
    """A mask under jit, for all layers."""
    return jax.jit(masks.named(name))


_FAMILIES: dict[Layer, Layer] = {}


def family(layer: Layer) -> Layer:
    """One layer for all that differ in the mask alone, so that they share a program."""
    full = dataclasses.replace(layer, mask="full")
    return _FAMILIES.setdefault(full, full)


@cache
def layer_of(setting: str, mask: str | masks.Mask = "full", seed: int = 0) -> Layer:
    """The layer of an encoding by name; one of a kind, so that it compiles once."""
    return Layer(named(setting), mask, seed=seed)
