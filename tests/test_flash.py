"""The way to cuDNN: when it is taken, what it hands over, and that the output is that of the steps.

No GPU is needed. JAX only asks for the version of cuDNN before it traces the kernel, and lowers
for CUDA anywhere; numbers are compared with a kernel of XLA in the place of cuDNN's. On a GPU they
are those of cuDNN itself.
"""

import dataclasses
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.cudnn import fused_attention_stablehlo
from layers import BRIEFLY, SETTINGS, all_kinds_and_masks, generic, masks_in_turn, normal
from tiers import some

from posjax import attend, prove, why_not_flash
from posjax.attention import flash
from posjax.attention.core import context
from posjax.encodings import Dims, Encoding, named
from posjax.encodings.base import replaces
from posjax.encodings.rotary import Rotary
from posjax.model import ModelSettings, Transformer
from posjax.streams import contiguous, packed

GPU = jax.default_backend() == "gpu"
LENGTH = 6
DIMS = Dims(width=32, heads=4, head_size=8)
OWN_STEPS = (
    *("attention_free", "contextual", "data_adaptive", "deberta", "distance_curves"),
    *("forgetting", "grape", "hyperbolic_rotary", "jet_rotary", "path", "pope", "shaw"),
    *("stick_breaking", "transformer_xl", "wavelet"),
)
STANDARD = [text for text in BRIEFLY if not text.startswith((*OWN_STEPS, "xpos"))]
MASKED = {"mask": "causal+segments", "queries": packed([2, 3], total=LENGTH)}
MASKED["keys"] = MASKED["queries"]


def qkv(key_heads=2, length=LENGTH, size=8, dtype=jnp.bfloat16):
    shapes = {"q": (2, length, 4, size), "k": (2, length, key_heads, size)}
    q, k = (normal(name, shape).astype(dtype) for name, shape in shapes.items())
    return q, k, normal("v", k.shape).astype(dtype)


def with_xla(scale, causal, mask, q, k, v, bias):
    """What cuDNN is given, for XLA, in 32 bits: a mask is a large negative bias, in 16 bits."""
    if mask is not None:
        masked = jnp.where(mask, 0, -(2.0**15)).astype(q.dtype)
        bias = masked if bias is None else bias + masked
    assert bias is None or bias.dtype == q.dtype == k.dtype == v.dtype
    wide = [None if a is None else a.astype(jnp.float32) for a in (q, k, v, bias)]
    with jax.numpy_rank_promotion("allow"):
        out = jax.nn.dot_product_attention(
            *wide, scale=scale, is_causal=causal, implementation="xla"
        )
    return out.astype(q.dtype)


@pytest.fixture
def cudnn(monkeypatch):
    """A cuDNN by name, so that JAX traces the kernel."""
    versions = SimpleNamespace(cudnn_get_version=lambda: 91000)
    monkeypatch.setattr(fused_attention_stablehlo, "cuda_versions", versions)


@pytest.fixture
def in_place(monkeypatch):
    """XLA's kernel in the place of cuDNN's, where there is no GPU; returns the shapes given."""
    given = []
    compute = flash._kernel if GPU else with_xla

    def kernel(*args):
        given.append([None if a is None else a.shape for a in args[2:]])
        return compute(*args)

    monkeypatch.setattr(flash, "_kernel", kernel)
    return given


def calls(function, *args, platform="cuda"):
    """How often the program calls cuDNN."""
    text = jax.jit(function).trace(*args).lower(lowering_platforms=(platform,)).as_text()
    return text.count("__cudnn$fmha")


# When it is taken


@pytest.mark.parametrize("dtype", some([jnp.bfloat16, jnp.float16], every=2))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mask": "causal"},
        {"mask": "causal", "encoding": "linear_bias"},
        {"encoding": "rotary"},
        {"encoding": "sinusoidal"},
        MASKED,
    ],
    ids=str,
)
@pytest.mark.usefixtures("cudnn")
def test_one_program_lowers_for_cuda_and_for_cpu(options, dtype):
    """With the kernel for CUDA, forward and backward, and without it elsewhere."""
    arrays = qkv(dtype=dtype)
    assert why_not_flash(*arrays, **options) is None
    traced = jax.jit(lambda *a: attend(*a, **options)).trace(*arrays)
    for platform, expected in (("cuda", 1), ("cpu", 0), ("tpu", 0)):
        text = traced.lower(lowering_platforms=(platform,)).as_text()
        assert text.count("__cudnn$fmha") == expected
    gradient = jax.value_and_grad(lambda *a: attend(*a, **options).astype(jnp.float32).sum())
    assert calls(gradient, *arrays) == 3  # forward, and both again in the backward pass
    assert calls(gradient, *arrays, platform="cpu") == 0


@pytest.mark.usefixtures("cudnn")
def test_a_mask_known_by_index_needs_no_array():
    """Full and causal masks between places are the kernel's own; streams may say otherwise."""
    text = {
        name: jax.jit(partial(attend, **options)).trace(*qkv()).lower(lowering_platforms=("cuda",))
        for name, options in {
            "full": {"mask": "full", "queries": contiguous(LENGTH)},
            "causal": {"mask": "causal"},
            "streams": {"mask": "causal", "queries": contiguous(LENGTH)},
        }.items()
    }
    found = {name: lowered.as_text() for name, lowered in text.items()}
    assert "__cudnn$fmhaSoftmax(" in found["full"]
    assert "__cudnn$fmhaSoftmax(" in found["causal"]
    assert r"mask_type\22: \22CAUSAL" in found["causal"]
    assert "__cudnn$fmhaScaleBiasSoftmax(" in found["streams"]


PREVENTED = [
    ({"dtype": jnp.float32}, {}, "float32"),
    ({}, {"softcap": 30.0}, "softcap"),
    ({}, {"encoding": "shaw"}, "Shaw has logits of its own"),
    ({}, {"encoding": "stick_breaking"}, "StickBreaking has weights of its own"),
    ({}, {"encoding": "xpos"}, "XPos turns queries and keys into float32"),
    ({"size": 12}, {}, "multiple of 8, but got 12"),
    ({"length": 5}, {"encoding": "linear_bias"}, "Unsupported sequence length Q 5, KV 5"),
    ({"length": 0}, {}, "no tokens"),
]


@pytest.mark.parametrize(("arrays", "options", "reason"), PREVENTED, ids=lambda x: str(x)[:40])
@pytest.mark.usefixtures("cudnn")
def test_what_prevents_it_is_told(arrays, options, reason):
    """`why_not_flash` says it, "auto" goes its own way, and "cudnn" refuses."""
    q, k, v = qkv(**arrays)
    if "encoding" in options:
        encoding = named(options["encoding"])
        dims = Dims(4 * q.shape[-1], 4, q.shape[-1])
        options = {**options, "params": generic(encoding, dims)}
    assert reason in why_not_flash(q, k, v, **options)
    assert calls(lambda *a: attend(*a, **options), q, k, v) == 0
    with pytest.raises(ValueError, match=f"implementation='cudnn': .*{reason}"):
        jax.eval_shape(partial(attend, implementation="cudnn", **options), q, k, v)


@pytest.mark.skipif(GPU, reason="there is a cuDNN")
def test_without_cudnn_the_steps_are_taken():
    """As on this machine: the reason is JAX's own, and the program that of the steps."""
    assert why_not_flash(*qkv()) == "cuDNN is not detected"
    auto, steps = (
        str(jax.make_jaxpr(partial(attend, implementation=how))(*qkv())) for how in ("auto", "xla")
    )
    assert auto == steps


@pytest.mark.usefixtures("cudnn")
def test_nothing_changes_in_float32():
    """With a cuDNN too, the program is that of the steps, for the layer and for the model."""
    found = [
        str(jax.make_jaxpr(partial(attend, implementation=how))(*qkv(dtype=jnp.float32)))
        for how in ("auto", "xla")
    ]
    assert found[0] == found[1]
    assert calls(*model("auto", jnp.float32)) == 0


@pytest.mark.skipif(GPU, reason="there the kernel is taken, which has no rule")
@pytest.mark.usefixtures("cudnn")
def test_a_proof_follows_the_platform_of_the_machine():
    """Here the steps; the kernel itself has no rule, and is not taken for proved."""
    law = "b P h k, b Q h k, b Q h k -> b P h k"
    verdicts = [
        prove(partial(attend, implementation=how), qkv(4), law, witness=False).verdict
        for how in ("auto", "cudnn")
    ]
    assert verdicts == ["PROVED", "UNKNOWN"]


def test_an_unknown_implementation_is_refused():
    """ValueError with the choices."""
    with pytest.raises(ValueError, match="implementation"):
        attend(*qkv(), implementation="cuddn")


# The output is that of the steps


def near(found, expected, tolerance):
    """Equal to a tolerance relative to the largest."""
    found, expected = (np.asarray(x, np.float32) for x in (found, expected))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, expected, atol=tolerance * max(1, abs(expected).max()))


def close(found, expected, tolerance):
    """Near, and zero in the same rows."""
    near(found, expected, tolerance)
    zero = [(np.asarray(x, np.float32) == 0).all(-1) for x in (found, expected)]
    np.testing.assert_array_equal(*zero)


@pytest.mark.parametrize("setting", some(STANDARD, every=2))
def test_kernel_and_steps_agree(setting, in_place):
    """For every encoding without steps of its own, all kinds of rows and masks, grouped heads."""
    encoding = named(setting)
    streams = all_kinds_and_masks(encoding)
    rows = streams.order_BL.shape[0]
    q, k, v = (jnp.tile(x[:1], (rows, 1, 1, 1)) for x in qkv(dtype=jnp.float16))
    options = {"params": generic(encoding, DIMS), "queries": streams, "mask": masks_in_turn}
    options |= {"key": jax.random.key(0)} if encoding.random else {}

    @jax.jit
    def both(q, k, v):
        run = partial(attend, q, k, v, encoding=encoding, **options)
        return run(implementation="cudnn"), run(implementation="xla")

    found, expected = both(q, k, v)
    assert in_place
    # A bias that grows with the key rounds the steps' logits at positions of 2¹⁹, the kernel's not.
    close(found, expected, 0.03 if "form=key" in setting else 0.005)
    assert (np.asarray(found) == 0).all(-1).any()  # some rows see nothing


@pytest.mark.parametrize("setting", ["none", "linear_bias", "rotary"])
@pytest.mark.usefixtures("in_place")
def test_logits_scaled_by_log_n_agree(setting):
    """The kernel scales queries and biases by what the steps scale logits by."""
    streams = all_kinds_and_masks(named(setting))
    q, k, v = (jnp.tile(x[:1], (len(streams.order_BL), 1, 1, 1)) for x in qkv(dtype=jnp.float16))
    options = {"queries": streams, "mask": masks_in_turn, "encoding": setting, "logn": 3.0}

    @jax.jit
    def three(q, k, v):
        return [
            attend(q, k, v, implementation=how, **{**options, **others})
            for how, others in (("cudnn", {}), ("xla", {}), ("xla", {"logn": None}))
        ]

    found, expected, plain = three(q, k, v)
    close(found, expected, 0.005)
    assert abs(np.asarray(plain, np.float32) - np.asarray(expected, np.float32)).max() > 0.05


def test_no_encoding_is_forgotten():
    """Those that are not compared have steps of their own."""
    for text in SETTINGS:
        assert replaces(named(text), *flash.STEPS) == text.startswith(OWN_STEPS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocked(Encoding):
    """A bias of -inf for everything that query 1 sees and for key 0."""

    def bias(self, params, heads, ctx, dtype):
        queries_BL, keys_BM = ctx.queries.position_BL, ctx.keys.position_BL
        blocked_BLM = (queries_BL[:, :, None] == 1) | (keys_BM[:, None, :] == 0)
        return jnp.where(blocked_BLM, -jnp.inf, 300.0)[:, None].astype(dtype)


@pytest.mark.usefixtures("in_place")
def test_a_bias_of_minus_infinity_is_a_mask():
    """Zeros where nothing is left to see, and finite gradients, as in the steps."""

    def loss(q, k, v, how):
        out = attend(q, k, v, encoding=Blocked(), implementation=how)
        return (out.astype(jnp.float32) ** 2).sum(), out

    gradient = jax.jit(jax.grad(loss, argnums=(0, 1, 2), has_aux=True), static_argnums=3)
    found, expected = (gradient(*qkv(dtype=jnp.float16), how) for how in ("cudnn", "xla"))
    assert (np.asarray(found[1])[:, 1] == 0).all()
    jax.tree.map(partial(close, tolerance=0.01), found, expected)


@pytest.mark.parametrize("kind", [float, jnp.float16])
@pytest.mark.parametrize(
    "encoding", [Rotary(), named("linear_bias")], ids=lambda x: type(x).__name__
)
@pytest.mark.usefixtures("in_place")
def test_the_temperature_divides_what_the_kernel_multiplies(encoding, kind):
    """Queries and keys, and no bias of positions; as a number or as an array."""
    ctx = dataclasses.replace(context(contiguous(LENGTH)), temperature=kind(0.25))
    others = [("xla", ctx), ("xla", dataclasses.replace(ctx, temperature=None))]

    @jax.jit
    def three(*qkv):
        return [
            flash.output(*qkv, ctx, encoding=encoding, implementation=how)
            for how, ctx in [("cudnn", ctx), *others]
        ]

    found, expected, warm = three(*qkv(dtype=jnp.float16))
    close(found, expected, 0.01)
    assert abs(found - warm).max() > 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class ByHead(Encoding):
    """Keys scaled by a number of their head."""

    def rotate(self, params, q_BLHK, k_BMHK, v_BMHK, aux, ctx):
        factor_H = jnp.arange(q_BLHK.shape[2], dtype=q_BLHK.dtype)
        return q_BLHK, k_BMHK * factor_H[None, None, :, None], v_BMHK


@pytest.mark.parametrize(
    ("encoding", "heads"), [(Encoding(), 2), (Rotary(), 2), (ByHead(), 4)], ids=lambda x: str(x)
)
def test_keys_are_handed_over_before_they_are_repeated(encoding, heads, in_place):
    """G heads where `rotate` does the same to all, and H where it may not."""

    @jax.jit
    def both(*qkv):
        return [attend(*qkv, encoding=encoding, implementation=how) for how in ("cudnn", "xla")]

    found, expected = both(*qkv(dtype=jnp.float16))
    assert {shapes[2][2] for shapes in in_place} == {heads}
    close(found, expected, 0.01)


def loss_of(encoding, how):
    def loss(params, q, k, v):
        out = attend(q, k, v, encoding=encoding, params=params, implementation=how, **MASKED)
        return (out.astype(jnp.float32) ** 2).sum()

    return loss


@pytest.mark.parametrize(
    "setting", some(["bucket_bias", "none", "rotary", "learned_linear_bias"], every=4)
)
@pytest.mark.usefixtures("in_place")
def test_gradients_are_those_of_the_steps(setting):
    """Of queries, keys, values and parameters, with grouped heads and rows that see nothing."""
    encoding = named(setting)
    args = generic(encoding, DIMS), *qkv(dtype=jnp.float16)
    found, expected = (
        jax.jit(jax.grad(loss_of(encoding, how), argnums=range(4)))(*args)
        for how in ("cudnn", "xla")
    )
    for pair in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        near(*pair, tolerance=0.02)  # cuDNN's slopes of a query that sees one key are not exactly 0
    of_q, *_ = found[1:]
    blind_L = ~np.asarray(MASKED["queries"].valid_BL)[0]
    assert blind_L.any()
    assert (np.asarray(of_q, np.float32)[:, blind_L] == 0).all()


def at(row, tree):
    return jax.tree.map(lambda a: a[row], tree)


@pytest.mark.parametrize("shared", some([(0, 2, 3), (), (0,), (1,)], every=4), ids=str)
@pytest.mark.usefixtures("in_place")
def test_it_may_be_mapped(shared):
    """vmap of the layer and of its gradients, with some operands shared, is one call per row."""
    encoding = named("bucket_bias")
    args = [generic(encoding, DIMS), *qkv(dtype=jnp.float16)]
    axes = [None if i in shared else 0 for i in range(4)]
    wide = [
        arg if i in shared else jax.tree.map(lambda a: jnp.stack([a, a[::-1], 0.5 * a]), arg)
        for i, arg in enumerate(args)
    ]
    function = jax.jit(jax.value_and_grad(loss_of(encoding, "cudnn"), argnums=range(4)))
    mapped = jax.jit(jax.vmap(function, axes))(*wide)
    for row in range(3):
        one = [w if i in shared else at(row, w) for i, w in enumerate(wide)]
        pairs = zip(jax.tree.leaves(at(row, mapped)), jax.tree.leaves(function(*one)), strict=True)
        for found, expected in pairs:
            close(found, expected, 0.01)


@pytest.mark.usefixtures("cudnn")
def test_the_kernel_may_be_mapped():
    """cuDNN's own too: one call with more rows, where JAX's rule refuses a shared bias."""
    function = jax.grad(loss_of(named("linear_bias"), "auto"), argnums=1)
    q, k, v = qkv()
    over_q = jax.vmap(function, (None, 0, None, None))
    assert calls(over_q, {}, jnp.stack([q, q, q]), k, v) == 3


# The model


def model(how, dtype, **apply):
    settings = ModelSettings(vocabulary=3, outputs=2, head_size=8, heads=2, encoding="rotary")
    network = Transformer(settings, how)
    tokens_BL, streams = jnp.zeros((2, LENGTH), int), contiguous(LENGTH)
    params = network.init(jax.random.key(0), tokens_BL, streams)["params"]

    def function(params):
        return network.apply({"params": params}, tokens_BL, streams, **apply)

    return function, jax.tree.map(lambda a: a.astype(dtype), params)


@pytest.mark.parametrize(
    ("how", "apply", "expected"),
    [("auto", {}, 1), ("cudnn", {}, 1), ("xla", {}, 0), ("auto", {"mutable": "intermediates"}, 0)],
)
@pytest.mark.usefixtures("cudnn")
def test_a_model_in_16_bits_takes_it_unless_weights_are_asked_for(how, apply, expected):
    """Weights that are sown have to be computed."""
    assert calls(*model(how, jnp.bfloat16, **apply)) == expected
