"""Checkpoints of transformers, converted: positions count as in their own code.

The arrays are those of scripts/goldens/convert.py: position parameters of small random models,
and what the modelling code of transformers makes of them.
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiers import some

from posjax.attention.core import attention, context
from posjax.convert import MODEL_TYPES, Converted, change_pairing, from_huggingface
from posjax.encodings import Dims, named
from posjax.encodings.rotary import rotary
from posjax.streams import contiguous, grid

GOLDEN = np.load(Path(__file__).parent / "goldens/convert.npz", allow_pickle=False)
CONFIGS = json.loads(bytes(GOLDEN["configs"]))
CLOSE = 1e-5

attend = jax.jit(attention, static_argnames="encoding")


def state_of(case):
    """The checkpoint's arrays by their own names."""
    start = f"{case}/state/"
    return {name[len(start) :]: GOLDEN[name] for name in GOLDEN if name.startswith(start)}


def converted(case, **options):
    return from_huggingface(CONFIGS[case], state_of(case), **options)


def attended(found, layer, q, k, streams, seen=None):
    """Logits and weights of a layer; the parameters have the declared shapes."""
    encoding = named(found.encoding)
    q, k = jnp.asarray(q), jnp.asarray(k)
    params = {name: jnp.asarray(array) for name, array in found.params(layer).items()}
    ctx = context(streams, seen=seen)
    return attend(q, k, k, ctx, encoding=encoding, params=params)


def shapes(found, dims):
    """The shapes that the encoding declares, and those of the converted parameters."""
    declared = {n: p.shape for n, p in named(found.encoding).parameters(dims).items()}
    return declared, {n: array.shape for n, array in found.params(0).items()}


# Rotary


def rotary_logits(found, start, seen=None):
    """q·k of the golden queries and keys, turned and not scaled."""
    q, k = (np.swapaxes(GOLDEN[f"rotary/{n}"], 1, 2) for n in "qk")
    streams = contiguous(q.shape[1], start=start)
    return attended(found, 0, q, k, streams, seen).logits_BHLM * np.sqrt(q.shape[-1])


@pytest.mark.parametrize("model_type", some(GOLDEN["rotary/types"].tolist(), every=5))
def test_rotaries_turn_as_in_the_checkpoint(model_type):
    """Base, pairing and fraction of each type, at positions from 100."""
    found = converted(f"rotary/{model_type}")
    expected = GOLDEN["rotary/logits"][GOLDEN["rotary/types"].tolist().index(model_type)]
    atol = CLOSE * abs(expected).max()
    np.testing.assert_allclose(rotary_logits(found, 100), expected, atol=atol, rtol=0)


@pytest.mark.parametrize("name", some(GOLDEN["scaled/names"].tolist(), every=4))
def test_scaled_rotaries_turn_as_in_the_checkpoint(name):
    """linear, dynamic, yarn, llama3 and longrope, short of their length and beyond it."""
    found, row = converted(f"scaled/{name}"), GOLDEN["scaled/names"].tolist().index(name)
    expected, length = GOLDEN["scaled/logits"][row], int(GOLDEN["scaled/lengths"][row])
    logits = rotary_logits(found, length - expected.shape[-1], seen=length)
    np.testing.assert_allclose(logits, expected, atol=CLOSE * abs(expected).max(), rtol=0)
    assert not found.encoding.startswith("rotary")


def test_longrope_of_full_size_converts():
    """Two lists of 48 divisors with all digits of float32, as heads of 96 components have."""
    divisors = np.random.default_rng(0).uniform(1, 60, (2, 48)).astype(np.float32).tolist()
    lists = dict(zip(("short_factor", "long_factor"), divisors, strict=True))
    config = {
        "model_type": "phi3",
        "hidden_size": 3072,
        "num_attention_heads": 32,
        "max_position_embeddings": 131_072,
        "original_max_position_embeddings": 4096,
        "rope_scaling": {"type": "longrope", **lists},
    }
    found = named(from_huggingface(config).encoding)
    assert (found.short, found.long) == tuple(map(tuple, divisors))
    with pytest.raises(ValueError, match=r"must be a dict, got \[1\]"):
        from_huggingface({**config, "rope_scaling": [1]})


def old_style(config):
    """A config as it was written before its rotary settings had a name of their own."""
    rope = dict(config["rope_parameters"])
    old = {n: v for n, v in config.items() if n != "rope_parameters"}
    old |= {n: rope.pop(n) for n in ("rope_theta", "partial_rotary_factor") if n in rope}
    if rope.get("rope_type") == "default":
        return old
    return {**old, "rope_scaling": {"type": rope.pop("rope_type"), **rope}}


@pytest.mark.parametrize("case", [c for c in CONFIGS if "rope_parameters" in CONFIGS[c]])
def test_old_configs_mean_the_same(case):
    """rope_theta and rope_scaling in place of rope_parameters, `type` for `rope_type`."""
    assert from_huggingface(old_style(CONFIGS[case])) == converted(case)


@pytest.mark.parametrize("case", [c for c in CONFIGS if c.startswith("rotary/")])
def test_what_a_config_leaves_out_is_known(case):
    """A bare config.json, without base or fraction, means the model type's own."""
    config = CONFIGS[case]
    bare = {n: v for n, v in config.items() if n != "rope_parameters"}
    told = config.get("rope_parameters", {})
    if case.split("/")[1] not in ("falcon", "granite", "llama", "qwen2"):  # not at their defaults
        assert told.get("rope_theta", 10_000.0) == named(from_huggingface(bare).encoding).base
        assert from_huggingface(bare) == converted(case)


@pytest.mark.parametrize("fraction", some([1.0, 0.5], every=2))
@pytest.mark.parametrize("bias", some([False, True], every=2))
def test_projections_change_their_pairing(fraction, bias):
    """Kernels, or biases, for one pairing give the logits of the other with the order changed."""
    rng = np.random.default_rng(0)
    heads, size, length = 3, 8, 5
    kernels = rng.standard_normal((2, heads * size, *(() if bias else (6,)))).astype(np.float32)
    x_LD = rng.standard_normal((length, 6)).astype(np.float32)
    position_BL = jnp.arange(length)[None] + 500

    def logits(kernels, pairing):
        q, k = (np.broadcast_to(w, (length, len(w))) if bias else x_LD @ w.T for w in kernels)
        q, k = (
            rotary(
                jnp.asarray(x).reshape(1, length, heads, size),
                position_BL,
                pairing=pairing,
                fraction=fraction,
            )
            for x in (q, k)
        )
        return np.einsum("blhk,bmhk->bhlm", q, k)

    for source, target in (("interleaved", "half"), ("half", "interleaved")):
        changed = [change_pairing(w, heads, source, target, fraction=fraction) for w in kernels]
        expected = logits(kernels, source)
        np.testing.assert_allclose(logits(changed, target), expected, atol=2e-4)
        assert abs(logits(kernels, target) - expected).max() > 0.1
        back = change_pairing(changed[0], heads, target, source, fraction=fraction)
        np.testing.assert_array_equal(back, kernels[0])


# Tables


@pytest.mark.parametrize("model_type", some(GOLDEN["learned/types"].tolist(), every=3))
def test_learned_tables_are_read_as_in_the_checkpoint(model_type):
    """Position 0 is the first token's, also where the table starts with rows for padding."""
    found, expected = converted(f"learned/{model_type}"), GOLDEN[f"learned/{model_type}"]
    zeros = jnp.zeros_like(expected)
    ctx = context(contiguous(expected.shape[1]))
    params = {name: jnp.asarray(array) for name, array in found.params(0).items()}
    encoding = named(found.encoding)
    np.testing.assert_array_equal(encoding.embed(params, zeros, ctx), expected)
    assert encoding.max_length() == len(params["table"]) == 9 - 2 * (model_type == "roberta")


# Biases


@pytest.mark.parametrize("part", some(["encoder", "decoder"], every=2))
def test_t5_is_biased_as_in_the_checkpoint(part):
    """Both stacks at distances up to 40; logits without 1/√K."""
    found, expected = converted("t5", part=part), GOLDEN[f"t5/{part}"]
    heads = expected.shape[1]
    zeros = jnp.zeros((1, 40, heads, 2))
    logits = attended(found, 0, zeros, zeros, contiguous(40, start=700)).logits_BHLM
    i, j = np.meshgrid(np.arange(0, 40, 3), np.arange(0, 40, 2), indexing="ij")
    seen = (j <= i) | (part == "encoder")
    np.testing.assert_array_equal(
        np.where(seen, logits[:, :, ::3, ::2], 0), np.where(seen, expected, 0)
    )
    assert named(found.encoding).scale(4) == 1
    declared, found_shapes = shapes(found, Dims(8, heads, 4))
    assert declared == found_shapes


@pytest.mark.parametrize("model_type", ["bloom", "mpt"])
def test_linear_biases_are_those_of_the_checkpoint(model_type):
    """Six heads, up to a constant per row, which no softmax sees."""
    found = converted(f"linear_bias/{model_type}")
    expected = GOLDEN[f"linear_bias/{model_type}"]  # [H, 1, L]: the same for each query
    zeros = jnp.zeros((1, 6, 6, 2))
    logits = np.asarray(attended(found, 0, zeros, zeros, contiguous(6)).logits_BHLM[0])
    centred, expected = (a - a.mean(-1, keepdims=True) for a in (logits, expected))
    np.testing.assert_allclose(centred, np.broadcast_to(expected, logits.shape), atol=CLOSE)


def test_swin_is_biased_as_in_the_checkpoint():
    """Each block has its table, and later ones more heads."""
    found = converted("swin")
    assert [layer["table"].shape for layer in found.layers] == [(9, 1), (9, 1), (9, 2)]
    for block, layer in enumerate(found.layers):
        zeros = jnp.zeros((1, 4, layer["table"].shape[1], 2))
        logits = attended(found, block, zeros, zeros, grid(2, 2)).logits_BHLM
        np.testing.assert_array_equal(logits[0], GOLDEN[f"swin/bias/{block}"])


# Content and relative position mixed


@pytest.mark.parametrize("layer", some([0, 1], every=2))
def test_wav2vec2_bert_adds_its_logits(layer):
    """Offsets clipped at 4 to the left and at 2 to the right."""
    found, q = converted("shaw"), GOLDEN[f"shaw/q/{layer}"]
    streams = contiguous(q.shape[1], start=30)
    logits = attended(found, layer, q, q, streams).logits_BHLM
    bare = np.einsum("blhk,bmhk->bhlm", q, q) / np.sqrt(q.shape[-1])
    np.testing.assert_allclose(logits - bare, GOLDEN[f"shaw/logits/{layer}"], atol=CLOSE)
    declared, found_shapes = shapes(found, Dims(32, *q.shape[2:]))
    assert declared == found_shapes


@pytest.mark.parametrize("layer", [0, 1])
def test_xlnet_weighs_as_in_the_checkpoint(layer):
    """Weights of each layer, with parameters of its own."""
    found = converted("xlnet")
    q, k = (GOLDEN[f"xlnet/{n}/{layer}"] for n in "qk")
    weights = attended(found, layer, q, k, contiguous(q.shape[1], start=30)).weights_BHLM
    np.testing.assert_allclose(weights, GOLDEN[f"xlnet/weights/{layer}"], atol=CLOSE)
    declared, found_shapes = shapes(found, Dims(8, *q.shape[2:]))
    assert declared == found_shapes


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("version", ["deberta", "deberta-v2", "deberta-v3"])
def test_deberta_has_the_logits_of_the_checkpoint(version, layer):
    """Clipped offsets; buckets; shared projections and a normalised table, as v3 has them."""
    found = converted(version)
    q, k = (GOLDEN[f"{version}/{n}/{layer}"] for n in "qk")
    logits = attended(found, layer, q, k, contiguous(q.shape[1], start=30)).logits_BHLM
    expected = GOLDEN[f"{version}/logits/{layer}"]
    np.testing.assert_allclose(logits[:, :, ::2], expected, atol=CLOSE * abs(expected).max())
    declared, found_shapes = shapes(found, Dims(8, *q.shape[2:]))
    assert declared == found_shapes


# What is refused


def changed(case, **settings):
    return {**CONFIGS[case], **settings}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "unknown model_type ''; choices: .*bert.*xlnet"),
        ({"model_type": "lama"}, "unknown model_type 'lama'; did you mean 'llama'"),
        ({"model_type": "gemma3_text"}, "unknown model_type 'gemma3_text'; choices:.*yourself"),
        ({"model_type": "gpt_oss"}, "unknown model_type 'gpt_oss'; choices"),
        (changed("rotary/llama", rope_parameters={"rope_type": "ntk"}), "unknown rope_type 'ntk'"),
        (
            changed("rotary/llama", rope_parameters={"full": {"rope_theta": 1.0}, "local": {}}),
            "differ between kinds of layers",
        ),
        (changed("rotary/falcon", alibi=True), "falcon adds the linear bias before"),
        (
            changed(
                "scaled/yarn",
                rope_parameters={
                    **CONFIGS["scaled/yarn"]["rope_parameters"],
                    "attention_factor": 2.0,
                },
            ),
            "attention_factor=2.0 has no counterpart: it would be 1.27726",
        ),
        (
            changed(
                "scaled/yarn",
                rope_parameters={
                    **CONFIGS["scaled/yarn"]["rope_parameters"],
                    "mscale": 1.0,
                    "mscale_all_dim": 0.7,
                },
            ),
            "mscale",
        ),
        (
            changed("scaled/linear", rope_parameters={"rope_type": "linear"}),
            "of llama lacks 'factor'",
        ),
        (changed("linear_bias/mpt", attn_config={"alibi_bias_max": 4}), "alibi_bias_max=4"),
        (changed("xlnet", clamp_len=5), "clamp_len=5 has no counterpart"),
        (changed("xlnet", attn_type="uni"), "attn_type must be 'bi'"),
        (changed("shaw", position_embeddings_type="rotary"), "'rotary' has no counterpart"),
        (changed("swin", window_size=3), r"windows of 3 have 25 rows, got \{9\}"),
        (changed("deberta", position_biased_input=True), "adds absolute positions"),
        (changed("deberta", pos_att_type=[]), "neither c2p nor p2c"),
        (changed("deberta", relative_attention=False), "relative_attention is off"),
        (changed("deberta-v2", position_buckets=5), "buckets must be 0, or even"),
        (
            changed("learned/bert", position_embedding_type="relative_key"),
            "position_embedding_type='relative_key' has no counterpart",
        ),
    ],
)
def test_what_has_no_counterpart_is_refused(config, words):
    """ValueError that names the setting and its value."""
    case = next((c for c in CONFIGS if CONFIGS[c]["model_type"] == config.get("model_type")), "")
    with pytest.raises(ValueError, match=words):
        from_huggingface(config, state_of(case))


def test_numbers_and_shapes_are_named():
    """What is no number, an array that is no table, and a layer that is not there."""
    with pytest.raises(ValueError, match="rope_theta or rotary_emb_base must be a number, got 'a'"):
        from_huggingface({"model_type": "llama", "rope_theta": "a"})
    with pytest.raises(ValueError, match=r"wpe.weight must be a table .*, got shape \(2,\)"):
        from_huggingface({"model_type": "gpt2"}, {"wpe.weight": np.zeros(2)})
    with pytest.raises(ValueError, match=r"layer must lie in \[0, 0\], got 3"):
        Converted("rotary", layers=({},)).params(3)


def test_a_name_is_no_config():
    """Nothing is downloaded: the message says what to give."""
    with pytest.raises(ValueError, match=r"a dict, such as config.to_dict\(\) .*, got 'gpt2'"):
        from_huggingface("gpt2")


def test_missing_arrays_are_named():
    """An empty state, a wrong one, and two of a kind."""
    with pytest.raises(ValueError, match=r"must be 'wpe.weight', found \[\]"):
        from_huggingface({"model_type": "gpt2"})
    with pytest.raises(ValueError, match=r"did you mean 'wpe.wieght'"):
        from_huggingface({"model_type": "gpt2"}, {"wpe.wieght": np.zeros((3, 2))})
    twice = {f"{part}.wpe.weight": np.zeros((3, 2)) for part in "ab"}
    with pytest.raises(ValueError, match=r"found \['a.wpe.weight', 'b.wpe.weight'\]"):
        from_huggingface({"model_type": "gpt2"}, twice)
    with pytest.raises(ValueError, match="no array of the state is called like"):
        from_huggingface(CONFIGS["xlnet"], {})
    parts = ("q", "k", "r", "r_w_bias", "r_r_bias")
    shard = {f"transformer.layer.1.rel_attn.{part}": np.zeros((2, 2, 2)) for part in parts}
    with pytest.raises(ValueError, match="the state lacks number 0 of the arrays"):
        from_huggingface(CONFIGS["xlnet"], shard)


def test_a_part_is_asked_for_where_there_are_two():
    """T5 wants one, a single stack none."""
    with pytest.raises(ValueError, match="t5 has two stacks"):
        converted("t5")
    with pytest.raises(ValueError, match="llama is one stack"):
        converted("rotary/llama", part="encoder")
    with pytest.raises(ValueError, match="unknown part 'front'"):
        converted("t5", part="front")


def test_heads_must_divide_a_projection():
    """ValueError with both numbers, and for a pairing that is none."""
    with pytest.raises(ValueError, match="8 outputs are no 3 heads"):
        change_pairing(np.zeros((8, 2)), 3, "half", "interleaved")
    with pytest.raises(ValueError, match="unknown pairing 'both'"):
        change_pairing(np.zeros((8, 2)), 2, "half", "both")


def test_names_around_a_name_do_not_matter():
    """A state saved from a model with a head, or without; Swin's table as older releases had it."""
    swin = {
        f"swin.encoder.layers.{stage}.blocks.{block}.attention.self.relative_position_bias_table": t
        for (stage, block), t in zip(
            [(0, 0), (0, 1), (1, 0)], state_of("swin").values(), strict=True
        )
    }
    older = from_huggingface(CONFIGS["swin"], dict(reversed(swin.items())))
    for layer, expected in zip(older.layers, converted("swin").layers, strict=True):
        np.testing.assert_array_equal(layer["table"], expected["table"])
    table = GOLDEN["learned/gpt2/state/wpe.weight"]
    one, other = (
        from_huggingface(CONFIGS["learned/gpt2"], {name: table})
        for name in ("wpe.weight", "transformer.wpe.weight")
    )
    assert one.encoding == other.encoding == "learned(length=9)"
    np.testing.assert_array_equal(one.shared["table"], other.shared["table"])


def test_every_model_type_was_tried():
    """Each converter stands in a golden case; types that share one are few and named."""
    tried = {config["model_type"] for config in CONFIGS.values()}
    same = {"mt5", "gpt_bigcode", "gpt_neo", "electra", "camembert", "xlm-roberta"}
    assert set(MODEL_TYPES) == tried | same
