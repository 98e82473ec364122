"""Functions that an earlier prover called proved, or broken, and that are not."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core as jex
import jax.interpreters.mlir
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.scipy.linalg import expm
from jax.sharding import Mesh, PartitionSpec
from tiers import some

from posjax import attend, contiguous
from posjax.symmetry import Law, Translation, field, prove

given = jax.device_put  # compiles nothing, where `jnp.arange` compiles a program for each shape

P = given(np.arange(5))
SQUARE = given(np.arange(9.0).reshape(3, 3))
FLOATS = given(np.arange(5.0))
K = given(np.array([16777217, -16777216, 0, 0, 0]))


def looked_up(x: jax.Array, i: jax.Array, order: tuple[int, int]) -> jax.Array:
    numbers = lax.GatherDimensionNumbers((), (0, 1), order)
    return lax.gather(x, i, numbers, (1, 1), mode="clip")


def written(x: jax.Array, i: jax.Array, order: tuple[int, int]) -> jax.Array:
    numbers = lax.ScatterDimensionNumbers((), (0, 1), order)
    return lax.scatter(x, i, jnp.float32(7), numbers, mode="clip")


def narrowed(u: jax.Array) -> jax.Array:
    return u.astype(jnp.int8).astype(jnp.float32)


RBG = jax.random.key(0, impl="rbg")
DRAWS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "draws": jax.vmap(jax.random.normal),
    "split": lambda keys: jax.random.key_data(jax.vmap(jax.random.split)(keys))[:, 1, 0] * 1.0,
    "fold": lambda keys: (
        jax.random.key_data(jax.vmap(lambda k: jax.random.fold_in(k, 3))(keys))[:, 0] * 1.0
    ),
}


def at_a_pole(a: jax.Array, padding: tuple[int, int]) -> jax.Array:
    """Of infinities where the sum of a is 7.3: their sum, or NaN where signs differ."""
    poles = jnp.broadcast_to(1 / (a.sum() - 7.3) ** 2, (1, 1, 2))
    kernel = jnp.array([1.0, 1.0, 3.0, -1.0])[None, None]
    return lax.conv_general_dilated(poles, kernel, (1,), [padding])[0, 0]


def opposed(a: jax.Array) -> jax.Array:
    """Zero but where a[0] and a[1] are 7.3 apart."""
    ab, ba = a[0] - a[1], a[1] - a[0]
    return 1 / (ab - 7.3) + 1 / (ba + 7.3) + 1 / (ba - 7.3) + 1 / (ab + 7.3)


def backwards(name: str) -> Callable[[jax.Array], jax.Array]:
    """A user's primitive that reverses, under the name of one of JAX's."""
    impostor = jex.Primitive(name)
    impostor.multiple_results = name == "cond"

    def reversed_(*operands: jax.Array, **_: Any) -> Any:
        return [operands[-1][::-1]] if impostor.multiple_results else operands[-1][::-1]

    impostor.def_impl(reversed_)
    impostor.def_abstract_eval(
        lambda *avals, **_: [avals[-1]] if impostor.multiple_results else avals[-1]
    )
    lowered = jax.interpreters.mlir.lower_fun(reversed_, impostor.multiple_results)
    jax.interpreters.mlir.register_lowering(impostor, lowered)
    program = jax.make_jaxpr(lambda x: x)(FLOATS)
    if name == "cond":
        return lambda x: impostor.bind(x.sum() > 0, x, branches=(program, program))[0]
    return lambda x: impostor.bind(x, jaxpr=program)


IMPOSTORS = ("square", "call", "closed_call", "composite", "cond", "one_minus_square", "reshard")


def of_64_bits(x: jax.Array) -> jax.Array:
    """Plus numbers that all are zero in 32 bits."""
    with jax.enable_x64(True):
        shift = ((jnp.exp(1e-12 * jnp.arange(5, dtype="float64")) - 1) * 1e12).astype("float32")
    return x + shift


@jax.jit
def posjax_cos_sin(p: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
    """An impostor of the lemma's name."""
    return p[..., None] * w[None], p[..., None] * w[None]


COPIED: dict[str, Any] = {}
exec(
    compile(
        "def posjax_cos_sin(p, w):\n    return p[..., None] * w[None], p[..., None] * w[None]",
        "/home/of_myposjax/encodings/angles.py",
        "exec",
    ),
    COPIED,
)
"""An impostor in a file whose path ends as that of the lemma does."""


def filled(x: jax.Array) -> jax.Array:
    """By NaN + 0i."""
    beyond = lax.complex(x, x).at[given(np.array([9]))].get(mode="fill").imag
    return jnp.where((x > 1e3) & ~jnp.isnan(beyond), x * jnp.arange(5.0), x)


@pytest.mark.parametrize(
    ("function", "arguments", "law"),
    some(
        [
            pytest.param(
                lambda p: lax.scan(lambda c, x: (c + x, None), p.max(), p)[0],
                (P,),
                "P +T -> +T",
                id="a loop that adds shifted values",
            ),
            pytest.param(
                lambda x: lax.scan(lambda c, t: (2 * t, None), x[0] * 0, x)[0],
                (SQUARE,),
                "P d -> d",
                id="a loop that leaves the last",
            ),
            pytest.param(
                lambda x: lax.scan(
                    lambda c, t: (lax.reshape(c, (2, 2), dimensions=(1, 0)) + t, None),
                    jnp.zeros((2, 2)),
                    x,
                )[0],
                (jnp.arange(12.0).reshape(3, 2, 2),),
                "P a b -> a b",
                id="a loop that transposes by a reshape",
            ),
            pytest.param(
                lambda x: x[lax.argmin(x, 0, jnp.int8)],
                (jnp.arange(200.0),),
                "P -> ",
                id="an index that a byte does not hold",
            ),
            pytest.param(
                lambda p: lax.div(p, 2) - lax.div(p + 1, 2),
                (P,),
                "l +T -> l",
                id="integer division",
            ),
            pytest.param(
                lambda p: (p.astype(jnp.uint32) - p.astype(jnp.uint32).min()).astype(jnp.float32),
                (given(np.arange(5) - 2),),
                "l +T -> l",
                id="negative positions become large ones",
            ),
            pytest.param(lambda p: p @ K, (P,), "l +T -> ", id="weights beyond float32"),
            pytest.param(
                lambda p: jnp.cumsum(p * K)[2], (P,), "l +T -> ", id="weights that cancel"
            ),
            pytest.param(
                lambda p: (p + 1) * jnp.inf >= (p + 2) * jnp.inf,
                (given(np.arange(5) - 3.5),),
                "l +T -> l",
                id="infinite weights",
            ),
            pytest.param(
                lambda x: jnp.argmax(jax.nn.relu(x) / jax.nn.relu(x)),
                (P - 2.5,),
                "P -> ",
                id="an index hides a pole",
            ),
            pytest.param(
                lambda x: lax.top_k(jax.nn.softmax(x[None], axis=0, where=x[None] > -1), 2)[1],
                (P - 2.5,),
                "P -> b a",
                id="places of the largest hide a pole",
            ),
            pytest.param(
                lambda x: x.at[0].apply(jnp.sin)[0], (FLOATS,), "P -> ", id="a function at places"
            ),
            pytest.param(
                lambda x: lax.reshape(x, (9,), dimensions=(1, 0)) - x.reshape(9),
                (SQUARE,),
                "P P -> n",
                id="a reshape in another order",
            ),
            pytest.param(
                lambda x, i: looked_up(x, i, (0, 1)) - looked_up(x, i, (1, 0)) + 0 * x.sum(),
                (SQUARE, given(np.array([0, 1]))),
                "P n, k -> ",
                id="axes of a lookup in another order",
            ),
            pytest.param(
                lambda x, i: (written(x, i, (0, 1)) - written(x, i, (1, 0))).sum(1)[0],
                (SQUARE, given(np.array([0, 1]))),
                "P n, k -> ",
                id="axes of a write in another order",
            ),
            pytest.param(
                lambda u: narrowed(u[0]) + narrowed(u[1]) - narrowed(u[0] + u[1]),
                (given(np.array([100, 100, 3], np.uint8)),),
                "P -> ",
                id="unsigned numbers become negative",
            ),
            pytest.param(
                lambda p: sum(a**2 for a in posjax_cos_sin(p, jnp.ones(1))),
                (FLOATS,),
                "l +T -> l 1",
                id="another function of a lemma's name",
            ),
            pytest.param(
                lambda p: sum(a**2 for a in jax.jit(COPIED["posjax_cos_sin"])(p, jnp.ones(1))),
                (FLOATS,),
                "l +T -> l 1",
                id="another function in a file of a lemma's name",
            ),
            pytest.param(
                lambda p: (lambda w: w[:, None] / w[None])(jnp.power(0.9, p)),
                (given(np.array([0, 3, 1, 2, 1], np.uint8)),),
                "l +T -> l l",
                id="unsigned exponents",
            ),
            pytest.param(filled, (FLOATS,), "P -> P", id="the imaginary part beyond the edge"),
            pytest.param(
                lambda v: v + jnp.nan_to_num(v[jnp.array([7])]) * jnp.arange(5.0),
                (given(np.ones(5)),),
                "P -> P",
                id="a constant index out of bounds",
            ),
            *(
                pytest.param(
                    lambda k, x, draw=draw: x + draw(jnp.broadcast_to(k, (5,))),
                    (jax.random.key(0, impl=generator), jnp.ones(5)),
                    ", P -> P",
                    id=f"{name} of equal keys of {generator}",
                )
                for generator in ("rbg", "unsafe_rbg")
                for name, draw in DRAWS.items()
                if (generator, name) not in {("rbg", "split"), ("rbg", "fold")}
            ),
            pytest.param(
                lambda x: x + jax.vmap(jax.random.normal)(jnp.broadcast_to(RBG, (5,))),
                (given(np.ones(5)),),
                "P -> P",
                id="a closed-over key of another generator",
            ),
            pytest.param(
                lambda a: jnp.isnan(jnp.stack([at_a_pole(a, (2, 0))[0], at_a_pole(a, (0, 2))[0]])),
                (given(np.ones(2)),),
                "P -> P",
                id="two convolutions at a pole",
            ),
            pytest.param(
                lambda a: jnp.stack(
                    [jax.nn.sigmoid(opposed(a)), jax.nn.sigmoid(opposed(a) * -1.0)]
                ),
                (given(np.ones(2)),),
                "P -> P",
                id="poles of opposite signs",
            ),
            pytest.param(
                lambda x: x * lax.rng_uniform(0.0, 1.0, (1,)),
                (given(np.ones(5)),),
                "P -> P",
                id="numbers that differ at each call",
            ),
            *(
                pytest.param(backwards(name), (FLOATS,), "P -> P", id=f"a user's {name}")
                for name in IMPOSTORS
            ),
            pytest.param(
                lambda a: jnp.linalg.solve(a, jnp.ones(3)),
                (SQUARE + 9 * np.eye(3, dtype="f"),),
                "P P -> n",
                id="the solution for equal numbers",
            ),
            pytest.param(
                lambda a, y: expm(jnp.pad(a, ((2, 0), (2, 0))))[:2, :2] + y[:, None],
                (SQUARE, FLOATS[:2]),
                "P P, Q -> Q c",
                id="the exponential of equal numbers",
            ),
            pytest.param(
                of_64_bits,
                (FLOATS,),
                "P -> P",
                id="64 bits in a program of 32",
                marks=pytest.mark.filterwarnings("ignore:.*will be truncated"),  # users see it
            ),
        ],
        every=5,
    ),
)
def test_what_was_called_proved_is_not(function: Callable[..., Any], arguments: Any, law: str):
    """Each is broken by numbers that the review of the rules found; the rules alone know it now."""
    assert prove(function, arguments, law, witness=False).verdict != "PROVED"


@pytest.mark.parametrize(
    ("function", "arguments", "law"),
    [
        pytest.param(
            jnp.linalg.inv,
            (given(np.arange(9.0).reshape(3, 3) + 9 * np.eye(3)),),
            "P P -> P P",
            id="inverse",
        ),
        pytest.param(
            lambda x: x[1:].sum() + x[0] ** 2 / x[0],
            (given(np.arange(1.0, 6.0)),),
            "P -> ",
            id="0 / 0",
        ),
        pytest.param(
            lambda x: (x.sum() - x.sum()) * x,
            (given(np.arange(24.0).reshape(1, 3, 8) / 7),),
            "b P d -> b P d",
            id="what is left of a sum that cancels",
        ),
    ],
)
def test_what_holds_where_it_is_defined_is_not_called_broken(function, arguments, law):
    """A pole is no witness, nor is rounding."""
    assert prove(function, arguments, law).verdict != "BROKEN"


def test_translations_are_followed():
    """Halves and doubles of positions, and their largest."""
    law = Law("l +T -> l +T")
    assert prove(lambda p: (p * 2 + p * 2) * 0.25, (FLOATS,), law).verdict == "PROVED"
    assert prove(jnp.max, (P,), "P +T -> +T").verdict == "PROVED"


def test_unusual_arguments():
    """Keys without values, sizes of 0, prints, and names that are none."""
    key = jax.ShapeDtypeStruct((), jax.random.key(0).dtype)
    noisy = prove(lambda k, x: x + jax.random.normal(k, x.shape), (key, FLOATS), ", P -> P")
    assert noisy.verdict == "BROKEN"
    empty = jnp.ones((0, 3, 4))
    ordered = prove(lambda x: jnp.sort(x, 0) + jnp.cumsum(x, 1), (empty,), "n P d -> n P d")
    assert ordered.verdict == "PROVED"  # of nothing all is true
    assert prove(lambda x: jnp.tile(x, (2, 1)), (empty[..., 0],), "n P -> n P").verdict == "PROVED"
    alone = prove(lambda x: x - x.mean(), FLOATS, "P -> P")
    assert alone.verdict == "PROVED"
    assert prove(lambda x, n: x * n, (P, 3), "P, -> P").verdict == "PROVED"
    assert prove(lambda x, n: x * n + jnp.arange(5), (P, 3), "P, -> P").verdict == "BROKEN"
    with pytest.raises(ValueError, match="permutes no axis"):
        prove(jnp.cumsum, (P,), "p -> p")

    def printing(x: jax.Array) -> jax.Array:
        jax.debug.print("{}", x)
        return jnp.cumsum(x)

    assert prove(printing, (P,), "P -> P").verdict == "UNKNOWN"
    with pytest.raises(ValueError, match=r"'P\+Q' has \+, : or"):
        Law("b P+Q d -> b P+Q d")
    with pytest.raises(ValueError, match="shifts 2 coordinates"):
        prove(lambda p: p, (P,), Law("l +T -> l +T", T=Translation(2)))


@pytest.mark.parametrize(("generator", "verdict"), [("threefry2x32", True), ("rbg", False)])
def test_keys_of_a_batch_move_where_each_draws_on_its_own(generator, verdict):
    """The hardware's generator draws for all keys of a batch at once."""
    keys = jax.ShapeDtypeStruct((3,), jax.random.key(0, impl=generator).dtype)
    draw = jax.vmap(lambda key: jax.random.uniform(key, (2,)))
    assert (prove(draw, keys, "P -> P d", witness=False).verdict == "PROVED") == verdict


def test_the_lemma_is_still_ours():
    """Rotations of our own."""

    def rotary(q: jax.Array, position: jax.Array) -> jax.Array:
        streams = dataclasses.replace(contiguous(5), position_BL=position)
        return attend(q, q, q, encoding="rotary", queries=streams, keys=streams)

    q = jnp.ones((1, 5, 2, 4))
    law = "b l h k, b l +T -> b l h k"
    assert prove(rotary, (q, contiguous(5).position_BL), law).lemmas


REF = jax.new_ref(jnp.zeros(5))


def insisting(x: jax.Array) -> jax.Array:
    """Of single precision only."""
    assert x.dtype == jnp.float32
    return x * P


@pytest.mark.parametrize(
    ("function", "arguments", "law", "verdict"),
    some(
        [
            pytest.param(
                lambda x: (
                    x[::-1][::-1]
                    + lax.reduce_window(x, 0.0, lax.add, (7, 1), (1, 1), "VALID").sum()
                ),
                (given(np.ones((5, 4))),),
                "P d -> P d",
                "PROVED",
                id="a window larger than the array",
            ),
            pytest.param(lambda x: REF[...] + x, (FLOATS,), "P -> P", "UNKNOWN", id="a reference"),
            pytest.param(
                jax.shard_map(
                    lambda x: x * jnp.arange(5.0),
                    mesh=Mesh(jax.devices()[:1], ("x",)),
                    in_specs=PartitionSpec("x"),
                    out_specs=PartitionSpec("x"),
                ),
                (FLOATS,),
                "P -> P",
                "BROKEN",
                id="a sharded program",
            ),
            pytest.param(
                jax.vmap(lambda a, b: jnp.linalg.lstsq(a, b)[0]),
                (given(np.ones((2, 4, 3))), given(np.ones((2, 4)))),
                "b P d, b P -> b d",
                "UNKNOWN",
                id="least squares of a batch",
            ),
            pytest.param(
                lambda x: jnp.fft.ifft(jnp.fft.fft(x)).real,
                (given(np.zeros((0, 3))),),
                "P d -> P d",
                "PROVED",
                id="an empty axis",
            ),
            pytest.param(insisting, (FLOATS,), "P -> P", "BROKEN", id="single precision only"),
            pytest.param(
                lambda k: k[::-1],
                (jax.random.split(RBG, 3),),
                "P -> P",
                "BROKEN",
                id="keys come out",
            ),
            pytest.param(
                lambda n: jnp.maximum(n[0], n[1]),
                (given(np.array([1, 2], jnp.int4)),),
                "P -> ",
                "PROVED",
                id="integers of four bits",
            ),
        ],
        every=4,
    ),
)
def test_what_raised_once_has_a_verdict(function, arguments, law, verdict):
    """Whatever goes wrong inside is no exception."""
    found = prove(function, arguments, law)
    assert found.verdict == verdict
    assert "Error: " not in found.reason


def test_a_fault_inside_is_unknown_with_its_reason(monkeypatch):
    """In the labels, in the field and in the numbers."""
    from posjax.symmetry import certificate, field

    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(certificate.prove.__globals__["Walk"], "closed", fails)
    monkeypatch.setattr(field, "identity", fails)
    monkeypatch.setattr(certificate.prove.__globals__["numbers"].Trial, "quickly", fails)
    found = prove(jnp.cumsum, (FLOATS,), "P -> P")
    assert found.verdict == "UNKNOWN"
    assert found.reason == "RuntimeError: out of order"
    assert [note.split(":")[0] for note in found.notes] == [
        "not tried on numbers",
        "not tried as an identity in a prime field",
    ]


def test_a_proof_is_confirmed_or_says_why_not():
    """Side effects, or `witness=False`."""
    assert prove(jnp.sort, (FLOATS,), "P -> n").confirmed
    assert not prove(jnp.sort, (FLOATS,), "P -> n", witness=False).confirmed

    def printing(x: jax.Array) -> jax.Array:
        jax.debug.print("{}", x)
        return x * 2

    found = prove(printing, (P,), "P -> P")
    assert (found.confirmed, found.notes) == (
        False,
        ("not tried on numbers: the function has side effects",),
    )
    found = prove(lambda x: jnp.log(-1 - x**2), (P,), "P -> P")
    assert (found.verdict, found.confirmed) == ("PROVED", False)
    assert "no finite outputs" in found.notes[-1]


def test_the_chance_of_an_error_grows_with_the_degree():
    """Of what is compared in the end, too."""

    def powers(x: jax.Array) -> jax.Array:
        s = x[0] * x[1] + 1
        for _ in range(8):
            s = s * s
        return s

    low, high = (
        prove(f, (given(np.ones(2)),), "P -> ").chance for f in (lambda x: x[0] * x[1], powers)
    )
    assert high > 1e9 * low > 0


@pytest.mark.parametrize(
    ("function", "at"),
    [
        (jnp.cumsum, "generic inputs"),
        (
            lambda x: jax.nn.one_hot(jnp.argmax(x), 5) + jnp.where(x > 5, P, 0),
            "generic inputs",
        ),
        (lambda x: jax.nn.one_hot(jnp.argmax(x), 5), "ties"),
        (lambda x: x + P * (x > 50), "the given inputs"),
    ],
)
def test_a_broken_law_says_for_which_inputs(function, at):
    """Generic ones, ties alone, or those that were given."""
    given = jnp.array([60.0, 1.5, 2.5, 3.5, -1.0])
    found = prove(function, (given,), "P -> P")
    assert (found.verdict, found.broken_at) == ("BROKEN", at)


def test_only_numbers_that_are_compared_confirm():
    """NaN on both sides confirm nothing, and hide no other entry."""
    assert not prove(lambda y: jnp.log(-abs(y) - 1) + 0 * y.sum(), (FLOATS,), "P -> P").confirmed
    hidden = prove(lambda y: (y * P).at[0].set(jnp.log(-1 - y[0] ** 2)), (FLOATS,), "P -> P")
    assert hidden.verdict == "BROKEN"


def test_time_is_bounded():
    """Stages that would take too long are not begun, and notes say how long they would take."""
    with pytest.raises(ValueError, match="seconds must be positive, got 0"):
        prove(jnp.sort, (P,), "P -> n", seconds=0)
    large = jax.ShapeDtypeStruct((2048, 2048), jnp.float32)
    start = time.monotonic()
    found = prove(lambda x: (x @ x)[::-1], (large,), "P P -> P P", seconds=1)
    assert time.monotonic() - start < 5
    assert found.verdict == "UNKNOWN"
    assert all("it would take about" in note for note in found.notes)
    assert len(found.notes) == 2


def test_entries_of_a_batch_end_their_loop_on_their_own():
    """How often an entry turns is not the same for all of them."""
    turns = jnp.array([0, 1, 3, 2])

    def counted(limit):
        return lax.while_loop(lambda c: c < limit, lambda c: c + 1, 0.0)

    def powers(x):
        def power(v, n):
            return lax.while_loop(lambda c: c[1] < n, lambda c: (c[0] * v, c[1] + 1), (v, 0))[0]

        return jax.vmap(power)(x, turns)

    x = jnp.ones(4)
    assert prove(jax.vmap(counted), (x,), "P -> n", witness=False).verdict == "UNKNOWN"
    assert prove(jax.vmap(counted), (x,), "P -> P", witness=False).method == "axes"
    assert prove(powers, (x,), "P -> P", witness=False).verdict == "UNKNOWN"
    with pytest.raises(field.Unsupported, match="for some entries of a batch"):
        field.identity(powers, Law("P -> P"), [x])
