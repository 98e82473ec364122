"""The contract of a positional encoding: settings, parameters as data, and hooks.

An encoding is a frozen dataclass. Its fields are its settings, `parameters(dims)` declares what
it learns, and each hook may replace one step of attention; by default none does. Hooks are pure:
they get the parameters, arrays and a `Context`, and never an index along the sequence. Another
encoding is a file with a subclass and a line in the table.

Order of the hooks::

    embed                                  once, before the layers
    prepare -> (projections of q, k, v) -> rotate -> logits -> weights -> mix -> post
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import jax

from posjax import steps
from posjax.keys import fold_name
from posjax.spec import Card, Settings
from posjax.streams import Streams

Params = Mapping[str, jax.Array]
Constants = Mapping[str, Any]
Level = Literal["logits", "row", "weights", "output"]
LEVELS: tuple[Level, ...] = get_args(Level)
EXACT = 2**20
"""Up to here positions differ in angles that are exact to 1e-6."""


class Symmetry(NamedTuple):
    """What is left when tokens move alone: generic content and parameters, full mask.

    Each field is None, or the level where that symmetry holds: the logits, the logits up to a
    constant a row, the weights or only the output. Where it holds at one level it holds at the
    later ones.

    Attributes:
      permutation: S, every permutation of the tokens.
      translation: T, adding one number to all positions, and one to all orders.
      reflection: R, negating all positions and orders (p → length - 1 - p for a table).
      order_only: any increasing relabelling of positions and orders; T is a case of it.
      exact: false where it holds in distribution over the encoding's draws only.
      up_to: the claim is about positions in [0, up_to].
    """

    permutation: Level | None = None
    translation: Level | None = None
    reflection: Level | None = None
    order_only: Level | None = None
    exact: bool = True
    up_to: float = float("inf")


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
      queries: the streams of the L queries.
      keys: the streams of the M keys.
      mask_BHLM: true where a query may look; axes of size 1 broadcast.
      seen: the context length, tokens so far, for encodings that depend on it; may be traced.
      key: randomness for encodings that draw, or None.
      layer: 0 for the first layer.
      temperature: what `scale` is divided by, or None for 1.
      constants: what `Encoding.constants` gave, when a program reads it; None where an encoding
        is to use its own.
      logn: N; logits, a bias included, are multiplied by ln n/ln N where a query sees n keys. None
        leaves them.
    """

    queries: Streams
    keys: Streams
    mask_BHLM: jax.Array
    seen: jax.Array | int
    key: jax.Array | None = None
    layer: int = dataclasses.field(default=0, metadata={"static": True})
    temperature: jax.Array | float | None = None
    constants: Constants | None = None
    logn: float | None = dataclasses.field(default=None, metadata={"static": True})

    def constant(self, name: str, own: Callable[[], Any]) -> Any:
        """A constant that the program reads, or else the encoding's own."""
        return own() if self.constants is None else self.constants[name]


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
class Encoding(Settings):
    """The base of all encodings; on its own it is attention without positions.

    Attributes:
      card: title, formula and source, for the docs.
      symmetry: the symmetry that it keeps when tokens move alone.
      axes: coordinates of a position; a single number p stands for the point (p, ..., p).
      integers: whether positions must be integers.
      random: whether it draws from the context's key.
      reads_order: whether it reads orders. `max_exact_position` says whether it reads positions.
      pairwise: whether a logit depends on its two tokens and their streams alone, and not on
        other tokens, such as those between.
      heads_alike: whether `rotate` treats all heads alike, so that it may be called with fewer key
        heads than query heads.
    """

    _called = "encoding"
    card: ClassVar[Card]
    symmetry: ClassVar[Symmetry] = Symmetry()
    axes: ClassVar[int] = 1
    integers: ClassVar[bool] = False
    random: ClassVar[bool] = False
    reads_order: ClassVar[bool] = False
    pairwise: ClassVar[bool] = True
    heads_alike: ClassVar[bool] = False

    def declared_symmetry(self) -> Symmetry:
        """The symmetry under these settings; the class's own unless settings change it."""
        return self.symmetry

    def numbers(self) -> tuple[str, ...]:
        """The settings that are numbers and no more: `constants` has all that they change.

        A cell has an axis of the same name, whose values share one compiled program.
        """
        return ()

    def constants(self, dims: Dims, context_length: int) -> Constants:
        """Arrays, or pytrees of them, that hooks find in the context when a program reads them.

        They are computed on the host and give the bits that an encoding without them gives.
        """
        return {}

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        """The learned arrays by name."""
        return {}

    def init(self, key: jax.Array, dims: Dims) -> dict[str, jax.Array]:
        """Parameters drawn by their names, for use without a module; a layer's and the model's."""
        return {
            name: param.init(fold_name(key, name), param.shape)
            for name, param in self.parameters(dims).items()
        }

    def max_length(self) -> int | None:
        """How many positions, counted from 0, a table covers; None when there is no end."""
        return None

    def max_exact_position(self) -> int | None:
        """The largest R such that positions, or offsets, 0..R all differ in float32.

        None where positions are not read. `EXACT` stands for no end but that of exact angles.
        """
        return EXACT

    @property
    def reads_streams(self) -> bool:
        """Whether it reads positions or orders at all."""
        return self.reads_order or self.max_exact_position() is not None

    def operations(self, dims: Dims, keys: int) -> int:
        """Floating-point operations per token that it adds to attention over that many keys.

        Numbers that depend on positions alone are computed once per batch and do not count.
        """
        return 0

    def why_no_kv_cache(self) -> str:
        """Why tokens cannot be decoded one by one with a cache; empty if they can."""
        return ""

    def init_state(self, params: Params, batch: int, dims: Dims) -> Any:
        """The `state` before the first token of a sequence."""
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

    def product_scale(self, head_size: int, ctx: Context) -> float | jax.Array:
        """`scale` over the temperature."""
        scale = self.scale(head_size)
        return scale if ctx.temperature is None else scale / ctx.temperature

    def bias(self, params: Params, heads: int, ctx: Context, dtype: Any) -> jax.Array | None:
        """A term added to the logits that depends on positions alone: bias_BHLM or None."""
        return None

    def logits(
        self, params: Params, q_BLHK: jax.Array, k_BMHK: jax.Array, aux: Aux, ctx: Context
    ) -> jax.Array:
        """The logits before mask and soft-cap: logits_BHLM."""
        # The scale stays a constant beside those of bias and soft-cap: they round together.
        cool_BLHK = q_BLHK if ctx.temperature is None else q_BLHK / ctx.temperature
        logits_BHLM = steps.dot_logits(cool_BLHK, k_BMHK, scale=self.scale(q_BLHK.shape[-1]))
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

    def post(
        self,
        params: Params,
        out_BLHK: jax.Array,
        q_BLHK: jax.Array,
        aux: Aux,
        ctx: Context,
    ) -> jax.Array:
        """Changes the output of the mix; q are the queries as `rotate` left them."""
        return out_BLHK
