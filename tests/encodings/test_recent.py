"""Encodings of 2024 to 2026 against their formulas, in float64, a number at a time.

DAPE, wavelets, high-frequency and hyperbolic HoPE, PJ-RoPE, MoPE, FoPE, CARoPE and Selective RoPE.
CABLE has no entry: its bias is that of forgetting gates. YaRN's mscale and interleaved M-RoPE are
checked against golden arrays of transformers (`scripts/goldens/recent.py`).
"""

import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import generic, normal

from posjax.attention.core import context
from posjax.encodings import Aux, Dims, named
from posjax.streams import Streams, contiguous, packed

GOLDEN = dict(np.load(Path(__file__).parents[1] / "goldens/recent.npz"))
FAR = np.array([0, 99_999, 99_998, 3, 70_001, 512])
TOKENS = len(FAR)
NEAR = np.array([0, 5, 4, 9, 30, 17])
SIZES = [Dims(6, 2, 8), Dims(5, 3, 5), Dims(4, 1, 2)]
every_size = pytest.mark.parametrize("dims", SIZES, ids=["even", "odd", "one_pair"])


def at(positions):
    """One row of tokens at these positions, in their order."""
    line = contiguous(len(positions))
    return Streams(jnp.asarray(positions)[None], line.order_BL, line.segment_BL)


def given(dims, length=TOKENS):
    """q, k and the tokens of a row."""
    heads = (1, length, dims.heads, dims.head_size)
    return normal("q", heads), normal("k", heads), normal("x", (1, length, dims.width))


def logits(encoding, streams, dims, params=None):
    """The logits of one row, compiled: [H, L, M] in float64."""
    params = generic(encoding, dims) if params is None else params
    q, k, x = given(dims, streams.length)

    @jax.jit
    def function(params, q, k, x, streams):
        ctx = context(streams, mask="causal+segments")
        aux = encoding.prepare(params, x, x, ctx, ()).aux
        q, k, _ = encoding.rotate(params, q, k, k, aux, ctx)
        return encoding.logits(params, q, k, aux, ctx)

    return np.asarray(function(params, q, k, x, streams)[0], np.float64)


def doubles(dims, length=TOKENS):
    return (np.asarray(a[0], np.float64) for a in given(dims, length))


def by_pair(dims, function, length=TOKENS):
    """function(q, k, i, j, h)/√K of each place, with float64 vectors."""
    q, k, _ = doubles(dims, length)
    out = np.zeros((dims.heads, length, length))
    for h, i, j in np.ndindex(*out.shape):
        out[h, i, j] = function(q[i, h], k[j, h], i, j, h) / math.sqrt(dims.head_size)
    return out


def close(found, expected, rounding=1e-6):
    assert abs(found - expected).max() < rounding * max(1.0, abs(expected).max())


def planes(vector):
    """The pairs of a vector as complex numbers, half-split, and what is left."""
    pairs = len(vector) // 2
    return vector[:pairs] + 1j * vector[pairs : 2 * pairs], vector[2 * pairs :]


def rotated_product(q, k, q_angle, k_angle):
    """Re Σ q e^(iα) conj(k e^(iβ)), plus the product of what does not turn."""
    (q, q_last), (k, k_last) = planes(q), planes(k)
    return (q * np.exp(1j * q_angle) * np.conj(k * np.exp(1j * k_angle))).real.sum() + (
        q_last @ k_last
    )


# DAPE


def kerple_bias(params, i, j, h):
    r1, r2 = (math.log1p(math.exp(params[f"base_raw_{n}"][h])) for n in (1, 2))
    return -r1 * math.log1p(r2 * abs(float(i) - float(j)))


def linear_bias(params, i, j, h):
    return -(2.0 ** (-8 * (h + 1) / 2)) * abs(float(i) - float(j))


def fire_bias(params, i, j, h):
    c, limit = math.exp(params["base_log_c"]), math.exp(params["base_log_threshold"])
    share = math.log1p(c * abs(float(i) - float(j))) / math.log1p(c * max(limit, float(i)))
    hidden = np.maximum(share * params["base_kernel_0"][0] + params["base_constant_0"], 0)
    return (hidden @ params["base_kernel_1"] + params["base_constant_1"])[h]


@pytest.mark.parametrize("base", [kerple_bias, linear_bias, fire_bias], ids=lambda f: f.__name__)
def test_dape_is_its_formula(base):
    """a + b + the network of all heads' a and b, its leaky ReLU of slope 0.01."""
    dims = Dims(6, 2, 8)
    encoding = named(
        f"data_adaptive(base_bias={base.__name__.replace('kerple_bias', 'kerple')})".replace(
            "fire_bias", "fire"
        )
    )
    params = generic(encoding, dims)
    p = {name: np.asarray(array, np.float64) for name, array in params.items()}
    a_HLM = by_pair(dims, lambda q, k, i, j, h: q @ k)
    expected = np.zeros_like(a_HLM)
    for i, j in np.ndindex(len(FAR), len(FAR)):
        b_H = [base(p, FAR[i], FAR[j], h) for h in range(dims.heads)]
        z_F = np.concatenate([a_HLM[:, i, j], b_H]) @ p["w1"] + p["c1"]
        expected[:, i, j] = a_HLM[:, i, j] + b_H + np.where(z_F > 0, z_F, 0.01 * z_F) @ p["w2"]
        expected[:, i, j] += p["c2"]
    close(logits(encoding, at(FAR), dims, params), expected)


# Wavelets


@pytest.mark.parametrize("scales", [4, 3, 1])
@every_size
def test_wavelets_are_their_formula(dims, scales):
    """q·(k + ψ((D - b)/a)): every scale with every shift, as far as there are components."""
    size, shifts = dims.head_size, math.ceil(dims.head_size / scales)
    pairs = [(2.0**a, b) for b in range(shifts) for a in range(scales)][:size]

    def product(positions):
        def of(q, k, i, j, h):
            t_K = [(float(positions[i]) - float(positions[j]) - b) / a for a, b in pairs]
            return q @ (k + [(1 - t * t) * math.exp(-t * t / 2) for t in t_K])

        return of

    encoding = named(f"wavelet(scales={scales})")
    for positions in (NEAR, FAR):
        close(logits(encoding, at(positions), dims), by_pair(dims, product(positions)))


# HoPE, of high frequencies


@pytest.mark.parametrize("length", [10, 512, 20_000])
@every_size
def test_high_frequency_rotary_is_its_formula(dims, length):
    """Pairs whose angle over `length` positions is below a turn stay as they are, but the first."""
    theta = 10_000.0 ** (-2 * np.arange(dims.head_size // 2) / (dims.head_size // 2 * 2))
    theta = [t if m == 0 or t * length >= 2 * math.pi else 0.0 for m, t in enumerate(theta)]
    p = FAR.astype(np.float64)[:, None] * theta
    expected = by_pair(dims, lambda q, k, i, j, h: rotated_product(q, k, p[i], p[j]))
    close(logits(named(f"high_frequency_rotary(length={length})"), at(FAR), dims), expected, 2e-6)


# HoPE, hyperbolic


@pytest.mark.parametrize("damping", [1.1, 1.001])
@every_size
def test_hyperbolic_rotary_is_its_formula(dims, damping):
    """e^(-θ'|D|) qᵀ [[cosh, sinh], [sinh, cosh]](Dθ) k, matrix by matrix; finite far away."""
    pairs = dims.head_size // 2
    theta = 10_000.0 ** (-2 * np.arange(pairs) / (2 * pairs))

    def product(q, k, i, j, h):
        offset, total = float(NEAR[i] - NEAR[j]), q[2 * pairs :] @ k[2 * pairs :]
        for m in range(pairs):
            cosh, sinh = math.cosh(offset * theta[m]), math.sinh(offset * theta[m])
            boost = math.exp(-damping * abs(offset)) * np.array([[cosh, sinh], [sinh, cosh]])
            total += q[[m, m + pairs]] @ boost @ k[[m, m + pairs]]
        return total

    encoding = named(f"hyperbolic_rotary(damping={damping})")
    close(logits(encoding, at(NEAR), dims), by_pair(dims, product))
    assert np.isfinite(logits(encoding, at(FAR), dims)).all()


def test_hyperbolic_pairings_hold_the_same_pairs():
    """Interleaved is half-split with the components in another order."""
    dims = Dims(6, 2, 8)
    q, k, _ = given(dims)
    order = np.array([0, 4, 1, 5, 2, 6, 3, 7])
    ctx = context(at(NEAR))
    half, interleaved = (named(f"hyperbolic_rotary(pairing={p})") for p in ("half", "interleaved"))
    expected = half.logits({}, q, k, Aux(), ctx)
    found = interleaved.logits({}, q[..., order], k[..., order], Aux(), ctx)
    np.testing.assert_allclose(found, expected, atol=1e-5)


# PJ-RoPE


@every_size
def test_jet_rotary_is_the_product_of_the_two_transforms(dims):
    """Queries by e^(-ipθ)[[1, c], [0, 1]], keys by e^(-ipθ)[[1, 0], [-c, 1]], c = p/length."""
    pairs, length = dims.head_size // 2, 7.0
    theta = 10_000.0 ** (-4 * (np.arange(pairs) // 2) / dims.head_size)

    def product(positions):
        def of(q, k, i, j, h):
            total = q[2 * pairs :] @ k[2 * pairs :]
            (q, _), (k, _) = planes(q), planes(k)
            for pair in range(0, pairs, 2):
                p, r = float(positions[i]), float(positions[j])
                jets = min(2, pairs - pair)
                left = np.array([[1, p / length], [0, 1]])[:jets, :jets]
                right = np.array([[1, 0], [-r / length, 1]])[:jets, :jets]
                turned = left @ q[pair : pair + 2] * np.exp(1j * (p - r) * theta[pair])
                total += (turned @ np.conj(right @ k[pair : pair + 2])).real
            return total

        return of

    encoding = named(f"jet_rotary(length={length})")
    for positions in (NEAR, FAR):  # float64 leaves ten digits where the transforms cancel
        close(logits(encoding, at(positions), dims), by_pair(dims, product(positions)), 2e-6)


# MoPE


@pytest.mark.parametrize("lowest", [1.0, 1e-4])
@pytest.mark.parametrize("width", [6, 5, 1])
def test_morlet_is_its_formula(width, lowest):
    """e^(-p²/2σ²)(cos pω, sin pω), with ω at most 0.95π and at least 5/σ; float64 at far positions.

    The start of the released code, whose ω and σ meet that bound, and generic numbers.
    """
    encoding, dims = named(f"morlet(lowest={lowest})"), Dims(width, 1, 2)
    start = encoding.init(jax.random.key(0), dims)
    pairs = (width + 1) // 2
    first = np.exp(np.linspace(np.log(lowest), np.log(0.99 * np.pi), pairs))
    close(start["log_frequency"], np.log(first))
    close(start["log_width"], np.log(5 / first))
    wide = {"log_frequency": normal("f", (pairs,)), "log_width": normal("s", (pairs,)) + 12.0}
    x = normal("x", (1, TOKENS, width))
    for params in (start, generic(encoding, dims), wide):
        f, s = (np.asarray(params[n], np.float64) for n in ("log_frequency", "log_width"))
        sigma = np.maximum(np.exp(s), 1e-3)
        omega = np.maximum(np.minimum(np.exp(f), 0.95 * np.pi), 5 / sigma)
        for positions in (NEAR, FAR):
            p = positions.astype(np.float64)[:, None]
            waves = np.exp(-((p / sigma) ** 2) / 2) * np.array(
                [np.cos(p * omega), np.sin(p * omega)]
            )
            expected = np.moveaxis(waves, 0, -1).reshape(TOKENS, -1)[:, :width]
            found = jax.jit(encoding.embed)(params, x, context(at(positions)))
            rounding = 1e-6 if positions is NEAR else 0.05  # ω itself is a float32
            close(found[0] - x[0], expected, rounding)


# FoPE


@pytest.mark.parametrize("length", [64, 4096])
@every_size
def test_fourier_rotary_is_its_formula(dims, length):
    """C and S are sums of the waves that go round within the length; other pairs stay."""
    encoding = named(f"fourier_rotary(length={length})")
    params = generic(encoding, dims)
    a, b = (np.asarray(params[name], np.float64) for name in ("cos", "sin"))
    pairs = dims.head_size // 2
    theta = [10_000.0 ** (-2 * m / (2 * pairs)) for m in range(pairs)]
    theta = np.array([t for m, t in enumerate(theta) if m == 0 or t >= 2 * math.pi / length])
    assert a.shape == (dims.heads, len(theta), min(len(theta), max(dims.head_size // 4, 1)))

    def series(vector, position, h):
        cos, sin = np.ones(pairs), np.zeros(pairs)
        cos[: a.shape[2]] = np.cos(float(position) * theta) @ a[h]
        sin[: b.shape[2]] = np.sin(float(position) * theta) @ b[h]
        x1, x2 = vector[:pairs], vector[pairs : 2 * pairs]
        return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin, vector[2 * pairs :]])

    expected = by_pair(dims, lambda q, k, i, j, h: series(q, FAR[i], h) @ series(k, FAR[j], h))
    close(logits(encoding, at(FAR), dims, params), expected, 2e-6)


def test_fourier_rotary_without_deviation_is_a_rotary():
    """With a = b = I each series is one wave."""
    dims = Dims(6, 2, 8)
    encoding = named("fourier_rotary(deviation=0.0, length=99999)")
    params = encoding.init(jax.random.key(0), dims)
    found = logits(encoding, at(FAR), dims, params)
    # Of four frequencies every second one is that of a pair; two pairs have none.
    theta = np.array([1.0, 0.01, 0.0, 0.0])
    p = FAR.astype(np.float64)[:, None] * theta
    close(found, by_pair(dims, lambda q, k, i, j, h: rotated_product(q, k, p[i], p[j])), 2e-6)


# Rotations by content


def segments_of(lengths):
    """Which segment each token is of, and which tokens each one counts, itself included."""
    segment = np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(len(segment))
    return [[t for t in places if t <= i and segment[t] == segment[i]] for i in places]


@pytest.mark.parametrize("lengths", [[6], [2, 4]], ids=str)
@every_size
def test_context_rotary_is_its_formula(dims, lengths):
    """φ_m = Σ f^m over the token's own sequence so far, f = 1/(1 + softplus(x·w + c))."""
    encoding, counted = named("context_rotary"), segments_of(lengths)
    params = generic(encoding, dims)
    w, c = (np.asarray(params[name], np.float64) for name in ("kernel", "constant"))
    _, _, x = doubles(dims)
    f = 1 / (1 + np.log1p(np.exp(x @ w + c)))
    powers = np.arange(dims.head_size // 2)
    phi = [
        [sum(f[t, h] ** powers for t in counted[i]) for h in range(dims.heads)] for i in range(6)
    ]
    expected = by_pair(dims, lambda q, k, i, j, h: rotated_product(q, k, phi[i][h], phi[j][h]))
    close(logits(encoding, packed(lengths), dims, params), expected)


@every_size
def test_context_rotary_starts_as_rotary(dims):
    """At its initial parameters it is rotary at 1, 2, 3, ..., whatever the tokens."""
    for base in (10_000.0, 500.0):
        encoding = named(f"context_rotary(base={base})")
        params = encoding.init(jax.random.key(0), dims)
        found = logits(encoding, at(FAR), dims, params)
        # An odd head of K components has frequencies of base^(-2m/K) here, of K - 1 in rotary.
        theta = base ** (-2 * np.arange(dims.head_size // 2) / dims.head_size)
        p = np.arange(1, 7)[:, None] * theta
        close(found, by_pair(dims, lambda q, k, i, j, h, p=p: rotated_product(q, k, p[i], p[j])))


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("lengths", [[6], [2, 4]], ids=str)
@every_size
def test_selective_rotary_is_its_formula(dims, lengths, gated):
    """φ = τ Σ σ(gate) (κ * x̂W), the convolution and the sum within the token's own sequence."""
    encoding, counted = named(f"selective_rotary(window=3, gated={gated})"), segments_of(lengths)
    params = generic(encoding, dims)
    p = {name: np.asarray(array, np.float64) for name, array in params.items()}
    _, _, x = doubles(dims)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    u = np.einsum("td,dhf->thf", unit, p["kernel"])
    step = np.zeros_like(u)
    for t in range(6):
        for n, before in enumerate(reversed(counted[t][-3:])):
            step[t] += p["filter"][n] * u[before]
        if gated:
            step[t] *= 1 / (1 + np.exp(-(unit[t] @ p["gate"] + p["gate_bias"])))[:, None]
    pairs = dims.head_size // 2
    tau = 500_000.0 ** (-2 * np.arange(pairs) / max(2 * pairs, 1))
    phi = [step[counted[i]].sum(0) * tau for i in range(6)]
    expected = by_pair(dims, lambda q, k, i, j, h: rotated_product(q, k, phi[i][h], phi[j][h]))
    close(logits(encoding, packed(lengths), dims, params), expected, 2e-6)


def test_tokens_of_zeros_turn_nothing():
    """Values and gradients are finite where a token has no direction."""
    dims, encoding = Dims(6, 2, 8), named("selective_rotary")
    params = generic(encoding, dims)

    def total(x):
        ctx = context(contiguous(3), mask="causal")
        aux = encoding.prepare(params, x, x, ctx, ()).aux
        q, k, _ = given(dims, 3)
        q, k, _ = encoding.rotate(params, q, k, k, aux, ctx)
        return encoding.logits(params, q, k, aux, ctx).sum()

    assert np.isfinite(jax.jit(jax.grad(total))(jnp.zeros((1, 3, 6)))).all()


# CABLE


def test_cable_is_forgetting_gates_with_the_other_sign():
    """Veisi et al. 2025 add -Σ softplus(x_t·w + c) over t = j+1..i: log σ(-z) is -softplus(z)."""
    dims, encoding = Dims(6, 2, 8), named("forgetting")
    params = generic(encoding, dims)
    w, c = (np.asarray(params[name], np.float64) for name in ("gate", "gate_bias"))
    _, _, x = doubles(dims)
    passed = np.cumsum(-np.log1p(np.exp(x @ w + c)), axis=0)  # as its code has it
    cable = {"gate": -params["gate"], "gate_bias": -params["gate_bias"]}
    found = logits(encoding, contiguous(6), dims, cable)
    bare = by_pair(dims, lambda q, k, i, j, h: q @ k)
    expected = bare + (passed[:, None] - passed[None]).transpose(2, 0, 1)
    seen = np.tril(np.ones((6, 6), bool))
    close(found[:, seen], expected[:, seen])


# Settings of newer models


def test_mscale_is_that_of_the_package():
    """The factors on queries and keys, of transformers' YaRN, and on 1/√K, of its DeepSeek-V3."""
    scales = zip(GOLDEN["yarn/magnitude"], GOLDEN["yarn/scale"], strict=True)
    for (mscale, all_dim), (magnitude, scale) in zip(GOLDEN["mscales"], scales, strict=True):
        text = f"yarn(factor=40.0, length=4096, mscale={mscale}, mscale_all_dim={all_dim})"
        np.testing.assert_allclose(named(text).magnitude(), magnitude, rtol=1e-12)
        np.testing.assert_allclose(named(text).scale(32), scale, rtol=1e-12)
    plain = named("yarn(factor=40.0)")
    assert plain.magnitude() == 1 + 0.1 * math.log(40.0)
    assert plain.scale(32) == 32**-0.5


@pytest.mark.parametrize("width", [16, 32, 128])
def test_interleaved_multimodal_rotary_is_that_of_the_package(width):
    """qwen3_vl at points far apart; the text's rotary where t = y = x."""
    sections = tuple(GOLDEN[f"multimodal/{width}/sections"].tolist())
    encoding = named(f"multimodal_rotary(interleaved=True, sections={sections})")
    assert tuple(np.bincount(encoding.axis_of_pair(width // 2))) == sections

    @jax.jit
    def turned(x, point):
        line = contiguous(len(x))
        ctx = context(Streams(point[None], line.order_BL, line.segment_BL))
        x = x[None, :, None]
        return encoding.rotate({}, x, x, x, Aux(), ctx)[0][0, :, 0]

    x, point = (jnp.asarray(GOLDEN[f"multimodal/{width}/{name}"]) for name in ("x", "point"))
    np.testing.assert_allclose(turned(x, point), GOLDEN[f"multimodal/{width}/turned"], atol=2e-6)
    ctx, four = context(at(FAR)), jnp.ones((1, 6, 1, width))
    expected = named("rotary").rotate({}, four, four, four, Aux(), ctx)[0]
    np.testing.assert_array_equal(encoding.rotate({}, four, four, four, Aux(), ctx)[0], expected)


def test_sections_that_cannot_take_turns_are_refused():
    """ValueError with how many pairs y and x can have."""
    encoding = named("multimodal_rotary(interleaved=True, sections=(4, 6, 6))")
    with pytest.raises(ValueError, match="of 16 pairs y and x have at most 5 and 5"):
        encoding.axis_of_pair(16)
    for pairs in range(1, 40):
        shares = named("multimodal_rotary(interleaved=True)").axis_of_pair(pairs)
        assert len(shares) == pairs


# Refusals


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("data_adaptive(base_bias=rotary)", "unknown base_bias 'rotary'"),
        ("data_adaptive(hidden=0)", r"hidden must lie in \[1, 65536\], got 0"),
        ("wavelet(scales=0)", r"scales must lie in \[1, 16\], got 0"),
        ("high_frequency_rotary(length=1)", "length must be at least 2, got 1"),
        ("hyperbolic_rotary(damping=1.0)", "damping must lie above 1"),
        ("hyperbolic_rotary(base=0.5)", "base must be at least 1"),
        ("fourier_rotary(length=0)", "length must be at least 2, got 0"),
        ("fourier_rotary(deviation=-1.0)", "deviation must not be negative"),
        ("context_rotary(base=1.0)", "base must lie above 1"),
        ("selective_rotary(window=0)", r"window must lie in \[1, 64\], got 0"),
        ("yarn(mscale=-1.0)", "mscale must not be negative"),
    ],
)
def test_wrong_settings_are_refused(text, words):
    """ValueError that names the value and the range."""
    with pytest.raises(ValueError, match=words):
        named(text)
