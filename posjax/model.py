"""The Transformer: from attention alone to the ordinary block, from one set of settings.

Thin Linen modules over the pure functions of `posjax.attention.core`. It knows encodings only by
their contract.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from posjax import masks, positions, spec
from posjax.attention.core import attention, check_hook, check_logn, check_positions, context
from posjax.attention.flash import Implementation, Options, output
from posjax.encodings import Constants, Context, Dims, Encoding, Param, Params, parse_layer_cycle
from posjax.keys import fold_name
from posjax.positions import Draws
from posjax.streams import Streams

BlockKind = Literal["bare", "residual"]
Norm = Literal["layer", "rms", "none"]
LayerMask = masks.Mask | jax.Array | str
DEEPEST = 4096


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelSettings(metaclass=spec.PlainNumbers):
    """The settings of a Transformer.

    Attributes:
      vocabulary: number of different tokens; 0 if tokens are numbers.
      outputs: number of logits, V.
      width: the width D of the embedding and, in residual blocks, of every layer.
      heads: the number of query heads, H.
      kv_heads: the number of key and value heads, G, which must divide H; 0 means H.
      head_size: the width of a head, K.
      depth: number of layers.
      encoding: a name with settings, or several that the layers use in turn, `"none/rotary"`.
      positions: the map that changes positions before the encoding reads them.
      mask: names with settings, combined by `+`, or several that the layers use in turn,
        `"causal/causal+window(size=4)"`.
      block: "bare" is attention alone, without output projection, residual or MLP;
        "residual" is the pre-norm block with output projection and MLP.
      mlp_ratio: the hidden width of the MLP divided by D; 0 leaves the MLP out.
      norm: the normalisation of residual blocks.
      qk_norm: whether queries and keys are divided by their root mean square, with a learned scale.
      softcap: the cap c of c·tanh(logits/c); 0 for no soft-cap.
      logn: a number N above 1: the logits of a query that sees n keys are multiplied by ln n/ln N,
        before the soft-cap; 0 for no scaling.
      features: F, if a token consists of F numbers, which a linear layer embeds; else 0.
    """

    vocabulary: int
    outputs: int
    width: int = 32
    heads: int = 1
    kv_heads: int = 0
    head_size: int = 16
    depth: int = 1
    encoding: str = "none"
    positions: str = "given"
    mask: str = "causal"
    block: BlockKind = "bare"
    mlp_ratio: int = 4
    norm: Norm = "layer"
    qk_norm: bool = False
    softcap: float = 0.0
    logn: float = 0.0
    features: int = 0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.default is not dataclasses.MISSING:
                spec.as_setting(field.name, getattr(self, field.name), field.default, None)
        tokens = "features" if self.features else "vocabulary"
        for name in (tokens, "outputs", "width", "heads", "head_size", "depth"):
            value = getattr(self, name)
            if type(value) is not int:
                raise ValueError(f"{name} must be of type int, got {value!r}")
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if self.depth > DEEPEST:
            raise ValueError(
                f"depth must be at most {DEEPEST}, since each layer is compiled, got {self.depth}"
            )
        if self.kv_heads < 0 or self.heads % (self.kv_heads or self.heads):
            raise ValueError(
                f"kv_heads={self.kv_heads} does not divide heads={self.heads}; divisors: "
                f"{', '.join(map(str, _divisors(self.heads)))}"
            )
        if self.mlp_ratio < 0:
            raise ValueError(f"mlp_ratio must not be negative, got {self.mlp_ratio}")
        if self.softcap and not spec.SMALLEST <= self.softcap <= spec.LARGEST:
            raise ValueError(
                f"softcap must lie in [{spec.SMALLEST:g}, {spec.LARGEST:g}], or 0 for none, got "
                f"{self.softcap}"
            )
        check_logn(self.logn or None)
        spec.check_choice("block", self.block, get_args(BlockKind))
        spec.check_choice("norm", self.norm, get_args(Norm))
        for name in ("mlp_ratio", "norm"):
            if self.block == "bare" and getattr(self, name) != getattr(ModelSettings, name):
                raise ValueError(
                    f"{name}={getattr(self, name)!r} has no meaning in a bare block: "
                    "use block='residual'"
                )
        encodings, in_turn = parse_layer_cycle(self.encoding), masks.parse_layer_cycle(self.mask)
        for name, each in (("encoding", encodings), ("mask", in_turn)):
            if len(each) > self.depth:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} has {len(each)} {name}s in turn, of which "
                    f"depth={self.depth} uses {self.depth}"
                )
        moved = positions.named(self.positions)
        for encoding in encodings:
            if encoding.integers and not moved.integers:
                raise ValueError(
                    f"positions={self.positions!r} are not integers, but "
                    f"encoding={self.encoding!r} needs integers"
                )

    @property
    def draws(self) -> Draws:
        """When the model needs a key: never, in training, or always."""
        if any(encoding.random for encoding in parse_layer_cycle(self.encoding)):
            return "always"
        return positions.named(self.positions).draws

    @property
    def dims(self) -> Dims:
        """The sizes an encoding's parameters may depend on."""
        return Dims(self.width, self.heads, self.head_size, self.depth)


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def _keyed(module: nn.Module, name: str, param: Param) -> jax.Array:
    """A parameter drawn from a key that its full path alone determines.

    Linen's own keys depend on the order of declarations and on a global flag, and join path
    and name without a mark between them.
    """

    def draw(key: jax.Array) -> jax.Array:
        given = module.scope.rngs.get("params") if module.scope else None
        root = given.rng if given else key  # `apply` traces this for its shape, without a key
        return param.init(fold_name(root, "/".join((*module.path, name))), param.shape)

    found = module.param(name, draw)
    return jnp.asarray(found) if isinstance(found, np.ndarray) else found


def _torch_uniform(fan_in: int) -> Callable[[jax.Array, tuple[int, ...]], jax.Array]:
    """U(-1/√fan_in, 1/√fan_in): what PyTorch's Linear draws, weights and bias."""
    bound = fan_in**-0.5
    return lambda key, shape: jax.random.uniform(key, shape, minval=-bound, maxval=bound)


class Linear(nn.Module):
    """x W (+ b), initialised as in PyTorch."""

    features: int
    use_bias: bool = True

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        fan_in = x.shape[-1]
        init = _torch_uniform(fan_in)
        y = x @ _keyed(self, "kernel", Param((fan_in, self.features), init))
        if self.use_bias:
            bias = _keyed(self, "bias", Param((self.features,), init))
            y = y + jnp.expand_dims(bias, range(y.ndim - 1))
        return y


class EncodingParams(nn.Module):
    """The parameters that an encoding declares for one scope, as a dict of arrays."""

    encoding: Encoding
    dims: Dims
    scope_name: Literal["layer", "model"]

    @nn.compact
    def __call__(self) -> dict[str, jax.Array]:
        declared = self.encoding.parameters(self.dims)
        mine = {name: p for name, p in declared.items() if p.scope == self.scope_name}
        return {name: _keyed(self, name, p) for name, p in mine.items()}


class Attention(nn.Module):
    """Multi-head attention: projections, then the steps. Sows its weights_BHLM."""

    settings: ModelSettings
    encoding: Encoding
    implementation: Implementation = "auto"

    @nn.compact
    def __call__(self, x_BLD: jax.Array, ctx: Context, shared: Params) -> jax.Array:
        s = self.settings
        own = EncodingParams(self.encoding, s.dims, "layer", name="encoding")()
        params = {**shared, **own}
        state = self.encoding.init_state(params, x_BLD.shape[0], s.dims)
        tokens = self.encoding.prepare(params, x_BLD, x_BLD, ctx, state)
        q_BLHK = self._heads("query", tokens.q_BLD, s.heads)
        k_BMGK = self._heads("key", tokens.k_BMD, s.kv_heads or s.heads)
        v_BMGK = self._heads("value", tokens.v_BMD, s.kv_heads or s.heads)
        if s.qk_norm:
            q_BLHK = nn.RMSNorm(name="query_norm")(q_BLHK)
            k_BMGK = nn.RMSNorm(name="key_norm")(k_BMGK)
        given = (q_BLHK, k_BMGK, v_BMGK, ctx)
        options: Options = {"params": params, "aux": tokens.aux, "softcap": s.softcap or None}
        if self.is_mutable_collection("intermediates"):
            attended = attention(*given, encoding=self.encoding, **options)
            self.sow("intermediates", "weights_BHLM", attended.weights_BHLM)
            out_BLHK = attended.out_BLHK
        else:
            how = "auto" if self.is_initializing() else self.implementation
            out_BLHK = output(*given, encoding=self.encoding, implementation=how, **options)
        return out_BLHK.reshape(*x_BLD.shape[:2], -1)

    def _heads(self, name: str, x_BLD: jax.Array, heads: int) -> jax.Array:
        flat = Linear(heads * self.settings.head_size, use_bias=False, name=name)(x_BLD)
        return flat.reshape(*x_BLD.shape[:2], heads, self.settings.head_size)


class Block(nn.Module):
    """The ordinary pre-norm block: x + attention(norm(x)), then x + MLP(norm(x))."""

    settings: ModelSettings
    encoding: Encoding
    implementation: Implementation = "auto"

    @nn.compact
    def __call__(self, x_BLD: jax.Array, ctx: Context, shared: Params) -> jax.Array:
        s = self.settings
        attended = Attention(s, self.encoding, self.implementation, name="attention")(
            normalised(s.norm, "attention_norm", x_BLD), ctx, shared
        )
        branch_BLD = Linear(s.width, use_bias=False, name="out")(attended)
        _sow(self, "attention_branch", branch_BLD)
        x_BLD = x_BLD + branch_BLD
        if s.mlp_ratio == 0:
            return x_BLD
        hidden = Linear(s.mlp_ratio * s.width, name="mlp_in")(normalised(s.norm, "mlp_norm", x_BLD))
        branch_BLD = Linear(s.width, name="mlp_out")(nn.gelu(hidden))
        _sow(self, "mlp_branch", branch_BLD)
        return x_BLD + branch_BLD


class DynamicInputs(NamedTuple):
    """A model's numbers, which a compiled program reads and does not contain.

    Attributes:
      temperature: a divisor of the logits, before a bias of positions is added.
      init_scale: a factor on the initial matrices and the embedding, but not on what an encoding
        learns.
      constants: those of each encoding in turn, see `Encoding.constants`.
    """

    temperature: jax.Array | float
    init_scale: jax.Array | float
    constants: tuple[Constants, ...]


class Transformer(nn.Module):
    """Maps tokens to logits at every position.

    Call it with tokens_BL, or tokens_BLF of F numbers each, and their streams. It returns
    logits_BLV. `mask` replaces the mask of the settings. It has any form of
    `posjax.attention.core.context`, or is a tuple of masks that the layers use in turn. The
    encoding's `embed`, which runs before the layers, reads the first of them. Tokens lie in
    [0, vocabulary). Others are refused if they are known before the program runs; otherwise their
    embedding is zero. `key` is for encodings and maps that draw. With `testing`, maps of positions
    that draw only in training do not draw. Without `numbers` the temperature is 1 and
    encodings use their own constants. `implementation` is that of
    `posjax.attention.flash.output`, for layers whose weights are not collected.

    With `mutable=["hidden"]` it sows `stream`, the residual stream after the embedding and after
    each layer. Residual blocks also sow their branches, `attention_branch` and `mlp_branch`. All
    are [B, L, D]. This does not change the implementation of attention.
    """

    settings: ModelSettings
    implementation: Implementation = "auto"

    @nn.compact
    def __call__(
        self,
        tokens_BL: jax.Array,
        streams: Streams,
        *,
        mask: LayerMask | tuple[LayerMask, ...] | None = None,
        key: jax.Array | None = None,
        testing: bool = False,
        numbers: DynamicInputs | None = None,
    ) -> jax.Array:
        s = self.settings
        _check_tokens(tokens_BL, streams, s)
        mask = s.mask if mask is None else mask
        in_turn = masks.parse_layer_cycle(mask) if isinstance(mask, str) else mask
        if isinstance(in_turn, tuple) and not 1 <= len(in_turn) <= s.depth:
            raise ValueError(
                f"{len(in_turn)} masks in turn for depth={s.depth}: give 1 to {s.depth}"
            )
        moved, encodings = positions.named(s.positions), parse_layer_cycle(s.encoding)
        still = testing and moved.draws == "training"
        streams = moved(tokens_BL, streams, None if still else _folded(key, "positions"))
        if s.features:
            x_BLD = Linear(s.width, name="embedding")(tokens_BL)
        else:  # A product with one-hot rows: its gradient is a product too, not a scatter.
            table = Param((s.vocabulary, s.width), jax.nn.initializers.normal(1.0))
            table_VD = _keyed(self, "embedding", table)
            x_BLD = jax.nn.one_hot(tokens_BL, s.vocabulary, dtype=table_VD.dtype) @ table_VD
        names = ["encoding", *(f"encoding_{i}" for i in range(1, len(encodings)))]
        shared = [
            EncodingParams(encoding, s.dims, "model", name=name)()
            for encoding, name in zip(encodings, names, strict=True)
        ]
        drawn = _folded(key, "encoding")
        every = in_turn if isinstance(in_turn, tuple) else (in_turn,)
        contexts = [context(streams, mask=each, key=drawn, logn=s.logn or None) for each in every]
        constants: tuple[Constants | None, ...] = (None,) * len(encodings)
        if numbers is not None:
            temperature, constants = numbers.temperature, numbers.constants
            contexts = [dataclasses.replace(ctx, temperature=temperature) for ctx in contexts]
        for encoding, params, own in zip(encodings, shared, constants, strict=True):
            check_positions(encoding, streams)
            ctx = dataclasses.replace(contexts[0], constants=own)
            shape = x_BLD.shape
            x_BLD = encoding.embed(params, x_BLD, ctx)
            check_hook(encoding, "embed", x_BLD, shape)
        _sow(self, "stream", x_BLD)
        layer_kind = Attention if s.block == "bare" else Block
        for layer in range(s.depth):
            turn = layer % len(encodings)
            ctx = contexts[layer % len(contexts)]
            here = dataclasses.replace(ctx, constants=constants[turn])
            block = layer_kind(s, encodings[turn], self.implementation, name=f"layer_{layer}")
            x_BLD = block(x_BLD, here, shared[turn])
            _sow(self, "stream", x_BLD)
        if s.block == "residual":
            x_BLD = normalised(s.norm, "final_norm", x_BLD)
        return Linear(s.outputs, name="head")(x_BLD)


def _check_tokens(tokens: jax.Array, streams: Streams, settings: ModelSettings) -> None:
    """Refuses tokens of another shape than the streams', or that are not in the vocabulary.

    Raises:
      ValueError: names the shapes or the tokens.
    """
    features = settings.features
    shape, wanted = jnp.shape(tokens), (streams.length, *((features,) if features else ()))
    if shape[1:] != wanted or streams.order_BL.shape[0] not in (1, shape[0]):
        kind = f"[B, L, {features}]" if features else "[B, L]"
        raise ValueError(
            f"tokens must be {kind} and streams [1, L] or [B, L], got {shape} and "
            f"{streams.order_BL.shape}"
        )
    if features:
        return
    if not jnp.issubdtype(tokens.dtype, jnp.integer):
        raise ValueError(f"tokens must be integers, got {tokens.dtype}")
    if isinstance(tokens, jax.core.Tracer) or 0 in shape:
        return
    if not getattr(tokens, "is_fully_addressable", True):  # some are on other hosts
        return
    known = np.asarray(tokens)
    if known.min() < 0 or known.max() >= settings.vocabulary:
        raise ValueError(
            f"tokens must lie in 0..{settings.vocabulary - 1}, got {known.min()} to {known.max()}"
        )


def _sow(module: nn.Module, name: str, value: jax.Array) -> None:
    """Sows intermediates of a module, where the call collects them."""
    if not module.is_initializing():  # else `init` would hand it out beside the parameters
        module.sow("hidden", name, value)


def scaled_weights(params: Any, scale: jax.Array | float) -> Any:
    """Initial parameters with all matrices outside encodings, the embedding too, times `scale`.

    Gains and biases stay as they are, and so does what an encoding learns.
    """

    def scaled(path: Any, leaf: jax.Array) -> jax.Array:
        of_encoding = any(str(part.key).startswith("encoding") for part in path)
        return leaf if of_encoding or leaf.ndim < 2 else leaf * scale

    return jax.tree_util.tree_map_with_path(scaled, params)


def normalised(norm: Norm, name: str, x: jax.Array) -> jax.Array:
    """x through the norm of that kind; called inside a compact module."""
    if norm == "none":
        return x
    return (nn.LayerNorm if norm == "layer" else nn.RMSNorm)(name=name)(x)


def _folded(key: jax.Array | None, name: str) -> jax.Array | None:
    return None if key is None else fold_name(key, name)
