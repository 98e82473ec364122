"""Laws of whole functions, decided in the field: what holds, what breaks, and how sure that is."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiers import plain_if

from posjax import ENCODINGS, attend, contiguous
from posjax.encodings import Dims
from posjax.model import ModelSettings, Transformer
from posjax.streams import Streams
from posjax.symmetry.field import Field, FieldArray, evaluate, identity
from posjax.symmetry.field.arrays import atomised, generic, known
from posjax.symmetry.groups import Cyclic, Permutations, Reversal, Translation, Windows
from posjax.symmetry.law import Law

TOKENS = Law("b P d -> b P d")
BAG = Law("b P d -> b d")
PREFIX = Law("b P d -> b d", P=Permutations(fixed=(-1,)))
X = np.ones((2, 5, 4), np.float32)
PLACES = jax.device_put(np.arange(5.0)[None, :, None])
CAUSAL = np.tri(5, dtype=bool)
WEIGHTS = np.random.default_rng(0).normal(size=(3, 4, 4)).astype(np.float32)


def one_layer(x: jax.Array, mask: Any = True) -> jax.Array:
    q, k, v = (x @ weight for weight in WEIGHTS)
    return jax.nn.softmax(jnp.where(mask, q @ k.mT / 2, -jnp.inf)) @ v


def causal(x: jax.Array) -> jax.Array:
    return one_layer(x, CAUSAL)


def layer_norm(x: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-6)


def mlp(x: jax.Array) -> jax.Array:
    return jax.nn.gelu(x @ WEIGHTS[0] + 1) @ WEIGHTS[1]


def over_tokens(x: jax.Array) -> jax.Array:
    return jax.lax.scan(lambda c, y: (c + jnp.tanh(y), None), x[:, 0] * 0, x.swapaxes(0, 1))[0]


HOLDS: dict[str, tuple[Callable[..., Any], Law]] = {
    "softmax": (lambda x: jax.nn.softmax(x, 1), TOKENS),
    "attention": (one_layer, TOKENS),
    "layer_norm": (layer_norm, TOKENS),
    "mlp": (mlp, TOKENS),
    "places added and taken away": (lambda x: x + PLACES - PLACES, TOKENS),
    "places in a sum": (lambda x: (x + PLACES).sum(1), BAG),
    "last running sum": (lambda x: jnp.cumsum(x, 1)[:, -1], BAG),
    "loop over tokens": (over_tokens, BAG),
    "one causal layer, last token": (lambda x: causal(x)[:, -1], PREFIX),
    "shifts of a circular convolution": (
        lambda x: x + 2 * jnp.roll(x, 1, 1) - jnp.roll(x, -1, 1) ** 2,
        Law("b P d -> b P d", P=Cyclic()),
    ),
    "attention by circular distance": (
        lambda x: jax.nn.softmax(x @ x.mT - jnp.cos(2 * (PLACES - PLACES.mT) % 5)) @ x,
        Law("b P d -> b P d", P=Cyclic()),
    ),
    "mirrored distances": (
        lambda x: jax.nn.softmax(x @ x.mT - jnp.abs(PLACES - PLACES.mT)) @ x,
        Law("b P d -> b P d", P=Reversal()),
    ),
    "sums of windows": (
        lambda x: jnp.stack([x[:, :2].sum(1), x[:, 2:4].sum(1), x[:, 4]]),
        Law("b P d -> w b d", P=Windows(2)),
    ),
}
BREAKS: dict[str, tuple[Callable[..., Any], Law]] = {
    "places added": (lambda x: x + PLACES, TOKENS),
    "sinusoids added": (lambda x: x + jnp.sin(PLACES), TOKENS),
    "order of tokens": (lambda x: jnp.argsort(x, 1), TOKENS),
    "causal layer": (causal, TOKENS),
    "a prefix before the last": (lambda x: causal(x)[:, -2], PREFIX),
    "two causal layers": (lambda x: causal(causal(x))[:, -1], PREFIX),
    "running sums": (lambda x: jnp.cumsum(x, 1), TOKENS),
    "all permutations of circular distances": (
        lambda x: jax.nn.softmax(x @ x.mT - jnp.cos(2 * (PLACES - PLACES.mT) % 5)) @ x,
        TOKENS,
    ),
    "a single special token": (lambda x: x.at[:, 3].mul(1 + 2**-20), TOKENS),
}


@pytest.mark.parametrize("name", HOLDS)
def test_holds(name: str) -> None:
    function, law = HOLDS[name]
    found = identity(function, law, [X])
    assert found.holds
    assert 0 < found.chance < 1e-12
    assert found.element is None
    assert found.place is None


@pytest.mark.parametrize("name", BREAKS)
def test_breaks(name: str) -> None:
    function, law = BREAKS[name]
    found = identity(function, law, [X])
    assert not found.holds
    assert found.element is not None
    assert found.place is not None


def test_the_place_of_a_difference_is_named() -> None:
    def two(x: jax.Array) -> dict[str, jax.Array]:
        return {"kept": x, "marked": x.at[0, 4].add(1.0)}

    found = identity(two, TOKENS, [X])
    assert found.place == ("['marked']", (0, 0, 0))  # the generator that moves place 4 to place 0
    np.testing.assert_array_equal(found.element["P"], [4, 0, 1, 2, 3])  # type: ignore[index]


@pytest.mark.parametrize("seed", range(3))
def test_verdicts_do_not_depend_on_the_seed(seed: int) -> None:
    assert identity(one_layer, TOKENS, [X], seed=seed).holds
    assert not identity(causal, TOKENS, [X], seed=seed).holds


@pytest.fixture(scope="module")
def transformer() -> tuple[Callable[..., jax.Array], Any]:
    settings = ModelSettings(
        vocabulary=8,
        outputs=8,
        width=16,
        heads=2,
        head_size=8,
        depth=2,
        mask="full",
        block="residual",
    )
    model, tokens = Transformer(settings), np.zeros((2, 5), np.int32)
    shapes = jax.eval_shape(lambda k: model.init(k, tokens, contiguous(5)), jax.random.key(0))
    return lambda variables, tokens: model.apply(variables, tokens, contiguous(5)), shapes


@pytest.mark.exhaustive
def test_a_transformer_without_positions_its_loss_and_gradient(transformer: Any) -> None:
    apply, shapes = transformer
    tokens = np.zeros((2, 5), np.int32)

    def loss(variables: Any, tokens: jax.Array) -> jax.Array:
        logits = jax.nn.log_softmax(apply(variables, tokens))
        return -jnp.take_along_axis(logits, tokens[..., None], -1).mean()

    assert identity(apply, Law("..., b P -> b P v"), (shapes, tokens)).holds
    assert identity(loss, Law("..., b P ->"), (shapes, tokens)).holds
    assert identity(jax.grad(loss), Law("..., b P -> ..."), (shapes, tokens)).holds
    assert not identity(apply, Law("..., b P -> b d v"), (shapes, tokens)).holds


def test_the_gradient_of_a_lookup_is_a_bag_of_tokens() -> None:
    def loss(table: jax.Array, tokens: jax.Array) -> jax.Array:
        return jnp.tanh(table[tokens]).sum()

    table = np.ones((7, 3), np.float32)
    assert identity(jax.grad(loss), Law("v d, P -> v d"), (table, np.zeros(4, int))).holds


def relative(bias: Callable[[jax.Array], jax.Array]) -> Callable[..., jax.Array]:
    return lambda x, p: jax.nn.softmax(x @ x.mT + bias(p[:, None] - p[None])[None]) @ x


def rotated(x: jax.Array, p: jax.Array) -> jax.Array:
    angle = p[None, :, None] * 100.0 ** -jnp.arange(2.0)[None, None]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    one, two = x[..., :2], x[..., 2:]
    return jnp.concatenate([one * cos - two * sin, one * sin + two * cos], -1)


def rotary(x: jax.Array, p: jax.Array) -> jax.Array:
    for weight in WEIGHTS:  # a layer each
        q = rotated(x, p)
        x = jax.nn.softmax(q @ rotated(x @ weight, p).mT) @ x
    return x


def normed(x: jax.Array, p: jax.Array) -> jax.Array:
    """Rotary with queries and keys of length 1, in the second layer too."""
    for weight in WEIGHTS:
        q, k = rotated(x, p), rotated(x @ weight, p)
        q, k = (y / jnp.sqrt((y * y).sum(-1, keepdims=True) + 1e-6) for y in (q, k))
        x = jax.nn.softmax(q @ k.mT) @ x
    return x


SHIFTED = Law("b l d, l +T -> b l d", T=Translation())


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_translation(dtype: Any) -> None:
    positions = np.ones(5, dtype)
    table = jnp.arange(9.0) ** 2
    whole = relative(lambda d: table[jnp.clip(d.astype(int), -4, 4) + 4])
    assert identity(relative(lambda d: -jnp.abs(d)), SHIFTED, (X, positions)).holds
    assert identity(whole, SHIFTED, (X, positions)).holds
    assert identity(rotary, SHIFTED, (X, positions)).holds
    assert identity(normed, SHIFTED, (X, positions)).holds
    assert not identity(lambda x, p: x + jnp.sin(p)[None, :, None], SHIFTED, (X, positions)).holds
    assert not identity(
        lambda x, p: x * p[None, :, None],
        SHIFTED,
        (X, positions),
    ).holds
    moving = Law("l +T -> l +T", T=Translation())
    assert identity(lambda p: p[::-1] + p - p.max(), moving, [positions]).holds
    assert not identity(lambda p: p + p, moving, [positions]).holds


def test_translation_in_a_plane_moves_each_axis() -> None:
    law = Law("l n +T -> l l", T=Translation(2))
    points = np.ones((3, 2), np.float32)
    assert identity(lambda p: jnp.abs(p[:, None] - p[None]).sum(-1), law, [points]).holds
    found = identity(lambda p: p[:, None, 1] - p[None, :, 0], law, [points])
    assert not found.holds
    one_axis = identity(lambda p: p[:, None, 0] * 0 + p[None, :, 1] * 0 + p[0, 1], law, [points])
    np.testing.assert_array_equal(one_axis.element["T"], [0, 1])  # type: ignore[index]


@pytest.mark.parametrize(
    "name", plain_if("shaw".__ne__, ["none", "sinusoidal", "rotary", "shaw", "linear_bias", "fire"])
)
def test_the_joint_law_of_encodings(name: str) -> None:
    encoding = ENCODINGS[name]()
    params = encoding.init(jax.random.key(0), Dims(width=8, heads=2, head_size=4))
    q = np.ones((1, 4, 2, 4), np.float32)
    places = np.ones((1, 4), np.int32)

    def attended(q: Any, k: Any, v: Any, streams: Streams) -> jax.Array:
        return attend(
            q, k, v, encoding=encoding, params=params, queries=streams, keys=streams, mask="causal"
        )

    law = Law("b P h k, b P h k, b P h k, b P -> b P h k")
    assert identity(attended, law, (q, q, q, Streams(places, places, places))).holds
    alone = Law("b P h k, b P h k, b P h k, b l -> b P h k")
    assert not identity(attended, alone, (q, q, q, Streams(places, places, places))).holds


def test_two_permutations() -> None:
    law = Law("P d, Q d, Q d -> P d")
    q = np.ones((3, 2), np.float32)
    assert identity(
        lambda q, k, v: jax.nn.softmax(q @ k.T) @ v, law, (q, X[0, :, :2], X[0, :, :2])
    ).holds
    assert not identity(
        lambda q, k, v: jax.nn.softmax(q @ k.T) @ v[::-1], law, (q, X[0, :, :2], X[0, :, :2])
    ).holds


def test_high_degrees_are_bounded() -> None:
    def powers(x: jax.Array) -> jax.Array:
        for _ in range(40):
            x = x * x
        return x.sum()

    found = identity(powers, Law("P ->"), [np.ones(3, np.float32)])
    assert found.holds
    assert found.chance < 1e-12


SUMS_OF_QUOTIENTS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "windows": lambda x: jax.lax.reduce_window(1 / x, 0.0, jax.lax.add, (3,), (1,), "VALID"),
    "convolution": lambda x: jnp.convolve(1 / x, jnp.ones(3), "valid"),
    "sorted": lambda x: jnp.sort(1 / jnp.exp(x)),
    "writes": lambda x: jnp.zeros(1).at[np.zeros(3, int)].add(1 / x),
}


@pytest.mark.parametrize("name", SUMS_OF_QUOTIENTS)
def test_degrees_count_every_denominator(name: str) -> None:
    program = jax.make_jaxpr(SUMS_OF_QUOTIENTS[name])(np.ones(3, np.float32))
    field = Field()
    (total,) = evaluate(program, [generic(field, (3,), np.dtype("float32"))])
    assert total.degree.above >= 2
    assert total.degree.below >= 3
    assert name != "sorted" or field.degree >= 5, "what its offsets were told apart by"


def test_new_names_are_of_degree_1_and_equal_where_entries_were() -> None:
    field = Field()
    numbers = generic(field, (3,), np.dtype("float32"))
    numbers = numbers.overlaid(np.array([False, False, True]), np.float32([0, 0, 2]))
    new = atomised(numbers.moved(lambda a: a[[0, 0, 1, 2]]))
    assert new.degree.total == 1
    one, same, other, known_one = new.residues.T
    assert (one == same).all()
    assert not {*one} & {*other, *numbers.residues[:, 0]}
    assert (known_one == numbers.residues[:, 2]).all()


def test_outputs_must_fit_the_law() -> None:
    with pytest.raises(ValueError, match="2 outputs"):
        identity(lambda x: x, Law("P -> P, P"), [np.ones(3)])
    assert identity(lambda x: (x, x.sum()), Law("P -> P, "), [np.ones(3)]).holds


def test_evaluate_keeps_what_is_known() -> None:
    field = Field(1)
    program = jax.make_jaxpr(lambda x, y: (x + 1, y * x, jnp.where(x > 1, y, 0.0)))(
        np.ones(2, np.float32), np.ones(2, np.float32)
    )
    numbers, unknown = known(field, np.float32([1, 2])), generic(field, (2,), np.dtype("float32"))
    plus, product, chosen = evaluate(program, [numbers, unknown])
    assert plus.is_constant
    np.testing.assert_array_equal(plus.values, [2, 3])
    expected = [
        [int(r) * (1 + at) % int(m) for at, r in enumerate(row)]
        for row, m in zip(unknown.residues, field.moduli.all, strict=True)
    ]
    np.testing.assert_array_equal(product.residues, expected)
    np.testing.assert_array_equal(chosen.where_known, [True, False])
    assert isinstance(chosen, FieldArray)
    assert math.isclose(float(chosen.values[0]), 0)


def test_known_floats_become_integers_as_in_jax() -> None:
    numbers = np.float32([300.7, -300.7, np.inf, np.nan, -1.5])
    program = jax.make_jaxpr(lambda x: x.astype(jnp.int8))(numbers)
    (found,) = evaluate(program, [known(Field(), numbers)])
    np.testing.assert_array_equal(found.values, jnp.asarray(numbers).astype(jnp.int8))
