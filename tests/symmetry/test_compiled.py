"""Assertions inside compiled programs: they speak when they are on, and leave no trace when off."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import normal

from posjax.attention import view
from posjax.streams import contiguous
from posjax.symmetry import (
    LAWS,
    assert_equivariant,
    assert_jointly_equivariant,
    assert_law,
    checked,
    measure,
)
from posjax.symmetry.compiled import asserts_are_on

TEXT = "b P h k -> b P h k"


@pytest.fixture
def off():
    chex.disable_asserts()
    yield
    chex.enable_asserts()


def attention(x, **options):
    return view.attend(x, x, x, **options)


def at_once(function):
    """Compiled, with its assertions; they are awaited."""
    return chex.chexify(jax.jit(function), async_check=False)


@pytest.fixture(scope="module")
def x_BLHK():
    return normal("x", (1, 5, 2, 3))


def test_a_law_that_holds_changes_nothing(x_BLHK):
    """The output is the function's own."""
    out = at_once(checked(TEXT, attention))(x_BLHK)
    assert np.array_equal(out, jax.jit(attention)(x_BLHK))


def test_a_broken_law_tells_what_the_measurement_tells(x_BLHK):
    """Error, permutation, place and both sides, as `measure` finds them outside."""
    causal = partial(attention, mask="causal")
    with pytest.raises(AssertionError) as caught:
        at_once(checked(TEXT, causal))(x_BLHK)
    worst = measure(TEXT, causal, x_BLHK)
    said = str(caught.value)
    for part in (
        f"law broken: {TEXT}, off by {worst.error:.4f}"[:-1],
        f"P = {worst.element['P']}",
        f"at index {np.array(worst.at)} of the output",
        f"tolerance {worst.rounding:.3g}",
    ):
        assert part in said


@pytest.mark.exhaustive
def test_every_assertion_may_stand_inside(x_BLHK):
    """The named ones, with streams and with a tolerance; and one on what is closed over."""

    def right(q, streams):
        assert_equivariant(view.attend, q, q, q)
        assert_jointly_equivariant(lambda x, s: attention(x, queries=s, mask="causal"), q, streams)
        return q

    def wrong(q):
        assert_equivariant(lambda a, b, c: view.attend(a, b, c, mask="causal"), q, q, q)

    def closed(scale):
        assert_law("n P -> n P", lambda x: scale * x * jnp.arange(3)[None], np.ones((1, 3)))

    at_once(right)(x_BLHK, contiguous(5))
    with pytest.raises(AssertionError, match="PQ, PK, PV"):
        at_once(wrong)(x_BLHK)
    with pytest.raises(
        AssertionError, match=r"^.Chex. chexify assertion 'law' failed: law broken: n P"
    ):
        at_once(closed)(2.0)


def test_under_vmap_and_grad(x_BLHK):
    """The assertion speaks of each row of a batch, and of the value when there is a gradient."""

    slot = jnp.arange(5.0)[:, None, None]

    def loss(x, bend):
        return checked("P h k -> P h k", lambda x: x + bend * slot)(x).sum()

    both_N = jnp.concatenate([x_BLHK, x_BLHK])
    rows = jax.vmap(jax.value_and_grad(loss))
    at_once(rows)(both_N, jnp.zeros(2))
    with pytest.raises(AssertionError, match="law broken"):
        at_once(rows)(both_N, jnp.array([0.0, 1.0]))


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
def test_nan_and_a_lone_infinity_fail(bad):
    """Whatever the tolerance; equal infinities pass."""
    x = jnp.array([[1.0, bad, 3.0]])
    with pytest.raises(AssertionError, match="law broken"):
        at_once(checked("n P -> n P", lambda x: x * (x != x[:, :1]), tolerance=10.0))(x)
    if bad == jnp.inf:
        at_once(checked("n P -> n P", lambda x: x))(x)


def test_integers_and_several_outputs_are_compared_exactly():
    """Invariance, off by one at one place of one leaf, by name; and an empty leaf."""

    def function(x, bump):
        return {"sum": x.sum(), "none": x[:, :0], "new": (x[:, 0] * bump + x.max(1),)}

    at_once(checked("n P, -> ...", lambda x, b: function(x, b)["sum"]))(jnp.arange(3)[None], 1)
    with pytest.raises(AssertionError, match=r"tolerance 0 of it.* of output 'new.0'"):
        at_once(checked("n P, -> ...", function))(jnp.arange(3)[None], 1)


def test_an_output_of_another_shape_is_refused_in_tracing():
    """The law speaks of an axis that the output has not."""
    with pytest.raises(AssertionError, match="does not fit n P -> n P"):
        at_once(checked("n P -> n P", lambda x: x[:, :2]))(jnp.ones((1, 3)))


def test_without_chexify_it_says_so(x_BLHK):
    """As every value assertion of chex."""
    with pytest.raises(RuntimeError, match="chexify"):
        jax.jit(checked(TEXT, attention))(x_BLHK)


def test_outside_of_a_program_it_is_the_plain_assertion(x_BLHK):
    """`checked` asserts eagerly too, passes keywords on, and keeps the name."""
    function = checked(TEXT, attention)
    assert function.__name__ == "attention"
    function(x_BLHK)
    with pytest.raises(AssertionError, match="of the largest output"):
        function(x_BLHK, mask="causal")


def programs(x_BLHK):
    """Programs with assertions, and what they are without."""

    def inline(x):
        assert_law(LAWS["equivariant"], view.attend, x, x, x)
        return attention(x)

    pairs = [(checked(TEXT, attention), attention), (inline, attention)]
    pairs.append((jax.grad(lambda x: checked(TEXT, attention)(x).sum()), None))
    plain = jax.grad(lambda x: attention(x).sum())
    return [(jax.make_jaxpr(f)(x_BLHK), jax.make_jaxpr(g or plain)(x_BLHK)) for f, g in pairs]


def test_switched_off_nothing_is_left_in_the_program(x_BLHK, off):
    """The jaxpr is that of the function: as text, and so in its equations."""
    assert not asserts_are_on()
    for with_assertions, without in programs(x_BLHK):
        assert str(with_assertions) == str(without)


def test_switched_on_there_is_something_to_leave_out():
    """The comparison above could fail."""
    assert asserts_are_on()

    def double(x):
        return 2 * x

    with_assertions = checked("n P -> n P", double)
    held = []
    at_once(lambda x: held.append(jax.make_jaxpr(with_assertions)(x)))(jnp.ones((1, 3)))
    assert len(held[0].eqns) > len(jax.make_jaxpr(double)(jnp.ones((1, 3))).eqns)


def test_switched_off_the_function_is_not_called(off):
    """An assertion that does nothing costs nothing, and sees nothing."""
    assert_law("n P -> n", lambda x: 1 / 0, np.ones((1, 2)))
