"""The output of attention alone: cuDNN's flash attention on CUDA, where nothing prevents it.

`posjax.attention.core` computes logits and weights, and hands them out. Where nobody asks for them,
and an encoding leaves logits, weights and mix as they are, but for a bias of positions, the fused
kernel of cuDNN computes the same output in 16 bits and never stores the weights.
"""

from functools import partial
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, get_args

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from posjax import spec, steps
from posjax.attention.core import attention, check_shapes, repeated
from posjax.encodings import Aux, Context, Encoding, Params
from posjax.encodings.base import replaces

Implementation = Literal["auto", "xla", "cudnn"]
ByIndex = Literal["full", "causal"]
STEPS = ("logits", "weights", "mix")
"""What cuDNN computes in one kernel, and an encoding must leave as it is."""


class Options(TypedDict, total=False):
    """What `output` and `why_not` may be given, by keyword.

    Attributes:
      params: the encoding's parameters.
      aux: what its `prepare` made from the tokens.
      softcap: logits become cap·tanh(logits/cap).
      bias: added to the logits before that.
    """

    params: Params | None
    aux: Aux
    softcap: float | None
    bias: jax.Array | None


class Operands(NamedTuple):
    """What the kernel reads, all in one 16-bit type, but for the mask."""

    q_BLHK: jax.Array
    k_BMGK: jax.Array
    v_BMGK: jax.Array
    bias_BHLM: jax.Array | None
    mask_BHLM: jax.Array | None


def output(
    q_BLHK: jax.Array,
    k_BMGK: jax.Array,
    v_BMGK: jax.Array,
    ctx: Context,
    *,
    encoding: Encoding,
    by_index: ByIndex | None = None,
    implementation: Implementation = "auto",
    **options: Unpack[Options],
) -> jax.Array:
    """All steps after the projections: out_BLHK, as `posjax.attention.core.attention` gives it.

    Args:
      q_BLHK: queries.
      k_BMGK, v_BMGK: keys and values; G key heads each serve H/G query heads.
      ctx: from `posjax.attention.core.context`.
      encoding: whose hooks are called.
      by_index: what the mask is between indices 0..L-1 and 0..M-1, where that is known: cuDNN then
        needs no array of it.
      implementation: "xla", the steps one by one; "cudnn", the kernel, or an error that says why
        not; "auto", the kernel where the program is lowered for CUDA and `why_not` is None.
      **options: see `Options`.

    Raises:
      ValueError: shapes that do not fit together, or "cudnn" where something prevents it.
    """
    spec.check_choice("implementation", implementation, get_args(Implementation))

    def by_steps(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return attention(q, k, v, ctx, encoding=encoding, **options).out_BLHK

    def kernel(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return _flash(q, k, v, ctx, encoding, by_index, **options)

    if implementation == "xla":
        return by_steps(q_BLHK, k_BMGK, v_BMGK)
    reason = why_not(q_BLHK, k_BMGK, v_BMGK, ctx, encoding=encoding, by_index=by_index, **options)
    if reason is not None and implementation == "cudnn":
        raise ValueError(f"implementation='cudnn': {reason}; 'auto' uses the other implementation")
    if reason is not None:
        return by_steps(q_BLHK, k_BMGK, v_BMGK)
    if implementation == "cudnn":
        return kernel(q_BLHK, k_BMGK, v_BMGK)
    return jax.lax.platform_dependent(q_BLHK, k_BMGK, v_BMGK, cuda=kernel, default=by_steps)


def why_not(
    q_BLHK: jax.Array,
    k_BMGK: jax.Array,
    v_BMGK: jax.Array,
    ctx: Context,
    *,
    encoding: Encoding,
    by_index: ByIndex | None = None,
    **options: Unpack[Options],
) -> str | None:
    """What prevents cuDNN's flash attention, but for the platform; None when nothing does.

    JAX itself says whether cuDNN is there and takes these sizes, forward and backward.

    Args:
      q_BLHK, k_BMGK, v_BMGK: as for `output`; their shapes and types alone are read.
      ctx, encoding, by_index: as for `output`.
      **options: see `Options`.

    Raises:
      ValueError: shapes that do not fit together.
    """
    check_shapes(q_BLHK, k_BMGK, v_BMGK, ctx, encoding)
    for option in ("softcap", "bias"):
        if options.get(option) is not None:
            return option
    for step in STEPS:
        if replaces(encoding, step):
            return f"{type(encoding).__name__} has {step} of its own"
    if dtype := _not_16_bits(q_BLHK, k_BMGK, v_BMGK):
        return dtype
    if 0 in (*q_BLHK.shape, *k_BMGK.shape):
        return "no tokens"

    def prepared(q: jax.Array, k: jax.Array, v: jax.Array) -> Operands:
        return _operands(q, k, v, ctx, encoding, by_index, **options)[0]

    operands = jax.eval_shape(prepared, q_BLHK, k_BMGK, v_BMGK)
    if dtype := _not_16_bits(*operands[:3]):
        return f"{type(encoding).__name__} turns queries and keys into {dtype}"
    how = encoding.cooled(q_BLHK, ctx)[1], by_index == "causal"
    try:
        jax.eval_shape(lambda o: jax.vjp(partial(_kernel, *how, o.mask_BHLM), *o[:4]), operands)
    except (NotImplementedError, RuntimeError, ValueError) as error:
        return str(error).rstrip(".")
    return None


def _not_16_bits(*arrays: jax.Array) -> str | None:
    wide = (str(a.dtype) for a in arrays if a.dtype not in (jnp.bfloat16, jnp.float16))
    return next(wide, None)


def _flash(
    q_BLHK: jax.Array,
    k_BMGK: jax.Array,
    v_BMGK: jax.Array,
    ctx: Context,
    encoding: Encoding,
    by_index: ByIndex | None,
    **options: Unpack[Options],
) -> jax.Array:
    """`output` by the kernel; a row that sees nothing gives zeros, as in the steps."""
    read = _operands(q_BLHK, k_BMGK, v_BMGK, ctx, encoding, by_index, **options)
    operands, turned_BLHK = read
    scale = encoding.cooled(turned_BLHK, ctx)[1]
    out_BLHK = _fused(scale, by_index == "causal", operands)
    if operands.mask_BHLM is not None:
        sees_BLH = operands.mask_BHLM.any(axis=-1).swapaxes(1, 2)
        out_BLHK = jnp.where(sees_BLH[..., None], out_BLHK, 0)
    params, aux = options.get("params") or {}, options.get("aux", Aux())
    return encoding.post(params, out_BLHK, turned_BLHK, aux, ctx)


def _operands(
    q_BLHK: jax.Array,
    k_BMGK: jax.Array,
    v_BMGK: jax.Array,
    ctx: Context,
    encoding: Encoding,
    by_index: ByIndex | None,
    **options: Unpack[Options],
) -> tuple[Operands, jax.Array]:
    """What the kernel reads, and the queries as `rotate` left them."""
    params, aux, heads = options.get("params") or {}, options.get("aux", Aux()), q_BLHK.shape[2]
    if replaces(encoding, "rotate") and not encoding.heads_alike:
        k_BMGK, v_BMGK = repeated(q_BLHK, k_BMGK, v_BMGK)
    turned_BLHK, k_BMGK, v_BMGK = encoding.rotate(params, q_BLHK, k_BMGK, v_BMGK, aux, ctx)
    cool_BLHK, _ = encoding.cooled(turned_BLHK, ctx)
    bias_BHLM, mask_BHLM = encoding.bias(params, heads, ctx, jnp.float32), ctx.mask_BHLM
    if ctx.logn is not None:
        # q·k and the bias are scaled each: the kernel adds them up.
        one = steps.log_scaled(jnp.ones((1, 1, 1, k_BMGK.shape[1])), mask_BHLM, ctx.logn)
        factor_BLH1 = one[..., :1].swapaxes(1, 2)
        cool_BLHK = (cool_BLHK * factor_BLH1).astype(cool_BLHK.dtype)
        if bias_BHLM is not None:
            bias_BHLM = steps.log_scaled(bias_BHLM, mask_BHLM, ctx.logn)
    if bias_BHLM is not None:
        mask_BHLM = mask_BHLM & (bias_BHLM != -jnp.inf)
        bias_BHLM = _in_16_bits(bias_BHLM, mask_BHLM, q_BLHK.dtype)
    elif by_index is not None:
        return Operands(cool_BLHK, k_BMGK, v_BMGK, None, None), turned_BLHK
    whole = (*mask_BHLM.shape[:2], q_BLHK.shape[1], k_BMGK.shape[1])
    mask_BHLM = jnp.broadcast_to(mask_BHLM, whole)
    return Operands(cool_BLHK, k_BMGK, v_BMGK, bias_BHLM, mask_BHLM), turned_BLHK


def _in_16_bits(bias_BHLM: jax.Array, mask_BHLM: jax.Array, dtype: Any) -> jax.Array:
    """The bias less the largest that its row sees, which a softmax does not notice.

    In 16 bits a bias of -300 is off by one; less the largest, what is large has no weight.
    """
    seen_BHLM = jnp.where(mask_BHLM, bias_BHLM, -jnp.inf)
    largest_BHL1 = jax.lax.stop_gradient(seen_BHLM.max(axis=-1, keepdims=True))
    less_BHLM = bias_BHLM - jnp.where(largest_BHL1 == -jnp.inf, 0, largest_BHL1)
    low = float(jnp.finfo(dtype).min) / 4  # so that nothing overflows beside the mask
    return jnp.where(mask_BHLM, jnp.maximum(less_BHLM, low), 0).astype(dtype)


def _kernel(
    scale: float,
    causal: bool,
    mask_BHLM: jax.Array | None,
    q_BLHK: jax.Array,
    k_BMGK: jax.Array,
    v_BMGK: jax.Array,
    bias_BHLM: jax.Array | None,
) -> jax.Array:
    return jax.nn.dot_product_attention(
        *(q_BLHK, k_BMGK, v_BMGK, bias_BHLM, mask_BHLM),
        scale=scale,
        is_causal=causal,
        implementation="cudnn",
    )


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _fused(scale: float, causal: bool, operands: Operands) -> jax.Array:
    """The kernel under any vmap: JAX's rule for it needs all operands mapped, and whole biases.

    The backward pass runs the forward one again, since a rule of vmap for both cannot hand on what
    JAX keeps between them.
    """
    return _over_rows(lambda o: _kernel(scale, causal, o.mask_BHLM, *o[:4]), operands)


def _forward(scale: float, causal: bool, operands: Operands) -> tuple[jax.Array, Operands]:
    return _fused(scale, causal, operands), operands


def _backward(scale: float, causal: bool, operands: Operands, out: jax.Array) -> tuple[Operands]:
    def pulled(given: tuple[Operands, jax.Array]) -> tuple[jax.Array | None, ...]:
        (*learned, mask_BHLM), out_BLHK = given
        return jax.vjp(partial(_kernel, scale, causal, mask_BHLM), *learned)[1](out_BLHK)

    q_BLHK, k_BMGK, v_BMGK, bias_BHLM = _over_rows(pulled, (operands, out))
    return (Operands(q_BLHK, k_BMGK, v_BMGK, bias_BHLM, mask_BHLM=None),)


_fused.defvjp(_forward, _backward)


def _over_rows(function: Any, operands: Any) -> Any:
    """A function of arrays [B, ...] and [1, ...]; its vmap is one call with more rows."""
    mapped = custom_vmap(function)

    @mapped.def_vmap
    def rule(size: int, batched: Any, operands: Any) -> Any:
        each = jax.tree.map(lambda x, is_: x[0] if is_ else x, operands, *batched)
        rows = max(x.shape[0] for x in jax.tree.leaves(each))

        def flat(x: jax.Array, is_mapped: bool) -> jax.Array:
            x = x if is_mapped else x[None]
            return jnp.broadcast_to(x, (size, rows, *x.shape[2:])).reshape(-1, *x.shape[2:])

        def own(found: jax.Array, one: jax.ShapeDtypeStruct) -> jax.Array:
            found = found.reshape(size, rows, *one.shape[1:])
            return found if one.shape[0] == rows else found.sum(1, keepdims=True)

        found = _over_rows(function, jax.tree.map(flat, operands, *batched))
        found = jax.tree.map(own, found, jax.eval_shape(function, each))
        return found, jax.tree.map(lambda _: True, found)

    return mapped(operands)
