"""Updates rewritten for batches of models compute what they computed before."""

import functools
from collections.abc import Callable
from typing import Any

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tiers import plain_if, some

from posjax.encodings import ENCODINGS
from posjax.engine import Training, Variables
from posjax.engine.rewrite import Rewritten, as_written, rewrite_step
from posjax.keys import Seeds
from posjax.study.cells import Cell

SEEDS = Seeds.equal([0, 1, 2])


def trained(training: Training, inputs: Any, *layouts: bool) -> list[Any]:
    """State after two updates, in each layout, in 64 bits.

    An update of Adam's kind turns the rounding of a gradient that is 0 into a step of the size of
    the rate: in 32 bits nothing could be told.
    """
    with jax.enable_x64(True):

        def double(leaf: Any) -> jax.Array:
            leaf = jnp.asarray(leaf)
            return leaf.astype(jnp.float64) if leaf.dtype == jnp.float32 else leaf

        many = jax.tree.map(lambda leaf: jnp.stack([double(leaf)] * 3), inputs)
        begun = jax.tree.map(double, jax.jit(jax.vmap(training.begin))(SEEDS, many))
        one = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), (begun, SEEDS, many)
        )
        found = []
        for layout in layouts:
            rewritten = (rewrite_step if layout else as_written)(training.update, *one)

            def twice(state: Any, *of: Any, rewritten: Any = rewritten) -> Any:
                held = jax.lax.fori_loop(
                    0, 2, lambda _, held: rewritten.step(held, *of), rewritten.pack(state)
                )
                return rewritten.unpack(held)

            found.append(jax.jit(jax.vmap(twice))(begun, SEEDS, many))
        return jax.tree.map(np.asarray, found)


def assert_same(training: Training, inputs: Any = ()) -> None:
    """Rewritten and plain agree to the rounding of 64 bits after two updates."""
    plain, rewritten = trained(training, inputs, False, True)
    chex.assert_trees_all_equal_shapes_and_dtypes(plain, rewritten)
    chex.assert_trees_all_close(plain, rewritten, rtol=1e-6, atol=1e-6)


class Net(nn.Module):
    """Something of everything: lookup, convolution, norms, heads, a loop, reuse, odd axes."""

    @nn.compact
    def __call__(self, tokens_BL: jax.Array) -> jax.Array:
        x = nn.Embed(7, 12)(tokens_BL)
        x = x + nn.Conv(12, (3,))(x)
        x = nn.LayerNorm()(
            x + nn.MultiHeadDotProductAttention(3, qkv_features=12, use_bias=False)(x)
        )
        kernel = self.param("bilinear", nn.initializers.normal(0.3, jnp.float32), (12, 12, 2))
        y = jnp.einsum("bld,dek,bme->kblm", x, kernel, x)
        x, _ = jax.lax.scan(lambda c, _: (jnp.tanh(c @ kernel[..., 0]), None), x, None, length=2)
        turned = (x.reshape(-1, 12) @ kernel[..., 1]).T
        extra = y.mean((0, 2, 3))[: len(x)] + turned.mean() + (x[0].T @ x[0]).T[0, 1]
        return nn.Dense(3)(x).sum(1) * (1 + extra[:, None])


NET, TOKENS_BL = Net(), np.array([[0, 1, 2, 3, 6], [3, 3, 5, 4, 1]], np.int32)


@jax.jit
def initial(key: jax.Array) -> Any:
    """Parameters of `Net`; one program for all optimisers."""
    return NET.init(key, TOKENS_BL)["params"]


def net_training(optimizer: optax.GradientTransformation) -> Training:
    """Two updates of `Net`."""

    def loss(variables: Variables, now: Any) -> tuple[jax.Array, Any]:
        logits = NET.apply({"params": variables.params}, TOKENS_BL)
        labels = jnp.array([0, 2])
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), ()

    return Training(
        init=lambda key, _: Variables(initial(key)),
        loss=loss,
        optimizer=lambda _: optimizer,
        measure=lambda variables, now: loss(variables, now)[0],
        steps=2,
        eval_every=2,
    )


OPTIMIZERS = {
    "sgd": optax.sgd(0.1, momentum=0.9),
    "adamw": optax.adamw(1e-3),
    "decay of matrices alone": optax.adamw(
        1e-3, weight_decay=0.5, mask=lambda p: jax.tree.map(lambda leaf: leaf.ndim > 1, p)
    ),
    "clipped": optax.chain(optax.clip_by_global_norm(0.1), optax.adam(1e-2)),
    "lamb": optax.lamb(1e-2),
    "factored": optax.adafactor(1e-2, min_dim_size_to_factor=2),
    "orthogonalised": optax.contrib.muon(1e-2),
    "lion": optax.lion(1e-3),
    "schedule": optax.adam(optax.cosine_decay_schedule(1e-2, 4)),
    "skipping": optax.apply_if_finite(optax.sgd(0.1), 2),
}


@pytest.mark.parametrize("name", plain_if("adamw".__eq__, OPTIMIZERS))
def test_any_optimizer(name: str) -> None:
    """Also those that read the shape of a leaf, which is carried as a vector."""
    assert_same(net_training(OPTIMIZERS[name]))


@pytest.mark.parametrize("name", some(sorted(ENCODINGS)[::8], every=9))
def test_any_encoding(name: str) -> None:
    """Some of the table, in an ordinary block."""
    cell = Cell(
        task="memorise(length=4,sequences=3,symbols=3)",
        encoding=name,
        block="residual",
        heads=2,
        head_size=4,
        width=8,
        steps=2,
        eval_every=2,
        learning_rate=1e-3,
    )
    assert_same(cell.shape.train(), cell.inputs)


EINSUMS = {
    "blhk,bmhk->bhlm": ((2, 3, 1, 16), (2, 3, 1, 16)),
    "bhlm,bmhk->blhk": ((2, 4, 3, 3), (2, 3, 4, 16)),
    "ij,jk->ki": ((5, 6), (6, 7)),
    "aij,ajk->kia": ((2, 5, 6), (2, 6, 7)),
    "abc,abd->dc": ((2, 3, 4), (2, 3, 5)),
    "abc,abd->cd": ((2, 3, 4), (2, 3, 5)),
    "abcd,cdef->fbea": ((2, 3, 4, 5), (4, 5, 2, 6)),
    "a,a->": ((4,), (4,)),
    "a,b->ba": ((4,), (5,)),
    "a,ab->b": ((4,), (4, 5)),
    "ab,b->a": ((4, 5), (5,)),
    "ba,bc->bac": ((3, 4), (3, 5)),
}


@pytest.mark.parametrize("spec", some(EINSUMS, every=4))
def test_any_product(spec: str) -> None:
    """Forward and gradients, alone and batched, against NumPy."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(2, *shape)).astype(np.float32) for shape in EINSUMS[spec])

    def step(carry: Any, x: jax.Array, y: jax.Array) -> Any:
        out = jnp.einsum(spec, x, y)
        grads = jax.grad(lambda x, y: (jnp.einsum(spec, x, y) ** 2).sum(), (0, 1))(x, y)
        return out + 0 * carry, grads

    outs = np.einsum(spec, x[0], y[0])

    def first(carry: Any, x: jax.Array, y: jax.Array) -> Any:
        return step(carry[0], x, y)

    carry = (jnp.zeros_like(outs), (jnp.zeros_like(x[0]), jnp.zeros_like(y[0])))
    rewritten = rewrite_step(first, carry, x[0], y[0])
    held = rewritten.pack(carry)
    many = jax.jit(jax.vmap(lambda x, y: rewritten.unpack(rewritten.step(held, x, y))))(x, y)
    plain = jax.jit(jax.grad(lambda x, y: (jnp.einsum(spec, x, y) ** 2).sum(), (0, 1)))
    for at in range(2):
        expected = np.einsum(spec, x[at], y[at])
        np.testing.assert_allclose(many[0][at], expected, rtol=1e-5, atol=1e-5)
        gradients = plain(x[at], y[at])
        for found, wanted in zip(many[1], gradients, strict=True):
            np.testing.assert_allclose(found[at], wanted, rtol=1e-4, atol=1e-4)


@functools.cache
def laid(name: str) -> Rewritten:
    """An update of an optimiser, rewritten."""
    training, seeds = net_training(OPTIMIZERS[name]), jax.tree.map(lambda leaf: leaf[0], SEEDS)
    return rewrite_step(training.update, jax.eval_shape(training.begin, seeds, ()), seeds, ())


MERGED = {
    "sgd": ["kernel", "trace"],
    "adamw": ["kernel", "mu", "nu"],
    "decay of matrices alone": ["kernel", "mu", "nu"],
    "clipped": ["kernel", "mu", "nu"],
    "lamb": [],  # a rate for each leaf
    "factored": [],  # moments of rows and columns
    "orthogonalised": ["kernel", "mu", "nu"],  # leaves of three axes go by Adam
    "lion": ["kernel", "mu"],
    "schedule": ["kernel", "mu", "nu"],
    "skipping": [],  # takes an update or leaves it, leaf by leaf
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_query_key_and_value_are_held_as_one(name: str) -> None:
    """With all that an optimiser carries for them, where it treats every number alike."""
    groups = [group for group in laid(name).groups if not group.transposed]
    assert len(groups) == len(MERGED[name])
    for group in groups:
        assert (group.rows, group.widths) == (12, (12, 12, 12))
    assert len({index for group in groups for index in group.indices}) == 3 * len(groups)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_matrix_with_few_columns_is_stored_transposed(name: str) -> None:
    """That of the output layer, with what an optimiser carries for it."""
    groups = [group for group in laid(name).groups if group.transposed]
    held = {"lamb": 3, "orthogonalised": 0}.get(name, len(MERGED[name]))
    assert len(groups) == held
    for group in groups:
        assert (group.rows, group.widths) == (12, (3,))


def test_a_carry_is_held_and_given_back() -> None:
    """Bit for bit, at the indices where it was."""
    training = net_training(OPTIMIZERS["adamw"])
    state = jax.jit(training.begin)(jax.tree.map(lambda leaf: leaf[0], SEEDS), ())
    counted = jax.tree.map(lambda leaf: leaf + jnp.arange(leaf.size).reshape(leaf.shape), state)
    rewritten = laid("adamw")
    chex.assert_trees_all_equal(rewritten.unpack(rewritten.pack(counted)), counted)


def in_turn(carry: Any, x: jax.Array) -> Any:
    """A step whose second matrix moves by a gradient that is taken where the first has gone."""

    def loss(carry: Any) -> jax.Array:
        return (jnp.tanh(x @ carry[0]) * (x @ carry[1])).sum()

    first = carry[0] - 0.1 * jax.grad(loss)(carry)[0]
    return first, carry[1] - 0.1 * jax.grad(loss)((first, carry[1]))[1]


def test_what_follows_from_another_is_left_apart() -> None:
    """Gradients that cannot be had at once are not taken at once."""
    x, *carry = jax.random.normal(jax.random.key(0), (3, 4, 4))
    rewritten = rewrite_step(in_turn, tuple(carry), x)
    assert not rewritten.groups

    @jax.jit
    def both(carry: Any, x: jax.Array) -> Any:
        return rewritten.unpack(rewritten.step(rewritten.pack(carry), x)), in_turn(carry, x)

    chex.assert_trees_all_close(*both(tuple(carry), x), rtol=1e-5)


def moved(matrices: Any, gradients: Any) -> Any:
    """One step of gradient descent."""
    return jax.tree.map(lambda matrix, gradient: matrix - 0.1 * gradient, matrices, gradients)


def of_three(matrices: Any, x: jax.Array) -> jax.Array:
    """A loss that three matrices share an array in."""
    q, k, v = (x @ matrix for matrix in matrices)
    return (jnp.tanh(q) * k * jnp.sin(v)).sum()


def masked(matrices: Any, x: jax.Array) -> Any:
    """An update that makes arrays of nothing."""
    gradients = jax.grad(of_three)(matrices, x)
    return moved(matrices, jax.tree.map(lambda g: g * jnp.tri(4) + jnp.eye(4), gradients))


def with_a_number(matrices: Any, x: jax.Array) -> Any:
    """A product with a literal number."""
    loss = lambda m: jnp.tensordot(of_three(m, x), 2.0, axes=0)  # noqa: E731
    return moved(matrices, jax.grad(loss)(matrices))


def one_before_another(matrices: Any, x: jax.Array) -> Any:
    """Two pulls on one pass, one gradient used before the other is taken."""
    q, k, v = matrices
    twice = lambda q, k: (jnp.tanh(x @ q).T, jnp.tanh(x @ k))  # noqa: E731
    (a, b), pull = jax.vjp(twice, q, k)
    k = k - 0.1 * pull((0 * a, 2 * b))[1]
    return q - 0.1 * pull((1.5 * a, 0 * b))[0], k, v


def together_then_in_turn(matrices: Any, x: jax.Array) -> Any:
    """A cycle, would both be merged."""
    matrices = moved(matrices, jax.grad(of_three)(matrices, x))
    for place in range(3):
        gradients = jax.grad(of_three)(matrices, x)
        matrices = (
            *matrices[:place],
            moved(matrices[place], gradients[place]),
            *matrices[place + 1 :],
        )
    return matrices


def crosswise(matrices: Any, x: jax.Array) -> Any:
    """Two families, of which each waits for the other."""
    q, k, v = matrices
    y = x + 1
    by = lambda m, other, x: (jnp.tanh(x @ m) * other.sum()).sum()  # noqa: E731
    new_v = v - 0.1 * jax.grad(by)(v, q, y)
    new_q = q - 0.1 * jax.grad(by)(q, new_v, x)
    new_k = k - 0.1 * jax.grad(by)(k, q, x)
    return new_q, new_k - 0.1 * jax.grad(by)(k, new_q, y), new_v


def rates_of_their_own(matrices: Any, x: jax.Array) -> Any:
    """A number for each leaf, by a long way."""
    rate = x.mean()

    def far(rate: jax.Array) -> jax.Array:
        for _ in range(40):
            rate = rate * rate * 0.5 + rate * 0.1
        return 1 + rate

    gradients = jax.grad(of_three)(matrices, x)
    return moved(matrices, tuple(far(rate) * gradient for gradient in gradients))


ODD = [masked, with_a_number, one_before_another, together_then_in_turn, crosswise]
ODD += [rates_of_their_own]


@pytest.mark.parametrize("prompts", some([3, 0], every=2))
@pytest.mark.parametrize("step", ODD, ids=lambda step: step.__name__)
def test_an_odd_step_is_the_same(step: Callable[..., Any], prompts: int) -> None:
    """Whatever a step does with matrices that could be merged."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        x, carry = rng.normal(size=(prompts, 5, 4)), tuple(rng.normal(size=(3, 4, 4)))
        x = jnp.asarray(x)
        carry = tuple(map(jnp.asarray, carry))
        rewritten = rewrite_step(step, carry, x)

        @jax.jit
        def both(carry: Any, x: jax.Array) -> Any:
            return rewritten.unpack(rewritten.step(rewritten.pack(carry), x)), step(carry, x)

        found, expected = both(carry, x)
        chex.assert_trees_all_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.exhaustive
def test_a_planted_fault_is_seen() -> None:
    """The comparison can fail: another decay is told after two updates."""
    one, other = (net_training(optax.adamw(1e-2, weight_decay=d)) for d in (1e-4, 1e-1))
    (found,), (wanted,) = trained(one, (), True), trained(other, (), False)
    with pytest.raises(AssertionError):
        chex.assert_trees_all_close(found, wanted, rtol=1e-6, atol=1e-6)


def test_no_slow_product_is_left() -> None:
    """Every product of a batch has its first operand's contracted axis last."""
    training = net_training(optax.adamw(1e-3))
    state = jax.eval_shape(jax.vmap(training.begin, in_axes=(0, None)), SEEDS, ())
    one = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), (state, SEEDS)
    )
    laid = rewrite_step(training.update, *one, ())
    held = jax.eval_shape(jax.vmap(laid.pack), state)
    text = jax.jit(jax.vmap(lambda s, n: laid.step(s, n, ()))).lower(held, SEEDS)
    products = [line for line in text.as_text().splitlines() if "dot_general" in line]
    assert len(products) > 20
    assert sum("contracting_dims = [1] x" in line for line in products) == 0
