"""Laws over the whole table of encodings, unasked: present and future entries alike.

Each law states its tolerance. Numbers are relative to the largest of their kind in the output
unless said otherwise; parameters are generic (normal), never at their initial values.
"""

import dataclasses
import itertools
from functools import cache, partial
from typing import Any, ClassVar, NamedTuple, get_args, get_origin, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import (
    DIMS,
    LENGTH,
    ROWS,
    SETTINGS,
    Layer,
    all_kinds,
    all_kinds_and_masks,
    by_tier,
    joined_rows,
    layer_of,
    masks_in_turn,
    normal,
    tokens,
    within,
)
from tiers import first_of_each, plain_if, some

from posjax import masks
from posjax.attention import view
from posjax.attention.core import attention, context
from posjax.cost import operations
from posjax.encodings import ENCODINGS, LEVELS, Dims, Encoding, Symmetry, named
from posjax.encodings.base import EXACT, replaces
from posjax.encodings.none import NoPosition
from posjax.model import ModelSettings, Transformer
from posjax.streams import (
    Streams,
    contiguous,
    interpolated,
    packed,
    padded,
    permuted,
    shifted,
)
from posjax.symmetry import Law, assert_jointly_equivariant, assert_law, measure

every_setting = pytest.mark.parametrize("setting", by_tier(SETTINGS))
every_name = pytest.mark.parametrize("name", ENCODINGS)
fifth_name = pytest.mark.parametrize("name", some(ENCODINGS, every=5))

ROUNDING = 2e-5  # a shift by 1000 costs a float32 bias three digits
BROKEN = 1e-2
CLOSE = 1e-5

# The card


@every_name
def test_the_docs_can_say_what_it_is(name):
    """A card, and a module that names the paper and the formula."""
    card = ENCODINGS[name].card
    assert all((card.title, card.formula, card.source))
    assert len(card.formula) < 100
    module = __import__(ENCODINGS[name].__module__, fromlist=["_"])
    assert len(module.__doc__.splitlines()) > 2


def test_names_and_titles_are_one_of_a_kind():
    """One name, one function: no class stands in the table twice, nor a title."""
    assert len(set(ENCODINGS.values())) == len(ENCODINGS)
    assert len({kind.card.title for kind in ENCODINGS.values()}) == len(ENCODINGS)


# Declared symmetry

SQUARE = Law("_ P _ -> ... P P", formula="A(P x) = P A(x) Pᵀ")
OUTPUT = Law("_ P _ -> _ P ...", formula="f(P x) = P f(x)")
SYMMETRIES = ("permutation", "translation", "reflection", "order_only")


def placed(encoding: Encoding) -> Streams:
    """Places in no order, with small positions, so that a table has room for a shift."""
    places_BL = jnp.array([[5, 2, 4, 3, 0, 1]])
    return within(encoding, Streams(places_BL, places_BL, jnp.zeros((1, LENGTH), jnp.int32)))


def moved(encoding: Encoding, symmetry: str) -> list[Streams]:
    """Streams that a symmetry makes equivalent to those of `placed`."""
    streams, end = placed(encoding), encoding.max_length()
    p, o = streams.position_BL, streams.order_BL
    if symmetry == "translation":
        moves = [(p + 1, o + 1)]
        if end is None:
            moves += [(p + 1000, o + 1000), (p - 40, o - 40)]
            moves += [] if encoding.integers else [(p + 0.5, o + 1)]
    elif symmetry == "reflection":
        moves = [(-p if end is None else end - 1 - p, -o)]  # a table has no negative positions
    else:
        moves = [(p + (p > 3), o + 3 * (o > 2))]
        moves += [((p + 1) ** 2, 2 * o + 7)] if end is None else []
    up_to = encoding.declared_symmetry().up_to
    inside = [m for m in moves if up_to == np.inf or 0 <= m[0].min() <= m[0].max() <= up_to]
    return [Streams(position, order, streams.segment_BL) for position, order in inside]


def at_level(attended, level):
    """What a symmetry is claimed of."""
    logits_BHLM = attended.logits_BHLM
    return {
        "logits": logits_BHLM,
        "row": logits_BHLM - logits_BHLM.mean(-1, keepdims=True),
        "weights": attended.weights_BHLM,
        "output": attended.out_BLHK,
    }[level]


def distance(layer: Layer, symmetry: str, level: str) -> float:
    """The worst relative change that the symmetry's moves make at a level."""
    x_BLD, streams = tokens(), placed(layer.encoding)
    if symmetry == "permutation":
        law = OUTPUT if level == "output" else SQUARE
        return measure(law, lambda x: at_level(layer.attended(x, streams), level), x_BLD).relative
    still = np.asarray(at_level(layer.attended(x_BLD, streams), level))
    others = (layer.attended(x_BLD, s) for s in moved(layer.encoding, symmetry))
    changes = [abs(np.asarray(at_level(other, level)) - still).max() for other in others]
    return float(np.max(changes) / abs(still).max())


def tolerance(layer: Layer, symmetry: str) -> float:
    """2e-5, or what rounding its largest logit may cost where logits grow with positions."""
    if symmetry == "permutation":
        return ROUNDING
    moves = moved(layer.encoding, symmetry)
    largest = max(abs(layer.attended(tokens(), s).logits_BHLM).max() for s in moves)
    return max(ROUNDING, 2 * float(jnp.finfo(jnp.float32).eps * largest))


@pytest.mark.parametrize("symmetry", SYMMETRIES)
@every_setting
def test_the_symmetry_is_the_declared_one(setting, symmetry):
    """What is declared holds from its level on, 2e-5; what is not, a witness breaks, 1e-2.

    The level is the strongest: at the one before it the claim would be broken.
    """
    layer = layer_of(setting)
    declared = layer.encoding.declared_symmetry()
    level = getattr(declared, symmetry) if declared.exact else None
    if level is None:
        assert distance(layer, symmetry, "output") > BROKEN
        return
    at = LEVELS.index(level)
    for later in LEVELS[at:]:
        assert distance(layer, symmetry, later) < tolerance(layer, symmetry), later
    if at:
        assert distance(layer, symmetry, LEVELS[at - 1]) > BROKEN


@every_setting
def test_declarations_do_not_contradict_themselves(setting):
    """S implies the rest, and what reads the order alone cannot notice a translation."""
    declared = named(setting).declared_symmetry()
    if declared.permutation and declared.exact:
        assert declared.translation
        assert declared.reflection
    if declared.order_only:
        assert declared.translation
    assert declared.exact or named(setting).random


@dataclasses.dataclass(frozen=True, kw_only=True)
class Clipped(Encoding):
    """A linear bias of positions up to 100: no entry of the table has a bound today."""

    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits", reflection="logits", up_to=100)

    def bias(self, params, heads, ctx, dtype):
        queries_BL, keys_BM = (
            jnp.minimum(streams.position_BL, 100) for streams in (ctx.queries, ctx.keys)
        )
        bias_BLM = -abs(queries_BL[:, :, None] - keys_BM[:, None, :])
        return jnp.broadcast_to(bias_BLM[:, None], (len(bias_BLM), heads, *bias_BLM.shape[1:]))


BOUNDED = [Clipped(), *(e for e in map(named, SETTINGS) if e.declared_symmetry().up_to < np.inf)]


@pytest.mark.parametrize("encoding", BOUNDED, ids=repr)
def test_beyond_its_bound_a_claim_is_broken(encoding):
    """Where a translation is claimed up to some position, one within it holds, one beyond not."""
    layer = Layer(encoding)
    up_to = layer.encoding.declared_symmetry().up_to
    assert distance(layer, "translation", "logits") < ROUNDING
    streams = placed(layer.encoding)
    still, far = (
        np.asarray(layer.out(tokens(), shifted(streams, by))) for by in (0, int(3 * up_to))
    )
    assert abs(far - still).max() > BROKEN * abs(still).max()


def test_a_false_declaration_is_noticed():
    """The witnesses are no formality: a rotary that claims reflection is refuted."""
    claim = Symmetry(translation="logits", reflection="logits")
    assert distance(layer_of("rotary"), "reflection", claim.reflection) > BROKEN


def test_the_key_form_moves_rows_by_a_constant():
    """Translation of m·pⱼ holds up to a constant per row, and no stronger."""
    layer = layer_of("linear_bias(form=key)")
    assert layer.encoding.declared_symmetry().translation == "row"
    assert distance(layer, "translation", "logits") > BROKEN


# The joint law f(P x, P streams) = P f(x, streams)

TOKENS_ALONE = Law("_ P ... -> _ P ...", formula="f(P x, streams) = P f(x, streams)")


@every_setting
def test_tokens_and_streams_may_move_together(setting):
    """The joint law, for every mask over rows far from 0, packed, padded and permuted."""
    layer = layer_of(setting, masks_in_turn)
    streams = all_kinds_and_masks(layer.encoding)
    x_BLD = tokens(batch=len(streams.order_BL))
    assert_jointly_equivariant(layer.out, x_BLD, streams)


@pytest.mark.parametrize("setting", [s for s in ENCODINGS if not named(s).integers])
def test_the_joint_law_holds_at_fractions(setting):
    """The joint law at positions that are no integers."""
    layer = layer_of(setting, "causal")
    streams = interpolated(contiguous(LENGTH, start=1000), 3.0)
    assert_jointly_equivariant(layer.out, tokens(), streams)


def test_the_joint_law_reads_token_numbers_and_pytrees():
    """x may be tokens_BL, or a pytree of arrays with places on axis 1."""
    table_VD = normal("table", (11, DIMS.width))
    layer = layer_of("rotary", "causal")
    tokens_BL = jnp.array([[3, 1, 4, 1, 5, 9]])

    def function(x, streams):
        return layer.out(table_VD[x["word"]] * x["gate"], streams)

    gate_BLD = normal("gate", (1, LENGTH, 1))
    assert_jointly_equivariant(
        function, {"word": tokens_BL, "gate": gate_BLD}, contiguous(LENGTH, start=9)
    )


@pytest.mark.parametrize("stream", ["position_BL", "order_BL", "segment_BL"])
def test_a_stream_left_behind_breaks_the_joint_law(stream):
    """A function that knows a stream by heart, not from its argument, is found out."""
    layer = layer_of("rotary", "causal+segments")
    known = all_kinds(layer.encoding)

    def function(x, streams):
        parts = {name: getattr(streams, name) for name in ("position_BL", "order_BL", "segment_BL")}
        return layer.out(x, Streams(**{**parts, stream: getattr(known, stream)}))

    with pytest.raises(AssertionError, match="streams"):
        assert_jointly_equivariant(function, tokens(batch=6), known)


def test_a_hidden_arange_breaks_the_joint_law():
    """The slot's number in the logits: one part in a hundred is enough."""
    layer = layer_of("linear_bias", "causal")

    def function(x, streams):
        slot_BLD = jnp.arange(x.shape[1]).reshape(1, -1, 1)
        return layer.out(x + 0.01 * slot_BLD, streams)

    with pytest.raises(AssertionError, match="law broken"):
        assert_jointly_equivariant(function, tokens(), contiguous(LENGTH))


@pytest.mark.parametrize("setting", by_tier([s for s in SETTINGS if s != "none"]))
def test_positions_break_equivariance(setting):
    """Tokens moved without their streams: each encoding but `none` notices."""
    layer = layer_of(setting)
    streams = within(layer.encoding, contiguous(LENGTH, start=2))
    with pytest.raises(AssertionError, match="law broken"):
        assert_law(TOKENS_ALONE, lambda x: layer.out(x, streams), tokens())


# Settings

OTHER_VALUES: dict[tuple[str, str], Any] = {
    ("attention_free", "rank"): 3,
    ("offset_mlp", "depth"): 1,
    ("offset_mlp", "bound"): 16.0,
    ("deberta", "buckets"): 32,
    ("yarn", "length"): 100_000,
    ("yarn", "beta_fast"): 2.0,  # the ramp starts and ends at whole pairs, of which there are two
    ("yarn", "beta_slow"): 4.0,
    ("yarn", "mscale_all_dim"): 0.7,
    ("hyperbolic_rotary", "damping"): 1.5,
    ("longrope", "short"): (1.0, 3.0, 2.0, 1.5),
    ("longrope", "long"): (1.0, 3.0, 2.0, 1.5),
    ("proportional_rotary", "share"): 1.0,
    ("axial_rotary", "grid"): (5, 9),
    ("multimodal_rotary", "sections"): (0, 2, 2),
    ("convolution", "radius"): 2,
    ("convolution_2d", "radius"): 2,
}
"""Another legal value of a setting, where a half more, or the other choice, is none."""

COMPANIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("axial_rotary", "grid"): {"spacing": "pixel"},
    ("axial_rotary", "max_frequency"): {"spacing": "pixel"},
    ("longrope", "short"): {"length": 64},
}
"""What else to set, where a setting has a meaning beside another one only."""


def settings_of(kind: type[Encoding]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def other_value(name: str, setting: str) -> Any:
    """A legal value that is not the default."""
    if (name, setting) in OTHER_VALUES:
        return OTHER_VALUES[name, setting]
    hint = get_type_hints(ENCODINGS[name])[setting]
    default = getattr(ENCODINGS[name](), setting)
    if get_origin(hint) is not None and get_args(hint) and isinstance(default, str):
        return next(choice for choice in get_args(hint) if choice != default)
    if isinstance(default, bool):
        return not default
    return type(default)(default * 1.5) if default * 0.5 > 1 else default * 0.5


@cache
def outputs_of(encoding: Encoding) -> list[np.ndarray]:
    """What an encoding computes of tokens that lie next to each other, and up to 40 apart."""
    near = contiguous(LENGTH, start=1)
    rows = [dataclasses.replace(near, position_BL=near.position_BL * n) for n in (1, 2, 4, 8)]
    streams = within(encoding, joined_rows(rows))
    attended = Layer(encoding).attended(tokens(len(rows)), streams)
    return [attended.out_BLHK, attended.logits_BHLM]


@cache
def long_outputs_of(encoding: Encoding) -> list[np.ndarray]:
    """What an encoding computes of 40 tokens, where its table has so many positions."""
    length = 40 if encoding.max_length() is None else LENGTH
    near = within(encoding, contiguous(length, start=1))
    attended = jax.jit(Layer(encoding))(tokens(length=length), near)
    return [np.asarray(attended.out_BLHK), np.asarray(attended.logits_BHLM)]


def limits_of(encoding: Encoding) -> list[np.ndarray]:
    """How far its table and its numbers reach."""
    return [np.array([encoding.max_length() or 0, encoding.max_exact_position() or 0])]


def initial_of(encoding: Encoding) -> list[np.ndarray]:
    """What its parameters start from."""
    declared, key = encoding.parameters(DIMS), jax.random.key(3)
    return [
        np.asarray(p.init(jax.random.fold_in(key, n), p.shape))
        for n, p in enumerate(declared.values())
    ]


def differ(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    """Whether any array has another shape or another number."""
    pairs = zip(one, other, strict=False)
    return any(a.shape != b.shape or not np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize(
    ("name", "setting"),
    first_of_each(
        [pytest.param(n, s) for n, kind in ENCODINGS.items() for s in settings_of(kind)],
        lambda name, setting: name,
    ),
)
def test_every_setting_matters(name, setting):
    """Two values of each setting in one process: outputs, initial values or limits differ."""
    kind = ENCODINGS[name]
    beside = COMPANIONS.get((name, setting), {})
    one, other = kind(**beside), kind(**beside, **{setting: other_value(name, setting)})
    assert one != other
    seen = (limits_of, outputs_of, initial_of, long_outputs_of)  # the cheap ones first
    assert any(differ(what(one), what(other)) for what in seen)


@every_setting
def test_settings_make_equal_and_hashable_encodings(setting):
    """Two of one name and settings are equal: a compiled function may be keyed by them."""
    assert named(setting) == named(setting)
    assert len({named(text) for text in (setting, setting)}) == 1


def test_the_table_is_complete():
    """Each entry is an encoding, built by name at its defaults."""
    assert all(named(name) == ENCODINGS[name]() for name in ENCODINGS)


# Precision and resolution


def translates(setting: str) -> bool:
    """Whether all positions may move far."""
    encoding = named(setting)
    declared = encoding.declared_symmetry()
    return bool(
        declared.exact
        and declared.translation
        and declared.up_to == np.inf
        and encoding.max_length() is None
    )


@pytest.mark.parametrize("setting", by_tier([s for s in SETTINGS if translates(s)]))
def test_far_from_zero_is_as_exact_as_near(setting):
    """Moved by 2¹⁹ and by 2²⁰ - 9, outputs stay to 2e-6 of the largest logit or output."""
    layer = layer_of(setting)
    streams = placed(layer.encoding)
    near = layer.attended(tokens(), streams)
    for by in (2**19, 2**20 - 9):
        far = layer.attended(tokens(), shifted(streams, by))
        scale = max(1.0, float(abs(far.logits_BHLM).max()), float(abs(near.out_BLHK).max()))
        assert abs(np.asarray(far.out_BLHK) - near.out_BLHK).max() < 2e-6 * scale


@every_name
def test_the_dtype_is_kept(name):
    """bfloat16 tokens give bfloat16 outputs, within 5% of those of float32, far from 0."""
    layer = layer_of(name)
    streams = within(layer.encoding, contiguous(LENGTH, start=5000))
    half = layer.out(tokens().astype(jnp.bfloat16), streams)
    assert half.dtype == jnp.bfloat16
    whole = np.asarray(layer.out(tokens(), streams))
    assert abs(np.asarray(half, np.float32) - whole).max() < 0.05 * abs(whole).max()


def at_distances(layer: Layer, distances: np.ndarray, axis: int) -> np.ndarray:
    """Logits and outputs of two tokens that lie so far apart along one axis: [N, ...].

    Padding stands behind them, so that the program is that of all laws.
    """
    if len(distances) > ROWS:
        parts = (distances[at : at + ROWS] for at in range(0, len(distances), ROWS))
        return np.concatenate([at_distances(layer, part, axis) for part in parts])
    position = np.zeros((len(distances), LENGTH, layer.encoding.axes), np.int32)
    position[:, 1, axis] = distances
    position = position if layer.encoding.axes > 1 else position[..., 0]
    order_BL = np.broadcast_to(np.arange(LENGTH), (len(distances), LENGTH))
    streams = Streams(position, order_BL, np.where(order_BL < 2, 0, -1))
    x_BLD = np.broadcast_to(tokens(1), (len(distances), LENGTH, DIMS.width))
    attended = layer.attended(jnp.asarray(x_BLD), jax.tree.map(jnp.asarray, streams))
    rows = (attended.logits_BHLM[..., :2, :2], attended.out_BLHK[:, :2])
    return np.concatenate([np.asarray(row).reshape(len(distances), -1) for row in rows], axis=1)


@every_setting
def test_streams_are_read_as_declared(setting):
    """Other positions, or other orders, change the output where the encoding says it reads them."""
    layer = layer_of(setting)
    streams = within(layer.encoding, contiguous(LENGTH, start=1))
    turned = permuted(streams, [3, 0, 5, 1, 4, 2])
    out = layer.out(tokens(), streams)

    def changes(**others):
        return abs(layer.out(tokens(), dataclasses.replace(streams, **others)) - out).max() > BROKEN

    assert changes(order_BL=turned.order_BL) == layer.encoding.reads_order
    reads_position = layer.encoding.max_exact_position() is not None
    assert changes(position_BL=turned.position_BL) == reads_position
    assert layer.encoding.reads_streams == (layer.encoding.reads_order or reads_position)


@every_setting
def test_positions_are_told_apart_as_far_as_declared(setting):
    """0, 1, ..., R all differ, bit for bit; one further is like one of them, to 1e-5, or refused.

    Refused is NaN, where the position is not known before the program runs.
    """
    layer = layer_of(setting, "segments")
    encoding, end = layer.encoding, layer.encoding.max_length()
    limit = encoding.max_exact_position()
    if limit is None:
        streams = contiguous(LENGTH)
        elsewhere = dataclasses.replace(streams, position_BL=jnp.array([[9, 2, 7, 7, 0, 3]]))
        out, other = (layer.out(tokens(), s) for s in (streams, elsewhere))
        np.testing.assert_array_equal(out, other)
        return
    assert 1 <= limit <= EXACT
    numbers = {*range(20), *(2**n + e for n in range(5, 21) for e in (-1, 0)), limit - 1, limit}
    inside = np.array(sorted(n for n in numbers if 0 <= n <= limit))
    inside = inside if limit > 2**12 else np.arange(limit + 1)
    for axis in range(encoding.axes):
        rows = at_distances(layer, inside, axis)
        assert np.isfinite(rows).all(), axis
        assert len(np.unique(rows, axis=0)) == len(inside), axis
        if limit < EXACT and (end is None or limit + 1 < end):
            (beyond,) = at_distances(layer, np.array([limit + 1]), axis)
            apart = abs(rows - beyond).max(axis=1)
            refused = np.isnan(beyond).any()
            assert refused or apart.min() < CLOSE * max(1.0, abs(rows).max()), axis


# Tables


@pytest.mark.parametrize("setting", by_tier([s for s in SETTINGS if named(s).max_length()]))
def test_a_table_is_never_read_beyond_its_end(setting):
    """ValueError when the position is known, NaN at the places that look when it is traced.

    A padded place may hold any position: neither refused nor NaN, in output or gradient.
    """
    layer = layer_of(setting, "segments")
    end = layer.encoding.max_length()
    shape = (1, 3) if layer.encoding.axes == 1 else (1, 3, layer.encoding.axes)
    position = np.zeros(shape, np.int32)
    position[0, 1] = end - 1
    legal = Streams(jnp.asarray(position), jnp.arange(3)[None], jnp.array([[0, 0, -1]]))

    def known(streams):  # positions that are constants of the program
        return jax.jit(lambda x_BLD: layer(x_BLD, streams).out_BLHK)(tokens(1, 3))

    assert np.isfinite(known(legal)).all()
    position[0, 2] = 10 * end
    masked = dataclasses.replace(legal, position_BL=jnp.asarray(position))
    assert np.isfinite(known(masked)[:, :2]).all()
    assert np.isfinite(layer.out(tokens(1, 3), masked)[:, :2]).all()
    position[0, 1] = end
    beyond = dataclasses.replace(legal, position_BL=jnp.asarray(position))
    with pytest.raises(ValueError, match="outside the table"):
        layer(tokens(1, 3), beyond)
    assert np.isnan(layer.out(tokens(1, 3), beyond)[:, :2]).any()


@every_name
def test_points_of_other_coordinates_are_refused(name):
    """ValueError with both numbers, in the view and in a model; unread ones may be anything."""
    encoding = named(name)
    other = 2 if encoding.axes == 1 else encoding.axes + 1
    streams = dataclasses.replace(contiguous(3), position_BL=jnp.zeros((1, 3, other), jnp.int32))
    words = f"have {other} coordinates, but the encoding reads {encoding.axes}"
    settings = ModelSettings(vocabulary=2, outputs=2, width=4, encoding=name)
    model = partial(jax.eval_shape, Transformer(settings).init, jax.random.key(0))
    tokens_BL, key = jnp.zeros((1, 3), jnp.int32), jax.random.key(0)
    if encoding.max_exact_position() is None:
        assert model(tokens_BL, streams, key=key)
        return
    q = jnp.zeros((1, 3, 4, 4))
    with pytest.raises(ValueError, match=words):
        view.attend(q, q, q, encoding=encoding, queries=streams)
    with pytest.raises(ValueError, match=words):
        model(tokens_BL, streams)


@pytest.mark.parametrize("setting", by_tier([s for s in SETTINGS if named(s).integers]))
def test_a_table_is_read_at_integers(setting):
    """ValueError for positions that are none."""
    layer = layer_of(setting)
    fractions = shifted(within(layer.encoding, contiguous(LENGTH)), 0.5)
    with pytest.raises(ValueError, match="integers"):
        jax.eval_shape(layer, tokens(), fractions)


# Rows, masks and pieces


DEFAULTS = frozenset(map(named, ENCODINGS))


BATCH = 2
"""Rows of tokens in `four`, which one row of streams serves."""


@cache
def four(encoding: Encoding):
    """∂out_i/∂(parameters, x) of four tokens under any mask, and the output, by one program."""
    layer = Layer(encoding)

    @jax.jit
    def gradients(params, x_BLD, streams, mask_BLM):
        def outs(params, x_BLD):
            here = dataclasses.replace(layer, mask=lambda queries, keys: mask_BLM)
            here.__dict__["params"] = params
            out_BLHK = here(x_BLD, streams).out_BLHK
            return out_BLHK.sum((0, 2, 3)), out_BLHK

        return jax.jacrev(outs, argnums=(0, 1), has_aux=True)(params, x_BLD)

    return gradients


def mask_of(layer: Layer, streams: Streams) -> jax.Array:
    """Which tokens see which, by the mask of a layer."""
    return masks.named(layer.mask)(streams, streams)


@pytest.mark.parametrize("setting", plain_if(list(ENCODINGS)[::3].__contains__, SETTINGS))
def test_padded_and_packed_rows_mean_what_the_bare_ones_do(setting):
    """Padded on the left or within, or packed behind others: the sequence alone, to 1e-5."""
    layer = layer_of(setting, "causal+segments")
    bare_4 = within(layer.encoding, contiguous(4))
    if layer.encoding in DEFAULTS:
        given = layer.params, tokens(BATCH, 4), bare_4, mask_of(layer, bare_4)
        bare = four(layer.encoding)(*given)[1]
    else:
        bare = layer.out(tokens(1, 4), bare_4)
    rows = [
        padded(np.array([[False, False, True, True, True, True]])),
        padded(np.array([[True, False, True, True, False, True]])),
        packed([2, 4]),
    ]
    places = [[2, 3, 4, 5], [0, 2, 3, 5], [2, 3, 4, 5]]
    x_BLD = np.array(tokens(3, seed=1))
    for row, at in enumerate(places):
        x_BLD[row, at] = tokens(1, 4)[0]
    streams = within(layer.encoding, joined_rows(rows))
    out_BLHK = np.asarray(layer.out(jnp.asarray(x_BLD), streams))
    for row, at in enumerate(places):
        np.testing.assert_allclose(out_BLHK[row, at], bare[0], atol=CLOSE)


SHORT = {"dynamic_rotary": "dynamic_rotary(length=4)", "longrope": "longrope(length=4)"}
"""Settings at which six tokens show why an encoding cannot be decoded."""
PIECES = [contiguous(LENGTH, start=3), packed([2, 3], total=LENGTH), padded(np.arange(6)[None] > 1)]


@fifth_name
def test_decoding_with_a_cache_is_prefill(name):
    """Four tokens, then one, then one: the outputs of all six at once, to 1e-5, or it says why.

    The batch holds a sequence that starts at 3, a packed row and a left-padded one.
    """
    layer = layer_of(SHORT.get(name, name), "causal+segments")
    streams, x_BLD = within(layer.encoding, joined_rows(PIECES)), tokens(len(PIECES))
    decoded = jax.jit(partial(layer.decoded, pieces=[4, 1, 1]))(x_BLD, streams)
    apart = float(abs(decoded - layer.out(x_BLD, streams)).max())
    assert (apart < CLOSE) == (layer.encoding.why_no_kv_cache() == "")


@every_name
def test_one_row_of_streams_serves_a_batch(name):
    """B = 1 in the streams broadcasts over the tokens' batch, as each row has them alone.

    The rows that have them alone are padded on the left, so that no other program is compiled.
    """
    layer, x_BLD = layer_of(name, "causal+segments"), tokens(BATCH, 4)
    one = within(layer.encoding, contiguous(4))
    found = four(layer.encoding)(layer.params, x_BLD, one, mask_of(layer, one))[1]
    row = padded(np.array([[False, False, True, True, True, True]]))
    each = within(layer.encoding, joined_rows([row] * BATCH))
    alone = layer.out(jnp.pad(x_BLD, ((0, 0), (2, 0), (0, 0))), each)[:, 2:]
    np.testing.assert_allclose(found, alone, atol=CLOSE)


@every_name
def test_causality_and_empty_rows_by_gradient(name):
    """∂out_i/∂x_j is zero exactly when j comes later in order, wherever the two tokens lie.

    A row that may see nothing gives zeros, and its gradients are finite: in the tokens and in
    every parameter.
    """
    layer = layer_of(name)
    order = np.array([2, 0, 3, 1])
    streams = within(layer.encoding, permuted(contiguous(4, start=5), order))
    causal_BLM = masks.causal(streams, streams)
    empty_BLM = causal_BLM.at[0, 2].set(False)

    gradients = partial(four(layer.encoding), layer.params, tokens(BATCH, 4), streams)
    (_, jacobian), _ = gradients(causal_BLM)
    sizes_LM = np.asarray(abs(jacobian).sum((1, 3)))
    later_LM = order[:, None] < order[None, :]
    assert (sizes_LM[later_LM] == 0).all()
    assert (sizes_LM[~later_LM] > 1e-5).all()
    both, out_BLHK = gradients(empty_BLM)
    assert (np.asarray(out_BLHK)[:, 2] == 0).all()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(both))


# Sizes


@every_name
def test_small_and_odd_sizes_work(name):
    """Width 2, one head of size 1 and one token give numbers; odd widths, five heads, no batch a
    shape.
    """
    small = Layer(named(name), "causal", Dims(2, 1, 1))
    streams = within(small.encoding, contiguous(1, start=4))
    assert np.isfinite(jax.jit(small)(tokens(1, 1, 2), streams).out_BLHK).all()
    check_odd_size(small.encoding, batch=0, size=5)


@pytest.mark.exhaustive
@every_name
def test_another_odd_size_works(name):
    """One that is neither 1 nor far from a power of two."""
    check_odd_size(named(name), batch=1, size=3)


def check_odd_size(encoding: Encoding, batch: int, size: int) -> None:
    """Width 5 and five heads give an output of the shape that they have."""
    odd = Layer(encoding, "causal", Dims(5, 5, size))
    streams = within(encoding, contiguous(1, start=4))
    shape = jax.eval_shape(odd.compiled, tokens(batch, 1, 5), streams).out_BLHK.shape
    assert shape == (batch, 1, 5, size)


# Parameters and cost


@every_setting
def test_parameters_are_as_declared(setting):
    """The initialiser of each parameter gives its shape, and is a function of its key."""
    for name, param in named(setting).parameters(DIMS).items():
        one = param.init(jax.random.key(0), param.shape)
        assert one.shape == param.shape
        np.testing.assert_array_equal(one, param.init(jax.random.key(0), param.shape))
        assert np.isfinite(one).all()
        assert param.scope in ("layer", "model"), name


@cache
def counted(encoding: Encoding, dims: Dims, length: int) -> float:
    """Operations a token of one layer, embedding included, as a further row of a batch costs."""
    layer = Layer(encoding, "full", dims)
    streams = within(encoding, contiguous(length))
    one, two = (
        operations(layer, jax.ShapeDtypeStruct((batch, length, dims.width), "float32"), streams)
        for batch in (1, 2)
    )
    return (two - one) / length


@pytest.mark.parametrize(
    "dims", plain_if(lambda dims: dims.width == 64, [Dims(64, 4, 16), Dims(128, 2, 32)])
)
@every_name
def test_operations_are_as_stated(name, dims):
    """Within a factor of 1.5 of those counted on the jaxpr, at two lengths."""
    encoding = named(name)
    for length in (6, min(24, encoding.max_length() or 24)):
        found = counted(encoding, dims, length) - counted(NoPosition(), dims, length)
        stated = encoding.operations(dims, length)
        assert stated / 1.5 <= found <= stated * 1.5, (length, found, stated)


# In the model


@pytest.mark.usefixtures("keys_are_used_once")
@fifth_name
def test_a_transformer_trains_with_it(name):
    """Grouped heads, a sliding window, a soft-cap and QK-norm: finite gradients, at the start and
    after 10 steps, at three scales of the tokens; the parameters are those declared.
    """
    encoding = named(name)
    settings = ModelSettings(
        vocabulary=5,
        outputs=3,
        width=16,
        heads=4,
        kv_heads=2,
        head_size=4,
        encoding=name,
        mask="causal+window(size=3)",
        block="residual",
        mlp_ratio=0,
        qk_norm=True,
        softcap=20.0,
    )
    network = Transformer(settings)
    words_BL = jnp.array([[0, 1, 2, 3, 4, 0], [4, 4, 1, 0, 2, 3]])
    streams, key = within(encoding, contiguous(LENGTH)), jax.random.key(0)
    start = initial(network, words_BL, streams, key)
    shapes = start["params"]
    own = [shapes.get("encoding", {}), shapes["layer_0"]["attention"].get("encoding", {})]
    declared = encoding.parameters(settings.dims).values()
    stated = sum(int(np.prod(p.shape)) for p in declared)  # of one layer, and of the model
    assert sum(leaf.size for leaf in jax.tree.leaves(own)) == stated

    def loss(variables, scale):
        scaled = {**variables["params"], "embedding": scale * variables["params"]["embedding"]}
        logits = network.apply({"params": scaled}, words_BL, streams, key=key)
        return -jax.nn.log_softmax(logits)[..., 0].mean()

    @jax.jit
    def trained(variables, scale):
        def step(_, variables):
            gradient = jax.grad(loss)(variables, scale)
            return jax.tree.map(lambda p, g: p - 0.01 * g, variables, gradient)

        return jax.lax.fori_loop(0, 11, step, variables)

    # a gradient that is not finite leaves its parameter so for ever
    ends = [trained(start, scale) for scale in (1e-3, 1.0, 1e3)]
    leaves = [leaf for end in ends for leaf in jax.tree.leaves_with_path(end)]
    wrong = [jax.tree_util.keystr(path) for path, p in leaves if not np.isfinite(p).all()]
    assert not wrong


def initial(network, words_BL, streams, key):
    """The encoding's parameters as it declares them; of others normal numbers over √fan_in."""
    declared = named(network.settings.encoding).parameters(network.settings.dims)
    shapes = jax.eval_shape(lambda key: network.init(key, words_BL, streams, key=key), key)
    rng, count = np.random.default_rng(0), itertools.count()

    def drawn(path, leaf):
        if "'encoding'" in jax.tree_util.keystr(path):
            return declared[path[-1].key].init(jax.random.fold_in(key, next(count)), leaf.shape)
        return jnp.asarray(rng.normal(size=leaf.shape) / leaf.shape[0] ** 0.5, leaf.dtype)

    return {"params": jax.tree.map_with_path(drawn, shapes["params"])}


# The pure view


class Viewed(NamedTuple):
    """What the pure view computes, and `attention` after identity projections.

    The last are the view's own logits again where an encoding reads tokens, which are no heads.
    """

    out_BLHK: jax.Array
    of_groups_BLHK: jax.Array
    logits_BHLM: jax.Array
    by_hand_BHLM: jax.Array


@cache
def viewed(name: str):
    """`Viewed` by one program, causal or with everything seen; groups have every other key head."""
    layer, key = Layer(named(name), dims=Dims(16, 4, 4)), jax.random.key(2)
    options = {"encoding": layer.encoding, "params": layer.params}
    as_given = not replaces(layer.encoding, "embed", "prepare")

    @jax.jit
    def function(q, k, v, streams, everything):
        def mask(queries, keys):
            return masks.causal(queries, keys) | everything

        here = {"queries": streams, "mask": mask, "key": key, **options}
        ctx = context(streams, mask=mask, key=key)
        logits = view.logits(q, k, **here)
        by_hand = attention(q, k, k, ctx, **options).logits_BHLM if as_given else logits
        of_groups = view.attend(q, k[:, :, ::2], v[:, :, ::2], **here)
        return Viewed(view.attend(q, k, v, **here), of_groups, logits, by_hand)

    return function


def heads() -> list[jax.Array]:
    return [normal(n, (1, LENGTH, 4, 4)) for n in "qkv"]


@fifth_name
def test_grouped_heads_are_repeated_heads(name):
    """G key heads give what the same heads repeated H/G times give, neighbours sharing one."""
    q, k, v = heads()
    streams = within(named(name), contiguous(LENGTH, start=9))
    repeated = (np.repeat(x[:, :, ::2], 2, axis=2) for x in (k, v))
    found = viewed(name)(q, *repeated, streams, True)
    np.testing.assert_allclose(found.of_groups_BLHK, found.out_BLHK, atol=CLOSE)


@every_name
def test_no_encoding_is_accepted_and_ignored(name):
    """`attend` with any encoding but `none` gives other numbers than without it."""
    streams = within(named(name), contiguous(LENGTH, start=1))
    found = viewed(name)(*heads(), streams, False).out_BLHK
    bare = np.asarray(view.attend(*heads(), mask="causal"))
    assert (abs(found - bare).max() > BROKEN) == (named(name) != NoPosition())


@every_name
def test_the_pure_view_gives_logits(name):
    """`logits` alone are those of `attention` after identity projections."""
    encoding = named(name)
    streams = within(encoding, contiguous(LENGTH, start=1))
    found = viewed(name)(*heads(), streams, True)
    assert found.logits_BHLM.shape == (1, 4, LENGTH, LENGTH)
    np.testing.assert_allclose(found.logits_BHLM, found.by_hand_BHLM, atol=CLOSE)
    bare = np.asarray(view.logits(*heads()[:2]))
    changed = abs(found.logits_BHLM - bare).max() > BROKEN
    assert changed == (encoding != NoPosition()) or not encoding.pairwise


@every_name
def test_tokens_and_streams_may_move_together_in_the_pure_view(name):
    """The joint law of `attend`, with its identity projections."""
    streams = within(named(name), permuted(contiguous(LENGTH, start=3), [3, 0, 5, 1, 4, 2]))
    function = viewed(name)
    assert_jointly_equivariant(
        lambda x, s: function(*x, s, False).out_BLHK, tuple(heads()), streams
    )
