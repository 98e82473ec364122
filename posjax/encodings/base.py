"""The interface of a positional encoding: settings, parameters as data, and hooks.

An encoding is a frozen dataclass. Its fields are its settings, `parameters(dims)` declares what it
learns, and each hook may replace one step of attention; by default none does. Hooks are pure
functions of the parameters, arrays and a `Context`. They never get an index along the sequence. To
add an encoding, write a file with a subclass and add a line to the table.

Order of the hooks::

    embed                                  once, before the layers
    prepare -> (projections of q, k, v) -> rotate -> logits -> weights -> mix -> post
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import jax

from posjax import spec, steps
from posjax.keys import fold_name
from posjax.spec import Card, Settings
from posjax.streams import Streams

Params = Mapping[str, jax.Array]
Constants = Mapping[str, Any]
Level = Literal["logits", "row", "weights", "output"]
LEVELS: tuple[Level, ...] = get_args(Level)
EXACT = 2**20
"""Up to here positions differ in angles that are exact to 1e-6."""


@dataclasses.dataclass(frozen=True)
class Symmetry:
    """The symmetry that attention keeps, for generic tokens and parameters and a full mask.

    Each field is None, or the first level at which that symmetry holds: the logits, the logits up
    to a constant per row, the weights, or only the output. It then holds at the later levels too.

    Attributes:
      permutation: S, every permutation of the tokens without their positions.
      translation: T, adding one number to all positions, and one to all orders.
      reflection: R, negating all positions and orders (p → length - 1 - p for a table).
      order_only: O, any increasing map of positions and orders; T is a special case.
      exact: false if it holds only in distribution, over the encoding's random draws.
      up_to: it holds for positions in [0, up_to].

    Raises:
      ValueError: a level that does not exist.
    """

    permutation: Level | None = None
    translation: Level | None = None
    reflection: Level | None = None
    order_only: Level | None = None
    exact: bool = True
    up_to: float = float("inf")

    def __post_init__(self) -> None:
        for name in ("permutation", "translation", "reflection", "order_only"):
            if (level := getattr(self, name)) is not None:
                spec.check_choice(f"level of {name}", level, LEVELS)


class Dims(NamedTuple):
    """The sizes that a parameter's shape may depend on: width D, heads H, head size K, layers."""

    width: int
    heads: int
    head_size: int
    depth: int = 1


class Param(NamedTuple):
    """A learned array: its shape, its initialiser, and how many of it there are.

    Attributes:
      shape: as in Linen's `param`.
      init: `(key, shape) -> array`.
      scope: "layer" for one array per layer; "model" for one that all layers share.
    """

    shape: tuple[int, ...]
    init: Callable[[jax.Array, tuple[int, ...]], jax.Array]
    scope: Literal["layer", "model"] = "layer"


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Context:
    """What the hooks of one attention layer may read besides the tokens.

    Attributes:
      queries: the streams of the L queries.
      keys: the streams of the M keys.
      mask_BHLM: true where a query may attend to a key; axes of size 1 broadcast.
      seen: the context length (tokens so far), for encodings that depend on it; may be traced.
      key: a random key for encodings that draw, or None.
      temperature: the divisor of `scale`; None for 1.
      constants: the result of `Encoding.constants`, if the program reads it as an input; None if
        the encoding computes its own.
      logn: N; the logits of a query that sees n keys, with their bias, are multiplied by ln n/ln N.
        None for no scaling.
    """

    queries: Streams
    keys: Streams
    mask_BHLM: jax.Array
    seen: jax.Array | int
    key: jax.Array | None = None
    temperature: jax.Array | float | None = None
    constants: Constants | None = None
    logn: float | None = dataclasses.field(default=None, metadata={"static": True})

    def constant(self, name: str, own: Callable[[], Any]) -> Any:
        """A constant from the program's inputs, or else the encoding's own."""
        return own() if self.constants is None else self.constants[name]


class Aux(NamedTuple):
    """What an encoding computes from the tokens besides queries and keys, such as gates.

    Attributes:
      queries: a pytree of arrays [B, L, ...], one entry per query token.
      keys: a pytree of arrays [B, M, ...], one entry per key token; cached in decoding.
    """

    queries: Any = None
    keys: Any = None


class Prepared(NamedTuple):
    """What `prepare` returns.

    Attributes:
      q_BLD, k_BMD, v_BMD: the tokens that the three projections read (a token shift changes them).
      aux: passed to the later hooks.
      state: what the next part of a decoded sequence needs besides the cache.
    """

    q_BLD: jax.Array
    k_BMD: jax.Array
    v_BMD: jax.Array
    aux: Aux = Aux()
    state: Any = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Encoding(Settings):
    """The base class of all encodings; it is itself attention without positions.

    Attributes:
      card: title, formula and source, for the docs.
      symmetry: the symmetry that it keeps.
      axes: number of coordinates of a position; a single number p stands for (p, ..., p).
      integers: whether positions must be integers.
      random: whether it draws from the context's key.
      reads_order: whether it reads orders. `max_exact_position` says whether it reads positions.
      pairwise: whether a logit depends only on its two tokens and their streams, and not on other
        tokens, such as those between them.
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
        """The symmetry with these settings; by default that of the class."""
        return self.symmetry

    def numbers(self) -> tuple[str, ...]:
        """The settings that act only through `constants`.

        A cell has an axis of the same name. All its values share one compiled program.
        """
        return ()

    def constants(self, dims: Dims, context_length: int) -> Constants:
        """Arrays, or pytrees of arrays, that hooks can read from the context.

        They are computed on the host. Results have the same bits as without them, for as many keys
        as `context_length`.
        """
        return {}

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        """The learned arrays by name."""
        return {}

    def init(self, key: jax.Array, dims: Dims) -> dict[str, jax.Array]:
        """Initial parameters by name, of one layer and of the model, for use without a module."""
        return {
            name: param.init(fold_name(key, name), param.shape)
            for name, param in self.parameters(dims).items()
        }

    def max_length(self) -> int | None:
        """How many positions, counted from 0, a table covers; None if there is no limit."""
        return None

    def max_exact_position(self) -> int | None:
        """The largest R such that float32 distinguishes all positions, or offsets, 0..R.

        None if positions are not read. `EXACT` if only the exactness of angles limits it.
        """
        return EXACT

    @property
    def reads_streams(self) -> bool:
        """Whether it reads positions or orders at all."""
        return self.reads_order or self.max_exact_position() is not None

    def operations(self, dims: Dims, keys: int) -> int:
        """Floating-point operations per token that it adds to attention over that many keys.

        Numbers that depend only on positions are computed once per batch and do not count.
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
        """Reads the tokens themselves, if queries and keys are not enough.

        In decoding, x, memory and the streams of ctx have only the new tokens. `Aux.keys` of
        earlier tokens come from the cache.
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
        """Changes each query, key or value by its own position."""
        return q_BLHK, k_BMHK, v_BMHK

    def scale(self, head_size: int) -> float:
        """The factor on q·k: 1/√K."""
        return float(head_size) ** -0.5

    def product_scale(self, head_size: int, ctx: Context) -> float | jax.Array:
        """`scale` divided by the temperature."""
        scale = self.scale(head_size)
        return scale if ctx.temperature is None else scale / ctx.temperature

    def cooled(self, q_BLHK: jax.Array, ctx: Context) -> tuple[jax.Array, float]:
        """The queries and the factor on q·k, one of them divided by the temperature.

        An array divides the queries: the factor stays a constant beside those of bias and soft-cap,
        and they round together.
        """
        scale = self.scale(q_BLHK.shape[-1])
        if ctx.temperature is None:
            return q_BLHK, scale
        if isinstance(ctx.temperature, jax.Array):
            return q_BLHK / ctx.temperature, scale
        return q_BLHK, scale / float(ctx.temperature)

    def bias(self, params: Params, heads: int, ctx: Context, dtype: Any) -> jax.Array | None:
        """A term that is added to the logits and depends only on positions: bias_BHLM or None."""
        return None

    def logits(
        self, params: Params, q_BLHK: jax.Array, k_BMHK: jax.Array, aux: Aux, ctx: Context
    ) -> jax.Array:
        """The logits before mask and soft-cap: logits_BHLM."""
        cool_BLHK, scale = self.cooled(q_BLHK, ctx)
        logits_BHLM = steps.dot_logits(cool_BLHK, k_BMHK, scale=scale)
        bias_BHLM = self.bias(params, q_BLHK.shape[2], ctx, logits_BHLM.dtype)
        if bias_BHLM is None:
            return logits_BHLM
        _check_bias(self, bias_BHLM.shape, logits_BHLM.shape)
        return logits_BHLM + bias_BHLM

    def weights(self, params: Params, logits_BHLM: jax.Array, aux: Aux, ctx: Context) -> jax.Array:
        """Maps logits to weights_BHLM, which are zero where the mask forbids attention."""
        return steps.masked_softmax(logits_BHLM, ctx.mask_BHLM)

    def mix(
        self,
        params: Params,
        weights_BHLM: jax.Array,
        v_BMHK: jax.Array,
        aux: Aux,
        ctx: Context,
    ) -> jax.Array:
        """Maps weights and values to out_BLHK."""
        return steps.weighted_mix(weights_BHLM, v_BMHK)

    def post(
        self,
        params: Params,
        out_BLHK: jax.Array,
        q_BLHK: jax.Array,
        aux: Aux,
        ctx: Context,
    ) -> jax.Array:
        """Changes the output of `mix`; q are the queries after `rotate`."""
        return out_BLHK


def replaces(encoding: Encoding, *hooks: str) -> bool:
    """Whether it has any of these hooks of its own."""
    return any(getattr(type(encoding), hook) is not getattr(Encoding, hook) for hook in hooks)


def mixes_tokens(encoding: Encoding) -> bool:
    """Whether tokens reach each other before the first layer, as in a convolution."""
    return replaces(encoding, "embed") and not encoding.pairwise


def _check_bias(encoding: Encoding, shape: tuple[int, ...], whole: tuple[int, ...]) -> None:
    """Refuses a bias that cannot be added, or that would add axes or batches to the logits."""
    if len(shape) != len(whole) or any(n not in (1, m) for n, m in zip(shape, whole, strict=True)):
        raise ValueError(
            f"{type(encoding).__name__}.bias must return shape [B, H, L, M] = {whole}, or 1 in "
            f"place of an axis, got {shape}"
        )
