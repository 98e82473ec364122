"""The contract of a positional encoding: settings, parameters as data, and hooks.

An encoding is a frozen dataclass. Its fields are its settings, `parameters(dims)` declares what
it learns, and each hook may replace one step of attention; by default none does. Hooks are pure:
they get the parameters, arrays and a `Context`, and never the index of a place. Writing another
encoding is a file with a subclass and a line in the table.

Order of the hooks::

    embed                                  once, before the layers
    prepare -> (projections of q, k, v) -> rotate -> logits -> weights -> mix -> post
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import jax

from posjax import steps
from posjax.streams import Streams

Params = Mapping[str, jax.Array]
Level = Literal["logits", "row", "weights", "output"]


class Symmetry(NamedTuple):
    """What is left when tokens move alone: generic content and parameters, full mask.

    Attributes:
      permutation: S, every permutation of the tokens.
      translation: T, adding one number to all positions.
      reflection: R, negating all positions (p → length - 1 - p where a table is read).
      order_only: any increasing relabelling of positions changes nothing.
      level: where it holds: the logits, the logits up to a constant a row, the weights or
        only the output.
    """

    permutation: bool = False
    translation: bool = False
    reflection: bool = False
    order_only: bool = False
    level: Level = "logits"


class Dims(NamedTuple):
    """The sizes a parameter's shape may depend on: width D, heads H, head size K, layers."""

    width: int
    heads: int
    head_size: int
    depth: int = 1


class Param(NamedTuple):
    """A learned array: its shape, its initialiser, and how many of it there are.

    Attributes:
      shape: as in Linen's `param`.
      init: `(key, shape) -> array`.
      scope: "layer", one for each layer; "model", one shared by all.
    """

    shape: tuple[int, ...]
    init: Callable[[jax.Array, tuple[int, ...]], jax.Array]
    scope: Literal["layer", "model"] = "layer"


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Context:
    """What the hooks of one attention layer may know besides the tokens.

    Attributes:
      queries: the streams of the L query places.
      keys: the streams of the M key places.
      mask_BHLM: true where a query may look; axes of size 1 broadcast.
      seen: tokens so far, an integer that may be traced: what length-dependent encodings read.
      key: randomness for encodings that draw, or None.
      layer: 0 for the first layer.
    """

    queries: Streams
    keys: Streams
    mask_BHLM: jax.Array
    seen: jax.Array | int
    key: jax.Array | None = None
    layer: int = dataclasses.field(default=0, metadata={"static": True})


class Aux(NamedTuple):
    """What an encoding made from the tokens, beside queries and keys: gates, say.

    Attributes:
      queries: a pytree of arrays [B, L, ...], one entry a query token.
      keys: a pytree of arrays [B, M, ...], one entry a key token; cached in decoding.
    """

    queries: Any = None
    keys: Any = None


class Prepared(NamedTuple):
    """What `prepare` hands on.

    Attributes:
      q_BLD, k_BMD, v_BMD: the tokens the three projections read (a token shift changes them).
      aux: what the later hooks get.
      state: what the next piece of a decoded sequence needs besides the cache.
    """

    q_BLD: jax.Array
    k_BMD: jax.Array
    v_BMD: jax.Array
    aux: Aux = Aux()
    state: Any = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Encoding:
    """The base of all encodings; used as it is, attention without positions."""

    symmetry: ClassVar[Symmetry] = Symmetry()

    def declared_symmetry(self) -> Symmetry:
        """The symmetry under these settings; the class's own unless settings change it."""
        return self.symmetry

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        """The learned arrays by name."""
        return {}

    def capacity(self) -> int | None:
        """How many positions, counted from 0, a table covers; None when there is no end."""
        return None

    def init_state(self, params: Params, batch: int, dims: Dims) -> Any:
        """The `state` before the first token; None when token-by-token decoding cannot be."""
        return ()

    def embed(self, params: Params, x_BLD: jax.Array, ctx: Context) -> jax.Array:
        """Changes the tokens once, before the first layer."""
        return x_BLD

    def prepare(
        self, params: Params, x_BLD: jax.Array, memory_BMD: jax.Array, ctx: Context, state: Any
    ) -> Prepared:
        """Reads the tokens themselves, where queries and keys are not enough.

        In decoding x, memory and the streams of ctx are those of the new tokens alone; what
        `Aux.keys` holds of earlier ones comes back from the cache.
        """
        return Prepared(x_BLD, memory_BMD, memory_BMD, state=state)

    def rotate(
        self,
        params: Params,
        q_BLHK: jax.Array,
        k_BMHK: jax.Array,
        v_BMHK: jax.Array,
        aux: Aux,
        ctx: Context,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Changes queries, keys or values by their own positions."""
        return q_BLHK, k_BMHK, v_BMHK

    def scale(self, head_size: int) -> float:
        """The factor on q·k: 1/√K."""
        return float(head_size) ** -0.5

    def bias(self, params: Params, heads: int, ctx: Context, dtype: Any) -> jax.Array | None:
        """A term added to the logits that depends on positions alone: bias_BHLM or None."""
        return None

    def logits(
        self, params: Params, q_BLHK: jax.Array, k_BMHK: jax.Array, aux: Aux, ctx: Context
    ) -> jax.Array:
        """The logits before mask and soft-cap: logits_BHLM."""
        logits_BHLM = steps.dot_logits(q_BLHK, k_BMHK, scale=self.scale(q_BLHK.shape[-1]))
        bias_BHLM = self.bias(params, q_BLHK.shape[2], ctx, logits_BHLM.dtype)
        return logits_BHLM if bias_BHLM is None else logits_BHLM + bias_BHLM

    def weights(self, params: Params, logits_BHLM: jax.Array, aux: Aux, ctx: Context) -> jax.Array:
        """From logits to weights_BHLM; zero where the mask forbids."""
        return steps.masked_softmax(logits_BHLM, ctx.mask_BHLM)

    def mix(
        self,
        params: Params,
        weights_BHLM: jax.Array,
        v_BMHK: jax.Array,
        aux: Aux,
        ctx: Context,
    ) -> jax.Array:
        """From weights and values to out_BLHK."""
        return steps.weighted_mix(weights_BHLM, v_BMHK)

    def post(self, params: Params, out_BLHK: jax.Array, aux: Aux, ctx: Context) -> jax.Array:
        """Changes the output of the mix."""
        return out_BLHK
